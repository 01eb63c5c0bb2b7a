"""Images as JPEG data URLs, the form that OpenAI-compatible servers take."""

from __future__ import annotations

import base64
import io

from PIL import Image

from agents.models.pixels import rgb_within

JPEG_QUALITY = 90


def jpeg_data_url(image: Image.Image, max_side: int) -> str:
    """The image, scaled down to ``max_side`` pixels on its longer side, as ``data:image/jpeg;base64,...``.

    Raises:
        OSError: The image cannot be decoded.
        ValueError: It has no pixels.
    """
    buffer = io.BytesIO()
    rgb_within(image, max_side).save(buffer, format="JPEG", quality=JPEG_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
