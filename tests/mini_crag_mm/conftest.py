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
    """The content files of a set that keeps all rules but those on amounts."""
    question = {
        "split": "validation",
        "scene": "t_s001",
        "entity": "red_square",
        "domain": "other",
        "query_category": "simple-knowledge",
        "dynamism": "static",
        "query": "How wide is this?",
        "answer": "The red square is 330 metres wide.",
        "accept": ["330 m", "330 metres"],
        "source": "kg",
        "pages": [],
        "hops": 1,
    }
    turn = {key: value for key, value in question.items() if key not in ("split", "scene")}
    return {
        "entities": [
            {
                "id": "red_square",
                "split": "validation",
                "name": "Red square",
                "photo": {"source": "stamps", "file": "a/red.png"},
                "wiki": "Red square",
                "also": [{"name": "Easel", "attributes": {"material": "wood"}}],
                "attributes": {
                    "width": "{{convert|330|m|ft|0}}",
                    "made": 1915,
                    "notes": None,
                    "makers": ["[[A|B]]", {}],
                },
            },
            {
                "id": "blue_disc",
                "split": "validation",
                "name": "Blue disc",
                "photo": {"source": "skimage", "file": "blue.png"},
                "wiki": None,
                "attributes": {},
            },
            {
                "id": "green_bar",
                "split": "public_test",
                "name": "Green bar",
                "photo": {"source": "skimage", "file": "green.png"},
                "attributes": {},
            },
        ],
        "pages": [
            {
                "id": "disc_page",
                "split": "validation",
                "url": "https://pages.mini-crag-mm.example/disc",
                "name": "The disc",
                "kind": "answer",
                "text": "The disc &amp; its paint come from Delft. " + "It is round. " * 20,
            }
        ],
        "wiki": [{"split": "validation", "title": "Blue disc"}, {"split": "public_test", "title": "Green bar"}],
        "scenes": [
            {
                "id": "t_s001",
                "split": "validation",
                "size": [480, 360],
                "background": "grass",
                "objects": [{"entity": "red_square", "box": [0.1, 0.3, 0.4, 0.5]}],
                "effects": {"darken": 0.6},
            },
            {
                "id": "t_s002",
                "split": "validation",
                "size": [480, 360],
                "egocentric": False,
                "background": "paper",
                "objects": [{"entity": "blue_disc", "box": [0.1, 0.2, 0.4, 0.6], "frame": "postcard"}],
                "texts": [{"text": "OPEN 9-18", "box": [0.55, 0.1, 0.4, 0.2], "style": "sign"}],
            },
            {
                "id": "t_d001",
                "split": "public_test",
                "size": [360, 480],
                "background": {"photo": "green_bar"},
                "effects": {"crop": [0.0, 0.0, 1.0, 0.8]},
            },
        ],
        "single": [
            {"id": "t_q001", **question},
            {
                **question,
                "id": "t_q002",
                "scene": "t_s002",
                "entity": "blue_disc",
                "query": "Where does the paint of this come from?",
                "answer": "It comes from Delft.",
                "accept": ["Delft"],
                "source": "web",
                "pages": ["disc_page", "wiki:Blue disc"],
            },
            {
                **question,
                "id": "t_q003",
                "query": "What does it cost today?",
                "dynamism": "real-time",
                "answer": "I don't know",
                "accept": [],
                "source": "nowhere",
            },
        ],
        "dialogs": [
            {
                "id": "t_m001",
                "split": "public_test",
                "scene": "t_d001",
                "turns": [
                    {
                        **turn,
                        "entity": "green_bar",
                        "query": "What is this?",
                        "answer": "A green bar.",
                        "accept": ["green bar"],
                    },
                    {
                        **turn,
                        "entity": None,
                        "query": "And what is it like?",
                        "answer": "It is long.",
                        "accept": ["long"],
                        "source": "web",
                        "pages": ["wiki:Green bar"],
                    },
                ],
            }
        ],
    }


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
