from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from agents.asking.ask import Ask
from agents.asking.readers.fields import truths_at
from agents.english.question_kinds import classify_question, is_about_packaged
from agents.stage import Context, Stage, StageOptions
from agents.turn import Needs, Tools, Turn

ASK = Ask("tool_router", truths_at("need_image_search", "need_text_search"))


class ToolRouter(Stage):
    """Chooses the searches to make (QA-Dragon, section 3.3, appendix A).

    The model chooses under a schema, or the first look has chosen; otherwise the paper's rules do.
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
    doing = "choosing the searches"
    when_short = "rules alone"
    seconds_to_ask = 3.0

    def list_asks(self) -> tuple[Ask[Any], ...]:
        """Return the prompt of the model that decides."""
        return (ASK,) if self.options.by == "model" else ()

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``tools``: a trusted draft takes no search, one to verify a text search (table 1).

        Where a first look says that the thing is not known for certain a draft to be verified takes an image search, too.
        """
        for turn in turns:
            if turn.route == "rag":
                turn.tools = rule_tools(turn, self.options)
            else:
                unsure = turn.needs_image and read_needs(turn, self.options) in ("entity", "both")
                verified = turn.route == "verify"
                turn.tools = Tools(image=verified and unsure, text=verified)
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


def read_needs(turn: Turn, options: ToolRouter.Options) -> Needs | None:
    """Return the needs of a question by the first look; None if none decides.

    A thing in the photo that the look says it knows, but gives no name, still has to be found out.
    """
    look = turn.look
    if options.by != "look" or look is None:
        return None
    return "both" if look.needs == "web" and look.name is None and turn.needs_image else look.needs


def rule_tools(turn: Turn, options: ToolRouter.Options) -> Tools:
    """Decide by the rules 1 to 4 of the paper's prompt, without a model.

    1. An object whose exact name is known, by the draft or the first look, needs no image search. 2. Facts that cannot be seen need text
    search. 3. Calculation and translation alone need neither. 4. Books, packaged goods with a logo and plants need no image search; the
    domain or the words of the question tell.

    A first look that names something to find out is believed. A first look that calls the picture sufficient is not: it could not answer
    from it, or the question would not be here.
    """
    kind = classify_question(turn.question)
    needs = read_needs(turn, options)
    read = (kind.text or kind.calculation) and not kind.open_world
    if read and needs in (None, "picture"):
        return Tools(image=False, text=False)
    drafted = turn.draft is not None and turn.draft.object_name is not None
    named = drafted if needs is None else needs == "web"
    skipped = turn.domain in options.skip_image_domains or (options.skip_packaged and is_about_packaged(turn.question))
    text = needs in ("web", "both") or turn.needs_external is not False
    return Tools(image=turn.needs_image and not named and not skipped, text=text)
