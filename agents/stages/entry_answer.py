from collections.abc import Sequence
from typing import Any

from agents.asking.ask import Ask
from agents.asking.readers.answers import BRIEF_ANSWER
from agents.record import FROM_EVIDENCE
from agents.stage import Context, Stage
from agents.turn import Turn

ASK = Ask("entry_answer", BRIEF_ANSWER)


class EntryAnswer(Stage):
    """Answers from text and picture of the chosen entry (CoRe-MMRAG, section 3.2, step 3, eq. 6); one batched call."""

    min_seconds, wanted_seconds = 1.0, 2.0
    fills = ("candidate",)
    doing = "writing an answer"
    asks = (ASK,)
    kind = "answers"

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``."""

        def values(turn: Turn) -> dict[str, Any]:
            picture = turn.chosen.image if turn.chosen is not None else None
            others = [("Reference", picture)] if picture is not None else []
            return {**turn.values, **context.show(turn.image, others), "entry": turn.chosen}

        for turn, answer in context.ask_each(ASK, [turn for turn in turns if turn.chosen], values):
            turn.candidate = answer.value
            turn.record(answers={FROM_EVIDENCE: turn.candidate.text if turn.candidate else None})
