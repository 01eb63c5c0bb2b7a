from collections.abc import Sequence
from functools import lru_cache
from math import isfinite
from typing import Literal

from pydantic import Field, field_validator

from agents.methods.candidates import trusts_draft
from agents.methods.citations import written
from agents.methods.gate import Gate, GateSignals
from agents.methods.token_probabilities import token_probabilities
from agents.methods.verification_chain import Branch, final_branch, stands
from agents.methods.witnesses import doubt
from agents.profiles.profile import ROOT
from agents.record import CANDIDATE, FOLLOWS_ORDERS, Decision, sureness
from agents.stage import Context, Stage, StageOptions
from agents.texts.orders import rests_on_orders
from agents.texts.refusals import refuses
from agents.texts.text import cut_words, one_line
from agents.turn import IDK, Candidate, Turn

MAX_SHOWN = 10  # chunks that any stage shows

_gate = lru_cache(maxsize=8)(Gate.load)


class FinalVerification(StageOptions):
    """Algorithm 1 of CRUISE; see ``agents/methods/verification_chain.py``. Thresholds have no default: they belong to a model."""

    min_retrieval: float = Field(description="tau_ret: least score of the best chunk for questions about the present")
    low: float = Field(description="tau_low: confidence that suffices with context")
    high: float = Field(description="tau_high: confidence needed without context")


class FinaliseOptions(StageOptions):
    """When an answer is given and when the agent abstains."""

    gate: str | None = Field(
        None,
        description="fitted gate (JSON of python -m evaluation.studies.calibrate), a path below the repository; None: no gate",
    )
    max_idk: float | None = Field(
        None,
        ge=0,
        le=1,
        description="without a gate: abstain where P(\"I don't know\") of the reply's beginning is above this; None: never",
    )
    verified_by: tuple[Literal["white_box", "model"], ...] | Literal["witnesses"] = Field(
        (),
        description="without a gate, which weighs what they say: verifiers that all have to approve, the model's alone where the engine "
        "gives no probabilities (QA-Dragon); or witnesses: both have to approve, but a draft that says the same outweighs low token "
        "probabilities (`agents/methods/witnesses.py`)",
    )
    min_lead: int | None = Field(
        None,
        description="votes by which an answer has to lead every other that sources give, each asked alone; the stage isolated_answers runs "
        "before this one then, whatever the preset; None: sources are not asked alone",
    )
    algorithm1: FinalVerification | None = Field(
        None, description="decide by Algorithm 1 of CRUISE (consistency and chain_of_verification have to run before)"
    )
    abstain_real_time: bool = Field(False, description="abstain on questions about the present moment")
    cite: bool = Field(False, description="answers carry [n]; the stage cite runs before this one, whatever the preset")

    @field_validator("gate")
    @classmethod
    def _can_be_read(cls, path: str | None) -> str | None:
        """Read the gate at once: without it every turn would end as an abstention."""
        if path is not None:
            Gate.load(ROOT / path)
        return path


def algorithm1(turn: Turn, stages: Sequence[str], rule: FinalVerification) -> Branch:
    """The line of Algorithm 1 of CRUISE that a turn ends on; S_ret is the best score of the chunks that were kept.

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
        confidence=confidence if "chain_of_verification" in stages else max(rule.low, rule.high),
        min_retrieval=rule.min_retrieval,
        low=rule.low,
        high=rule.high,
    )


def ruled_out(turn: Turn, options: FinaliseOptions, stages: Sequence[str] = (), *, guarded: bool = False) -> str | None:
    """Why a turn should not be answered, by its unfitted rules.

    ``stages`` are those of the preset; where it is ``guarded`` no answer is given that rests on an order in the evidence.
    """
    if turn.candidate is None:
        return "no answer was found"
    if refuses(turn.candidate.text):
        return "the model does not know"
    if turn.cited is not None and not turn.cited:
        return "no sentence of the answer is supported"
    if guarded and not trusts_draft(turn) and rests_on_orders(turn.candidate.text, turn.question, *_read(turn)):
        return FOLLOWS_ORDERS
    if options.min_lead is not None and turn.votes is not None and turn.votes.lead < options.min_lead:
        return "another source answers otherwise" if turn.votes.rival else "no source alone gives the answer"
    if options.abstain_real_time and turn.real_time:
        return "the question is about the present moment"
    if options.gate is None and not trusts_draft(turn) and (reason := _unverified(turn, options)):
        return reason
    if options.algorithm1 is not None:
        branch = algorithm1(turn, stages, options.algorithm1)
        turn.note(branch=branch)
        if not stands(branch):
            return f"Algorithm 1 ends on {branch!r}"
    return None


def _unverified(turn: Turn, options: FinaliseOptions) -> str | None:
    """Return why the verifiers, which no gate weighs, do not let an answer pass, or None."""
    if options.verified_by == "witnesses":
        return doubt(turn.verification)
    for verifier in options.verified_by:
        said = getattr(turn.verification, verifier)
        unknown = said is None and verifier == "white_box" and "model" in options.verified_by
        if not said and not unknown:
            return f"the {verifier.replace('_', '-')} verifier does not approve"
    return None


def _read(turn: Turn) -> tuple[list[tuple[str, str]], list[str]]:
    """What the answering model read: title and text of the evidence that was retrieved, and what the user said before."""
    shown = turn.shown or turn.evidence[:MAX_SHOWN]
    evidence = [(chunk.title, chunk.text) for chunk in shown if chunk.source != "step"]
    entries = [(entry.title, entry.text) for entry in turn.entries]
    return [*evidence, *entries, (turn.entity_name or "", "")], [
        each["content"] for each in turn.history if each["role"] == "user"
    ]


def signals_of(turn: Turn, provided: bool = False) -> GateSignals:
    """What the gate looks at, and what the trace notes for fitting one: all that is known of a turn's candidate in the end.

    ``provided``: The evidence came with the call.
    """
    candidate, chunks = turn.candidate, turn.evidence[:1]
    statistics = token_probabilities(candidate.logprobs) if candidate is not None else None
    agrees = turn.consistent if turn.consistent is not None else turn.verification.draft
    return GateSignals(
        p_idk=candidate.idk if candidate is not None else None,
        p_yes=turn.verification.p_yes,
        min_probability=statistics.minimum if statistics is not None else None,
        mean_probability=statistics.mean if statistics is not None else None,
        agreement=None if agrees is None else float(agrees),
        chain_confidence=turn.chain.confidence if turn.chain is not None else None,
        evidence_score=max((chunk.score for chunk in turn.evidence if chunk.score is not None), default=None),
        no_evidence=float(not chunks),
        entity_score=turn.entity_score if turn.entity is not None and not provided else None,
        entity_margin=None if provided else _entity_margin(turn),
        no_entity=float(turn.needs_image and turn.entity is None),
        entity_named=None if provided else _entity_named(turn),
        provided_evidence=float(provided),
    )


def _entity_named(turn: Turn) -> float | None:
    """Whether the entity's name stands in a query; None where nothing was asked of the web."""
    if not turn.queries:
        return None
    name = (turn.entity_name or "").lower()
    return float(bool(name) and any(name in query.lower() for query in turn.queries))


def _entity_margin(turn: Turn) -> float | None:
    """How much nearer the entity's picture is than the nearest one of another entity; None where none was found."""
    if turn.entity is None:
        return None
    hits = [*turn.image_hits, *(hit for view in turn.views for hit in view.hits)]
    others = [hit.score for hit in hits if hit.entities and all(it.name != turn.entity.name for it in hit.entities)]
    return turn.entity_score - max(others) if others else None


def rejection_reason(
    turn: Turn, candidate: Candidate, probability: float | None, gate: Gate | None, options: FinaliseOptions
) -> str | None:
    """Why a candidate that no rule forbids is not sure enough: by the gate, or where there is none by P(idk)."""
    if gate is not None and probability is not None:
        minimum = gate.minimum(egocentric=turn.egocentric)
        sure = probability >= minimum  # not so for NaN
        return None if sure else sureness(probability, minimum)
    if options.max_idk is not None and candidate.idk is not None and candidate.idk > options.max_idk:
        return f"the reply would have been {IDK!r} with {candidate.idk:.3f}, above {options.max_idk}"
    return None


class Finalise(Stage):
    """The preset's rules, the calibrated gate (``agents/methods/gate.py``), the length limit, or "I don't know".

    The record holds the candidate, whether it is given or not, and all signals, for ``python -m evaluation.studies.calibrate``.
    """

    Options = FinaliseOptions
    options: FinaliseOptions
    fills = ("answer",)
    doing = "deciding whether to answer"

    def needs(self) -> tuple[str, ...]:
        """Return the stages that check markers and that ask each source alone, where their rules are on."""
        return (
            *(("cite",) if self.options.cite else ()),
            *(("isolated_answers",) if self.options.min_lead is not None else ()),
        )

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``answer``."""
        options = self.options
        gate = _gate(ROOT / options.gate) if options.gate is not None else None
        for turn in turns:
            candidate = turn.candidate
            signals = signals_of(turn, context.search.stands_in(turn.provided))
            turn.found(signals=signals.found())
            values = {name: signal.value for name, signal in turn.signals.items()} | signals.known()  # not rounded
            probability = gate.probability(values) if gate is not None and candidate is not None else None
            forbidden = ruled_out(turn, options, context.stages, guarded=context.guarded)
            reason = forbidden
            if reason is None and candidate is not None:
                reason = rejection_reason(turn, candidate, probability, gate, options)
            text = self._given(turn, candidate, context) if candidate is not None else ""
            if reason is None:
                turn.answer = text or IDK
            decision = Decision(
                candidate=text or None,
                given=reason is None,
                reason=reason,
                ruled_out=forbidden,
                probability=probability
                if probability is not None and isfinite(probability)
                else None,  # NaN is no JSON
                needed=gate.minimum(egocentric=turn.egocentric) if gate is not None else None,
                direct=trusts_draft(turn),
                egocentric=turn.egocentric,
            )
            turn.found(
                decision=decision,
                answers={CANDIDATE: decision.candidate},
                checks={"gate": decision.probability},
            )

    def _given(self, turn: Turn, candidate: Candidate, context: Context) -> str:
        """The answer within the limit; one whose citations were checked is cut at a sentence, with its markers or without."""
        tokens = context.limits.answer_tokens
        if turn.cited is not None:
            return written(turn.cited, tokens, markers=self.options.cite)
        return cut_words(one_line(candidate.text), tokens)
