"""Boxes that a chat model gives of things in a picture, which may be in any form, malformed or wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from agents.base.box_forms import BoxForm
from agents.base.files import parse_json
from agents.models.base import Box

Corners = tuple[float, float, float, float]
"""Four numbers of a box, in the order and unit of its model."""

KEYS = ("box", "bbox", "bbox_2d", "box_2d")
"""Names under which models give a box, ours first; the others are those that families were trained on."""

_THOUSANDTHS = 1000.0
_BEYOND = 1.1  # times the largest value of a form; a number beyond that is in another unit
# A box outside of these is none: whoever means a thing so small or so thin cannot be searched for with it.
_MIN_SHARE = 0.005  # of the picture's area
_MAX_RATIO = 10.0  # of a box's longer side to the other


def describe_form(form: BoxForm, sent: tuple[int, int]) -> str:
    """Describe the numbers of a box for a prompt; "" for ``none``. ``sent`` is the size of the picture as the model is sent it."""
    width, height = sent
    return {
        "none": "",
        "xyxy-1000": "[left, top, right, bottom] from 0 to 1000, in thousandths of the photo's width and height",
        "yxyx-1000": "[top, left, bottom, right] from 0 to 1000, in thousandths of the photo's height and width",
        "pixels": f"[left, top, right, bottom] in pixels of the photo, which has {width} x {height}",
    }[form]


def read_corners(value: Any) -> Corners | None:
    """Read the four numbers of a box: a list, a list in a list, or either as text.

    Returns:
        None if there are not four finite numbers.
    """
    if isinstance(value, str):
        try:
            value = parse_json(f"[{value.strip().strip('[]()')}]")
        except ValueError:
            return None
    while isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 1:
        value = value[0]
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 4:
        return None
    numbers = [each for each in value if isinstance(each, int | float) and not isinstance(each, bool)]
    try:
        left, top, right, bottom = map(float, numbers)
    except (ValueError, OverflowError):
        return None
    return (left, top, right, bottom) if all(map(math.isfinite, (left, top, right, bottom))) else None


def find_corners(fields: Mapping[str, Any]) -> Corners | None:
    """Return the box of a JSON object under any of ``KEYS``; None if there is none, or it cannot be read."""
    return next((corners for key in KEYS if (corners := read_corners(fields.get(key))) is not None), None)


def measure_sent(size: tuple[int, int], max_side: int | None) -> tuple[int, int]:
    """Return the size of a picture whose longer side is scaled down to ``max_side`` pixels, None: to none."""
    scale = 1.0 if max_side is None else min(1.0, max_side / max(size))
    return max(1, round(scale * size[0])), max(1, round(scale * size[1]))


def convert_corners(corners: Corners, form: BoxForm, sent: tuple[int, int], size: tuple[int, int]) -> Box | None:
    """Convert a model's numbers to a box in pixels of the picture, ordered and clipped to it.

    Args:
        corners: The model's numbers.
        form: The model's form.
        sent: Width and height of the picture as the model was sent it.
        size: Width and height of the picture itself.

    Returns:
        None if the numbers cannot be in that form, or give a box that no thing has: too small, or too thin.
    """
    if form == "none":
        return None
    if form == "yxyx-1000":
        top, left, bottom, right = corners
    else:
        left, top, right, bottom = corners
    most = sent if form == "pixels" else (_THOUSANDTHS, _THOUSANDTHS)
    across, down = (left / most[0], right / most[0]), (top / most[1], bottom / most[1])
    if not all(1 - _BEYOND <= share <= _BEYOND for share in (*across, *down)):
        return None
    left, right = (min(max(share, 0.0), 1.0) * size[0] for share in sorted(across))
    top, bottom = (min(max(share, 0.0), 1.0) * size[1] for share in sorted(down))
    box = Box(left, top, right, bottom)
    sides = sorted((right - left, bottom - top))
    is_thing = box.area >= _MIN_SHARE * size[0] * size[1] and sides[1] <= _MAX_RATIO * sides[0]
    return box if is_thing else None
