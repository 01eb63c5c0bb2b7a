from typing import Any

import numpy as np
from PIL import Image

from agents.models.base import ChatMessage, ChatModel, ChatRequest
from agents.time_limits.deadline import NO_DEADLINE, Deadline

SCHEMA = {
    "type": "object",
    "properties": {"seen": {"type": "boolean"}, "kind": {"enum": ["castle", "bridge"]}},
    "required": ["seen", "kind"],
    "additionalProperties": False,
}


def ask(text: str, *images: Image.Image, **settings: Any) -> ChatRequest:
    return ChatRequest((ChatMessage("user", text, images),), **settings)


def picture(seed: int = 0, size: tuple[int, int] = (112, 112)) -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(values)


def enough_for(model: ChatModel, request: ChatRequest) -> Deadline:
    """A deadline that a short request meets, also on a busy machine, and a reply of thousands of tokens does not."""
    model.chat([request] * 3)  # the first batch of a size is slow
    start = NO_DEADLINE.elapsed()
    model.chat([request] * 3)
    return Deadline(1.0 + 4 * (NO_DEADLINE.elapsed() - start))
