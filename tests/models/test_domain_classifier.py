"""Domain classifiers on the real embedded encoders, and the files of a head."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from agents.base.cache_folder import DEFAULT_CACHE
from agents.base.linear_head import HeadError, LinearHead
from agents.methods.domains import load_domains
from agents.models.base import DomainClassifier, Label, ModelError, QuestionImageFeatures
from agents.models.domain_classifiers import (
    PICTURE_WEIGHT,
    TEMPERATURE,
    EmbeddedFeatures,
    HeadDomainClassifier,
    ZeroShotDomainClassifier,
)
from agents.models.encoders.text_encoder import TransformerTextEncoder, load_minilm
from agents.models.registry import ModelRegistry
from agents.models.vision.efficientnet import EfficientNetLite2
from training.logistic import fit

PHOTOS = Path(__file__).parents[2] / "mini_crag_mm" / "photos"
MINILM, EFFICIENTNET = {"kind": "minilm"}, {"kind": "efficientnet-lite2"}
LABELLED = [
    ("eiffel_tower", "How tall is this?", "sightseeing (local)"),
    ("brandenburg_gate", "Who built this?", "sightseeing (local)"),
    ("corvette_c5", "What engine does this have?", "vehicle"),
    ("fire_engine", "How fast is this?", "vehicle"),
    ("ani_giant_panda", "What does this eat?", "nature (animal)"),
    ("ani_giraffe", "How heavy is this?", "nature (animal)"),
]


@pytest.fixture(scope="module")
def minilm() -> TransformerTextEncoder:
    return load_minilm()


@pytest.fixture(scope="module")
def efficientnet() -> EfficientNetLite2:
    return EfficientNetLite2()


@pytest.fixture(scope="module")
def descriptions() -> Mapping[str, str]:
    return {domain.name: domain.description for domain in load_domains().values()}


@pytest.fixture(scope="module")
def photos() -> dict[str, Image.Image]:
    return {name: Image.open(PHOTOS / f"{name}.webp") for name, _, _ in LABELLED}


def assert_sound(scored: list[list[Label]], domains: set[str]) -> None:
    for labels in scored:
        assert {label.name for label in labels} == domains
        assert sum(label.probability for label in labels) == pytest.approx(1.0, abs=1e-5)
        probabilities = [label.probability for label in labels]
        assert probabilities == sorted(probabilities, reverse=True)


def test_the_fourteen_domains_each_admit_ignorance_once(descriptions: Mapping[str, str]) -> None:
    assert len(descriptions) == 14
    for domain in load_domains().values():
        assert len(domain.examples) >= 3
        assert all(example.steps[0].startswith("The exact name of the object") for example in domain.examples)
        assert sum(example.answer == "I don't know" for example in domain.examples) == 1


@pytest.mark.parametrize(
    ("question", "domain"),
    [
        ("Who wrote this novel and when was it published?", "book"),
        ("How often should I water this flower?", "plants and gardening"),
        ("Which breed is my dog?", "pets"),
        ("How much horsepower does this car have?", "vehicle"),
    ],
)
def test_zero_shot_by_the_question_alone(
    minilm: TransformerTextEncoder, descriptions: Mapping[str, str], question: str, domain: str
) -> None:
    classifier = ZeroShotDomainClassifier(minilm, domains=descriptions)
    scored = classifier.classify([None], [question])
    assert_sound(scored, set(descriptions))
    assert scored[0][0].name == domain


def test_zero_shot_looks_at_the_picture_where_the_question_says_nothing(
    minilm: TransformerTextEncoder,
    efficientnet: EfficientNetLite2,
    descriptions: Mapping[str, str],
    photos: dict[str, Image.Image],
) -> None:
    classifier = ZeroShotDomainClassifier(minilm, efficientnet, domains=descriptions)
    assert isinstance(classifier, DomainClassifier)
    scored = classifier.classify([photos["fire_engine"], photos["ani_giraffe"], None], ["What is this?"] * 3)
    assert_sound(scored, set(descriptions))
    assert [labels[0].name for labels in scored[:2]] == ["vehicle", "nature (animal)"]
    alone = ZeroShotDomainClassifier(minilm, domains=descriptions).classify([None], ["What is this?"])[0]
    assert [label.name for label in scored[2]] == [label.name for label in alone]


class _Sight:
    """Sees what the colour of a picture's first pixel says: a row of cosines."""

    name = "sight"

    def similarity(self, images: Sequence[Image.Image], texts: Sequence[str]) -> Any:
        indices = [image.getpixel((0, 0))[0] for image in images]
        return np.array(
            [[0.4 if place == index else 0.1 for place in range(len(texts))] for index in indices], np.float32
        )


class _Blind:
    """All texts are alike."""

    name = "blind"

    def encode(self, texts: Sequence[str]) -> Any:
        return np.ones((len(texts), 1), dtype=np.float32)


def test_a_model_that_compares_pictures_with_texts_says_what_the_picture_is_about() -> None:
    classifier = ZeroShotDomainClassifier(_Blind(), sight=_Sight(), domains={"a": "1", "b": "2", "c": "3"})
    pictures = [Image.new("RGB", (4, 4), (index, 0, 0)) for index in (2, 1)]
    second, none, first = classifier.classify([pictures[0], None, pictures[1]], ["What is this?"] * 3)
    assert (second[0].name, first[0].name) == ("c", "b")
    # the others are 0.3 x 0.75 behind, over a temperature of 0.07
    assert second[0].probability == pytest.approx(1 / (1 + 2 * math.exp(-0.3 * PICTURE_WEIGHT / TEMPERATURE)), rel=1e-4)
    assert [label.probability for label in none] == pytest.approx([1 / 3] * 3)


def test_under_gpu_the_picture_counts_before_a_head_is_fitted() -> None:
    from agents.profiles.profile import load_profile

    spec = load_profile("gpu").models["domain_classifier"]
    assert spec["fallback"]["sight"] == spec["features"], "one model in memory"


def test_an_empty_batch_is_empty_and_a_crooked_one_is_an_error(
    minilm: TransformerTextEncoder, efficientnet: EfficientNetLite2, descriptions: Mapping[str, str]
) -> None:
    classifier = ZeroShotDomainClassifier(minilm, efficientnet, domains=descriptions)
    assert classifier.classify([], []) == []
    with pytest.raises(ValueError, match="2 images for 1"):
        classifier.classify([None, None], ["What is this?"])


def test_a_zero_shot_classifier_needs_descriptions(minilm: TransformerTextEncoder, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="description"):
        ZeroShotDomainClassifier(minilm, domains={})
    with pytest.raises(ModelError, match="needs domains"):
        ModelRegistry(tmp_path).load({"kind": "domain-zero-shot", "encoder": MINILM})


def a_head(coefficients: list[list[float]], extractor: str = "f") -> LinearHead:
    return LinearHead(
        classes=("pets", "vehicle"), coefficients=coefficients, intercept=[0.0] * len(coefficients), extractor=extractor
    )


def test_a_head_on_real_features_survives_its_files(
    tmp_path: Path, minilm: TransformerTextEncoder, efficientnet: EfficientNetLite2, photos: dict[str, Image.Image]
) -> None:
    extractor = EmbeddedFeatures(minilm, efficientnet)
    assert isinstance(extractor, QuestionImageFeatures)
    images, questions = [photos[name] for name, _, _ in LABELLED], [question for _, question, _ in LABELLED]
    features = extractor.features(images, questions)
    assert features.shape == (6, 384 + 1280)
    head = fit(features, [domain for _, _, domain in LABELLED], strength=100.0)
    head.model_copy(update={"extractor": extractor.name}).save(tmp_path / "heads" / "v1.json")
    classifier = HeadDomainClassifier(extractor, LinearHead.load(tmp_path / "heads" / "v1.json"))
    scored = classifier.classify(images, questions)
    assert_sound(scored, {domain for _, _, domain in LABELLED})
    assert [labels[0].name for labels in scored] == [domain for _, _, domain in LABELLED]
    assert_sound(classifier.classify([None], ["How fast is this?"]), {domain for _, _, domain in LABELLED})
    assert classifier.classify([], []) == []


def test_a_missing_picture_is_zeros_and_the_rest_stays_in_its_row(
    minilm: TransformerTextEncoder, efficientnet: EfficientNetLite2, photos: dict[str, Image.Image]
) -> None:
    features = EmbeddedFeatures(minilm, efficientnet).features([None, photos["ani_giraffe"]], ["a", "b"])
    assert not features[0, 384:].any()
    assert np.linalg.norm(features[1, 384:]) == pytest.approx(1.0, abs=1e-4)


def test_a_head_survives_its_file_to_the_last_digit(tmp_path: Path) -> None:
    head = LinearHead(
        classes=("a", "b", "c"),
        coefficients=[[0.1, 1e-30, -3.0], [1 / 3, 2.0, 0.0], [5.0, 6.0, 7.0]],
        intercept=[0.0, 1.0, -1e9],
        features=("x", "y", "z"),
        fitted_on={"data": "by hand"},
    )
    head.save(tmp_path / "head.json")
    assert LinearHead.load(tmp_path / "head.json") == head
    assert len((tmp_path / "head.json").read_text().splitlines()) < 20


def test_one_row_of_two_classes_and_missing_values() -> None:
    head = LinearHead(
        classes=("no", "yes"), coefficients=[[2.0, 1.0]], intercept=[0.5], mean=[1.0, 3.0], scale=[0.5, 1.0]
    )
    rows = head.probabilities(np.array([[1.0, 3.0], [1.5, math.nan], [math.inf, 2.0]]))
    np.testing.assert_allclose(rows[:, 1], [1 / (1 + math.exp(-odds)) for odds in (0.5, 2.5, -0.5)])
    np.testing.assert_allclose(rows.sum(axis=1), 1.0)
    assert head.predict(np.array([[0.0, 0.0]])) == ["no"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": ["a", "b", "c"]}, "3 classes, 2 rows"),
        ({"classes": ["a", "a"]}, "is given twice"),
        ({"coefficients": [[1.0, 0.0], [0.0]]}, "needs 2 numbers"),
        ({"intercept": [1.0]}, "1 intercepts"),
        ({"intercept": [math.nan, 0.0]}, "finite"),
        ({"scale": [1.0, 0.0]}, "has to be above 0"),
        ({"features": ["x"]}, "1 in features"),
        ({"weights": 1}, "Extra"),
        (None, "malformed"),
    ],
)
def test_a_malformed_head_is_named(tmp_path: Path, changes: dict[str, Any] | None, message: str) -> None:
    path = tmp_path / "head.json"
    a_head([[1.0, 0.0], [0.0, 1.0]]).save(path)
    content = json.dumps({**json.loads(path.read_text()), **changes}) if changes is not None else '{"classes": ['
    path.write_text(content, encoding="utf-8")
    with pytest.raises(HeadError, match=rf"(?s)head\.json is malformed.*{message}|{message}.*head\.json"):
        LinearHead.load(path)


def test_a_head_is_held_to_its_features(minilm: TransformerTextEncoder, efficientnet: EfficientNetLite2) -> None:
    extractor = EmbeddedFeatures(minilm, efficientnet)
    with pytest.raises(ModelError, match="fitted to"):
        HeadDomainClassifier(extractor, a_head([[1.0], [2.0]]))
    short = HeadDomainClassifier(extractor, a_head([[1.0], [2.0]], extractor.name))
    with pytest.raises(ModelError, match="1664"):
        short.classify([None], ["What is this?"])


def test_the_registry_falls_back_to_zero_shot_where_there_is_no_head(
    tmp_path: Path, descriptions: Mapping[str, str]
) -> None:
    spec = {
        "kind": "domain-head",
        "head": str(tmp_path / "head.json"),
        "features": {"kind": "domain-features", "text": MINILM, "images": EFFICIENTNET},
        "fallback": {"kind": "domain-zero-shot", "encoder": MINILM},
    }
    registry = ModelRegistry(tmp_path, domains=descriptions)
    assert isinstance(registry.load(spec), ZeroShotDomainClassifier)
    with pytest.raises(ModelError, match="cannot be read"):
        ModelRegistry(tmp_path).load({key: value for key, value in spec.items() if key != "fallback"})
    a_head([[1.0], [2.0]], "all-minilm-l6-v2 + efficientnet-lite2").save(tmp_path / "head.json")
    assert isinstance(ModelRegistry(tmp_path, domains=descriptions).load(spec), HeadDomainClassifier)
    (tmp_path / "head.json").write_text("{")
    with pytest.raises(ModelError, match="malformed"):
        ModelRegistry(tmp_path, domains=descriptions).load(spec)


def test_the_embedded_profile_classifies() -> None:
    from agents.profiles.model_set import ModelSet
    from agents.profiles.profile import load_profile

    domain_descriptions = {domain.name: domain.description for domain in load_domains().values()}
    models = ModelSet(load_profile("embedded"), DEFAULT_CACHE, domains=domain_descriptions)
    photo = Image.open(PHOTOS / "fire_engine.webp")
    assert models.domain_classifier.classify([photo], ["How fast can this truck drive?"])[0][0].name == "vehicle"
