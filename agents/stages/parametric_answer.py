from collections.abc import Sequence

from agents.asking.record import OWN_KNOWLEDGE
from agents.methods.candidates import candidate_of
from agents.stage import Context, Stage
from agents.turn import Turn


class ParametricAnswer(Stage):
    """The chat model, without any evidence (CoRe-MMRAG, section 3.2, step 1, eq. 3); one batched call."""

    min_seconds, wanted_seconds = 1.0, 2.0
    fills = ("parametric",)
    templates = ("parametric_answer",)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``parametric``."""
        for turn, reply in context.ask_each("parametric_answer", turns, lambda turn: turn.values):
            turn.parametric = candidate_of(reply)
            turn.found(answers={OWN_KNOWLEDGE: turn.parametric.text if turn.parametric else None})
            turn.note(error=reply.error)
