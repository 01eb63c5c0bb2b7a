"""Team NVIDIA, winner of task 2 of the KDD Cup 2025: its released code, github.com/rbiswasfc/crag-mm.

What it does in order; preset ``context_gate``. Stages in brackets are those of ``agents/stages``, which other presets run too.

1. squares of the photo, searched for: [``image_search``] with ``windows``
2. many short queries, searched for: [``queries``], [``web_search``], [``evidence``]; ours: an order of the contexts, [``rerank``]
3. every context judged with the picture, by P(yes): ``Relevance``
4. the answer: [``answer``]; none where P("I don't know") of its beginning is above a cut: the rule ``MaxIdk`` of [``finalise``]
"""

from collections.abc import Sequence

from pydantic import Field

from agents.asking.ask import Ask, Question
from agents.asking.readers.verdicts import P_YES
from agents.evidence.passages import convert_to_record, sort_by_score
from agents.stage import Context, Stage, StageOptions
from agents.turn import Evidence, Turn

_CHUNKS_WHEN_SHORT = 4
_K = 8  # chunks kept at most (task 2's winner)

ASK = Ask("context_relevance", P_YES)


class Relevance(Stage):
    """Keeps the chunks that the chat model finds relevant, by P(yes) on each with the picture (task 2's winner, NVIDIA); one call."""

    name = "relevance"

    class Options(StageOptions):
        k_judged: int = Field(12, ge=1, description="chunks judged, the best of the ranking so far")
        threshold: float = Field(0.5, ge=0, le=1, description="least P(yes)")
        k_least: int = Field(
            0,
            ge=0,
            description="chunks kept at least, the best ones below the threshold; none for photos of smart glasses (960 x 1280 pixels)",
        )

    options: Options
    fills = ("evidence",)
    gathers = True
    doing = "choosing relevant evidence"
    asks = (ASK,)
    when_short = f"{_CHUNKS_WHEN_SHORT} chunks"
    min_seconds, wanted_seconds = 1.0, 3.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Replace ``evidence`` by the relevant chunks; keep the ranking of a turn if no chunk of it was judged."""
        limit = min(self.options.k_judged, _CHUNKS_WHEN_SHORT) if context.short else self.options.k_judged
        pairs = [(turn, chunk) for turn in turns for chunk in turn.evidence[:limit]]
        answers = context.put([Question(ASK, {**turn.values, "chunk": chunk}, (turn,)) for turn, chunk in pairs])
        for turn in turns:
            chunk_probabilities = [
                (chunk, one.value) for (other, chunk), one in zip(pairs, answers, strict=True) if other is turn
            ]
            judged = [
                chunk.with_score(probability) for chunk, probability in chunk_probabilities if probability is not None
            ]
            if judged:
                turn.evidence = self._select_chunks(turn, judged)
            turn.record(evidence=convert_to_record(turn.evidence[:limit]))
            turn.note(judged=len(judged))

    def _select_chunks(self, turn: Turn, chunks: Sequence[Evidence]) -> tuple[Evidence, ...]:
        options = self.options
        best = sort_by_score(chunks)
        passing = sum((chunk.score or 0.0) >= options.threshold for chunk in best)
        minimum = 0 if turn.egocentric else options.k_least  # both as in the winner's code
        return tuple(best[: min(_K, max(passing, minimum))])
