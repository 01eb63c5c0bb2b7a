"""The lead of an answer over what sources say that are asked alone (RobustRAG, arXiv 2405.15556; ``agents/methods/source_votes.py``)."""

from pydantic import Field

from agents.decision.rule import Rule, RuleContext, RuleOptions
from agents.turn import Turn


class MinLead(Rule):
    """An answer has to lead every other that sources give by so many votes."""

    class Options(RuleOptions):
        min_lead: int | None = Field(
            None,
            description="minimum lead in votes over every other answer, when each source is asked alone; it adds the stage "
            "isolated_answers to the preset; None: sources are not asked alone",
        )

    options: Options

    def needs(self) -> tuple[str, ...]:
        """Return the stage that asks each source alone if a lead is required."""
        return ("isolated_answers",) if self.options.min_lead is not None else ()

    def reason(self, turn: Turn, context: RuleContext) -> str | None:  # noqa: ARG002 - a rule is given both
        """Withhold an answer whose lead is too small. With a single source no votes are counted."""
        if self.options.min_lead is None or turn.votes is None or turn.votes.lead >= self.options.min_lead:
            return None
        return "another source answers otherwise" if turn.votes.rival else "no source alone gives the answer"
