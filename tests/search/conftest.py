"""A small world: six drawn photographs, five pages, and the indices that the real builder makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from agents.search.build_index import main
from agents.search.pipelines import open_pipeline
from tests.models.tiny_checkpoints import save_bert

IMAGE_ID = "mini/image-search-index-validation"
WEB_ID = "mini/web-search-index-validation"

ENTITIES: list[list[dict[str, Any]]] = [
    [{"entity_name": "Red Tower", "entity_attributes": {"height": "{{convert|300|m}}", "opened": None}}],
    [{"entity_name": "Blue Lake", "entity_attributes": {"depth": {"max": "20 m"}}}],
    [
        {"entity_name": "Green Hill", "entity_attributes": {}},
        {"entity_name": "Red Tower", "entity_attributes": {"height": "{{convert|300|m}}", "opened": None}},
    ],
    [{"entity_name": "Żółty Most", "entity_attributes": {"länge": "870 m"}}],
    [],
    [{"entity_name": "Checker", "entity_attributes": {"tags": ["a", "b"]}}],
]

PAGES = [
    (
        "https://x.example/tower",
        "Red Tower",
        "The Red Tower is 300 metres tall. It was opened in 1901 &amp; renovated.",
    ),
    (
        "https://x.example/lake",
        "Blue Lake",
        "\n\n".join(
            f"Paragraph {n}. The Blue Lake is {n} metres deep here. " + "Water is blue. " * 55 for n in range(4)
        ),
    ),
    ("https://x.example/hill", "Green Hill", "Sheep graze on the Green Hill in summer."),
    ("https://x.example/bridge", "Żółty Most", "Most ma 870 metrów długości."),
    ("https://x.example/empty", "A page with nothing but a name", ""),
]


@dataclass(frozen=True)
class World:
    """Sources and built indices."""

    folder: Path

    @property
    def images(self) -> Path:
        return self.folder / "images"

    @property
    def kg(self) -> Path:
        return self.folder / "kg.jsonl"

    @property
    def pages(self) -> Path:
        return self.folder / "pages.jsonl"

    @property
    def hub(self) -> Path:
        return self.folder / "cache" / "hub"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def photos(self) -> list[Image.Image]:
        return [Image.open(path).convert("RGB") for path in sorted(self.images.iterdir())]

    def build(self, *more: str) -> int:
        return main(
            [
                *("--images", str(self.images), "--kg", str(self.kg), "--pages", str(self.pages)),
                *("--cache", str(self.cache), "--image-id", IMAGE_ID, "--web-id", WEB_ID, "--no-progress", *more),
            ]
        )


def draw(kind: int) -> Image.Image:
    """One of six pictures that no encoder confuses."""
    image = Image.new("RGB", (120 + 10 * kind, 90), (230, 230, 230))
    pen = ImageDraw.Draw(image)
    if kind == 0:
        pen.polygon([(60, 5), (40, 85), (80, 85)], fill=(200, 20, 20))
    elif kind == 1:
        pen.ellipse([10, 30, 110, 80], fill=(20, 40, 200))
    elif kind == 2:
        pen.chord([-40, 30, 180, 190], 180, 360, fill=(30, 140, 40))
    elif kind == 3:
        pen.rectangle([0, 40, 150, 55], fill=(230, 200, 0))
    elif kind == 4:
        noise = np.random.default_rng(4).integers(0, 256, (90, 160, 3), dtype=np.uint8)
        image = Image.fromarray(noise)
    else:
        for x in range(0, 170, 20):
            for y in range(0, 90, 20):
                pen.rectangle([x, y, x + 9, y + 9], fill=(0, 0, 0))
    return image


def write_sources(folder: Path) -> World:
    world = World(folder)
    world.images.mkdir(parents=True)
    rows = []
    for kind, entities in enumerate(ENTITIES):
        draw(kind).save(world.images / f"photo{kind}.png")
        rows.append({"image": f"photo{kind}.png", "image_url": f"https://x.example/{kind}.jpg", "entities": entities})
    world.kg.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    pages = [{"page_url": url, "page_name": name, "page_snippet": text} for url, name, text in PAGES]
    world.pages.write_text("\n".join(map(json.dumps, pages)), encoding="utf-8")
    return world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = write_sources(tmp_path_factory.mktemp("world"))
    assert world.build() == 0
    return world


@pytest.fixture(scope="session")
def pipeline(world: World) -> Iterator[Any]:
    """The organiser's pipeline as it is in tasks 2 and 3."""
    yield open_pipeline(image_index=IMAGE_ID, web_index=WEB_ID, cache=world.cache)


@pytest.fixture(scope="session")
def offline_web(world: World) -> Any:
    """The organiser's pipeline as it is in task 1."""
    return open_pipeline(image_index=IMAGE_ID, cache=world.cache)


@pytest.fixture(scope="session")
def tiny_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real CLIP checkpoint with random weights."""
    from agents.search.clip import save_tiny_clip

    folder = tmp_path_factory.mktemp("tiny-clip")
    save_tiny_clip(folder, seed=7)
    return folder


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real BERT checkpoint with random weights."""
    return save_bert(tmp_path_factory.mktemp("tiny-bert"), positions=512)


@pytest.fixture(scope="session")
def clip_pipeline(world: World, tiny_clip: Path, tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The organiser's pipeline with CLIP and BERT, as it is at the competition but for the weights."""
    hub = tmp_path_factory.mktemp("clip") / "hub"
    models = ["--image-model", str(tiny_clip), "--text-model", str(tiny_bert)]
    assert world.build("--out", str(hub), *models) == 0
    return open_pipeline(
        image_index=IMAGE_ID,
        web_index=WEB_ID,
        image_model=str(tiny_clip),
        text_model=str(tiny_bert),
        cache=hub.parent,
    )
