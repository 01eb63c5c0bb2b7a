"""The answer from the chosen entry, its text and its picture (CoRe-MMRAG, section 3.2, step 3, eq. 6)."""

from collections.abc import Sequence

from agents.methods.candidates import candidate_of
from agents.stage import Context, Stage
from agents.turn import Turn


class EntryAnswer(Stage):
    """The chat model, from text and picture of the chosen entry; one batched call."""

    least_seconds, wanted_seconds = 1.0, 2.0
    fills = ("candidate",)
    templates = ("entry_answer",)
    kind = "answers"

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``."""
        concerned = [(turn, turn.chosen) for turn in turns if turn.chosen is not None]
        prompt = context.prompts["entry_answer"]
        requests = [
            prompt.request(
                **context.show(turn.image, [("Reference", entry.image)] if entry.image is not None else []),
                question=turn.question,
                history=turn.history,
                entry=entry,
            )
            for turn, entry in concerned
        ]
        replies = context.ask(prompt, requests)
        for (turn, _), reply in zip(concerned, replies, strict=True):
            turn.candidate = candidate_of(reply)
            turn.note(retrieved=turn.candidate.text if turn.candidate else None, error=reply.error)
