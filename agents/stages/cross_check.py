from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import Field

from agents.asking.ask import Ask, Question
from agents.asking.readers.grounded import CHOICE, ChosenAnswer
from agents.methods.candidates import agrees_with_draft, convert_draft
from agents.methods.token_probabilities import WhiteBoxOptions, approve_tokens
from agents.record import SignalKind
from agents.stage import Context, Stage, StageOptions
from agents.texts.refusals import refuses
from agents.turn import Candidate, Turn, Verification

ASK = Ask("cross_check", CHOICE)
OWN = SignalKind("cross_check.own", "1 if the answer is the model's own knowledge, else 0", negative=True)
_LETTERS = ("A", "B")


@dataclass(frozen=True)
class Proposals:
    """Proposals for a turn: the answer from evidence, and the draft of the first look; None where one says nothing."""

    grounded: Candidate | None
    draft: Candidate | None
    may_give_draft: bool  # whether the draft may become the answer

    @property
    def texts(self) -> list[str]:
        """Texts of the proposed answers, in the order of their letters."""
        return [each.text for each in (self.grounded, self.draft) if each is not None]


class CrossCheck(Stage):
    """Checks the answer from evidence against the draft that the model made from the photo alone, before anything was searched.

    Two that agree are two witnesses, and no model is asked, unless both are the model's own knowledge. Where they differ, or one is
    missing, one batched call shows what is proposed beside photo and evidence, without saying whose it is, and asks which is right, or
    none. The rule over the tokens of the answer comes beside it (QA-Dragon, section 3.7.2).
    """

    class Options(WhiteBoxOptions, StageOptions):
        own_knowledge: Literal["never", "checked"] = Field(
            "never",
            description="whether the model's own knowledge may be the answer if the evidence has none: never, or after "
            "this check; a draft read off the photo always may",
        )
        own_minimum: float | None = Field(
            None,
            ge=0,
            le=1,
            description="minimum probability of the check's choice to give own knowledge; None: any, also from servers "
            "without probabilities",
        )

    options: Options
    fills = ("candidate", "verification")
    doing = "checking the answer"
    kind = "verifies"
    asks = (ASK,)
    signals = (OWN,)
    min_seconds, wanted_seconds = 1.0, 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``verification``, and replace ``candidate`` where the draft is the answer."""
        unsure = []
        for turn in turns:
            proposals = self._propose(turn)
            grounded, draft = proposals.grounded, proposals.draft
            agrees = grounded and draft and agrees_with_draft(turn, draft.text, grounded.text)
            if grounded and agrees and grounded.origin != "own":
                _keep(turn, Verification(approve_tokens(self.options, grounded), draft=True))
                continue
            if agrees:  # the model says the same twice: there is one proposal
                proposals = replace(proposals, draft=None)
            if grounded is not None or (draft is not None and proposals.may_give_draft):
                unsure.append((turn, proposals))
        questions = [Question(ASK, self._show(turn, proposals, context), (turn,)) for turn, proposals in unsure]
        for (turn, proposals), answer in zip(unsure, context.put(questions) if questions else (), strict=True):
            self._take(turn, proposals, answer.value)
        for turn in turns:
            is_own = turn.candidate is not None and turn.candidate.origin == "own"
            turn.record(signals=OWN.entry(is_own))

    def _propose(self, turn: Turn) -> Proposals:
        grounded = turn.candidate if turn.candidate is not None and not refuses(turn.candidate.text) else None
        if grounded is not None and grounded.origin == "own" and self.options.own_knowledge == "never":
            turn.candidate = grounded = None
        sees_answer = turn.look is not None and turn.look.needs == "picture"
        draft = None
        if turn.draft is not None and not refuses(turn.draft.answer):
            draft = replace(convert_draft(turn.draft), origin="photo" if sees_answer else "own")
        return Proposals(grounded, draft, sees_answer or self.options.own_knowledge == "checked")

    def _show(self, turn: Turn, proposals: Proposals, context: Context) -> dict[str, Any]:
        return {
            **context.show_turn(turn),
            "answers": proposals.texts,
            "letters": _LETTERS,
            "own": proposals.may_give_draft and self.options.own_knowledge == "checked",
        }

    def _take(self, turn: Turn, proposals: Proposals, chosen: ChosenAnswer) -> None:
        """Take the choice: it approves the answer from evidence, puts the draft in its place, or rejects all proposals."""
        grounded, draft, p = proposals.grounded, proposals.draft, chosen.probability
        differs = False if grounded is not None and draft is not None else None
        choice = chosen.choice
        is_draft = draft is not None and choice == _LETTERS[len(proposals.texts) - 1]
        turn.note(proposed=proposals.texts, choice=choice)
        if is_draft and draft is not None and proposals.may_give_draft and self._is_sure(draft, p):
            turn.candidate = draft
            _keep(turn, Verification(model=True, p_yes=p))
        elif grounded is not None:
            approves = None if choice is None else choice == _LETTERS[0] and self._is_sure(grounded, p)
            reason = "another answer is right" if is_draft else ""
            _keep(turn, Verification(approve_tokens(self.options, grounded), approves, reason, p, differs))

    def _is_sure(self, proposal: Candidate, probability: float | None) -> bool:
        """Return whether a chosen proposal may be given: one from a source, or own knowledge that is sure enough."""
        minimum = self.options.own_minimum
        return proposal.origin != "own" or minimum is None or probability is None or probability >= minimum


def _keep(turn: Turn, verification: Verification) -> None:
    turn.verification = verification
    turn.record(
        checks={
            "token probabilities": verification.white_box,
            "check": verification.model,
            "check's probability": verification.p_yes,
            "draft": verification.draft,
        }
    )
    turn.note(reason=verification.reason or None)
