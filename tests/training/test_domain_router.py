"""From a data set on disk to a head, on the real embedded encoders."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agents.base.linear_head import LinearHead
from agents.models.domain_classifiers import HeadDomainClassifier, ZeroShotDomainClassifier
from agents.models.registry import ModelRegistry
from agents.profiles.profile import Profile, load_profile
from tests.evaluation.worlds import picture, row, write_dataset
from tests.models.tiny_rankers import save_blip2
from training import domain_router
from training.command_line import SplitOptions
from training.domain_router import main, read_domains

PHOTOS = Path(__file__).parents[2] / "mini_crag_mm" / "photos"
DOMAINS = {
    "vehicle": (["fire_engine", "corvette_c5", "dumper"], ["How fast is this?", "And its engine?"]),
    "sightseeing (local)": (["eiffel_tower", "colosseum", "charminar"], ["How tall is this?", "And who built it?"]),
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows: list[dict[str, Any]] = []
    for domain, (photos, queries) in DOMAINS.items():
        for photo in photos:
            image = Image.open(PHOTOS / f"{photo}.webp")
            data_row = row(photo, len(queries), "v0.1.1", image, None)
            for turn, query in zip(data_row["turns"], queries, strict=True):
                turn |= {"domain": domain, "query": query}
            rows.append(data_row)
    return write_dataset(tmp_path_factory.mktemp("data"), rows, "v0.1.1")


def arguments(dataset: Path, out: Path, *more: str) -> list[str]:
    fixed = ["--dataset", str(dataset), "--revision", "v0.1.1", "--dataset-type", "multi-turn"]
    return [*fixed, "--cache", str(out.parent / "cache"), "--out", str(out), *more]


def test_a_data_set_becomes_a_head(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "heads" / "domain.json"
    assert main(arguments(dataset, out, "--measure", "validation")) == 0
    head = LinearHead.load(out)
    assert head.classes == ("sightseeing (local)", "vehicle")
    assert head.fitted_on["examples"] == 12
    assert head.accuracy["cross_validated"] > head.accuracy["majority"]
    assert head.accuracy["validation_accuracy"] == 1.0
    printed = capsys.readouterr().out
    assert "zero_shot" in printed and "12 questions, 2 domains" in printed


def test_the_questions_are_those_that_the_domain_stage_sees(dataset: Path, tmp_path: Path) -> None:
    examples = read_domains(
        SplitOptions(dataset=dataset, revision="v0.1.1", cache=tmp_path, out=tmp_path), ["multi-turn"], "validation"
    )
    assert len({example.session_id for example in examples}) == 6
    assert all(example.image is not None and example.image.mode == "RGB" for example in examples)


def test_questions_about_one_photo_are_one_group(tmp_path: Path) -> None:
    """Whichever session they stand in; a session without a photo is a group of its own."""
    pictures = {"a": picture("red"), "b": picture("blue"), "c": picture("red"), "d": None, "e": None}
    data = write_dataset(tmp_path, [row(name, 2, "v0.1.1", image, "") for name, image in pictures.items()], "v0.1.1")
    options = SplitOptions(dataset=data, revision="v0.1.1", cache=tmp_path / "cache", out=tmp_path)
    groups: dict[str, set[str]] = {}
    for example in read_domains(options, ["multi-turn"], "validation"):
        groups.setdefault(example.group, set()).add(example.session_id)
    assert sorted(map(sorted, groups.values())) == [["a", "c"], ["b"], ["d"], ["e"]]


@pytest.mark.parametrize(
    ("more", "message"), [(["--split", "nowhere"], "nowhere"), (["--profile", "nobody"], "nobody")]
)
def test_what_is_missing_is_said(
    dataset: Path, tmp_path: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(dataset, tmp_path / "head.json", *more)) == 2
    assert message in capsys.readouterr().err


def test_a_head_on_the_features_of_blip2_as_the_gpu_profile_has_it(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = {"kind": "blip2-qformer", "path": str(save_blip2(tmp_path / "blip2"))}
    fallback = {"kind": "domain-zero-shot", "encoder": {"kind": "minilm"}}
    spec = {"kind": "domain-head", "head": str(tmp_path / "head.json"), "features": features, "fallback": fallback}
    gpu = load_profile("gpu").models["domain_classifier"]
    assert set(gpu) == set(spec) and gpu["features"]["kind"] == features["kind"]
    registry = ModelRegistry(tmp_path, domains={name: name for name in DOMAINS})
    question, photo = "How fast is this?", Image.open(PHOTOS / "corvette_c5.webp").convert("RGB")
    assert isinstance(registry.load(spec), ZeroShotDomainClassifier)  # no head has been fitted yet

    profile = Profile(name="tiny", models={"domain_classifier": spec})
    monkeypatch.setattr(domain_router, "load_profile", lambda name: profile)
    assert main(arguments(dataset, tmp_path / "head.json")) == 0
    fitted = ModelRegistry(tmp_path).load(spec)
    assert isinstance(fitted, HeadDomainClassifier)
    (labels,) = fitted.classify([photo], [question])
    assert {label.name for label in labels} == set(DOMAINS)
    assert sum(label.probability for label in labels) == pytest.approx(1.0, abs=1e-5)
