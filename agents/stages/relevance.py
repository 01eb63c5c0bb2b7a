"""Which chunks speak to the question, judged one by one by the chat model that sees the picture (task 2's winner, team NVIDIA)."""

from collections.abc import Sequence

from pydantic import Field

from agents.methods.first_token import said_yes
from agents.stage import Context, Stage, StageOptions
from agents.texts.evidence_text import evidence_for_trace
from agents.turn import Evidence, Turn

_CHUNKS_WHEN_SHORT = 4


class Relevance(Stage):
    """Chunks that the chat model says yes to, by P(yes) on each with the picture, best first; one batched call of one word each."""

    class Options(StageOptions):
        most: int = Field(12, ge=1, description="chunks judged, the best of the ranking so far")
        threshold: float = Field(0.5, ge=0, le=1, description="least P(yes)")
        k: int = Field(8, ge=1, description="chunks kept")
        least: int = Field(0, ge=0, description="chunks kept at least, the best ones below the threshold")
        least_egocentric: int = Field(0, ge=0, description="the same for photos of smart glasses (960 x 1280 pixels)")

    options: Options
    fills = ("ranked",)
    templates = ("context_relevance",)
    when_short = f"{_CHUNKS_WHEN_SHORT} chunks"
    least_seconds, wanted_seconds = 1.0, 3.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``ranked``; a turn none of whose chunks was judged keeps its ranking."""
        most = min(self.options.most, _CHUNKS_WHEN_SHORT) if context.short else self.options.most
        prompt = context.prompts["context_relevance"]
        shown = [(turn, chunk) for turn in turns for chunk in turn.best_evidence(most)]
        requests = [prompt.request(image=turn.image, question=turn.question, chunk=chunk) for turn, chunk in shown]
        judged: dict[int, list[Evidence]] = {}
        for (turn, chunk), reply in zip(shown, context.ask(prompt, requests), strict=True):
            probability = said_yes(reply)
            if probability is not None:
                judged.setdefault(id(turn), []).append(chunk.scored(probability))
        for turn in turns:
            if id(turn) in judged:
                turn.ranked = self._kept(turn, judged[id(turn)])
            turn.note(judged=len(judged.get(id(turn), ())), evidence=evidence_for_trace(turn.ranked or ()))

    def _kept(self, turn: Turn, chunks: Sequence[Evidence]) -> tuple[Evidence, ...]:
        options = self.options
        best = sorted(chunks, key=lambda chunk: -(chunk.score or 0.0))
        passing = sum((chunk.score or 0.0) >= options.threshold for chunk in best)
        least = options.least_egocentric if turn.egocentric else options.least
        return tuple(best[: min(options.k, max(passing, least))])
