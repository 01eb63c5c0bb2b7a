"""Stage 14: the answer that is given, or "I don't know"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.methods.citations import written
from agents.methods.final_verification import Signals, final_branch, stands
from agents.methods.white_box import token_probabilities
from agents.settings import Finalise as FinaliseSettings
from agents.settings import FinalVerification
from agents.stage import Context
from agents.texts.refusals import refuses
from agents.texts.text import cut_words, one_line
from agents.turn import IDK, Candidate, Turn


def signals_of(turn: Turn, stages: Sequence[str], rule: FinalVerification) -> Signals:
    """What Algorithm 1 of CRUISE decides on; S_ret is the best score of the chunks that were kept.

    A check that is no part of the preset, as in an ablation, is taken as passed; one that ran and said nothing is not.
    """
    chunks = turn.best_evidence(1)
    best = chunks[0] if chunks else None
    retrieval = 0.0 if best is None else best.score if best.score is not None else best.retrieval
    confidence = turn.chain.confidence if turn.chain is not None else None
    return Signals(
        real_time=bool(turn.real_time),
        retrieval=retrieval,
        context=best is not None,
        consistent=turn.consistent if "consistency" in stages else True,
        confidence=confidence if "chain_of_verification" in stages else max(rule.low, rule.high),
    )


def ruled_out(turn: Turn, settings: FinaliseSettings, stages: Sequence[str] = ()) -> str | None:
    """Why a turn should not be answered, by the rules that have no threshold to fit; ``stages`` are those of the preset."""
    if turn.candidate is None:
        return "no answer was found"
    if refuses(turn.candidate.text):
        return "the model does not know"
    if turn.cited is not None and not turn.cited:
        return "no sentence of the answer is supported"
    if settings.abstain_real_time and turn.real_time:
        return "the question is about the present moment"
    if turn.route != "direct":
        for verifier in settings.verified_by:
            if not getattr(turn.verification, verifier):
                return f"the {verifier.replace('_', '-')} verifier does not approve"
    if settings.algorithm1 is not None:
        rule = settings.algorithm1
        branch = final_branch(
            signals_of(turn, stages, rule), least_retrieval=rule.least_retrieval, low=rule.low, high=rule.high
        )
        turn.note(branch=branch)
        if not stands(branch):
            return f"Algorithm 1 ends on {branch!r}"
    return None


def best_score(turn: Turn) -> float:
    """The score of the best chunk after reranking; 0 where there is none."""
    return max((chunk.score or 0.0 for chunk in turn.ranked or ()), default=0.0)


def abstention(turn: Turn, settings: FinaliseSettings, stages: Sequence[str] = ()) -> str | None:
    """Why a turn should not be answered, or None where it should; ``stages`` are those of the preset."""
    reason = ruled_out(turn, settings, stages)
    if reason is not None:
        return reason
    if settings.min_evidence is not None and turn.route != "direct":
        best = best_score(turn)
        if best < settings.min_evidence:
            return f"the best evidence scores {best:.3f}, below {settings.min_evidence}"
    confidence = turn.candidate.confidence if turn.candidate is not None else None
    if settings.min_confidence is not None and (confidence is None or not confidence >= settings.min_confidence):
        said = "nothing" if confidence is None else f"{confidence:.3f}"
        return f"the answer's confidence is {said}, below {settings.min_confidence}"
    return None


class Finalise:
    """Applies the preset's decision rule and the length limit.

    The trace holds the candidate, whether it is given or not, and all that thresholds are set on, so that
    ``python -m evaluation.calibrate`` can fit them.
    """

    name: ClassVar[str] = "finalise"
    least_seconds: ClassVar[float] = 0.0
    wanted_seconds: ClassVar[float] = 0.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``answer``."""
        for turn in turns:
            settings, stages, candidate = context.settings.finalise, context.settings.stages, turn.candidate
            reason = abstention(turn, settings, stages)
            text = self._given(turn, candidate, context) if candidate is not None else ""
            if reason is None:
                turn.answer = text or IDK
            statistics = token_probabilities(candidate.logprobs) if candidate is not None else None
            turn.note(
                candidate=text or None,
                confidence=candidate.confidence if candidate is not None else None,
                evidence_score=best_score(turn),
                least_probability=statistics.least if statistics is not None else None,
                mean_probability=statistics.mean if statistics is not None else None,
                direct=turn.route == "direct",
                ruled_out=ruled_out(turn, settings, stages),
                decision="answered" if reason is None else f"abstained: {reason}",
            )

    @staticmethod
    def _given(turn: Turn, candidate: Candidate, context: Context) -> str:
        """The answer within the limit; one whose citations were checked is cut at a sentence, with its markers or without."""
        tokens = context.settings.limits.answer_tokens
        if turn.cited is not None:
            return written(turn.cited, tokens, markers=context.settings.finalise.cite)
        return cut_words(one_line(candidate.text), tokens)
