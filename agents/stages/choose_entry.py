from collections.abc import Sequence

from agents.methods.entry_replies import LETTERS, entry_letter, lettered
from agents.methods.knowledge_conflict import joint_choice
from agents.stage import Context, Stage
from agents.turn import Turn


class ChooseEntry(Stage):
    """The entry that picture and text together point to (CoRe-MMRAG, section 3.2, step 2, eq. 5).

    The model looks at all of them; where it names none the sum of both scores decides.
    """

    min_seconds, wanted_seconds = 0.5, 1.0
    fills = ("chosen", "entity", "entity_score")
    templates = ("entry_choice",)
    picture_notes = frozenset({"chosen"})

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``chosen`` and, from it, ``entity`` and ``entity_score``."""
        for turn, reply in context.ask_each(
            "entry_choice",
            [turn for turn in turns if turn.entries],
            lambda turn: {**turn.values, **context.show(turn.image, lettered(turn.entries)), "letters": LETTERS},
        ):
            named = entry_letter(reply.text, len(turn.entries)) if reply.finish_reason != "error" else None
            index = named
            if named is None:
                index = joint_choice(
                    [entry.visual for entry in turn.entries], [entry.textual for entry in turn.entries]
                )
            if index is not None:
                turn.choose(index)
            turn.note(reply=reply.text, error=reply.error)
            turn.found(entity=turn.entity_name)
            turn.note(chosen=index, by_model=named is not None)
