"""A cut on the probability that the reply would have begun with "I don't know" (task 2's winner, github.com/rbiswasfc/crag-mm)."""

from pydantic import Field

from agents.decision.rule import Rule, RuleContext, RuleOptions
from agents.turn import IDK, Turn


class MaxIdk(Rule):
    """An answer whose model nearly said that it does not know is withheld; a gate, which reads the same signal, takes its place."""

    class Options(RuleOptions):
        max_idk: float | None = Field(
            None,
            ge=0,
            le=1,
            description="without a gate: abstain where P(\"I don't know\") of the reply's beginning is above this; None: never",
        )

    options: Options
    fitted = True

    def reason(self, turn: Turn, context: RuleContext) -> str | None:  # noqa: ARG002 - a rule is given both
        """Withhold an answer above the cut; an unknown probability passes."""
        most, idk = self.options.max_idk, context.candidate.idk
        if context.gated or most is None or idk is None or not idk > most:
            return None
        return f"the reply would have been {IDK!r} with {idk:.3f}, above {most}"
