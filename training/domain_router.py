"""Fits the domain head (QA-Dragon, section 3.1.1) and says what it is worth.

    python -m training.domain_router --dataset PATH --split validation --profile embedded --out presets/heads/domain_embedded.json

Writes OUT and, with --figure, the confusion matrix of the cross-validation. Features come from the profile's
domain_classifier (its ``features`` table), the zero-shot classifier beside it from its ``fallback`` table.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import matplotlib.figure
import numpy as np
from PIL import Image
from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix
from tqdm import tqdm

from agents.base_agent import Message
from agents.linear_head import LinearHead, rows_of
from agents.methods.domains import load_domains
from agents.methods.references import resolve
from agents.models.base import DomainClassifier, FloatArray, QuestionImageFeatures
from agents.models.pixels import to_rgb
from agents.models.registry import ModelRegistry
from agents.settings import load_profile
from evaluation.data.crag_dataset import DatasetType, load
from training.chat_examples import TrainingDataError
from training.command_line import parser_of, run_command
from training.logistic import cross_validate, fit, fitted_on, rates, save

TYPES: tuple[DatasetType, ...] = get_args(DatasetType)
_BATCH = 16


@dataclass(frozen=True)
class DomainExample:
    """A question as the domain stage sees it: made to stand alone, as if the earlier answers had been right."""

    session_id: str
    interaction_id: str
    question: str
    domain: str
    image: Image.Image | None


def read_domains(arguments: argparse.Namespace, types: Sequence[DatasetType], split: str) -> list[DomainExample]:
    """All labelled turns of a split of the data sets that the command line names.

    Raises:
        evaluation.records.EvaluationError: A data set cannot be loaded.
    """
    examples = []
    for dataset_type in types:
        place = (arguments.revision, arguments.dataset, arguments.cache, arguments.online)
        dataset = load(dataset_type, split, *place)
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


def trained_on(arguments: argparse.Namespace) -> str:
    """The name of the data in a head's file."""
    name = arguments.dataset.name if arguments.dataset is not None else "crag-mm"
    return f"{name} {arguments.revision} {arguments.split}"


def features_of(
    extractor: QuestionImageFeatures, examples: Sequence[DomainExample], progress: bool = False
) -> FloatArray:
    """The features of all examples, shape (examples, features)."""
    rows = [
        extractor.features([example.image for example in batch], [example.question for example in batch])
        for batch in _batches(examples, "features", progress)
    ]
    return np.concatenate(rows)


def classified(classifier: DomainClassifier, examples: Sequence[DomainExample], progress: bool) -> list[str]:
    """The likeliest domain of each example."""
    return [
        labels[0].name
        for batch in _batches(examples, "zero-shot", progress)
        for labels in classifier.classify([example.image for example in batch], [example.question for example in batch])
    ]


def _batches(examples: Sequence[DomainExample], what: str, progress: bool) -> tqdm[Sequence[DomainExample]]:
    batches = [examples[start : start + _BATCH] for start in range(0, len(examples), _BATCH)]
    return tqdm(batches, desc=what, unit="batch", disable=not progress)


def described(
    head: LinearHead, extractor: str, examples: Sequence[DomainExample], data: str, accuracy: dict[str, float]
) -> LinearHead:
    """A head in float32, with the name of what makes its features, what it was fitted to and what was measured."""
    return head.model_copy(
        update={
            "coefficients": rows_of(np.asarray(head.coefficients, dtype=np.float32)),
            "intercept": rows_of(np.asarray([head.intercept], dtype=np.float32))[0],
            "extractor": extractor,
            "fitted_on": fitted_on(data, [(item.interaction_id, item.question, item.domain) for item in examples]),
            "accuracy": accuracy,
        }
    )


def plot_confusion(predicted: Sequence[str], labels: Sequence[str], title: str, path: Path) -> None:
    """Write a PNG: rows are the true classes, cells count examples, colours are shares of the row."""
    names = sorted(set(labels) | set(predicted))
    counts = confusion_matrix(labels, predicted, labels=names)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = 2.5 + 0.42 * len(names)
    figure = matplotlib.figure.Figure(figsize=(side + 0.8, side), layout="constrained")
    shown = ConfusionMatrixDisplay(shares, display_labels=names)
    shown.plot(ax=figure.subplots(), cmap="Blues", xticks_rotation=60, colorbar=False)
    for cell, count in zip(shown.text_.flat, counts.flat, strict=True):
        cell.set_text(str(count) if count else "")
    shown.ax_.set(xlabel="predicted", ylabel="label of the data set", title=title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def run(arguments: argparse.Namespace) -> None:
    """Read, fit, measure, write and report.

    Raises:
        EvaluationError, ModelError, SettingsError, TrainingDataError: Something is missing; the message says what.
    """
    progress = not arguments.no_progress
    types = TYPES if arguments.dataset_type == "both" else (arguments.dataset_type,)
    spec = load_profile(arguments.profile).models.get("domain_classifier", {})
    if "features" not in spec:
        raise TrainingDataError(f"profile {arguments.profile!r} has no domain_classifier with a table 'features'")
    descriptions = {domain.name: domain.description for domain in load_domains().values()}
    registry = ModelRegistry(arguments.cache, domains=descriptions)
    extractor: QuestionImageFeatures = registry.load(spec["features"])
    examples = read_domains(arguments, types, arguments.split)
    if not examples:
        raise TrainingDataError("the data set has no turn with a domain")
    labels = [example.domain for example in examples]
    features = features_of(extractor, examples, progress)
    strength, seed = arguments.strength, arguments.seed
    sessions = [example.session_id for example in examples]
    predicted, accuracy = cross_validate(
        features, labels, sessions, strength=strength, folds=arguments.folds, seed=seed
    )
    if "fallback" in spec:
        accuracy |= rates("zero_shot", classified(registry.load(spec["fallback"]), examples, progress), labels)
    fitted = fit(features, labels, strength=strength, seed=seed)
    data = f"{trained_on(arguments)} ({', '.join(types)})"
    head = described(fitted, extractor.name, examples, data, accuracy)
    if arguments.measure:
        others = read_domains(arguments, types, arguments.measure)
        guesses = head.predict(features_of(extractor, others, progress))
        found = rates(arguments.measure, guesses, [example.domain for example in others])
        found = {f"{arguments.measure}_accuracy": found.pop(arguments.measure), **found}
        head = head.model_copy(update={"accuracy": {**head.accuracy, **found}})
    if arguments.figure is not None:
        title = f"Domains by {extractor.name}, cross-validated on {arguments.split}"
        plot_confusion(predicted, labels, title, arguments.figure)
    print(f"{len(examples)} questions, {len(head.classes)} domains, features: {extractor.name}")
    save(head, arguments.out, "head")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    shared = (
        "--dataset",
        "--split",
        "--revision",
        "--out",
        "--strength",
        "--folds",
        "--seed",
        "--cache",
        "--online",
        "--no-progress",
    )
    parser = parser_of("domain_router", __doc__, *shared, strength=3.0)
    parser.add_argument("--dataset-type", choices=[*TYPES, "both"], default="both", help="default: both")
    parser.add_argument(
        "--profile", default="embedded", help="profile whose domain_classifier is fitted (default: embedded)"
    )
    parser.add_argument("--figure", type=Path, help="PNG of the confusion matrix of the cross-validation")
    parser.add_argument("--measure", metavar="SPLIT", help="another split to measure the finished head on, once")
    return run_command(run, parser, arguments)  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
