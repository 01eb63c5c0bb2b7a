"""The answer from the model's own knowledge (CoRe-MMRAG, section 3.2, step 1, eq. 3)."""

from collections.abc import Sequence

from agents.methods.candidates import candidate_of
from agents.stage import Context, Stage
from agents.turn import Turn


class ParametricAnswer(Stage):
    """The chat model, without any evidence; one batched call."""

    least_seconds, wanted_seconds = 1.0, 2.0
    fills = ("parametric",)
    templates = ("parametric_answer",)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``parametric``."""
        prompt = context.prompts["parametric_answer"]
        requests = [prompt.request(image=turn.image, question=turn.question, history=turn.history) for turn in turns]
        replies = context.ask(prompt, requests)
        for turn, reply in zip(turns, replies, strict=True):
            turn.parametric = candidate_of(reply)
            turn.note(parametric=turn.parametric.text if turn.parametric else None, error=reply.error)
