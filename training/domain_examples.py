"""Questions with pictures and domain labels out of CRAG-MM data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from agents.base_agent import Message
from agents.methods.references import resolve
from agents.models.pixels import to_rgb
from evaluation.data.crag_dataset import DatasetType, load


@dataclass(frozen=True)
class DomainExample:
    """A question as the domain stage sees it: made to stand alone, as if the earlier answers had been right."""

    session_id: str
    interaction_id: str
    question: str
    domain: str
    image: Image.Image | None


def read_examples(
    path: Path | None, types: Sequence[DatasetType], split: str, revision: str, cache: Path, online: bool = False
) -> list[DomainExample]:
    """All labelled turns of a split.

    Raises:
        evaluation.records.EvaluationError: A data set cannot be loaded.
    """
    examples = []
    for dataset_type in types:
        dataset = load(dataset_type, split, revision, path, cache, online)
        for session in dataset:
            loaded = dataset.image(session).image
            image = to_rgb(loaded) if loaded is not None else None
            history: list[Message] = []
            for turn in session.turns:
                if turn.domain:
                    question = resolve(turn.query, tuple(history)).question
                    examples.append(
                        DomainExample(session.session_id, turn.interaction_id, question, turn.domain, image)
                    )
                history.append({"role": "user", "content": turn.query})
                history.append({"role": "assistant", "content": turn.ground_truth})
    return examples
