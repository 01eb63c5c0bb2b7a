from collections.abc import Sequence
from typing import Any

from agents.asking.ask import Ask
from agents.asking.readers.answers import BRIEF_ANSWER
from agents.asking.readers.entry_replies import LETTERS, label_pictures
from agents.record import FROM_EVIDENCE
from agents.stage import Context, Stage
from agents.turn import Turn

ASK = Ask("entries_answer", BRIEF_ANSWER)


class EntriesAnswer(Stage):
    """Answers from all entries at once (CoRe-MMRAG, section 4.3: the baselines 1-Stage and Oracle); one batched call."""

    min_seconds, wanted_seconds = 1.0, 2.0
    fills = ("candidate",)
    doing = "writing an answer"
    asks = (ASK,)
    kind = "answers"

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate`` of the turns that have entries."""

        def values(turn: Turn) -> dict[str, Any]:
            return {**turn.values, **context.show(turn.image, label_pictures(turn.entries)), "letters": LETTERS}

        for turn, answer in context.ask_each(ASK, [turn for turn in turns if turn.entries], values):
            turn.candidate = answer.value
            turn.record(answers={FROM_EVIDENCE: turn.candidate.text if turn.candidate else None})
