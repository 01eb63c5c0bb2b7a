from collections.abc import Sequence

from agents.asking.ask import Ask
from agents.asking.readers.answers import BRIEF_ANSWER
from agents.record import OWN_KNOWLEDGE
from agents.stage import Context, Stage
from agents.turn import Turn

ASK = Ask("parametric_answer", BRIEF_ANSWER)


class ParametricAnswer(Stage):
    """Answers without any evidence (CoRe-MMRAG, section 3.2, step 1, eq. 3); one batched call."""

    min_seconds, wanted_seconds = 1.0, 2.0
    fills = ("parametric",)
    doing = "writing an answer without evidence"
    asks = (ASK,)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``parametric``."""
        for turn, answer in context.ask_each(ASK, turns):
            turn.parametric = answer.value
            turn.record(answers={OWN_KNOWLEDGE: turn.parametric.text if turn.parametric else None})
