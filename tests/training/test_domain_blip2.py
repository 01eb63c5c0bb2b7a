"""BLIP-2 fine-tuned as the domain router: the served features with gradients, and a checkpoint that the profile's classifier loads."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from agents.base.linear_head import LinearHead
from agents.models.domain_classifiers import HeadDomainClassifier
from agents.models.encoders.blip2 import Blip2QFormer
from tests.models.tiny_rankers import save_blip2
from training.chat_examples import TrainingDataError
from training.domain_blip2 import HEAD, DomainBlip2Options, DomainCollator, DomainModel, fine_tune, main
from training.domain_router import DomainExample


def rows(count: int) -> list[DomainExample]:
    """Red pictures and towers, blue pictures and cars."""
    examples = []
    for number in range(count):
        colour, question, domain = [
            ("red", "how tall is the tower", "sights"),
            ("blue", "what car is the object", "vehicles"),
        ][number % 2]
        image = Image.new("RGB", (40, 30), colour) if number % 3 else None
        examples.append(DomainExample(f"s{number}", f"s{number}-0", question, domain, image))
    return examples


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_blip2(tmp_path_factory.mktemp("blip2") / "blip2-tiny")


def test_the_features_with_gradients_are_the_served_ones(checkpoint: Path) -> None:
    served = Blip2QFormer(path=checkpoint)
    processor, model = served.load("BLIP-2", "AutoProcessor", "Blip2ForImageTextRetrieval")
    processor.tokenizer.padding_side = "right"
    examples = rows(5)
    inputs = DomainCollator(processor, ["sights", "vehicles"], 64)(examples)
    labels = inputs.pop("labels")
    network = DomainModel(model, 2)
    features = network.features(**inputs)
    expected = served.features([row.image for row in examples], [row.question for row in examples])
    np.testing.assert_allclose(features.detach().numpy(), expected, atol=1e-5)
    network(labels=labels, **inputs)["loss"].backward()
    trained = {name for name, value in network.named_parameters() if value.grad is not None}
    assert any("qformer" in name for name in trained) and "model.query_tokens" in trained
    assert not any("vision_model" in name for name in trained)


def test_a_router_is_trained_saved_and_loaded(checkpoint: Path, tmp_path: Path) -> None:
    before = Blip2QFormer(path=checkpoint).features([None], ["how tall is the tower"])
    how = ["--held-out", "0.3", "--epochs", "6", "--learning-rate", "1e-3", "--batch", "6"]
    tuning = DomainBlip2Options.parse(["--model", str(checkpoint), "--out", str(tmp_path), *how])
    head = fine_tune(rows(24), "test", tuning)
    assert head.accuracy["held_out"] == 1.0
    extractor = Blip2QFormer(path=tmp_path / "blip2-tiny-domains")
    assert not np.allclose(extractor.features([None], ["how tall is the tower"]), before, atol=1e-3)
    router = HeadDomainClassifier(extractor, LinearHead.load(tmp_path / HEAD))
    predictions = router.classify(
        [Image.new("RGB", (40, 30), "blue"), None], ["what car is the object", "how tall is the tower"]
    )
    assert [labels[0].name for labels in predictions] == ["vehicles", "sights"]
    assert (tmp_path / "curves.png").is_file()
    other = DomainBlip2Options.parse(["--model", str(checkpoint), "--out", str(tmp_path), *how, "--resume"])
    with pytest.raises(TrainingDataError, match="was made from other data"):
        fine_tune(rows(18), "test", other)
    with torch.no_grad():
        assert sum(labels[0].probability > 0.5 for labels in predictions) == 2


def test_too_little_and_the_test_split_are_told(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TrainingDataError, match="too few"):
        fine_tune(rows(24)[::2], "test", DomainBlip2Options.parse(["--model", str(checkpoint), "--out", str(tmp_path)]))
    assert main(["--split", "public_test", "--out", str(tmp_path)]) == 2
    assert "nothing is trained on public_test" in capsys.readouterr().err
