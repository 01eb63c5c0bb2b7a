"""Rerankers and detectors as a profile names them."""

from pathlib import Path
from typing import Any

import pytest

from agents.models.base import Detector, ModelError, MultimodalReranker, Reranker
from agents.models.registry import ModelRegistry

MINILM, EFFICIENTNET = {"kind": "minilm"}, {"kind": "efficientnet-lite2"}


@pytest.mark.parametrize(
    ("spec", "protocol"),
    [
        ({"kind": "token-maxsim", "encoder": MINILM}, Reranker),
        (
            {"kind": "blip2-coarse", "encoder": {"kind": "blip2-qformer", "path": "x", "dtype": "bfloat16"}},
            MultimodalReranker,
        ),
        ({"kind": "qwen3-reranker", "path": "x", "instruction": "Find it"}, Reranker),
        ({"kind": "flag-reranker", "path": "x", "max_tokens": 256, "dtype": "float16"}, Reranker),
        ({"kind": "grounding-dino", "path": "x", "box_threshold": 0.3}, Detector),
        ({"kind": "salient-objects", "network": EFFICIENTNET}, Detector),
        ({"kind": "salient-objects", "network": EFFICIENTNET, "encoder": MINILM}, Detector),
    ],
)
def test_each_kind_is_what_its_role_needs(tmp_path: Path, spec: dict[str, Any], protocol: type) -> None:
    assert isinstance(ModelRegistry(tmp_path).load(spec), protocol)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "qwen3-reranker", "path": "x"}, "instruction"),
        ({"kind": "grounding-dino", "path": "x", "dtype": "int3"}, "Unknown dtype"),
        ({"kind": "salient-objects", "network": EFFICIENTNET, "threshold": 0.2}, "its options are"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        ModelRegistry(tmp_path).load(spec)


def test_the_classifier_is_in_memory_once(tmp_path: Path) -> None:
    registry = ModelRegistry(tmp_path)
    detector = registry.load({"kind": "salient-objects", "network": EFFICIENTNET})
    assert detector._network is registry.load({"kind": "efficientnet-lite2"})
