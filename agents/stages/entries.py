from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field

from agents.english.knowledge_conflict import find_best, vtki
from agents.evidence.passages import write_attribute
from agents.evidence.shown import cut_entry
from agents.search.hits import ImageHit
from agents.stage import Context, Stage, StageOptions
from agents.texts.infobox import facts
from agents.turn import KnowledgeEntry, Turn

_ENTRIES_WHEN_SHORT = 2


def entry_text(hit: ImageHit) -> str:
    """Build the text T of an entry: the attributes of its entities as sentences."""
    attributes = ((entity.name, *fact) for entity in hit.entities for fact in facts(entity.attributes))
    return " ".join(write_attribute(key, name, value) for name, key, value in attributes)


class EntriesStage(Stage):
    """Makes entries of a picture and a text from the hits of image search (CoRe-MMRAG, section 3.1), and reranks their texts.

    Pictures come from the picture cache.
    """

    class Options(StageOptions):
        k: int = Field(5, ge=1, le=16, description="entries kept")
        pictures: bool = Field(True, description="show the pictures of entries to the model, where there are any")

    options: Options
    fills = ("entries",)
    doing = "gathering what is known of similar pictures"
    model_roles = ("reranker",)
    when_short = f"{_ENTRIES_WHEN_SHORT} entries, nothing fetched"
    picture_notes = frozenset({"entries"})
    min_seconds, wanted_seconds = 0.5, 1.0

    def pictures(self) -> int:
        """Return the maximum number of pictures per prompt, which shows those of all entries."""
        return self.options.k if self.options.pictures else 0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``entries``, best picture first, and note whether picture and text point to different ones (VTKI, eq. 4)."""
        limit = min(self.options.k, _ENTRIES_WHEN_SHORT) if context.short else self.options.k
        fetch = context.fetch and not context.short
        for turn in turns:
            hits = [hit for hit in turn.image_hits if hit.entities][:limit]
            texts = [cut_entry(entry_text(hit), len(hits), context.limits.evidence_tokens) for hit in hits]
            turn.entries = tuple(
                KnowledgeEntry(hit.entities[0].name, text, hit.url, hit.entities[0], visual=hit.score)
                for hit, text in zip(hits, texts, strict=True)
            )
        urls = [entry.url for turn in turns for entry in turn.entries]
        pictures = context.search.pictures(urls, fetch, context.deadline) if self.options.pictures else {}
        pairs = [(turn.question, f"{entry.title}: {entry.text}") for turn in turns for entry in turn.entries]
        scores = iter(context.models.reranker.score(pairs) if pairs else ())
        for turn in turns:
            turn.entries = tuple(
                replace(entry, textual=float(next(scores)), image=pictures.get(entry.url)) for entry in turn.entries
            )
            titles = [entry.title for entry in turn.entries]
            visual, textual = ([entry.visual for entry in turn.entries], [entry.textual for entry in turn.entries])
            by_picture, by_text = find_best(visual), find_best(textual)
            turn.note(
                entries=[
                    {
                        "name": each.title,
                        "score": each.textual,
                        "visual": each.visual,
                        "text": each.text,
                        "image": each.image,
                    }
                    for each in turn.entries
                ],
                pictures=sum(entry.image is not None for entry in turn.entries),
                visual_entry=titles[by_picture] if by_picture is not None else None,
                textual_entry=titles[by_text] if by_text is not None else None,
                vtki=vtki(titles, visual, textual),
            )
