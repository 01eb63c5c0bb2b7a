from collections.abc import Sequence

from pydantic import Field

from agents.asking.ask import Ask, Question
from agents.asking.readers.verdicts import VERDICT, Verdict
from agents.english.knowledge_conflict import prki
from agents.methods.candidates import select_answered, trusts_draft
from agents.methods.token_probabilities import WhiteBoxOptions, approve_tokens
from agents.stage import Context, Stage, StageOptions
from agents.turn import Candidate, Turn, Verification

_VERDICTS = ("answer_verdict", "answer_verdict_alone")


class Verify(Stage):
    """Verifies the candidate by token probabilities and by a model that reads the evidence (QA-Dragon, section 3.7.2).

    ``finalise`` judges both. A draft that was made before any search is a third witness, at no cost.
    """

    class Options(WhiteBoxOptions, StageOptions):
        prompt: str = Field("answer_verifier", description="template in prompts/ for the model that judges")
        prompt_without_evidence: str | None = Field(
            None, description="template where the answer was made without evidence; None: the same"
        )
        needs_evidence: bool = Field(
            False,
            description="reject an answer without evidence, without a call (QA-Dragon's released code)",
        )
        verdict_when_short: bool = Field(
            False, description="with less time it asks for a verdict of one word: answer_verdict, answer_verdict_alone"
        )

    options: Options
    fills = ("verification",)
    doing = "verifying the answer"
    kind = "verifies"
    when_short = "a verdict of one word, where `verdict_when_short` says so"
    min_seconds, wanted_seconds = 1.0, 2.0

    def list_asks(self) -> tuple[Ask[Verdict], ...]:
        """Return the prompts that judge, with and without evidence; then those for less time."""
        names = (*self._prompts(short=False), *self._prompts(short=True))
        return tuple(Ask(name, VERDICT) for name in dict.fromkeys(names))

    def _prompts(self, *, short: bool) -> tuple[str, str]:
        if short and self.options.verdict_when_short:
            return _VERDICTS
        return self.options.prompt, self.options.prompt_without_evidence or self.options.prompt

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``verification`` of the turns that have an answer to verify."""
        concerned = []
        for turn, candidate in select_answered(turns):
            if trusts_draft(turn):
                continue
            if turn.shown or not self.options.needs_evidence:
                concerned.append((turn, candidate))
            else:
                _keep(turn, Verification(approve_tokens(self.options, candidate), False, "no evidence was found"))
        with_evidence, without = (Ask(name, VERDICT) for name in self._prompts(short=context.short))
        questions = [
            Question(
                with_evidence if turn.shown else without,
                {**turn.values, "answer": candidate.text, "reasoning": candidate.reasoning},
                (turn,),
            )
            for turn, candidate in concerned
        ]
        for (turn, candidate), answer in zip(concerned, context.put(questions), strict=True):
            verdict = answer.value
            # The bounds are those of replies of 30 to 60 tokens. On the one token of a verdict they would only say
            # "P(yes) of one spelling is at least 0.7" once more.
            judging = None if verdict.one_word else answer.reply.logprobs
            by_tokens = approve_tokens(self.options, candidate, judging)
            _keep(
                turn,
                Verification(by_tokens, verdict.approves, verdict.reason, verdict.p_yes, _as_drafted(turn, candidate)),
            )


def _as_drafted(turn: Turn, candidate: Candidate) -> bool | None:
    """Return whether the answer repeats the draft; None without a draft, for one that does not know, or if it is the answer."""
    if turn.draft is None or candidate.drafted:
        return None
    differs = prki(turn.draft.answer, candidate.text, turn.question)
    return None if differs is None else not differs


def _keep(turn: Turn, verification: Verification) -> None:
    turn.verification = verification
    checks = {
        "token probabilities": verification.white_box,
        "verifier": verification.model,
        "verifier's P(yes)": verification.p_yes,
    }
    turn.record(checks={**checks, "draft": verification.draft} if verification.draft is not None else checks)
    turn.note(reason=verification.reason)
