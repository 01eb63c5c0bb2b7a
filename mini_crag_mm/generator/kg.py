"""The image knowledge graph: mini_crag_mm/kg/SPLIT.jsonl, one image a line with the entities to be seen in it."""

from __future__ import annotations

import json
from typing import Any, TypedDict

from PIL import Image

from mini_crag_mm.generator.compose import flattened
from mini_crag_mm.generator.content import SPLITS, Companion, Content, Entity, Split, load_content
from mini_crag_mm.generator.paths import DemoPaths, write_text

IMAGE_URL = "https://images.mini-crag-mm.example/"
# A cut-out fills its file to the rim; in the index it gets some air, as in a product photograph.
INDEX_MARGIN = 0.06


class KgEntity(TypedDict):
    """An entity as the organiser's image search returns it: raw infobox attributes."""

    entity_name: str
    entity_attributes: dict[str, Any]


class KgImage(TypedDict):
    """An image of the index. `image` is its path below mini_crag_mm/."""

    image: str
    image_url: str
    entities: list[KgEntity]


def photo_url(entity_id: str) -> str:
    """The made-up address of an entity's photograph."""
    return f"{IMAGE_URL}{entity_id}.webp"


def kg_image(entity: Entity) -> KgImage:
    """The KG line of an entity's photograph, with the other entities that it shows."""
    shown: list[Entity | Companion] = [entity, *entity.also]
    return {
        "image": f"photos/{entity.id}.webp",
        "image_url": photo_url(entity.id),
        "entities": [{"entity_name": one.name, "entity_attributes": one.attributes} for one in shown],
    }


def kg_images(content: Content, split: Split) -> list[KgImage]:
    """The KG of a split: its entities but those that are held out."""
    return [kg_image(entity) for entity in content.entities.values() if entity.split == split and entity.in_graph]


def build_kg(content: Content, paths: DemoPaths) -> None:
    """Write the KG of both splits."""
    for split in SPLITS:
        images = kg_images(content, split)
        write_text(paths.kg(split), "".join(json.dumps(image, ensure_ascii=False) + "\n" for image in images))


def read_kg(split: Split, paths: DemoPaths | None = None) -> list[KgImage]:
    """The committed KG of a split."""
    paths = paths or DemoPaths()
    with paths.kg(split).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def index_image(image: KgImage, paths: DemoPaths | None = None) -> Image.Image:
    """The photograph of a KG line as the image index embeds it: RGB, cut-outs on a neutral ground."""
    paths = paths or DemoPaths()
    with Image.open(paths.root / image["image"]) as photo:
        return flattened(photo, INDEX_MARGIN)


def main() -> int:
    """Write the KG."""
    paths = DemoPaths()
    build_kg(load_content(paths.content), paths)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
