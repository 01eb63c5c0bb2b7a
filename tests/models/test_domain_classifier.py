"""Domain classifiers on the real embedded encoders, and the files of a head."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from agents.methods.domains import load_domains
from agents.models.base import Label, ModelError
from agents.models.domain_classifier import DomainClassifier, ZeroShotDomainClassifier
from agents.models.domain_features import EmbeddedFeatures, QuestionImageFeatures
from agents.models.domain_head import DomainHead, HeadDomainClassifier, HeadMetadata, head_files, weights_hash
from agents.models.encoders.minilm import load_minilm
from agents.models.encoders.text_encoder import TransformerTextEncoder
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
    classifier = ZeroShotDomainClassifier(minilm, None, descriptions)
    scored = classifier.classify([None], [question])
    assert_sound(scored, set(descriptions))
    assert scored[0][0].name == domain


def test_zero_shot_looks_at_the_picture_where_the_question_says_nothing(
    minilm: TransformerTextEncoder,
    efficientnet: EfficientNetLite2,
    descriptions: Mapping[str, str],
    photos: dict[str, Image.Image],
) -> None:
    classifier = ZeroShotDomainClassifier(minilm, efficientnet, descriptions)
    assert isinstance(classifier, DomainClassifier)
    scored = classifier.classify([photos["fire_engine"], photos["ani_giraffe"], None], ["What is this?"] * 3)
    assert_sound(scored, set(descriptions))
    assert [labels[0].name for labels in scored[:2]] == ["vehicle", "nature (animal)"]
    alone = ZeroShotDomainClassifier(minilm, None, descriptions).classify([None], ["What is this?"])[0]
    assert [label.name for label in scored[2]] == [label.name for label in alone]


def test_an_empty_batch_is_empty_and_a_crooked_one_is_an_error(
    minilm: TransformerTextEncoder, efficientnet: EfficientNetLite2, descriptions: Mapping[str, str]
) -> None:
    classifier = ZeroShotDomainClassifier(minilm, efficientnet, descriptions)
    assert classifier.classify([], []) == []
    with pytest.raises(ValueError, match="2 images for 1"):
        classifier.classify([None, None], ["What is this?"])


def test_a_zero_shot_classifier_needs_descriptions(minilm: TransformerTextEncoder, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="description"):
        ZeroShotDomainClassifier(minilm, None, {})
    with pytest.raises(ModelError, match="temperature"):
        ZeroShotDomainClassifier(minilm, None, {"pets": "dogs"}, temperature=0)
    with pytest.raises(ModelError, match="descriptions"):
        ModelRegistry(tmp_path).load({"kind": "domain-zero-shot", "encoder": MINILM})


def a_head(
    coefficients: list[list[float]], classes: tuple[str, ...] = ("pets", "vehicle"), features: str = "f"
) -> DomainHead:
    matrix, intercept = np.array(coefficients, np.float32), np.zeros(len(coefficients), np.float32)
    metadata = HeadMetadata(
        features=features, classes=classes, trained_on="by hand", examples=2, training_hash="none",
        weights_hash=weights_hash(matrix, intercept),
    )  # fmt: skip
    return DomainHead(matrix, intercept, metadata)


def test_a_head_on_real_features_survives_its_files(
    tmp_path: Path, minilm: TransformerTextEncoder, efficientnet: EfficientNetLite2, photos: dict[str, Image.Image]
) -> None:
    extractor = EmbeddedFeatures(minilm, efficientnet)
    assert isinstance(extractor, QuestionImageFeatures)
    images, questions = [photos[name] for name, _, _ in LABELLED], [question for _, question, _ in LABELLED]
    features = extractor.features(images, questions)
    assert features.shape == (6, 384 + 1280)
    linear = fit(features, [domain for _, _, domain in LABELLED], strength=100.0)
    coefficients, intercept = linear.coefficients.astype(np.float32), linear.intercept.astype(np.float32)
    metadata = HeadMetadata(
        features=extractor.name, classes=linear.classes, trained_on="six photos", examples=6, training_hash="x",
        weights_hash=weights_hash(coefficients, intercept),
    )  # fmt: skip
    DomainHead(coefficients, intercept, metadata).save(tmp_path / "head.v1")
    classifier = HeadDomainClassifier(extractor, DomainHead.load(tmp_path / "head.v1"))
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


def spoil(path: Path, how: str) -> None:
    arrays, metadata = head_files(path)
    if how == "no weights":
        arrays.unlink()
    elif how == "no metadata":
        metadata.unlink()
    elif how == "not an archive":
        arrays.write_bytes(b"PK\x03\x04 and then nothing")
    elif how == "cut off":
        arrays.write_bytes(arrays.read_bytes()[:-80])
    elif how == "not JSON":
        metadata.write_text("{", encoding="utf-8")
    elif how == "pickled":
        objects = np.empty(1, dtype=object)
        objects[0] = {"run": "me"}
        np.savez(arrays, coefficients=objects, intercept=objects)
    elif how == "no intercept":
        np.savez(arrays, coefficients=np.zeros((2, 2)))
    elif how == "other classes":
        content = json.loads(metadata.read_text(encoding="utf-8"))
        metadata.write_text(json.dumps(content | {"classes": ["a", "b", "c"]}), encoding="utf-8")
    elif how == "other weights":
        np.savez(arrays, coefficients=np.ones((2, 2)), intercept=np.ones(2))
    elif how == "not finite":
        np.savez(arrays, coefficients=np.full((2, 2), np.nan), intercept=np.ones(2))


@pytest.mark.parametrize(
    "how",
    [
        "no weights", "no metadata", "not an archive", "cut off", "not JSON", "pickled", "no intercept", "other classes",
        "other weights", "not finite",
    ],
)  # fmt: skip
def test_a_malformed_head_is_named(tmp_path: Path, how: str) -> None:
    path = tmp_path / "head"
    a_head([[1.0, 0.0], [0.0, 1.0]]).save(path)
    DomainHead.load(path)
    spoil(path, how)
    with pytest.raises(ModelError, match="head"):
        DomainHead.load(path)


def test_a_head_is_held_to_its_features(minilm: TransformerTextEncoder, efficientnet: EfficientNetLite2) -> None:
    extractor = EmbeddedFeatures(minilm, efficientnet)
    with pytest.raises(ModelError, match="fitted to"):
        HeadDomainClassifier(extractor, a_head([[1.0], [2.0]]))
    short = HeadDomainClassifier(extractor, a_head([[1.0], [2.0]], features=extractor.name))
    with pytest.raises(ModelError, match="1664"):
        short.classify([None], ["What is this?"])


def test_the_registry_falls_back_to_zero_shot_where_there_is_no_head(
    tmp_path: Path, descriptions: Mapping[str, str]
) -> None:
    spec = {
        "kind": "domain-head",
        "head": str(tmp_path / "head"),
        "features": {"kind": "domain-features", "text": MINILM, "images": EFFICIENTNET},
        "fallback": {"kind": "domain-zero-shot", "encoder": MINILM},
    }
    registry = ModelRegistry(tmp_path, domains=descriptions)
    assert isinstance(registry.load(spec), ZeroShotDomainClassifier)
    with pytest.raises(ModelError, match="cannot be read"):
        ModelRegistry(tmp_path).load({key: value for key, value in spec.items() if key != "fallback"})
    a_head([[1.0], [2.0]], features="all-minilm-l6-v2 + efficientnet-lite2").save(tmp_path / "head")
    assert isinstance(ModelRegistry(tmp_path, domains=descriptions).load(spec), HeadDomainClassifier)
    spoil(tmp_path / "head", "not JSON")
    with pytest.raises(ModelError, match="cannot be read"):
        ModelRegistry(tmp_path, domains=descriptions).load(spec)


def test_the_embedded_profile_classifies() -> None:
    from agents.launch import DEFAULT_CACHE
    from agents.model_set import ModelSet
    from agents.settings import load_profile

    known = {domain.name: domain.description for domain in load_domains().values()}
    models = ModelSet(load_profile("embedded"), DEFAULT_CACHE, domains=known)
    photo = Image.open(PHOTOS / "fire_engine.webp")
    assert models.domain_classifier.classify([photo], ["How fast can this truck drive?"])[0][0].name == "vehicle"
