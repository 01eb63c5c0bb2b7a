from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from agents.asking.ask import Ask
from agents.asking.readers.fields import truths_at
from agents.methods.question_kinds import about_packaged, question_kind
from agents.stage import Context, Stage, StageOptions
from agents.turn import Look, Tools, Turn

ASK = Ask("tool_router", truths_at("need_image_search", "need_text_search"))


class ToolRouter(Stage):
    """Which searches to make (QA-Dragon, section 3.3, appendix A).

    The model says it under a schema, or the first look has said it, or the paper's rules do where neither does.
    """

    class Options(StageOptions):
        by: Literal["model", "look", "rules"] = Field("rules", description="who decides; look: the stage of that name")
        skip_image_domains: tuple[str, ...] = Field(
            ("book", "plants and gardening"),
            description="domains whose objects image search does not find (appendix A, rule 4)",
        )
        skip_packaged: bool = Field(
            True, description="nor packaged goods with a logo, by the words of the question (rule 4)"
        )

    options: Options
    fills = ("tools",)
    when_short = "rules alone"

    def __init__(self, options: StageOptions | None = None) -> None:
        super().__init__(options)
        self.wanted_seconds = 3.0 if self.options.by == "model" else 0.0  # rules take no time

    def asks(self) -> tuple[Ask[Any], ...]:
        """Of the model that decides."""
        return (ASK,) if self.options.by == "model" else ()

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``tools``: a draft that is given takes no search, one that is verified a text search (table 1)."""
        for turn in turns:
            if self.options.by == "look" and turn.look is not None:
                turn.tools = look_tools(turn, turn.look, self.options)
            elif turn.route == "rag":
                turn.tools = rule_tools(turn, self.options)
            else:
                turn.tools = Tools(image=False, text=turn.route == "verify")
        if self.options.by == "model" and not context.short:
            for turn, answer in context.ask_each(
                ASK,
                [turn for turn in turns if turn.route == "rag"],
                lambda turn: {**turn.values, "reasoning": turn.draft.reasoning if turn.draft else ""},
            ):
                image, text = answer.value
                if image is not None and text is not None:
                    turn.tools = Tools(image=image and turn.image is not None, text=text)
        for turn in turns:
            turn.note(image_search=turn.tools.image, text_search=turn.tools.text)


def look_tools(turn: Turn, look: Look, options: ToolRouter.Options) -> Tools:
    """By what a first look says that the question needs.

    A draft to be verified takes a text search (table 1), and an image search where the thing is not known for certain. Where there is none
    to trust the picture alone does not do, whatever the look says: the words of the question decide, and a thing whose name is known is not
    searched for by picture (rule 1).
    """
    if turn.route == "direct":
        return Tools(image=False, text=False)
    if turn.route == "verify":
        return Tools(image=turn.needs_image and look.needs in ("entity", "both"), text=True)
    return rule_tools(turn, options)


def rule_tools(turn: Turn, options: ToolRouter.Options) -> Tools:
    """The paper's decision logic without a model: rules 1 to 4 of its prompt.

    1. An object whose exact name is known needs no image search. 2. What cannot be seen needs text search. 3. Calculation
    and translation need neither. 4. Books, packaged goods with a logo and plants need no image search: the domain tells, or
    the words of the question.
    """
    kind = question_kind(turn.question)
    if kind.text or kind.calculation:
        return Tools(image=False, text=False)
    if options.by == "look" and turn.look is not None:
        named = turn.look.needs == "web"
    else:
        named = turn.draft is not None and turn.draft.object_name is not None
    skipped = turn.domain in options.skip_image_domains or (options.skip_packaged and about_packaged(turn.question))
    return Tools(image=turn.needs_image and not named and not skipped, text=turn.needs_external is not False)
