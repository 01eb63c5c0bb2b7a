"""The joint visual-textual choice of one entry (CoRe-MMRAG, section 3.2, step 2, eq. 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.methods.entry_replies import LETTERS, entry_letter
from agents.methods.knowledge_conflict import joint_choice
from agents.stage import Context
from agents.turn import Turn


class ChooseEntry:
    """A model looks at pictures and texts of all entries, in one batched call; without a model their scores are added."""

    name: ClassVar[str] = "choose_entry"
    least_seconds: ClassVar[float] = 0.5
    wanted_seconds: ClassVar[float] = 1.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``chosen`` and, from it, ``entity`` and ``entity_score``; a reply that names no entry leaves it to the scores."""
        settings = context.settings.choose_entry
        concerned = [turn for turn in turns if turn.entries]
        named: dict[int, int] = {}
        if settings.by == "model" and concerned:
            named = self._ask(concerned, context)
        for turn in concerned:
            index = named.get(id(turn))
            if index is None:
                index = joint_choice(
                    [entry.visual for entry in turn.entries],
                    [entry.textual for entry in turn.entries],
                    settings.text_weight,
                )
            if index is not None:
                turn.choose(index)
            turn.note(entity=turn.entity.name if turn.entity else None, chosen=index, by_model=id(turn) in named)

    @staticmethod
    def _ask(turns: Sequence[Turn], context: Context) -> dict[int, int]:
        prompt = context.prompts["entry_choice"]
        requests = [
            prompt.request(
                image=turn.image,
                images=tuple(entry.image for entry in turn.entries if entry.image is not None),
                question=turn.question,
                entries=turn.entries,
                letters=LETTERS,
            )
            for turn in turns
        ]
        replies = context.models.chat(prompt.settings.model).chat(requests, context.deadline)
        named = {}
        for turn, reply in zip(turns, replies, strict=True):
            index = entry_letter(reply.text, len(turn.entries)) if reply.finish_reason != "error" else None
            if index is not None:
                named[id(turn)] = index
            turn.note(reply=reply.text, error=reply.error)
        return named
