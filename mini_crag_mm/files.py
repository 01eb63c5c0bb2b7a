"""The paths of the mini CRAG-MM's files, relative to a root that the tests can replace."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.search.folders import write_whole

SET_ROOT = Path(__file__).resolve().parent


@dataclass(frozen=True)
class SetPaths:
    """The files and folders below one root."""

    root: Path = SET_ROOT

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


def write_text(target: Path, text: str) -> None:
    """Write UTF-8 `text` to `target`, whole or not at all."""
    write_whole(target, text.encode("utf-8"))


def write_lines(target: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write JSON lines, whole or not at all; returns `target`."""
    write_text(target, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return target


def read_lines(source: Path) -> list[Any]:
    """The values of a file of JSON lines."""
    # Not splitlines: texts may hold U+2028.
    return [json.loads(line) for line in source.read_text(encoding="utf-8").split("\n") if line]
