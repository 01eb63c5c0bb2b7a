"""The image knowledge graph and the web pages: kg/SPLIT.jsonl, pages/wiki.jsonl and pages/own.jsonl."""

from __future__ import annotations

from collections.abc import Iterator

from mini_crag_mm import wikipedia
from mini_crag_mm.content_models import SPLITS, Companion, Content, Entity, Split
from mini_crag_mm.loader import IMAGE_URL, KgImage, SetPaths, WebPage, write_lines
from mini_crag_mm.wikipedia import WikiError, make_wiki_page


def list_kg_images(content: Content, split: Split) -> Iterator[KgImage]:
    """Yield the KG of a split: the photographs of its entities with all entities that they show.

    Entities that are held out are missing.
    """
    for entity in content.entities.values():
        if entity.split == split and entity.in_graph:
            things: list[Entity | Companion] = [entity, *entity.also]
            named = [{"entity_name": one.name, "entity_attributes": one.attributes} for one in things]
            file = f"{entity.id}.webp"
            yield {"image": f"photos/{file}", "image_url": f"{IMAGE_URL}{file}", "entities": named}


def build_kg(content: Content, paths: SetPaths) -> None:
    """Write the KG of both splits."""
    for split in SPLITS:
        write_lines(paths.kg(split), list_kg_images(content, split))


def list_wiki_pages(content: Content, summaries: dict[str, str]) -> Iterator[WebPage]:
    """Yield the pages of the titles that the content claims.

    Raises:
        WikiError: Titles have no summary; the message names them.
    """
    claims = content.claimed_titles()
    missing = sorted(title for title in claims if title not in summaries)
    if missing:
        raise WikiError(f"no summary of: {', '.join(missing)}")
    for title in sorted(claims):
        for split in SPLITS:
            if split in claims[title]:
                yield make_wiki_page(title, summaries[title], split)


def list_own_pages(content: Content) -> Iterator[WebPage]:
    """Yield the pages written for the set, with raw text as on the web."""
    for page in content.pages.values():
        yield {
            "split": page.split,
            "page_url": page.url,
            "page_name": page.name,
            "page_snippet": page.text.strip(),
            "kind": page.kind,
        }


def build_pages(content: Content, paths: SetPaths) -> list[str]:
    """Write pages/wiki.jsonl and pages/own.jsonl; return titles without a summary as problems."""
    write_lines(paths.own_pages, list_own_pages(content))
    try:
        write_lines(paths.wiki_pages, list_wiki_pages(content, wikipedia.read_summaries()))
    except WikiError as error:
        return [f"wiki: {error}"]
    return []
