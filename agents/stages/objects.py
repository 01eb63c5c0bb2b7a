"""Stage 5a: the objects that could matter, and the one that the question is about (QA-Dragon, section 3.4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.methods.object_phrases import object_phrases, position_in
from agents.stage import Context
from agents.texts.replies import json_object, strings
from agents.turn import Target, Turn, with_image

_MOST_WORDS = 3


def short(names: Sequence[str]) -> tuple[str, ...]:
    """Object names in lower case; those longer than three words are no object names."""
    return tuple(dict.fromkeys(name.lower() for name in names if 0 < len(name.split()) <= _MOST_WORDS))


class Objects:
    """Extraction, then selection, each one batched call; or the rules of ``agents/methods/object_phrases.py``."""

    name: ClassVar[str] = "objects"
    least_seconds: ClassVar[float] = 0.5
    wanted_seconds: ClassVar[float] = 1.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``target`` of the turns whose picture is to be searched."""
        settings = context.settings.objects
        concerned = [turn for turn in with_image(turns) if turn.tools.image]
        for turn in concerned:
            phrases = short(object_phrases(turn.question, settings.most))
            turn.target = Target(phrases, phrases[0] if phrases else None, position_in(turn.question))
        if settings.by == "model" and concerned:
            self._ask(concerned, context)
        for turn in concerned:
            turn.note(objects=list(turn.target.objects), object=turn.target.phrase, position=turn.target.position)

    @staticmethod
    def _ask(turns: Sequence[Turn], context: Context) -> None:
        most = context.settings.objects.most
        listing, choice = context.prompts["object_list"], context.prompts["object_choice"]
        listed = context.models.chat(listing.settings.model).chat(
            [listing.request(image=turn.image, question=turn.question, most=most) for turn in turns], context.deadline
        )
        several: list[Turn] = []
        for turn, reply in zip(turns, listed, strict=True):
            names = short(strings((json_object(reply.text) or {}).get("object_list"), most))
            if names:
                turn.target = Target(names, names[0], turn.target.position)
            if len(names) > 1:
                several.append(turn)
        if not several:
            return
        chosen = context.models.chat(choice.settings.model).chat(
            [choice.request(image=turn.image, question=turn.question, objects=turn.target.objects) for turn in several],
            context.deadline,
        )
        for turn, reply in zip(several, chosen, strict=True):
            names = short(strings((json_object(reply.text) or {}).get("object"), 1))
            if names:  # the model may add a telling attribute ("red car") to a listed name
                turn.target = Target(turn.target.objects, names[0], turn.target.position)
