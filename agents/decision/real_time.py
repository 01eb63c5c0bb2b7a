"""Questions about the present moment, which an index of the past does not answer."""

from pydantic import Field

from agents.decision.rule import Rule, RuleContext, RuleOptions
from agents.english.question_kinds import is_time_independent
from agents.turn import Turn


class RealTime(Rule):
    """Questions that the stage ``route`` flags as being about the present are not answered, unless what the photo shows is enough."""

    class Options(RuleOptions):
        abstain_real_time: bool = Field(False, description="abstain on questions about the present moment")

    options: Options

    def reason(self, turn: Turn, context: RuleContext) -> str | None:
        """Withhold any answer to such a question, except what a model that sees can tell at any moment."""
        if not self.options.abstain_real_time or not turn.real_time:
            return None
        look = turn.look
        by_words = look is None or not look.by_model  # a model that looked has told news from what the photo shows
        needs_photo_alone = look is not None and look.needs == "picture"
        if by_words and context.sees and (needs_photo_alone or is_time_independent(turn.question)):
            return None
        return "the question is about the present moment"
