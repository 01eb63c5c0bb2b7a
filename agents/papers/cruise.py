"""CRUISE: "Multi-Stage Verification-Centric Framework for Mitigating Hallucination in Multi-Modal RAG", KDD Cup 2025.

The paper from top to bottom; preset ``cruise``. Stages in brackets are those of ``agents/stages``, which other presets run too.

3.1 flags e (external knowledge) and r (real time): [``route``]
3.2 summary s of the picture (eq. 1): ``Summarise``; q' = q || s (eq. 2): ``Turn.search_text``; what is recalled (eq. 3) and its paragraphs:
    [``image_search``, ``queries``, ``web_search``, ``evidence``]; scores (eq. 4), threshold (eq. 5) and the best K (eq. 6): [``rerank``],
    whose threshold is ``compute_mad_threshold``
3.3 context (eq. 7), answers with and without it (eq. 8, 9): ``DualAnswer``; whether both agree: ``Consistency``
3.4 chain of verification: ``VerificationChain``; Algorithm 1: ``Algorithm1``, a rule of [``finalise``]
"""

from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from agents.asking.ask import Ask, Question
from agents.asking.readers.answers import ANSWER
from agents.asking.readers.lines import SENTENCE
from agents.asking.readers.verdicts import CHAIN, YES_NO
from agents.decision.rule import Rule, RuleContext, RuleOptions
from agents.evidence.passages import convert_to_record
from agents.methods.candidates import select_answered
from agents.profiles.profile import Table
from agents.record import FROM_EVIDENCE, OWN_KNOWLEDGE
from agents.stage import Context, Stage, StageOptions
from agents.texts.text import CHARACTERS_A_TOKEN, cut_words
from agents.turn import Candidate, Turn, select_with_image

SUMMARISE = Ask("image_summary", SENTENCE)


class Summarise(Stage):
    """Summarises the picture in one sentence with the question in mind (CRUISE, section 3.2, eq. 1); one batched call.

    Searches and rerankers may read it (eq. 2).
    """

    name = "summarise"
    min_seconds, wanted_seconds = 2.0, 4.0
    fills = ("summary",)
    doing = "describing the photo"
    asks = (SUMMARISE,)
    picture_notes = frozenset({"summary"})

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``summary``."""
        concerned = [turn for turn, _ in select_with_image(turns) if turn.tools.image or turn.tools.text]
        limit = CHARACTERS_A_TOKEN * context.prompts[SUMMARISE.prompt].settings.max_tokens
        for turn, answer in context.ask_each(SUMMARISE, concerned):
            turn.summary = cut_words(answer.value, limit)
            turn.note(summary=turn.summary)


_RECALLED = 10  # recalled results (eq. 3)


def compute_mad_threshold(scores: Sequence[float], *, tau: float, lam: float) -> float:
    """Compute CRUISE's dynamic threshold of relevance (section 3.2, eq. 5).

    It is max(tau, median - lam * MAD) over the best scores, as many as the paper recalls.
    MAD is the median absolute deviation from the median.

    Returns:
        ``tau`` if no score is finite; other scores are left out.
    """
    best = sorted((score for score in scores if np.isfinite(score)), reverse=True)[:_RECALLED]
    if not best:
        return tau
    median = float(np.median(best))
    deviation = float(np.median(np.abs(np.asarray(best) - median)))
    return max(tau, median - lam * deviation)


CandidateQuestion = Question[Candidate | None]

_SEED = 0  # of the second answer where there is no evidence


WITH_EVIDENCE, WITHOUT = Ask("answer_with_evidence", ANSWER), Ask("answer_without_evidence", ANSWER)


class DualAnswer(Stage):
    """Answers with and without evidence, for all turns in one batched call (CRUISE, section 3.3, eq. 8 and 9)."""

    name = "dual_answer"

    class Options(StageOptions):
        k: int = Field(5, ge=0, description="chunks shown")
        probe_temperature: float = Field(
            0.0,
            ge=0,
            description="temperature of the second answer where there is no evidence and both prompts are alike",
        )

    options: Options
    fills = ("candidate", "parametric", "shown")
    doing = "writing an answer with and without evidence"
    asks = (WITH_EVIDENCE, WITHOUT)
    kind = "answers"
    min_seconds, wanted_seconds = 1.0, 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate`` (a', from the evidence) and ``parametric`` (a, without it)."""
        replies = iter(context.put([question for turn in turns for question in self._pair(turn, context)]))
        for turn in turns:
            with_evidence, without = next(replies), next(replies)
            turn.candidate, turn.parametric = with_evidence.value, without.value
            errors = [answer.error for answer in (with_evidence, without) if answer.failed]
            if errors:
                turn.error = turn.error or f"dual_answer: {errors[0]}"
            answers = {FROM_EVIDENCE: _get_text(turn.candidate), OWN_KNOWLEDGE: _get_text(turn.parametric)}
            turn.record(evidence=convert_to_record(turn.shown), answers=answers)

    def _pair(self, turn: Turn, context: Context) -> tuple[CandidateQuestion, CandidateQuestion]:
        """Build the questions with and without evidence.

        If there is no evidence, both have the same prompt. The second answer is then sampled, so that agreement means something.
        """
        turn.shown = context.evidence(turn, self.options.k)
        alone = {**turn.values, "entity": None, "evidence": ()}
        without = Question(WITHOUT, alone, (turn,))
        if not turn.shown:
            sampling = {"temperature": self.options.probe_temperature, "seed": _SEED}
            return without, Question(WITHOUT, alone, (turn,), sampling)
        return Question(WITH_EVIDENCE, turn.values, (turn,)), without


def _get_text(candidate: Candidate | None) -> str | None:
    return candidate.text if candidate is not None else None


JUDGE = Ask("consistency_judge", YES_NO)


class Consistency(Stage):
    """Asks the model whether candidate and parametric answer agree (CRUISE, section 3.3 and appendix A.3); one batched call."""

    name = "consistency"
    fills = ("consistent",)
    doing = "comparing two answers"
    asks = (JUDGE,)
    kind = "verifies"
    min_seconds, wanted_seconds = 1.0, 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``consistent`` of the turns that have an answer from the evidence and one without it."""
        both = [
            (turn, turn.parametric, candidate)
            for turn, candidate in select_answered(turns)
            if turn.parametric is not None
        ]
        questions = [
            Question(JUDGE, {**turn.values, "first": first.text, "second": second.text}, (turn,))
            for turn, first, second in both
        ]
        for (turn, _, _), answer in zip(both, context.put(questions), strict=True):
            turn.consistent = answer.value
            turn.record(checks={"own answer agrees": turn.consistent})


VERIFY = Ask("chain_of_verification", CHAIN)


class VerificationChain(Stage):
    """Rates the candidate, checked as a whole and by sub-questions (CRUISE, section 3.4 and appendix A.4); one batched call.

    One prompt holds both phases. The reply states its confidence first, so that a reply that is cut off has it too.
    """

    name = "chain_of_verification"
    fills = ("chain",)
    doing = "checking the answer part by part"
    asks = (VERIFY,)
    kind = "verifies"
    min_seconds, wanted_seconds = 1.0, 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``chain`` of the turns that have an answer to verify."""
        concerned = select_answered(turns)
        questions = [
            Question(VERIFY, {**turn.values, "answer": candidate.text}, (turn,)) for turn, candidate in concerned
        ]
        for (turn, _), answer in zip(concerned, context.put(questions), strict=True):
            if answer.failed:
                continue
            chain = turn.chain = answer.value
            findings = [f"{it.question}: {'supported' if it.supported else 'unsupported'}" for it in chain.findings]
            turn.record(checks={"chain of verification": chain.confidence})
            turn.note(reasoning=chain.reasoning, findings=findings)


Branch = Literal["stale", "grounded", "prior", "inconsistent", "unsure"]
"""The lines of the algorithm from top to bottom; ``grounded`` and ``prior`` give the answer, the others abstain."""


class FinalVerification(Table):
    """Thresholds of Algorithm 1. They have no default: they belong to a model."""

    min_retrieval: float = Field(description="tau_ret: least score of the best chunk for questions about the present")
    low: float = Field(description="tau_low: confidence that suffices with context")
    high: float = Field(description="tau_high: confidence needed without context")


class Algorithm1(Rule):
    """The line of the algorithm that a turn ends on decides."""

    class Options(RuleOptions):
        algorithm1: FinalVerification | None = Field(
            None,
            description="decide by Algorithm 1 of CRUISE (consistency and chain_of_verification have to run before)",
        )

    options: Options

    def reason(self, turn: Turn, context: RuleContext) -> str | None:
        """Withhold an answer that ends on another line than ``grounded`` or ``prior``; the line is noted."""
        if self.options.algorithm1 is None:
            return None
        branch = choose_branch(turn, context.stages, self.options.algorithm1)
        turn.note(branch=branch)
        return None if stands(branch) else f"Algorithm 1 ends on {branch!r}"


def choose_branch(turn: Turn, stages: Collection[str], thresholds: FinalVerification) -> Branch:
    """Return the line that a turn ends on; S_ret is the best score of the kept chunks.

    A check that is no part of the preset, as in an ablation, is taken as passed; one that ran and said nothing is not.
    """
    chunks = turn.evidence[:1]
    best = chunks[0] if chunks else None
    retrieval = 0.0 if best is None else best.score if best.score is not None else best.retrieval
    confidence = turn.chain.confidence if turn.chain is not None else None
    return final_branch(
        real_time=bool(turn.real_time),
        retrieval=retrieval,
        context=best is not None,
        consistent=turn.consistent if "consistency" in stages else True,
        confidence=confidence if "chain_of_verification" in stages else max(thresholds.low, thresholds.high),
        min_retrieval=thresholds.min_retrieval,
        low=thresholds.low,
        high=thresholds.high,
    )


def final_branch(
    *,
    real_time: bool,  # the router's flag r (isRealTime)
    retrieval: float,  # S_ret, 0 to 1; 0 where nothing was retrieved
    context: bool,  # whether there is retrieved context (C_i is not empty)
    consistent: bool | None,  # the judge's verdict on the RAG and the non-RAG answer; None where it cannot be read
    confidence: float | None,  # S_CoV, 0 to 1; None where the verifier said nothing that can be read
    min_retrieval: float,  # tau_ret, below which the answer to a question about the present is not trusted
    low: float,  # tau_low, the confidence that suffices with context
    high: float,  # tau_high, the confidence needed without context
) -> Branch:
    """Return the line of Algorithm 1 (CRUISE, section 3.4) that the values end on.

    A missing signal (None, NaN) meets no condition, so it can only lead to an abstention; the paper leaves that open
    (lab/notes/papers.md).
    """
    if real_time and not retrieval >= min_retrieval:
        return "stale"
    if consistent and confidence is not None and confidence >= (low if context else high):
        return "grounded" if context else "prior"
    return "inconsistent" if context and not consistent else "unsure"


def stands(branch: Branch) -> bool:
    """Return whether an answer that ended on this line is given."""
    return branch in ("grounded", "prior")
