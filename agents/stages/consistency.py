from collections.abc import Sequence

from agents.asking.ask import Ask, Question
from agents.asking.readers.verdicts import YES_NO
from agents.methods.candidates import select_answered
from agents.stage import Context, Stage
from agents.turn import Turn

ASK = Ask("consistency_judge", YES_NO)


class Consistency(Stage):
    """Asks the model whether candidate and parametric answer agree (CRUISE, section 3.3 and appendix A.3); one batched call."""

    fills = ("consistent",)
    doing = "comparing two answers"
    asks = (ASK,)
    kind = "verifies"
    min_seconds, wanted_seconds = 1.0, 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``consistent`` of the turns that have an answer from the evidence and one without it."""
        both = [
            (turn, turn.parametric, candidate)
            for turn, candidate in select_answered(turns)
            if turn.parametric is not None
        ]
        questions = [
            Question(ASK, {**turn.values, "first": first.text, "second": second.text}, (turn,))
            for turn, first, second in both
        ]
        for (turn, _, _), answer in zip(both, context.put(questions), strict=True):
            turn.consistent = answer.value
            turn.record(checks={"own answer agrees": turn.consistent})
