"""Lets a model work once on a little of what it is for: most adapters load their weights only then."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from PIL import Image

from agents.models.base import MultimodalPair

_TEXT = "The Eiffel Tower is 330 metres tall."
_QUESTION = "How tall is the Eiffel Tower?"
_SIZE = (960, 1280)  # pictures as the evaluator passes them


def _picture() -> Image.Image:
    return Image.new("RGB", _SIZE, "gray")


EXERCISES: Sequence[tuple[str, Callable[[Any], object]]] = (
    ("score", lambda model: model.score([(_QUESTION, _TEXT)])),
    ("score_multimodal", lambda model: model.score_multimodal([MultimodalPair(_QUESTION, _picture(), _TEXT)])),
    ("detect", lambda model: model.detect([_picture()], [["tower"]])),
    ("classify", lambda model: model.classify([_picture()], [_QUESTION])),
    ("recognise", lambda model: model.recognise([_picture()])),
    ("find", lambda model: model.find([_TEXT])),
    ("read", lambda model: model.read([_picture()])),
    ("encode", lambda model: model.encode(_encodable(model))),
    ("features", lambda model: model.features([_picture()], [_QUESTION])),
    ("warm_up", lambda model: model.warm_up()),
)
"""Methods of the protocols of ``models/base.py``, each with a small call.

A chat model is loaded when it is made; an engine of vLLM has been warmed up then too, and one behind a server is not ours to warm up.
"""


def _encodable(model: Any) -> list[Any]:
    """What ``encode`` is for: pictures or texts."""
    first = next(iter(inspect.signature(model.encode).parameters))
    return [_picture()] if first == "images" else [_TEXT]


def exercise(model: Any) -> None:
    """Call a model once, small.

    Raises:
        Exception: Whatever the model raises.
    """
    for method, call in EXERCISES:
        if callable(getattr(model, method, None)):
            call(model)
            return
