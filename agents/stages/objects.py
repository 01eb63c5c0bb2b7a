from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field

from agents.asking.ask import Ask
from agents.asking.readers.fields import texts_at
from agents.english.object_phrases import extract_object_phrases, find_pointed_phrase, find_position
from agents.english.thing_kinds import find_kind
from agents.stage import Context, Stage, StageOptions
from agents.turn import Target, Turn, select_with_image

_MAX_WORDS = 3


def short(names: Sequence[str]) -> tuple[str, ...]:
    """Return the object names in lower case, without names of more than three words."""
    return tuple(dict.fromkeys(name.lower() for name in names if 0 < len(name.split()) <= _MAX_WORDS))


CHOICE = Ask("object_choice", texts_at("object", 1))


class Objects(Stage):
    """Lists the objects that could matter and chooses the one asked about (QA-Dragon, section 3.4.1).

    The model does both in two batched calls, extraction and selection. Otherwise the first look has named one, or
    ``agents/english/object_phrases.py`` takes it from the words of the question.
    """

    class Options(StageOptions):
        by: Literal["model", "look", "rules"] = Field(
            "rules", description="source of the names; look: the stage of that name"
        )
        k: int = Field(5, ge=1, description="objects listed")

    options: Options
    fills = ("target",)
    groups = ("cropping", "image")
    doing = "finding the thing asked about"
    picture_notes = frozenset({"objects"})
    when_short = "rules alone"
    seconds_to_ask = 3.0

    def list_asks(self) -> tuple[Ask[list[str]], ...]:
        """Return the prompts that list the objects and choose one; none unless a model does it."""
        if self.options.by != "model":
            return ()
        return Ask("object_list", texts_at("object_list", self.options.k)), CHOICE

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``target`` of the turns whose picture is to be searched."""
        concerned = [turn for turn, _ in select_with_image(turns) if turn.tools.image]
        for turn in concerned:
            look_objects = [turn.look.object] if self.options.by == "look" and turn.look and turn.look.object else []
            text = f"{turn.question} {turn.pointing}"
            phrases = short([*look_objects, *extract_object_phrases(text, self.options.k)])
            kind = find_kind(find_pointed_phrase(text) or "")
            turn.target = Target(phrases, phrases[0] if phrases else None, find_position(text), kind)
        if self.options.by == "model" and not context.short:
            self._ask(concerned, context)
        for turn in concerned:
            turn.note(objects=list(turn.target.objects), object=turn.target.phrase, position=turn.target.position)

    def _ask(self, turns: Sequence[Turn], context: Context) -> None:
        limit = self.options.k
        several: list[Turn] = []
        listing, choosing = self.list_asks()
        for turn, answer in context.ask_each(listing, turns, lambda turn: {**turn.values, "limit": limit}):
            names = short(answer.value)
            if names:
                turn.target = replace(turn.target, objects=names, phrase=names[0])
            if len(names) > 1:
                several.append(turn)
        for turn, answer in context.ask_each(
            choosing, several, lambda turn: {**turn.values, "objects": turn.target.objects}
        ):
            names = short(answer.value)
            if names:  # the model may add a telling attribute ("red car") to a listed name
                turn.target = replace(turn.target, phrase=names[0])
