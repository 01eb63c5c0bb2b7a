"""The pictures of recorded requests: each once, as a PNG file named by its pixels."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

from agents.base.files import write_whole
from agents.models.pixels import pixels_digest, to_rgb

_COMPRESSION = 1  # of PNG, 0 to 9: a recorded run waits for each picture


class RequestImages:
    """Keeps pictures in a folder, and remembers the names of those it was shown: one for each batch.

    Args:
        folder: Where they go; None: they are only named.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._names: dict[int, tuple[Image.Image, str]] = {}  # kept alive: ids of dead objects come again

    def name(self, image: Image.Image) -> str:
        """Keep a picture under the SHA-256 of its pixels (``pixels_digest``), and return that name.

        Without a folder the picture is only named.

        Raises:
            OSError: The picture cannot be written.
        """
        entry = self._names.get(id(image))
        if entry is None:
            entry = self._names[id(image)] = image, pixels_digest(image)
            self._keep(*entry)
        return entry[1]

    def _keep(self, image: Image.Image, name: str) -> None:
        if self._folder is None or (path := self._folder / f"{name}.png").exists():
            return
        png = io.BytesIO()
        to_rgb(image).save(png, format="PNG", compress_level=_COMPRESSION)
        write_whole(path, png.getvalue())
