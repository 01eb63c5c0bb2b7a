"""Writes the image knowledge graph and the web pages: kg/SPLIT.jsonl, pages/wiki.jsonl and pages/own.jsonl."""

from __future__ import annotations

from collections.abc import Iterator

from mini_crag_mm import wikipedia
from mini_crag_mm.content_models import SPLITS, Companion, Content, Entity, Split
from mini_crag_mm.loader import IMAGE_URL, KgImage, SetPaths, WebPage, write_lines
from mini_crag_mm.wikipedia import WikiError, wiki_page


def kg_images(content: Content, split: Split) -> Iterator[KgImage]:
    """The KG of a split: the photographs of its entities but those that are held out, with all entities that they show."""
    for entity in content.entities.values():
        if entity.split == split and entity.in_graph:
            shown: list[Entity | Companion] = [entity, *entity.also]
            named = [{"entity_name": one.name, "entity_attributes": one.attributes} for one in shown]
            file = f"{entity.id}.webp"
            yield {"image": f"photos/{file}", "image_url": f"{IMAGE_URL}{file}", "entities": named}


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
    write_lines(paths.own_pages, own_pages(content))
    try:
        write_lines(paths.wiki_pages, listed_pages(content, wikipedia.read_summaries()))
    except WikiError as error:
        return [f"wiki: {error}"]
    return []
