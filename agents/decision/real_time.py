"""Questions about the present moment, which an index of the past does not answer."""

from pydantic import Field

from agents.decision.rule import Rule, RuleContext, RuleOptions
from agents.turn import Turn


class RealTime(Rule):
    """Questions about the present, by the first look or by ``route``, are not answered."""

    class Options(RuleOptions):
        abstain_real_time: bool = Field(False, description="abstain on questions about the present moment")

    options: Options

    def reason(self, turn: Turn, context: RuleContext) -> str | None:  # noqa: ARG002 - a rule is given both
        """Withhold any answer to such a question."""
        is_present = self.options.abstain_real_time and turn.real_time
        return "the question is about the present moment" if is_present else None
