"""Fits the domain head (QA-Dragon, section 3.1.1) and says what it is worth.

    python -m training.domain_router --dataset PATH --split validation --profile embedded --out presets/heads/domain_embedded.json

Writes OUT and, with --figure, the confusion matrix of the cross-validation. Features come from the profile's
domain_classifier (its ``features`` table), the zero-shot classifier beside it from its ``fallback`` table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
from tqdm import tqdm

from agents.launch import DEFAULT_CACHE
from agents.linear_head import LinearHead, rows_of
from agents.methods.domains import load_domains
from agents.models.base import DomainClassifier, FloatArray, ModelError, QuestionImageFeatures
from agents.models.registry import ModelRegistry
from agents.settings import SettingsError, load_profile
from evaluation.data.crag_dataset import DatasetType
from evaluation.records import DEFAULT_REVISION, EvaluationError
from training.confusion import plot_confusion
from training.data_hash import training_hash
from training.domain_examples import DomainExample, read_examples
from training.logistic import TrainingError, accuracy, cross_validate, fit, macro_recall

TYPES: tuple[DatasetType, ...] = get_args(DatasetType)
_BATCH = 16


def features_of(extractor: QuestionImageFeatures, examples: Sequence[DomainExample], progress: bool) -> FloatArray:
    """The features of all examples, shape (examples, features)."""
    rows = []
    for start in tqdm(range(0, len(examples), _BATCH), desc="features", unit="batch", disable=not progress):
        batch = examples[start : start + _BATCH]
        rows.append(extractor.features([example.image for example in batch], [example.question for example in batch]))
    return np.concatenate(rows)


def classified(classifier: DomainClassifier, examples: Sequence[DomainExample], progress: bool) -> list[str]:
    """The likeliest domain of each example."""
    found: list[str] = []
    for start in tqdm(range(0, len(examples), _BATCH), desc="zero-shot", unit="batch", disable=not progress):
        batch = examples[start : start + _BATCH]
        scored = classifier.classify([example.image for example in batch], [example.question for example in batch])
        found.extend(labels[0].name for labels in scored)
    return found


def train(
    examples: Sequence[DomainExample],
    extractor: QuestionImageFeatures,
    zero_shot: DomainClassifier | None,
    *,
    trained_on: str,
    strength: float,
    folds: int = 5,
    seed: int = 0,
    progress: bool = False,
) -> tuple[LinearHead, tuple[str, ...]]:
    """The head fitted to all examples, and what cross-validation predicted for each.

    Raises:
        TrainingError: There are too few sessions or domains.
    """
    if not examples:
        raise TrainingError("the data set has no turn with a domain")
    labels = [example.domain for example in examples]
    features = features_of(extractor, examples, progress)
    held_out = cross_validate(
        features,
        labels,
        [example.session_id for example in examples],
        strength=strength,
        folds=folds,
        seed=seed,
        progress=progress,
    )
    measured = {
        "cross_validated": accuracy(held_out.predicted, labels),
        "cross_validated_macro_recall": macro_recall(held_out.predicted, labels),
        "majority": accuracy(held_out.majority, labels),
    }
    if zero_shot is not None:
        guesses = classified(zero_shot, examples, progress)
        measured |= {"zero_shot": accuracy(guesses, labels), "zero_shot_macro_recall": macro_recall(guesses, labels)}
    head = described(
        fit(features, labels, strength=strength, seed=seed), extractor.name, examples, trained_on, measured
    )
    return head, held_out.predicted


def described(
    head: LinearHead, extractor: str, examples: Sequence[DomainExample], trained_on: str, measured: Mapping[str, float]
) -> LinearHead:
    """A head in float32, with the name of what makes its features, what it was fitted to and what was measured."""
    hashed = training_hash([(item.interaction_id, item.question, item.domain) for item in examples])
    return head.model_copy(
        update={
            "coefficients": rows_of(np.asarray(head.coefficients, dtype=np.float32)),
            "intercept": rows_of(np.asarray([head.intercept], dtype=np.float32))[0],
            "extractor": extractor,
            "fitted_on": {"data": trained_on, "examples": len(examples), "training_hash": hashed},
            "accuracy": {name: round(value, 4) for name, value in measured.items()},
        }
    )


def measure(
    head: LinearHead, examples: Sequence[DomainExample], extractor: QuestionImageFeatures, progress: bool
) -> dict[str, float]:
    """Accuracy and macro recall of a finished head on examples it was not fitted to."""
    predicted = head.predict(features_of(extractor, examples, progress))
    labels = [example.domain for example in examples]
    return {"accuracy": accuracy(predicted, labels), "macro_recall": macro_recall(predicted, labels)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.domain_router",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dataset", type=Path, help="local folder of the data sets; default: the hub's CRAG-MM")
    parser.add_argument("--dataset-type", choices=[*TYPES, "both"], default="both", help="default: both")
    parser.add_argument("--split", default="validation", help="split to fit to (default: validation)")
    parser.add_argument("--revision", default=DEFAULT_REVISION, help=f"data set revision (default: {DEFAULT_REVISION})")
    parser.add_argument(
        "--profile", default="embedded", help="profile whose domain_classifier is fitted (default: embedded)"
    )
    parser.add_argument("--out", type=Path, required=True, help="where the head goes (JSON)")
    parser.add_argument("--figure", type=Path, help="PNG of the confusion matrix of the cross-validation")
    parser.add_argument("--measure", metavar="SPLIT", help="another split to measure the finished head on, once")
    parser.add_argument("--strength", type=float, default=3.0, help="inverse L2 regularisation C (default: 3)")
    parser.add_argument("--folds", type=int, default=5, help="folds of the cross-validation (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="of folds and solver (default: 0)")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="folder for converted tables and weights")
    parser.add_argument("--online", action="store_true", help="fetch pictures that are given by URL")
    parser.add_argument("--no-progress", action="store_true", help="no progress bars")
    return parser


def run(arguments: argparse.Namespace) -> None:
    """Read, fit, measure, write and report.

    Raises:
        EvaluationError, ModelError, SettingsError, TrainingError: Something is missing; the message says what.
    """
    progress = not arguments.no_progress
    types = TYPES if arguments.dataset_type == "both" else (arguments.dataset_type,)
    spec = load_profile(arguments.profile).models.get("domain_classifier", {})
    if "features" not in spec:
        raise TrainingError(f"profile {arguments.profile!r} has no domain_classifier with a table 'features'")
    descriptions = {domain.name: domain.description for domain in load_domains().values()}
    registry = ModelRegistry(arguments.cache, domains=descriptions)
    extractor: QuestionImageFeatures = registry.load(spec["features"])
    zero_shot: DomainClassifier | None = registry.load(spec["fallback"]) if "fallback" in spec else None

    def examples_of(split: str) -> list[DomainExample]:
        return read_examples(arguments.dataset, types, split, arguments.revision, arguments.cache, arguments.online)

    name = arguments.dataset.name if arguments.dataset is not None else "crag-mm"
    head, predicted = train(
        examples := examples_of(arguments.split),
        extractor,
        zero_shot,
        trained_on=f"{name} {arguments.revision} {arguments.split} ({', '.join(types)})",
        strength=arguments.strength,
        folds=arguments.folds,
        seed=arguments.seed,
        progress=progress,
    )
    if arguments.measure:
        found = measure(head, examples_of(arguments.measure), extractor, progress)
        scores = {f"{arguments.measure}_{key}": round(value, 4) for key, value in found.items()}
        head = head.model_copy(update={"accuracy": {**head.accuracy, **scores}})
    head.save(arguments.out)
    if arguments.figure is not None:
        title = f"Domains by {extractor.name}, cross-validated on {arguments.split}"
        plot_confusion(predicted, [example.domain for example in examples], title, arguments.figure)
    print(f"{len(examples)} questions, {len(head.classes)} domains, features: {extractor.name}")
    for what, value in head.accuracy.items():
        print(f"  {what:32s}{value:7.1%}")
    print(f"head: {arguments.out}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    try:
        run(_parser().parse_args(arguments))
    except (EvaluationError, ModelError, SettingsError, TrainingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
