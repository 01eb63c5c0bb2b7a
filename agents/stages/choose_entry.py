"""The joint visual-textual choice of one entry (CoRe-MMRAG, section 3.2, step 2, eq. 5)."""

from collections.abc import Sequence

from agents.methods.entry_replies import LETTERS, entry_letter, lettered
from agents.methods.knowledge_conflict import joint_choice
from agents.stage import Context, Stage
from agents.turn import Turn


class ChooseEntry(Stage):
    """The entry that picture and text together point to: the model looks at all of them; both scores where it names none."""

    least_seconds, wanted_seconds = 0.5, 1.0
    fills = ("chosen", "entity", "entity_score")
    templates = ("entry_choice",)
    picture_notes = frozenset({"entity", "chosen"})

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``chosen`` and, from it, ``entity`` and ``entity_score``; a reply that names no entry leaves it to the scores."""
        concerned = [turn for turn in turns if turn.entries]
        named = self._ask(concerned, context)
        for turn in concerned:
            index = named.get(id(turn))
            if index is None:
                index = joint_choice(
                    [entry.visual for entry in turn.entries], [entry.textual for entry in turn.entries]
                )
            if index is not None:
                turn.choose(index)
            turn.note(entity=turn.entity_name, chosen=index, by_model=id(turn) in named)

    @staticmethod
    def _ask(turns: Sequence[Turn], context: Context) -> dict[int, int]:
        prompt = context.prompts["entry_choice"]
        requests = [
            prompt.request(
                **{**turn.values, **context.show(turn.image, lettered(turn.entries))},
                entries=turn.entries,
                letters=LETTERS,
            )
            for turn in turns
        ]
        replies = context.ask(prompt, requests)
        named = {}
        for turn, reply in zip(turns, replies, strict=True):
            index = entry_letter(reply.text, len(turn.entries)) if reply.finish_reason != "error" else None
            if index is not None:
                named[id(turn)] = index
            turn.note(reply=reply.text, error=reply.error)
        return named
