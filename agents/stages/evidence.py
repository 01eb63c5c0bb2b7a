"""Stage 9: attributes become sentences, pages become chunks (QA-Dragon, section 3.6.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from agents.stage import Context
from agents.texts.evidence_chunks import attribute_chunks, cutter, each_once, entities_of, in_turn, page_chunks
from agents.texts.printed import entry, rows
from agents.texts.text import clean
from agents.turn import Evidence, Turn

PRINTED = "text in the image"
"""Title of evidence that was read in the picture."""


class EvidenceStage:
    """What the searches found, cut into chunks that a reranker can score one by one."""

    name: ClassVar[str] = "evidence"
    least_seconds: ClassVar[float] = 0.2
    wanted_seconds: ClassVar[float] = 0.4

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``evidence``, best retrieval score first, the objects of the question in turn where it is about several."""
        settings = context.settings.evidence
        cut = cutter(settings)
        for turn in turns:
            ordered = each_once(
                [
                    *self._image_text(turn),
                    *(
                        chunk
                        for entity, hit in entities_of(turn, settings.entities)
                        for chunk in attribute_chunks(entity, hit, settings, cut)
                    ),
                    *(chunk for hit in turn.web_hits for chunk in page_chunks(hit, cut, settings.page_characters)),
                ]
            )
            turn.evidence = tuple(in_turn(turn, ordered)[: settings.most_chunks])
            turn.note(chunks=len(ordered), kept=len(turn.evidence))

    @staticmethod
    def _image_text(turn: Turn) -> Iterator[Evidence]:
        """The text as a whole, and its rows one by one: a sign answers with one of them."""
        printed = [clean(row) for row in rows(turn.image_text)]
        if len(printed) > 1:
            yield Evidence("\n".join(printed), "image", PRINTED, retrieval=1.0)
        for row in printed:
            key, value = entry(row) or (None, None)
            yield Evidence(row, "image", PRINTED, retrieval=1.0, key=key, value=value)
