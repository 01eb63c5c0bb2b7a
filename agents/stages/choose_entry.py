from collections.abc import Sequence

from agents.asking.ask import Ask, Question
from agents.asking.readers.entry_replies import LETTERS, MAX_ENTRIES, entry_choice, label_pictures
from agents.english.knowledge_conflict import choose_jointly
from agents.stage import Context, Stage
from agents.turn import Turn


def build_ask(entries: int) -> Ask[int | None]:
    """Return the question which of so many entries it is."""
    return Ask("entry_choice", entry_choice(entries))


class ChooseEntry(Stage):
    """Chooses the entry that picture and text together point to (CoRe-MMRAG, section 3.2, step 2, eq. 5).

    The model sees all entries. If it names none, the sum of both scores decides.
    """

    min_seconds, wanted_seconds = 0.5, 1.0
    fills = ("chosen", "entity", "entity_score")
    doing = "choosing what the photo shows"
    asks = (build_ask(MAX_ENTRIES),)
    picture_notes = frozenset({"chosen"})

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``chosen`` and, from it, ``entity`` and ``entity_score``."""
        concerned = [turn for turn in turns if turn.entries]
        questions = [
            Question(
                build_ask(len(turn.entries)),
                {**turn.values, **context.show(turn.image, label_pictures(turn.entries)), "letters": LETTERS},
                (turn,),
            )
            for turn in concerned
        ]
        for turn, answer in zip(concerned, context.put(questions), strict=True):
            named = index = answer.value
            if named is None:
                index = choose_jointly(
                    [entry.visual for entry in turn.entries], [entry.textual for entry in turn.entries]
                )
            if index is not None:
                turn.choose(index)
            turn.record(entity=turn.entity_name)
            turn.note(chosen=index, by_model=named is not None)
