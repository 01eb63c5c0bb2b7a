"""A tiny mini CRAG-MM in a temporary folder: four painted entities, three scenes, three questions, one dialog."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image, ImageDraw

from mini_crag_mm import wikipedia
from mini_crag_mm.content_models import Content, PhotoBackground, load_content
from mini_crag_mm.generator.graph_and_pages import build_kg, build_pages
from mini_crag_mm.generator.set_rules import compute_fingerprint
from mini_crag_mm.loader import SetPaths

RED = (230, 20, 30)
SUMMARIES = {
    "Red square": "The red square is a shape that stands on Malevich's easel.",
    "Blue disc": "The blue disc weighs 12 kg.",
    "Green bar": "A green bar is long.",
    "Unclaimed": "Nobody claims this one.",
}

Files = dict[str, list[dict[str, Any]]]


def tiny_files() -> Files:
    """The content files of a set that keeps all rules but those on amounts, each time as new objects."""
    text = Path(__file__).with_name("tiny_set.yaml").read_text(encoding="utf-8")
    files: Files = yaml.safe_load(text)
    return files


def write_files(root: Path, files: Files) -> Path:
    """Write the files as group `tst` below `root`/content."""
    folder = root / "content" / "tst"
    folder.mkdir(parents=True, exist_ok=True)
    for name, entries in files.items():
        (folder / f"{name}.yaml").write_text(
            yaml.safe_dump(entries, sort_keys=False, allow_unicode=True), encoding="utf-8"
        )
    return root


def paint_photos(paths: SetPaths) -> None:
    """Photos of the tiny set: an opaque cut-out, and two whole pictures with some texture."""
    paths.photos.mkdir()
    square = Image.new("RGBA", (200, 200), (*RED, 255))
    # One clear corner makes it a cut-out without changing its box.
    square.paste((0, 0, 0, 0), (0, 0, 3, 3))
    square.save(paths.photos / "red_square.webp", quality=95)
    noise = np.random.default_rng(0).integers(0, 60, (150, 200, 3)).astype(np.uint8)
    disc = Image.fromarray(noise + 150)
    ImageDraw.Draw(disc).ellipse((60, 30, 140, 110), fill=(20, 40, 220))
    disc.save(paths.photos / "blue_disc.webp", quality=90)
    bar = Image.fromarray(noise)
    ImageDraw.Draw(bar).rectangle((20, 60, 180, 90), fill=(20, 200, 60))
    bar.save(paths.photos / "green_bar.webp", quality=90)


@pytest.fixture
def summaries(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Stands in for the package of Wikipedia summaries."""
    monkeypatch.setattr(wikipedia, "read_summaries", lambda: SUMMARIES)
    return SUMMARIES


def paint_scenes(content: Content, paths: SetPaths) -> None:
    """Scenes of the tiny set, each thing pasted into its box, and their layout."""
    paths.scenes.mkdir()
    layouts = {}
    for scene in content.scenes.values():
        _, _, wide, high = scene.effects.crop or (0.0, 0.0, 1.0, 1.0)
        enlarged = 1 / min(wide, high)  # to the frame again
        size = round(scene.size[0] * wide * enlarged), round(scene.size[1] * high * enlarged)
        picture = Image.new("RGB", size, (120, 130, 90))
        things = [(placed.entity, placed.box) for placed in scene.objects]
        if isinstance(scene.background, PhotoBackground):
            things.insert(0, (scene.background.photo, (0.0, 0.0, 1.0, 1.0)))
        objects = []
        for entity, box in things:
            left, top, width, height = (round(part * side) for part, side in zip(box, size * 2, strict=True))
            with Image.open(paths.photos / f"{entity}.webp") as photo:
                picture.paste(photo.convert("RGB").resize((width, height)), (left, top))
            shown = {"shown": 1.0, "covered": 0.0, "same_photo": True, "strength": 0.5, "cosine": 0.5, "target": 0.5}
            objects.append({"entity": entity, "box": [left, top, width, height], **shown})
        picture.save(paths.scenes / f"{scene.id}.webp")
        texts = [{"text": text.text, "box": [0, 0, 9, 9], "shown": 1.0, "covered": 0.0} for text in scene.texts]
        made_from = compute_fingerprint(scene, paths)
        layouts[scene.id] = {"made_from": made_from, "size": size, "objects": objects, "texts": texts}
    paths.layout.write_text(json.dumps(layouts))


@pytest.fixture
def tiny(tmp_path: Path) -> SetPaths:
    """The tiny set with its photos."""
    paths = SetPaths(write_files(tmp_path / "set", tiny_files()))
    paint_photos(paths)
    lines = [
        f"| photos/{e['id']}.webp | {e['photo']['source']} | {e['photo']['file']} | by us | CC0 |  |"
        for e in tiny_files()["entities"]
    ]
    paths.attribution.write_text("\n".join(lines))
    return paths


@pytest.fixture
def tiny_content(tiny: SetPaths) -> Content:
    """The tiny set, loaded."""
    return load_content(tiny.content)


@pytest.fixture
def built(tiny: SetPaths, tiny_content: Content, summaries: dict[str, str]) -> SetPaths:
    """The tiny set with its scenes, pages and KG."""
    assert build_pages(tiny_content, tiny) == []
    build_kg(tiny_content, tiny)
    paint_scenes(tiny_content, tiny)
    return tiny
