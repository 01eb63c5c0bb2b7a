"""The data set that a run answered: accepted answers, of the questions that it still asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.files.manifest import read_manifest
from evaluation.records import AnsweredTurn

if TYPE_CHECKING:
    from evaluation.data.crag_dataset import CragDataset

SelectAccept = Callable[[Sequence[AnsweredTurn]], Mapping[str, Sequence[str]]]
"""Returns the accept forms of those turns whose question and truth are a data set's, by interaction_id."""


def load_run_dataset(run: Path, dataset: Path, cache: Path) -> CragDataset:
    """Load the data set that a run noted from a local folder.

    Raises:
        EvaluationError: The run does not say which data set it answered, or that cannot be loaded (``crag_dataset.load``).
    """
    from evaluation.data.crag_dataset import load, parse_dataset_name  # its library takes a second to import

    kind, revision, split = parse_dataset_name(str(read_manifest(run).get("dataset", "")))
    return load(kind, split, revision, dataset, cache)


def make_accept_selector(run: Path, dataset: Path | None, cache: Path) -> SelectAccept:
    """Return a function that loads the data set that a run noted and selects accept forms; none without a folder."""
    return lambda turns: {} if dataset is None else load_run_dataset(run, dataset, cache).select_accept(turns)
