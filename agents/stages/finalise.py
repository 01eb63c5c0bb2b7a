"""Stage 14: the answer that is given, or "I don't know"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.settings import Finalise as FinaliseSettings
from agents.stage import Context
from agents.text import cut_words, one_line
from agents.turn import IDK, Turn


def abstention(turn: Turn, settings: FinaliseSettings) -> str | None:
    """Why a turn should not be answered, or None where it should."""
    if turn.candidate is None:
        return "no answer was found"
    if turn.candidate.text.strip().rstrip(".").lower() == IDK.lower():
        return "the model does not know"
    if settings.abstain_real_time and turn.real_time:
        return "the question is about the present moment"
    if turn.route != "direct":
        for verifier in settings.verified_by:
            if not getattr(turn.verification, verifier):
                return f"the {verifier.replace('_', '-')} verifier does not approve"
    if settings.min_evidence is not None and turn.route != "direct":
        best = max((chunk.score or 0.0 for chunk in turn.ranked or ()), default=0.0)
        if best < settings.min_evidence:
            return f"the best evidence scores {best:.3f}, below {settings.min_evidence}"
    confidence = turn.candidate.confidence
    if settings.min_confidence is not None and (confidence is None or not confidence >= settings.min_confidence):
        said = "nothing" if confidence is None else f"{confidence:.3f}"
        return f"the answer's confidence is {said}, below {settings.min_confidence}"
    return None


class Finalise:
    """Applies the preset's decision rule and the length limit."""

    name: ClassVar[str] = "finalise"
    least_seconds: ClassVar[float] = 0.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``answer``."""
        for turn in turns:
            reason = abstention(turn, context.settings.finalise)
            if reason is None and turn.candidate is not None:
                turn.answer = cut_words(one_line(turn.candidate.text), context.settings.limits.answer_tokens) or IDK
            turn.note(decision="answered" if reason is None else f"abstained: {reason}")
