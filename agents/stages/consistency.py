from collections.abc import Sequence

from agents.methods.candidates import answered
from agents.stage import Context, Stage
from agents.texts.replies import yes_or_no
from agents.turn import Turn


class Consistency(Stage):
    """Whether candidate and parametric answer agree, judged by the model in one batched call (CRUISE, section 3.3 and appendix A.3)."""

    fills = ("consistent",)
    templates = ("consistency_judge",)
    kind = "verifies"
    min_seconds, wanted_seconds = 1.0, 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``consistent`` of the turns that have an answer from the evidence and one without it."""
        both = [(turn, turn.parametric, found) for turn, found in answered(turns) if turn.parametric is not None]
        for (turn, _, _), reply in context.ask_each(
            "consistency_judge", both, lambda one: {**one[0].values, "first": one[1].text, "second": one[2].text}
        ):
            turn.consistent = yes_or_no(reply.text) if reply.finish_reason != "error" else None
            turn.found(checks={"own answer agrees": turn.consistent})
            turn.note(judge=reply.text, error=reply.error)
