"""What the model should have replied to each recorded request: its own right answer, a refusal, a query, yes or no."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from agents.turn import IDK
from training.chat_examples import Example
from training.collect import ANSWERING, RELEVANCE
from training.recipes import DataTable

Kind = Literal["answer", "refusal", "queries", "relevance"]


@dataclass(frozen=True)
class Sample:
    """A request and the reply to be learned."""

    example: Example
    reply: str
    kind: Kind


def samples_of(examples: Iterable[Example], data: DataTable) -> list[Sample]:
    """The samples of the tasks asked for, in the order of the examples.

    ``answer``: the model's own reply where it is right (or the reference answer, by choice), else "I don't know"; a share of the
    refusals is left out, chosen by the hash of their turn so that a greater share leaves out more of the same. ``queries``: the model's
    own queries where the turn ended right. ``relevance``: yes or no.
    """
    found = []
    for example in examples:
        sample = _sample(example, data)
        if sample is not None:
            found.append(sample)
    return found


def _sample(example: Example, data: DataTable) -> Sample | None:
    if example.stage in ANSWERING and "answer" in data.tasks:
        if example.reply_verdict == "correct":
            own = data.answers == "own"
            return Sample(example, example.reply if own else example.ground_truth, "answer")
        left_out = share_of(f"{example.session_id}/{example.interaction_id}") < data.refusals_left_out
        return None if left_out else Sample(example, IDK, "refusal")
    if example.stage == "queries" and "queries" in data.tasks and example.verdict == "correct" and example.reply:
        return Sample(example, example.reply, "queries")
    if example.stage == RELEVANCE and "relevance" in data.tasks:
        return Sample(example, example.reply, "relevance")
    return None


def share_of(name: str) -> float:
    """A number from 0 to below 1 by the SHA-256 of a name, the same on every machine."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32


def counts(samples: Sequence[Sample]) -> dict[str, int]:
    """How many samples there are of each kind."""
    return dict(sorted(Counter(sample.kind for sample in samples).items()))
