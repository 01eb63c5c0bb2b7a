"""Writes the image knowledge graph and the web pages: kg/SPLIT.jsonl, pages/wiki.jsonl and pages/own.jsonl."""

from __future__ import annotations

from collections.abc import Iterator

from mini_crag_mm import wikipedia
from mini_crag_mm.content_models import SPLITS, Companion, Content, Entity, Split
from mini_crag_mm.loader import IMAGE_URL, KgImage, SetPaths, WebPage, write_lines
from mini_crag_mm.wikipedia import WikiError, wiki_page


def kg_image(entity: Entity) -> KgImage:
    """The KG line of an entity's photograph, with the other entities that it shows."""
    shown: list[Entity | Companion] = [entity, *entity.also]
    return {
        "image": f"photos/{entity.id}.webp",
        "image_url": f"{IMAGE_URL}{entity.id}.webp",
        "entities": [{"entity_name": one.name, "entity_attributes": one.attributes} for one in shown],
    }


def kg_images(content: Content, split: Split) -> list[KgImage]:
    """The KG of a split: its entities but those that are held out."""
    return [kg_image(entity) for entity in content.entities.values() if entity.split == split and entity.in_graph]


def build_kg(content: Content, paths: SetPaths) -> None:
    """Write the KG of both splits."""
    for split in SPLITS:
        write_lines(paths.kg(split), kg_images(content, split))


def listed_pages(content: Content, summaries: dict[str, str]) -> Iterator[WebPage]:
    """Pages of the titles that the content claims. WikiError names titles without a summary."""
    claims = content.claimed_titles()
    missing = sorted(title for title in claims if title not in summaries)
    if missing:
        raise WikiError(f"no summary of: {', '.join(missing)}")
    for title in sorted(claims):
        for split in SPLITS:
            if split in claims[title]:
                yield wiki_page(title, summaries[title], split)


def own_pages(content: Content) -> Iterator[WebPage]:
    """Pages written for the set, raw text as on the web."""
    for page in content.pages.values():
        yield {
            "split": page.split,
            "page_url": page.url,
            "page_name": page.name,
            "page_snippet": page.text.strip(),
            "kind": page.kind,
        }


def build_pages(content: Content, paths: SetPaths) -> list[str]:
    """Write pages/wiki.jsonl and pages/own.jsonl; titles without a summary are returned as problems."""
    problems = []
    try:
        wiki = list(listed_pages(content, wikipedia.read_summaries()))
        write_lines(paths.wiki_pages, wiki)
    except WikiError as error:
        problems.append(f"wiki: {error}")
    write_lines(paths.own_pages, own_pages(content))
    return problems
