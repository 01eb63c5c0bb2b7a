"""*Answer shown*: the share of answerable questions whose accepted answer is in what the answer's prompt shows. It needs no model's answer.

Evidence that holds no answer cannot be answered from, so that this figure bounds what a method can answer by its search. It steers
retrieval, chunking and the choice of evidence without a chat model (``lab/benchmarks/answer_shown.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from agents.record import EvidenceFound, TurnRecord
from evaluation.scores.losses import Loss, Sighting, Source, find_loss, find_showing_stage, follow_answer, is_polar

CHARACTERS_PER_TOKEN = 4
"""As ``agents/evidence/shown.py`` counts the evidence of a prompt against ``limits.evidence_tokens``."""


@dataclass(frozen=True)
class ShownAnswer:
    """How far the accepted answer of a turn came.

    Attributes:
        loss: Where it was lost; None if the prompt shows it.
        tokens: Estimated tokens of the evidence that the prompt shows.
        sources: Names of the indexed sources that have it.
        sighting: The chunk with it that came farthest.
    """

    loss: Loss | None
    tokens: int
    sources: tuple[str, ...] = ()
    sighting: Sighting | None = None

    @property
    def is_shown(self) -> bool:
        """Whether the prompt shows an accepted answer."""
        return self.loss is None


def find_shown_answer(
    record: TurnRecord | None, answers: Sequence[str], indexed: Sequence[Source] | None = None
) -> ShownAnswer | None:
    """Return how far an accepted answer came.

    Returns:
        None for a turn that tells nothing: without a record, without accepted answers, or with a yes or a no, which no text holds.
    """
    if record is None or not record.stages or not answers or is_polar(answers):
        return None
    trail = follow_answer(record, answers, indexed)
    loss = find_loss(trail.way)
    showing = find_showing_stage(record)
    tokens = count_tokens(showing.evidence) if showing is not None else 0
    return ShownAnswer(None if loss is Loss.NOT_USED else loss, tokens, trail.sources, trail.sighting)


def count_tokens(chunks: Iterable[EvidenceFound]) -> int:
    """Estimate the tokens of chunks with their titles."""
    texts = (
        f"{chunk.title}: {chunk.text}" if chunk.title and chunk.source == "web" else chunk.text for chunk in chunks
    )
    return sum(-(-len(text) // CHARACTERS_PER_TOKEN) for text in texts)


@dataclass(frozen=True)
class ShownSummary:
    """Number of turns whose answer was shown, of all that can be told, with the losses and the mean tokens of evidence."""

    shown: int
    total: int
    tokens: float
    losses: Mapping[Loss, int]

    @property
    def share(self) -> float:
        """Share of the answers that were shown, 0 to 1; 0 for no turns."""
        return self.shown / self.total if self.total else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the summary as JSON."""
        return {
            "shown": self.shown,
            "total": self.total,
            "share": round(self.share, 4),
            "evidence_tokens": round(self.tokens, 1),
            "lost": {loss.value: count for loss, count in self.losses.items()},
        }

    def __str__(self) -> str:
        """Format the summary: ``answer shown: 29 of 35 (83%), evidence of 1,023 tokens; lost: 4 not found, 2 cut``."""
        lost = ", ".join(f"{count} {loss.value}" for loss, count in self.losses.items())
        figures = (
            f"answer shown: {self.shown} of {self.total} ({self.share:.0%}), evidence of {self.tokens:,.0f} tokens"
        )
        return figures + (f"; lost: {lost}" if lost else "")


def summarise_shown(answers: Iterable[ShownAnswer | None]) -> ShownSummary | None:
    """Summarise turns; None if none of them tells anything."""
    known = [each for each in answers if each is not None]
    if not known:
        return None
    counts = Counter(each.loss for each in known)
    losses = {loss: counts[loss] for loss in Loss if counts[loss]}
    return ShownSummary(counts[None], len(known), fmean(each.tokens for each in known), losses)
