"""Stage 12 where the language model is small: the answer is taken verbatim from the evidence by a reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.models.reader import Extraction, Passage, ReadRequest
from agents.stage import Context
from agents.turn import Candidate, Evidence, Turn


class Extract:
    """One call of the reader for all turns that have evidence."""

    name: ClassVar[str] = "extract"
    least_seconds: ClassVar[float] = 0.5
    wanted_seconds: ClassVar[float] = 1.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``."""
        most = context.settings.extract.evidence
        asked = [(turn, question) for turn in turns if turn.best_evidence(most) for question in turn.asked]
        requests = [request(turn, question, most) for turn, question in asked]
        best: dict[int, Extraction] = {}
        for (turn, _), extraction in zip(asked, context.models.reader.read(requests), strict=True):
            if id(turn) not in best or extraction.score > best[id(turn)].score:
                best[id(turn)] = extraction
        for turn in turns:
            found = best.get(id(turn))
            if found is None:
                continue
            if found.answer:
                chunk = turn.best_evidence(most)[found.passage] if found.passage >= 0 else None
                turn.candidate = Candidate(
                    found.answer, found.score, "extract", sentence=found.sentence, evidence=chunk
                )
            turn.note(extracted=found.answer, sentence=found.sentence, confidence=round(found.score, 4))


def request(turn: Turn, question: str, most: int) -> ReadRequest:
    """What the reader is asked of a turn: one of ``turn.asked`` and at most ``most`` chunks."""
    return ReadRequest(question, tuple(passage(chunk) for chunk in turn.best_evidence(most)))


def passage(chunk: Evidence) -> Passage:
    """A chunk as the reader takes it."""
    score = chunk.score if chunk.score is not None else chunk.retrieval
    return Passage(chunk.text, chunk.title, chunk.key, chunk.value, score)
