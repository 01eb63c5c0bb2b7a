from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from pydantic import Field, field_validator

from agents.asking.prompts import PHOTO_IN_WORDS
from agents.decision.answer_form import AnswerForm
from agents.decision.gate import FittedGate
from agents.decision.rule import Rule, RuleContext, outside_rules
from agents.decision.rules import Citations, MaxIdk, MinLead, Orders, RealTime, Unrecognised, UnsureName
from agents.decision.signals import SIGNALS, convert_to_signals, read_signals
from agents.decision.witnesses import VerifierOptions, Witnesses
from agents.methods.candidates import find_origin, trusts_draft
from agents.methods.citations import join_sentences
from agents.papers.cruise import Algorithm1
from agents.papers.qa_dragon import DualVerification
from agents.record import CANDIDATE, Decision
from agents.stage import Context, Stage, StageOptions
from agents.texts.echoes import repeats_prompt
from agents.texts.refusals import refuses
from agents.texts.text import cut_to_tokens, one_line
from agents.turn import Candidate, Turn
from agents.unanswered import WORDS, find_cause

RULES = (
    Citations,
    Orders,
    AnswerForm,
    MinLead,
    RealTime,
    Unrecognised,
    UnsureName,
    DualVerification,
    Witnesses,
    Algorithm1,
)
"""Rules of this project in their order. Those of the preset come after them, then the cut on P(idk), and the gate last."""

ECHO = "the model repeated its prompt"
"""Reason for which such a candidate, which is no answer, is not given."""


class FinaliseOptions(
    Citations.Options,
    AnswerForm.Options,
    RealTime.Options,
    Unrecognised.Options,
    UnsureName.Options,
    Algorithm1.Options,
    MinLead.Options,
    VerifierOptions,
    MaxIdk.Options,
    FittedGate.Options,
    StageOptions,
):
    """When an answer is given and when the agent abstains: the options of all rules."""

    rules: Mapping[str, Any] = Field(
        {},
        description='rules from outside, a table each: `rule = "package.module:ClassName"` and its options; None: switched off',
    )

    @field_validator("rules")
    @classmethod
    def _can_be_built(cls, tables: Mapping[str, Any]) -> Mapping[str, Any]:
        """Build the rules at once: a run should not begin with one that cannot decide."""
        outside_rules(tables)
        return tables


class Finalise(Stage):
    """Gives the candidate or "I don't know": applies the rules (``agents/decision``), then the fitted gate, and the limit of 75 tokens.

    The record holds the candidate, given or not, and all signals, for ``python -m evaluation.studies.calibrate``.
    """

    Options = FinaliseOptions
    options: FinaliseOptions
    fills = ("answer",)
    doing = "deciding whether to answer"
    kind = "decides"
    signals = SIGNALS

    def __init__(self, options: FinaliseOptions | None = None) -> None:
        super().__init__(options)
        self.gate = FittedGate(self.options)
        own = [rule(self.options) for rule in RULES]
        self.rules: tuple[Rule, ...] = (*own, *outside_rules(self.options.rules), MaxIdk(self.options), self.gate)

    def needs(self) -> tuple[str, ...]:
        """Return the stages that the rules need."""
        return tuple(dict.fromkeys(stage for rule in self.rules for stage in rule.needs()))

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``answer``."""
        for turn in turns:
            candidate = turn.candidate
            weighed = candidate if candidate is not None and not refuses(candidate.text) else None
            signals = read_signals(turn, context.search.uses_provided(turn.provided))
            turn.record(signals=convert_to_signals(signals))
            values = {name: signal.value for name, signal in turn.signals.items()} | signals  # not rounded
            is_echo = weighed is not None and _is_echo(turn, weighed.text, context)
            reason, is_doubt = (ECHO, False) if is_echo else self._explain_withholding(turn, values, context)
            text = self._cut_answer(turn, candidate, context) if candidate is not None and not is_echo else ""
            if reason is None and not text:
                reason = _explain_nothing(turn)
            if reason is None:
                turn.answer = text
            probability = self.gate.probability(values) if weighed is not None else None
            decision = Decision(
                candidate=text or None,
                given=reason is None,
                reason=reason,
                ruled_out=None if is_doubt else reason,
                probability=probability
                if probability is not None and isfinite(probability)
                else None,  # NaN is no JSON
                needed=self.gate.minimum(turn) if weighed is not None else None,
                direct=trusts_draft(turn),
                egocentric=turn.egocentric,
                origin=find_origin(turn, weighed) if weighed is not None else None,
                pulls=self.gate.pulls(values) if weighed is not None else {},
            )
            turn.record(
                decision=decision,
                answers={CANDIDATE: decision.candidate},
                checks={"gate": decision.probability},
            )

    def _explain_withholding(
        self, turn: Turn, signals: Mapping[str, float], context: Context
    ) -> tuple[str | None, bool]:
        """Return why the candidate is withheld, by the first rule that says so, and whether that rule is a fitted one."""
        if not any(map(str.isalnum, turn.query)):
            return "the question is empty", False
        if turn.candidate is None:
            return _explain_nothing(turn), False
        if refuses(turn.candidate.text):
            return "the model does not know", False
        about = RuleContext(
            turn.candidate,
            context.stages,
            guarded=context.guarded,
            sees=context.models.sees and turn.image is not None,
            gated=self.options.gate is not None,
            signals=signals,
        )
        for rule in self.rules:
            if reason := rule.reason(turn, about):
                return reason, rule.fitted
        return None, False

    def _cut_answer(self, turn: Turn, candidate: Candidate, context: Context) -> str:
        """Cut the answer to ``limits.answer_tokens``, below the 75 tokens at which the evaluator cuts.

        One whose citations were checked is cut at a sentence, with its markers or without.
        """
        tokens = context.limits.answer_tokens
        if turn.cited is not None:
            return join_sentences(turn.cited, tokens, markers=self.options.cite)
        return cut_to_tokens(one_line(candidate.text), tokens)


def _is_echo(turn: Turn, answer: str, context: Context) -> bool:
    """Return whether an answer repeats what its turn's prompts say by themselves, whatever was filled in."""
    names = {exchange.prompt for record in turn.records for exchange in record.exchanges}
    if not context.models.sees:
        names.add(PHOTO_IN_WORDS)
    prompts = [context.prompts[name] for name in sorted(names) if name in context.prompts]
    return repeats_prompt(answer, (text for prompt in prompts for text in prompt.wording))


def _explain_nothing(turn: Turn) -> str:
    """Say why there is nothing to give: nothing was found, the time was up, something failed ..."""
    return WORDS[find_cause(turn.records, None, turn.error)]
