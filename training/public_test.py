"""Guard that keeps the test split out of training data.

It compares the name of the split, ids, and questions with their pictures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from agents.models.pixels import pixels_digest
from agents.runner.intake import decode_image, tidy
from evaluation.data.crag_dataset import DatasetType, load
from evaluation.records import EvaluationError
from training.chat_examples import TrainingDataError

TEST_SPLIT = "public_test"
TRAINING_SPLITS = frozenset({"validation", "train"})


@dataclass(frozen=True)
class TestContent:
    """Contents of the test split: ids of sessions and interactions, and questions with their pictures.

    A picture is its ``pixels_digest``; None: missing.
    """

    __test__ = False  # pytest takes a class of this name for a test case

    ids: frozenset[str]
    questions: frozenset[tuple[str, str | None]]

    def holds(self, ids: Iterable[str], query: str, photo: str | None) -> bool:
        """Return whether a turn is one of the test split, under its own ids or others."""
        return any(name in self.ids for name in ids) or (photo is not None and (query, photo) in self.questions)

    def asks(self, query: str) -> bool:
        """Return whether a question of the test split has these words, whatever its picture."""
        return any(tidy(query) == question for question, _ in self.questions)


def check_split(manifest: dict[str, Any], run: Path) -> None:
    """Check the split that a run answered, from its run.json.

    Raises:
        TrainingDataError: It is the test split, or unknown.
    """
    name = str(manifest.get("dataset", ""))
    split = name.rpartition("/")[2] if "/" in name else ""
    if split not in TRAINING_SPLITS:
        raise TrainingDataError(
            f"{run} answered split {split or 'unknown'!r} (data set {name or 'unknown'!r} in its run.json); training data come "
            f"from {' or '.join(sorted(TRAINING_SPLITS))} alone, never from {TEST_SPLIT}"
        )


def read_test_content(dataset: Path, revision: str, cache: Path) -> TestContent:
    """Read the test split of the data sets in a local folder.

    Raises:
        TrainingDataError: The folder has no test split.
    """
    ids: set[str] = set()
    questions: set[tuple[str, str | None]] = set()
    missing = []
    for kind in get_args(DatasetType):
        try:
            data = load(kind, TEST_SPLIT, revision, dataset, cache)
        except EvaluationError as error:
            missing.append(str(error))
            continue
        for session in data.sessions:
            image = data.image(session).image
            photo = pixels_digest(decode_image(image)) if image is not None else None
            ids.add(session.session_id)
            for turn in session.turns:
                ids.add(turn.interaction_id)
                questions.add((tidy(turn.query), photo))
    if not ids:
        raise TrainingDataError(f"{TEST_SPLIT} cannot be compared with: {'; '.join(missing)}")
    return TestContent(frozenset(ids), frozenset(questions))
