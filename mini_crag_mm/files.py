"""The paths of the mini CRAG-MM's files, relative to a root that the tests can replace."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agents.search.folders import write_whole

SET_ROOT = Path(__file__).resolve().parent


class SetPaths:
    """The files and folders below one root.

    Attributes:
        content: The YAML, one sub-folder a group.
        photos: The KG photographs, ENTITY.webp.
        other_photos: The second photographs, ENTITY.webp, which only scenes show.
        textures: The ground textures that backgrounds are made of.
        scenes: The composed question photos, SCENE.webp.
        layout: Positions of objects and texts in them.
        wiki_pages: Pages taken from Wikipedia summaries, JSON lines.
        own_pages: Pages written for the set, JSON lines.
        attribution: Sources, authors and licences.
    """

    def __init__(self, root: Path = SET_ROOT) -> None:
        self.root = root
        self.content, self.photos, self.other_photos = root / "content", root / "photos", root / "other_photos"
        self.textures, self.scenes = root / "textures", root / "scenes"
        self.layout = self.scenes / "layout.json"
        self.wiki_pages, self.own_pages = root / "pages" / "wiki.jsonl", root / "pages" / "own.jsonl"
        self.attribution = root / "ATTRIBUTION.md"

    def kg(self, split: str) -> Path:
        """The image KG of one split, JSON lines."""
        return self.root / "kg" / f"{split}.jsonl"


def write_text(target: Path, text: str) -> None:
    """Write UTF-8 `text` to `target`, whole or not at all."""
    write_whole(target, text.encode("utf-8"))


def write_lines(target: Path, rows: Iterable[Any]) -> Path:
    """Write JSON lines, whole or not at all; returns `target`."""
    write_text(target, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return target


def read_lines(source: Path) -> list[Any]:
    """The values of a file of JSON lines."""
    # Not splitlines: texts may hold U+2028.
    return [json.loads(line) for line in source.read_text(encoding="utf-8").split("\n") if line]
