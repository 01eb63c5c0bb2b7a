from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from PIL import Image
from pydantic import Field

from agents.methods.ranking import fuse
from agents.models.base import Detection
from agents.models.vision.boxes import crop, cut_out, suppress, windows
from agents.record import PictureFound, Unanswered
from agents.search.hits import ImageHit
from agents.stage import Context, Cosine, Stage, StageOptions
from agents.turn import Turn, View, select_with_image

_CROPS_WHEN_SHORT = 1
_Search = tuple[Turn, Detection | None, Image.Image]  # a turn's whole picture, or a crop of it
_MAX_CROPS = 32  # of a picture where windows are searched too (task 2's winner), the detector's first
_MAX_OVERLAP = 0.5  # IoU above which two crops show the same, as for the boxes of ground


class ImageSearch(Stage):
    """Searches the image knowledge graph with whole pictures and every crop of them (QA-Dragon, section 3.4.3), in one search.

    A crop with a mask is searched twice, as it is and with the object alone; a hit scores the mean of both cosines. The hits are fused,
    and the best one above ``min_score`` names the entity.
    """

    class Options(StageOptions):
        k: int = Field(5, ge=1, description="pictures fetched for the image and for each crop")
        min_score: Cosine = Field(0.0, description="minimum cosine of a picture of the same thing")
        min_match: float = Field(
            0.0,
            ge=0,
            le=1,
            description="minimum probability that a crop belongs to the question, to be searched (QA-Dragon's released "
            "code); 0: not asked",
        )
        windows: bool = Field(
            False, description="square crops of the shorter side, along the longer one (task 2's winner)"
        )

    options: Options
    fills = ("views", "image_hits", "entity", "entity_score")
    groups = ("image",)
    searches = "image"
    doing = "searching for similar pictures"
    when_short = f"{_CROPS_WHEN_SHORT} crop"
    min_seconds, wanted_seconds = 0.5, 1.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``views``, ``image_hits``, ``entity`` and ``entity_score`` of the turns whose picture is to be searched."""
        options = self.options
        searches: list[_Search] = []
        for turn, image in select_with_image(turns):
            if turn.tools.image and context.search.can_search_images(turn.provided):
                crops = self._crops(turn, image, context.short) if context.search.image_enabled else ()
                searches += [(turn, None, image), *((turn, region, crop(image, region.box)) for region in crops)]
        searches = self._matching(searches, context)
        searches += [
            (turn, region, cut_out(turn.image, region))
            for turn, region, _ in searches
            if turn.image is not None and region is not None and region.mask is not None
        ]
        for turn in {id(turn): turn for turn, _, _ in searches}.values():
            turn.count_search("image")
        lists: dict[int, dict[Detection | None, list[tuple[ImageHit, ...]]]] = {}
        errors: dict[int, str] = {}
        searched: set[int] = set()  # turns with at least one search that did not fail
        images, provided = [image for _, _, image in searches], [turn.provided for turn, _, _ in searches]
        all_results = context.search.search_images(images, options.k, provided, context.deadline) if searches else []
        for (turn, region, _), results in zip(searches, all_results, strict=True):
            lists.setdefault(id(turn), {}).setdefault(region, []).append(results.hits)
            if results.error is not None:
                errors[id(turn)] = results.error
            else:
                searched.add(id(turn))
        for turn in turns:
            if id(turn) in errors and id(turn) not in searched:
                turn.mark_fault(Unanswered.SEARCH)
            found_by_region = lists.get(id(turn), {})
            turn.views = tuple(View(region, _mean(own, options.k)) for region, own in found_by_region.items())
            fused = fuse([view.hits for view in turn.views], key=lambda hit: hit.index, score=lambda hit: hit.score)
            turn.image_hits = tuple(hit for hit, _ in fused)
            named = next((hit for hit in turn.image_hits if hit.entities), None)
            if named is not None and named.score >= options.min_score:
                turn.entity, turn.entity_score = named.entities[0], named.score
            named_hits = [(", ".join(entity.name for entity in hit.entities), hit) for hit in turn.image_hits]
            pictures = tuple(PictureFound(name, round(hit.score, 4), hit.url) for name, hit in named_hits)
            turn.record(pictures=pictures, entity=turn.entity_name)
            turn.note(search_error=errors.get(id(turn)))

    def roles(self) -> tuple[str, ...]:
        """Return the model that decides whether a crop belongs to the question, if the options ask for that."""
        return ("matcher",) if self.options.min_match else ()

    def _matching(self, searches: list[_Search], context: Context) -> list[_Search]:
        """Keep the whole pictures, and those crops that match their question."""
        crops = [(turn.question, image) for turn, region, image in searches if region is not None]
        if not self.options.min_match or not crops:
            return searches
        questions, images = zip(*crops, strict=True)
        likely = iter(context.models.matcher.match(images, questions))
        return [one for one in searches if one[1] is None or next(likely) > self.options.min_match]

    def _crops(self, turn: Turn, image: Image.Image, short: bool) -> Sequence[Detection]:
        """Return the boxes of the detector, and windows; with them no two boxes that show the same (non-maximum suppression)."""
        if short or not self.options.windows:
            return turn.regions[: _CROPS_WHEN_SHORT if short else None]
        along = [Detection(box, "", 0.0) for box in windows(*image.size)]
        return [*suppress(turn.regions, _MAX_OVERLAP), *along][:_MAX_CROPS]


def _mean(lists: Sequence[tuple[ImageHit, ...]], k: int) -> tuple[ImageHit, ...]:
    """Merge several lists of hits for the same thing by the mean cosine of each picture.

    A list that lacks a picture counts with the cosine of its last one.
    """
    all_scores = [{hit.index: hit.score for hit in own} for own in lists if own]  # none of a search that failed
    hits = {hit.index: hit for own in lists for hit in own}
    merged = [
        replace(hit, score=fmean(scores.get(index, min(scores.values())) for scores in all_scores))
        for index, hit in hits.items()
    ]
    return tuple(sorted(merged, key=lambda hit: -hit.score)[:k])
