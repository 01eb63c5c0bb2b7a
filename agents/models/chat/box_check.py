"""Checks the boxes of a model behind a server on drawn pictures, whose boxes are known.

It finds the faults of a form: another order or unit of the numbers, or a server that resizes pictures in between. How well the model finds
things in photographs is another matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from PIL import Image, ImageDraw

from agents.base.box_forms import BOX_FORMS, BoxForm
from agents.models.base import Box, ChatMessage, ChatModel, ChatReply, ChatRequest
from agents.models.vision.boxes import overlap
from agents.models.vision.model_boxes import Corners, convert_corners, describe_form, measure_sent, read_corners
from agents.time_limits.deadline import Deadline

MIN_OVERLAP = 0.7
"""Mean IoU from which boxes are used: crops by true boxes that were shaken to an IoU of 0.75 recall as many pictures as the true ones."""

_TOKENS = 48
_SCHEMA = {
    "type": "object",
    "properties": {"box": {"type": "array", "items": {"type": "integer"}, "maxItems": 4}},
    "required": ["box"],
    "additionalProperties": False,
}
_GROUND = (196, 200, 190)


@dataclass(frozen=True)
class DrawnScene:
    """A picture of coloured shapes, and the box of the one that is asked for."""

    size: tuple[int, int]
    colour: str
    box: tuple[int, int, int, int]
    other: tuple[int, int, int, int]  # a grey shape

    def draw(self) -> Image.Image:
        """Draw a disc of the colour, and a grey square."""
        picture = Image.new("RGB", self.size, _GROUND)
        pen = ImageDraw.Draw(picture)
        pen.rectangle(self.other, fill="dimgray")
        pen.ellipse(self.box, fill=self.colour)
        return picture


SCENES = (
    DrawnScene((960, 720), "red", (110, 420, 330, 640), (560, 90, 820, 350)),
    DrawnScene((720, 960), "blue", (430, 130, 650, 290), (70, 560, 330, 820)),
    DrawnScene((1280, 640), "green", (860, 60, 1180, 260), (100, 330, 360, 590)),
    DrawnScene((600, 1000), "yellow", (60, 640, 250, 930), (330, 130, 540, 340)),
)
"""None is square and none of the boxes on a diagonal, so that swapped and misscaled numbers give other boxes. The third is scaled down."""


@dataclass(frozen=True)
class BoxCheck:
    """Mean IoU of the boxes with the known ones, read in each form."""

    form: BoxForm
    overlaps: dict[BoxForm, float]

    @property
    def is_passed(self) -> bool:
        """Whether the boxes are good enough to be used."""
        return self.overlaps[self.form] >= MIN_OVERLAP

    @property
    def detail(self) -> str:
        """Describe the result, and that boxes are off if it is too low."""
        mean = f"{self.overlaps[self.form]:.2f} mean overlap (IoU) with known boxes as {self.form}"
        return mean if self.is_passed else f"{mean}, below {MIN_OVERLAP}: boxes are off"

    @property
    def cure(self) -> str:
        """Name the form in which the same numbers are right, if there is one."""
        best = max(self.overlaps, key=lambda form: self.overlaps[form])
        if self.overlaps[best] >= MIN_OVERLAP:
            return f"--boxes {best}, or boxes in [models.chat]: so read, the overlap is {self.overlaps[best]:.2f}"
        return "none needed: a detector finds the things; --boxes none skips the check"


def check_boxes(chat: ChatModel, form: BoxForm, max_side: int | None, seconds: float) -> BoxCheck:
    """Ask a model for the boxes of the drawn scenes in one batched call, and compare them with the known ones.

    Raises:
        ModelError: The engine as a whole cannot answer.
    """
    requests = [_make_request(scene, form, measure_sent(scene.size, max_side)) for scene in SCENES]
    corners = [_read(reply) for reply in chat.chat(requests, Deadline(seconds))]
    forms: list[BoxForm] = [each for each in BOX_FORMS if each != "none"]
    return BoxCheck(form, {each: _measure(corners, each, max_side) for each in forms})


def _make_request(scene: DrawnScene, form: BoxForm, sent: tuple[int, int]) -> ChatRequest:
    words = f"Where in the photo is the {scene.colour} disc? Reply with JSON alone: " + '{"box": [...]}'
    text = f"{words}, the box around all of it as whole numbers {describe_form(form, sent)}."
    return ChatRequest((ChatMessage("user", text, (scene.draw(),)),), max_tokens=_TOKENS, schema=_SCHEMA)


def _read(reply: ChatReply) -> Corners | None:
    start, end = reply.text.find("["), reply.text.rfind("]")
    return read_corners(reply.text[start : end + 1]) if 0 <= start < end else None


def _measure(corners: Sequence[Corners | None], form: BoxForm, max_side: int | None) -> float:
    boxes = [
        None if own is None else convert_corners(own, form, measure_sent(scene.size, max_side), scene.size)
        for scene, own in zip(SCENES, corners, strict=True)
    ]
    return fmean(
        0.0 if box is None else overlap(box, Box(*scene.box)) for scene, box in zip(SCENES, boxes, strict=True)
    )
