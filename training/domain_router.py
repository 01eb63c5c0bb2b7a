"""Fit the domain head (QA-Dragon, section 3.1.1) and print its cross-validated accuracy.

    python -m training.domain_router --dataset PATH --split validation --profile embedded --out presets/heads/domain_embedded.json

Features come from the profile's domain_classifier (its ``features`` table), the zero-shot classifier beside it from its ``fallback``
table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import numpy as np
from PIL import Image
from pydantic import Field
from tqdm import tqdm

from agents.base.command_options import Flag
from agents.base.linear_head import LinearHead, convert_rows
from agents.base.printing import print_text
from agents.base_agent import Message
from agents.english.references import resolve
from agents.methods.domains import load_domains
from agents.models.base import DomainClassifier, FloatArray, QuestionImageFeatures
from agents.models.pixels import to_rgb
from agents.models.registry import ModelRegistry
from agents.profiles.profile import load_profile
from evaluation.data.crag_dataset import DatasetType, load
from training.chat_examples import TrainingDataError
from training.command_line import SplitOptions, run_command
from training.logistic import compute_rates, cross_validate, describe_training_data, fit, save
from training.public_test import TEST_SPLIT

TYPES: tuple[DatasetType, ...] = get_args(DatasetType)
_BATCH = 16
_STRENGTH = 3.0  # inverse L2 regularisation


@dataclass(frozen=True)
class DomainExample:
    """A question as the domain stage sees it: standalone, as if the earlier answers had been right."""

    session_id: str
    interaction_id: str
    question: str
    domain: str
    image: Image.Image | None
    photo: str = ""  # the same in all sessions about it; "" if unknown

    @property
    def group(self) -> str:
        """Return the name of the unit that a division keeps together: the photo, or the session if that is unknown."""
        return self.photo or self.session_id


class DomainRouterOptions(SplitOptions):
    """Options of the head's training data."""

    dataset_type: Literal["single-turn", "multi-turn", "both"] = Field("both", description="data set to fit to")
    profile: str = Field("embedded", description="profile whose domain_classifier is fitted")
    measure: Annotated[str | None, Flag(metavar="SPLIT")] = Field(
        None, description="another split to measure the finished head on, once"
    )


def read_domains(options: SplitOptions, types: Sequence[DatasetType], split: str) -> list[DomainExample]:
    """Read all labelled turns of a split of the options' data sets.

    Raises:
        evaluation.records.EvaluationError: A data set cannot be loaded.
    """
    examples = []
    for dataset_type in types:
        place = (options.revision, options.dataset, options.cache, options.online)
        dataset = load(dataset_type, split, *place)
        for session in dataset.sessions:
            loaded = dataset.image(session).image
            image = to_rgb(loaded) if loaded is not None else None
            photo = dataset.identify_photo(session)
            history: list[Message] = []
            for turn in session.turns:
                if turn.domain:
                    ids, resolution = (session.session_id, turn.interaction_id), resolve(turn.query, tuple(history))
                    examples.append(DomainExample(*ids, resolution.question, turn.domain, image, photo))
                history.append({"role": "user", "content": turn.query})
                history.append({"role": "assistant", "content": turn.ground_truth})
    return examples


def name_training_data(options: SplitOptions) -> str:
    """Return the name of the data for a head's file.

    Raises:
        TrainingDataError: The split is the test split.
    """
    if options.split == TEST_SPLIT:
        raise TrainingDataError(f"nothing is trained on {TEST_SPLIT}")
    name = options.dataset.name if options.dataset is not None else "crag-mm"
    return f"{name} {options.revision} {options.split}"


def extract_features(extractor: QuestionImageFeatures, examples: Sequence[DomainExample]) -> FloatArray:
    """Compute the features of all examples, shape (examples, features)."""
    return np.concatenate([extractor.features(*batch) for batch in _iterate_batches(examples, "features")])


def _iterate_batches(
    examples: Sequence[DomainExample], description: str
) -> Iterator[tuple[list[Image.Image | None], list[str]]]:
    """Yield pictures and questions, a batch at a time."""
    for start in tqdm(range(0, len(examples), _BATCH), desc=description, unit="batch", disable=None):
        batch = examples[start : start + _BATCH]
        yield [example.image for example in batch], [example.question for example in batch]


def describe_head(
    head: LinearHead, extractor: str, examples: Sequence[DomainExample], data: str, accuracy: dict[str, float]
) -> LinearHead:
    """Return a head in float32 with its feature extractor, its training data and its accuracy."""
    return head.model_copy(
        update={
            "coefficients": convert_rows(np.asarray(head.coefficients, dtype=np.float32)),
            "intercept": convert_rows(np.asarray([head.intercept], dtype=np.float32))[0],
            "extractor": extractor,
            "fitted_on": describe_training_data(
                data, [(item.interaction_id, item.question, item.domain) for item in examples]
            ),
            "accuracy": accuracy,
        }
    )


def run(options: DomainRouterOptions) -> None:
    """Read the data, fit, measure, write and report.

    Raises:
        One of ``command_line.FAILURES``: Something is missing.
    """
    types = TYPES if options.dataset_type == "both" else (options.dataset_type,)
    data = f"{name_training_data(options)} ({', '.join(types)})"
    spec = load_profile(options.profile).models.get("domain_classifier", {})
    if "features" not in spec:
        raise TrainingDataError(f"profile {options.profile!r} has no domain_classifier with a table 'features'")
    descriptions = {domain.name: domain.description for domain in load_domains().values()}
    registry = ModelRegistry(options.cache, domains=descriptions)
    extractor: QuestionImageFeatures = registry.load(spec["features"])
    examples = read_domains(options, types, options.split)
    if not examples:
        raise TrainingDataError("the data set has no turn with a domain; take one with the column `domain`")
    labels = [example.domain for example in examples]
    features = extract_features(extractor, examples)
    accuracy = cross_validate(features, labels, [example.group for example in examples], strength=_STRENGTH)
    if "fallback" in spec:
        zero_shot: DomainClassifier = registry.load(spec["fallback"])
        guesses = [
            each[0].name for batch in _iterate_batches(examples, "zero-shot") for each in zero_shot.classify(*batch)
        ]
        accuracy |= compute_rates("zero_shot", guesses, labels)
    fitted = fit(features, labels, strength=_STRENGTH)
    head = describe_head(fitted, extractor.name, examples, data, accuracy)
    if options.measure:
        others = read_domains(options, types, options.measure)
        rates = compute_rates(
            "", head.predict(extract_features(extractor, others)), [example.domain for example in others]
        )
        measured = {f"{options.measure}{name or '_accuracy'}": value for name, value in rates.items()}
        head = head.model_copy(update={"accuracy": {**accuracy, **measured}})
    print_text(f"{len(examples)} questions, {len(head.classes)} domains, features: {extractor.name}")
    save(head, options.out, "head")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_command(run, DomainRouterOptions, arguments, __doc__)


if __name__ == "__main__":
    raise SystemExit(main())
