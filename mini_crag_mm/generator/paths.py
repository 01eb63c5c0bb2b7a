"""Where everything of the mini CRAG-MM lies, relative to a root that the tests can replace."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DEMO_ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class DemoPaths:
    """The files and folders below one root."""

    root: Path = DEMO_ROOT

    @property
    def content(self) -> Path:
        """Folder of the YAML, one sub-folder a group."""
        return self.root / "content"

    @property
    def photos(self) -> Path:
        """Folder of the KG photographs, ENTITY.webp."""
        return self.root / "photos"

    @property
    def other_photos(self) -> Path:
        """Folder of the second photographs, ENTITY.webp, which only scenes show."""
        return self.root / "other_photos"

    @property
    def textures(self) -> Path:
        """Folder of the ground textures that backgrounds are made of."""
        return self.root / "textures"

    @property
    def scenes(self) -> Path:
        """Folder of the composed question photos, SCENE.webp."""
        return self.root / "scenes"

    @property
    def layout(self) -> Path:
        """Positions of objects and texts in the composed scenes."""
        return self.scenes / "layout.json"

    @property
    def wiki_pages(self) -> Path:
        """Pages taken from Wikipedia summaries, JSON lines."""
        return self.root / "pages" / "wiki.jsonl"

    @property
    def own_pages(self) -> Path:
        """Pages written for the set, JSON lines."""
        return self.root / "pages" / "own.jsonl"

    def kg(self, split: str) -> Path:
        """The image KG of one split, JSON lines."""
        return self.root / "kg" / f"{split}.jsonl"

    @property
    def attribution(self) -> Path:
        """Sources, authors and licences."""
        return self.root / "ATTRIBUTION.md"


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside `target`; it takes the target's place only if the block ends without error."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    part = Path(name)
    # mkstemp makes files private; these are meant to be read by everybody.
    part.chmod(0o644)
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """Write UTF-8 `text` to `target` atomically."""
    with atomic_file(target) as part:
        part.write_text(text, encoding="utf-8")
