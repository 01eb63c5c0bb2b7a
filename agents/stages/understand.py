from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from agents.asking.ask import Ask
from agents.asking.readers.lines import STANDALONE_QUESTION
from agents.english.references import points_at_picture, resolve
from agents.stage import Context, Stage, StageOptions
from agents.texts.text import clean, one_line
from agents.turn import Turn

_HISTORY_MESSAGES = 6  # latest ones, shown to the model that rewrites


ASK = Ask("standalone_question", STANDALONE_QUESTION)


class Understand(Stage):
    """Makes a question of a dialog stand alone, and settles whether it still needs the picture.

    Rules over the dialog do it (``agents/english/references.py``). If the preset says so, a model rewrites the questions that the rules
    are unsure of. A question that comes without a picture needs one only if it points at something.
    """

    class Options(StageOptions):
        rewrite: Literal["rules", "model"] = Field(
            "rules",
            description="who rewrites follow-up questions: only the rules, or the model if the rules are unsure",
        )
        keep_pointing: bool = Field(
            False,
            description='look for "it" at the place, and among the kind of thing, that an earlier question of the '
            "dialog named",
        )
        keep_photo: bool = Field(
            False,
            description="a follow-up about a name that was given is about the dialog's photo as well: evidence is searched for both",
        )

    options: Options
    fills = ("question", "needs_image", "pointing")
    doing = "reading the question"
    when_short = "rules alone"

    def list_asks(self) -> tuple[Ask[Any], ...]:
        """Return the prompt of the model that rewrites."""
        return (ASK,) if self.options.rewrite == "model" else ()

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``question`` and ``needs_image``."""
        by_model = self.options.rewrite == "model" and not context.short
        unsure: list[Turn] = []
        for turn in turns:
            query = one_line(clean(turn.query))
            resolved = resolve(query, turn.history)
            turn.question = resolved.question
            turn.needs_image = resolved.needs_image and not _stands_without_picture(turn)
            turn.pointing = resolved.pointing if self.options.keep_pointing else ""
            # Rules are sure of what is about the picture, where a dialog has one.
            if turn.history and (not resolved.sure or (turn.asked_without_picture and turn.question == query)):
                unsure.append(turn)
        if by_model:
            for turn, answer in context.ask_each(
                ASK,
                unsure,
                lambda turn: {"query": turn.query, "history": turn.history[-_HISTORY_MESSAGES:]},
            ):
                # A model may answer the question, or say that the conversation does not tell.
                if answer.value is not None and (answer.value.endswith("?") or not turn.query.rstrip().endswith("?")):
                    turn.question = answer.value
                    turn.needs_image |= points_at_picture(answer.value) and not _stands_without_picture(turn)
        for turn in turns:
            turn.needs_image |= self.options.keep_photo and turn.image is not None
            turn.note(
                question=turn.question,
                needs_image=turn.needs_image,
                pointing=turn.pointing or None,
                by_model=turn in unsure and by_model,
            )


def _stands_without_picture(turn: Turn) -> bool:
    """Return whether a question came without a picture, and nothing in it points at one."""
    return turn.asked_without_picture and (bool(turn.history) or not points_at_picture(turn.query))
