"""Citations: an answer none of whose sentences is supported is withheld (MAVIS)."""

from pydantic import Field

from agents.decision.rule import Rule, RuleContext, RuleOptions
from agents.turn import Turn


class Citations(Rule):
    """An answer whose citations were checked needs a sentence that is left."""

    class Options(RuleOptions):
        cite: bool = Field(
            False, description="answers carry [n]; the stage cite runs before this one, whatever the preset"
        )

    options: Options

    def needs(self) -> tuple[str, ...]:
        """Return the stage that checks markers if answers carry them."""
        return ("cite",) if self.options.cite else ()

    def reason(self, turn: Turn, context: RuleContext) -> str | None:  # noqa: ARG002 - a rule is given both
        """Withhold an answer all of whose sentences were dropped."""
        return "no sentence of the answer is supported" if turn.cited is not None and not turn.cited else None
