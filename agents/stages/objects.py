from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from agents.methods.object_phrases import object_phrases, position_in
from agents.stage import Context, Stage, StageOptions
from agents.texts.replies import json_object, strings
from agents.turn import Target, Turn, with_image

_MAX_WORDS = 3


def short(names: Sequence[str]) -> tuple[str, ...]:
    """Object names in lower case; those longer than three words are no object names."""
    return tuple(dict.fromkeys(name.lower() for name in names if 0 < len(name.split()) <= _MAX_WORDS))


class Objects(Stage):
    """The objects that could matter and the one asked about (QA-Dragon, section 3.4.1): the model, or the words of the question.

    The model in two batched calls, extraction and selection; the words by ``agents/methods/object_phrases.py``.
    """

    class Options(StageOptions):
        by: Literal["model", "rules"] = Field("rules", description="who names them")
        max_objects: int = Field(5, ge=1, description="objects listed")

    options: Options
    fills = ("target",)
    picture_notes = frozenset({"objects"})
    min_seconds, wanted_seconds = 0.5, 1.0

    def prompts(self) -> tuple[str, ...]:
        """Of the model that lists objects and chooses one."""
        return ("object_list", "object_choice") if self.options.by == "model" else ()

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``target`` of the turns whose picture is to be searched."""
        concerned = [turn for turn, _ in with_image(turns) if turn.tools.image]
        for turn in concerned:
            phrases = short(object_phrases(turn.question, self.options.max_objects))
            turn.target = Target(phrases, phrases[0] if phrases else None, position_in(turn.question))
        if self.options.by == "model":
            self._ask(concerned, context)
        for turn in concerned:
            turn.note(objects=list(turn.target.objects), object=turn.target.phrase, position=turn.target.position)

    def _ask(self, turns: Sequence[Turn], context: Context) -> None:
        limit = self.options.max_objects
        several: list[Turn] = []
        for turn, reply in context.ask_each("object_list", turns, lambda turn: {**turn.values, "limit": limit}):
            names = short(strings((json_object(reply.text) or {}).get("object_list"), limit))
            if names:
                turn.target = Target(names, names[0], turn.target.position)
            if len(names) > 1:
                several.append(turn)
        for turn, reply in context.ask_each(
            "object_choice", several, lambda turn: {**turn.values, "objects": turn.target.objects}
        ):
            names = short(strings((json_object(reply.text) or {}).get("object"), 1))
            if names:  # the model may add a telling attribute ("red car") to a listed name
                turn.target = Target(turn.target.objects, names[0], turn.target.position)
