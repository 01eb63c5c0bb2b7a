"""Dual verification: all verifiers have to approve (QA-Dragon, section 3.7.2)."""

from typing import Literal

from pydantic import Field

from agents.decision.rule import Rule, RuleContext, RuleOptions
from agents.methods.candidates import trusts_draft
from agents.turn import Turn


class VerifierOptions(RuleOptions):
    """Which rule reads what the stage ``verify`` says: this one, or ``agents/decision/witnesses.py``."""

    verified_by: tuple[Literal["white_box", "model"], ...] | Literal["witnesses"] = Field(
        (),
        description="used only without a gate: verifiers that all must approve (QA-Dragon; the model's alone if the engine gives no "
        "probabilities); or witnesses: both must approve, but a draft that says the same outweighs low token probabilities "
        "(`agents/decision/witnesses.py`)",
    )


class DualVerification(Rule):
    """Each verifier that the preset names has to approve."""

    Options = VerifierOptions
    options: VerifierOptions

    def reason(self, turn: Turn, context: RuleContext) -> str | None:
        """Withhold an answer that a verifier does not approve. Missing token probabilities do not count if the model is asked too."""
        names = self.options.verified_by
        if names == "witnesses" or not verifiers_decide(turn, context):
            return None
        for verifier in names:
            verdict = getattr(turn.verification, verifier)
            unknown = verdict is None and verifier == "white_box" and "model" in names
            if not verdict and not unknown:
                return f"the {verifier.replace('_', '-')} verifier does not approve"
        return None


def verifiers_decide(turn: Turn, context: RuleContext) -> bool:
    """Return whether verifiers decide: no gate weighs what they say, and the answer is no draft that is given unverified."""
    return not context.gated and not trusts_draft(turn)
