"""Stage 12 where the language model is small: the answer is taken verbatim from the evidence by a reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.models.reader import Passage, ReadRequest
from agents.stage import Context
from agents.turn import Candidate, Turn


class Extract:
    """One call of the reader for all turns that have evidence."""

    name: ClassVar[str] = "extract"
    least_seconds: ClassVar[float] = 0.5

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``."""
        most = context.settings.extract.evidence
        concerned = [turn for turn in turns if turn.best_evidence(most)]
        requests = [
            ReadRequest(
                turn.grounded_question,
                tuple(
                    Passage(
                        chunk.text,
                        chunk.title,
                        chunk.key,
                        chunk.value,
                        chunk.score if chunk.score is not None else chunk.retrieval,
                    )
                    for chunk in turn.best_evidence(most)
                ),
            )
            for turn in concerned
        ]
        for turn, extraction in zip(concerned, context.models.reader.read(requests), strict=True):
            if extraction.answer:
                turn.candidate = Candidate(extraction.answer, extraction.score, "extract", sentence=extraction.sentence)
            turn.note(extracted=extraction.answer, sentence=extraction.sentence, confidence=round(extraction.score, 4))
