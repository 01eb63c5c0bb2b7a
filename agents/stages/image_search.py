"""Stage 6: search of the image knowledge graph with the whole picture and every crop of it (QA-Dragon, section 3.4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.methods.boxes import crop
from agents.methods.fusion import fuse
from agents.models.base import Detection
from agents.search.hits import ImageHit
from agents.stage import Context
from agents.turn import Turn, View, with_image


class ImageSearch:
    """One search of all pictures and crops of the batch, fused for each turn; the best hit above the threshold names the entity."""

    name: ClassVar[str] = "image_search"
    least_seconds: ClassVar[float] = 0.5
    wanted_seconds: ClassVar[float] = 1.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``views``, ``image_hits``, ``entity`` and ``entity_score`` of the turns whose picture is to be searched."""
        settings = context.settings.image_search
        crops = context.settings.ground.most_crops  # fewer where time is short
        asked: list[tuple[Turn, Detection | None]] = [
            (turn, region)
            for turn in with_image(turns)
            if turn.tools.image and context.search.sees(turn.given)
            for region in (None, *(turn.regions[:crops] if context.search.image_enabled else ()))
        ]
        images = [
            turn.image if region is None else crop(turn.image, region.box)
            for turn, region in asked
            if turn.image is not None
        ]
        views: dict[int, list[View]] = {}
        errors: dict[int, str] = {}
        found = context.search.search_images(images, settings.k, [turn.given for turn, _ in asked]) if asked else []
        for (turn, region), results in zip(asked, found, strict=True):
            views.setdefault(id(turn), []).append(View(region, results.hits))
            if results.error is not None:
                errors[id(turn)] = results.error
        for turn in turns:
            turn.views = tuple(views.get(id(turn), ()))
            fused = fuse(
                [view.hits for view in turn.views],
                key=lambda hit: hit.index,
                score=lambda hit: hit.score,
                method=settings.fusion,
                rank_constant=settings.rank_constant,
            )
            turn.image_hits = tuple(entry.item for entry in fused)
            self._name_entity(turn, settings.min_score)
            turn.note(
                hits=hits_for_trace(turn.image_hits),
                entity=turn.entity.name if turn.entity else None,
                search_error=errors.get(id(turn)),
            )

    @staticmethod
    def _name_entity(turn: Turn, least: float) -> None:
        named = next((hit for hit in turn.image_hits if hit.entities), None)
        if named is not None and named.score >= least:
            turn.entity, turn.entity_score = named.entities[0], named.score


def hits_for_trace(hits: Sequence[ImageHit]) -> list[dict[str, object]]:
    """Image hits as the trace shows them."""
    return [
        {"name": ", ".join(entity.name for entity in hit.entities), "score": round(hit.score, 4), "url": hit.url}
        for hit in hits
    ]
