"""Chunks of evidence from search results: attributes become sentences, pages are cut (QA-Dragon, section 3.6.1)."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field
from semantic_text_splitter import TextSplitter

from agents.evidence.passages import split_paragraphs, write_attribute
from agents.search.hits import Entity, ImageHit, WebHit
from agents.texts.infobox import facts, write_thing
from agents.texts.injection import neutral, without_special_tokens
from agents.texts.page_structure import cut_page
from agents.turn import CutPage, Evidence, Turn

_WORD = re.compile(r"\w+")
_PROBE = 120  # characters by which a part is looked for in its page
_MIN_WORDS = 4  # fewer would be found anywhere
PAGE_CHARACTERS = 4000  # of a page's full text so much around the part that was found is read
_MAX_BREADCRUMB = 200  # characters
_HEADING = re.compile(
    r"^#{1,6} +(\S.{0,119})$(?=\s*\S)", re.MULTILINE
)  # one without text below it stays in the text above
_MAX_HEADING = 120  # characters of the headings above a section
_HEADING_WORDS = 4  # a chunk of no more words is a heading: it says nothing by itself, and every reranker likes it
Cut = Callable[[str], Sequence[str]]  # how a text becomes chunks


class ChunkOptions(BaseModel):
    """Options of how attributes and pages are cut."""

    chunk_characters: int = Field(400, ge=50, description="longest chunk of a page, in characters")
    chunking: Literal["semantic", "paragraph", "whole", "structure"] = Field(
        "semantic",
        description="pages are cut at sentences and headings, or at every newline however long a paragraph is (CRUISE, section 3.2), "
        "or only where they are longer than a chunk, whose rest is left out (task 2's winner), or along sections, lists and tables: "
        "prompts then show what is beside a chunk too, as far as the budget goes",
    )
    attribute_chunks: Literal["each", "joined", "ranked", "passage"] = Field(
        "each",
        description="each attribute as a chunk of its own; or all of an entity joined and cut like a page; or each ranked by itself, and "
        "the best of an entity shown as one passage; or all of them ranked and shown as one passage",
    )


def make_cutter(options: ChunkOptions) -> Cut:
    """Return the function that cuts texts as the preset says; one without headings, for ``chunking = "structure"``."""
    if options.chunking == "whole":
        return lambda text: [text[: options.chunk_characters]] if text.strip() else []
    return split_paragraphs if options.chunking == "paragraph" else _cut_at_sentences(options.chunk_characters)


def _cut_at_sentences(characters: int) -> Cut:
    """Return a function that cuts at sentences and headings.

    A heading stays with the text below it. At the end of a page it stays with the text above it.
    """
    splitter = TextSplitter(characters)

    def cut(text: str) -> list[str]:
        spans: list[tuple[int, int]] = []
        heading: int | None = None  # where a heading begins that waits for its text
        for offset, chunk in splitter.chunk_indices(text):
            start, end = offset if heading is None else heading, offset + len(chunk)
            heading = start if len(_WORD.findall(text[start:end])) <= _HEADING_WORDS else None
            if heading is None:
                spans.append((start, end))
        if heading is not None:
            above = spans.pop()[0] if spans else heading
            spans.append((above, len(text.rstrip())))
        return [text[start:end] for start, end in spans]

    return cut


def list_entities(turn: Turn, limit: int, minimum: float = -1.0) -> Iterator[tuple[Entity, ImageHit]]:
    """Yield the chosen entity, then those of the other pictures found, best first and without repetition.

    Args:
        turn: The turn. If its question is about several objects, only their entities are returned, whatever ``limit`` says.
        limit: Maximum number of entities.
        minimum: Skip pictures with a lower cosine; the best one is kept if all are lower.
    """
    likely_hits = [hit for hit in turn.hits if hit.score >= minimum] or turn.hits[:1]
    if turn.entities:
        for entity in turn.entities:
            named = [hit for hit in likely_hits if any(other.name == entity.name for other in hit.entities)]
            if named:
                yield entity, max(named, key=lambda hit: hit.score)
        return
    if turn.entity is None:
        return
    seen: set[str] = set()
    for hit in sorted(likely_hits, key=lambda hit: turn.entity not in hit.entities):
        for entity in hit.entities:
            if entity.name not in seen and len(seen) < limit:
                seen.add(entity.name)
                yield entity, hit


def chunk_attributes(
    entity: Entity, hit: ImageHit, options: ChunkOptions, cut: Cut, identity: str = ""
) -> Iterator[Evidence]:
    """Yield the attributes of an entity as chunks: one each, or all of them joined and cut like a page.

    Args:
        entity: The entity.
        hit: The picture found of it.
        options: How attributes are cut.
        cut: Function that cuts a text into chunks.
        identity: What the photo surely shows; a passage of all attributes begins with it.
    """
    if options.attribute_chunks == "passage":
        for text in write_thing(entity.name, entity.attributes, options.chunk_characters, identity):
            yield Evidence(without_special_tokens(text), "kg", entity.name, hit.url, hit.score)
        return
    if options.attribute_chunks == "ranked":
        for key, value in facts(entity.attributes):
            sentence = without_special_tokens(write_attribute(key, entity.name, value))
            yield Evidence(sentence, "kg", entity.name, hit.url, hit.score, key=key, value=value)
        return
    # A mark of a message may come about where a name and a value meet, each harmless by itself.
    sentences = [
        (key, without_special_tokens(write_attribute(key, entity.name, value)))
        for key, value in facts(entity.attributes)
    ]
    if options.attribute_chunks == "each":
        for key, sentence in sentences:
            yield Evidence(sentence, "kg", entity.name, hit.url, hit.score, key=key)
    else:
        for text in cut(" ".join(sentence for _, sentence in sentences)):
            yield Evidence(text, "kg", entity.name, hit.url, hit.score)


def chunk_structure(hit: WebHit, characters: int, title: str | None = None) -> Iterator[Evidence]:
    """Cut a page along its structure: the whole text if it was read, else the part found.

    Args:
        hit: The page as the search found it, made safe.
        characters: Longest chunk, with its title.
        title: Replaces the page's name.

    Returns:
        All chunks in the order of the page. Those that contain nothing of the part found have ``beside`` set. If the page changed since
        it was indexed, the chunks of the part come first.
    """
    name = hit.page_name if title is None else title
    text = hit.page_text or hit.page_snippet
    at = _find_place(text, hit.page_snippet)
    if at < 0 and hit.page_text and hit.page_snippet:
        yield from chunk_structure(replace(hit, page_text=None), characters, title)
    page = CutPage(name, hit.page_url, cut_page(text, name, characters))
    start, end = (at, at + len(hit.page_snippet)) if at >= 0 else (0, 0)
    for place, piece in enumerate(page.pieces):
        beside = piece.start >= end or piece.end <= start
        # A mark of a message may come about where two texts meet, each harmless by itself.
        shown = without_special_tokens(piece.whole_text)
        titled = ": ".join((name, *map(neutral, piece.headings)))
        yield Evidence(shown, "web", titled, hit.page_url, hit.score, beside=beside, page=page, places=(place,))


def chunk_page(hit: WebHit, cut: Cut, title: str | None = None, *, sections: bool = True) -> Iterator[Evidence]:
    """Cut a page into chunks: the full text around the part found if it was read, else that part alone.

    Args:
        hit: The page as the search found it, made safe.
        cut: Function that cuts a text into chunks.
        title: Replaces the page's name.
        sections: Cut each section by itself; its heading becomes a part of the title of its chunks.

    Returns:
        The chunks in the order of the page. Chunks that contain nothing of the part found have ``beside`` set.
    """
    whole = Window(hit.page_snippet, 0, len(hit.page_snippet))
    windows = find_windows(hit.page_text, hit.page_snippet, PAGE_CHARACTERS) if hit.page_text else (whole,)
    name = hit.page_name if title is None else title
    for window in windows:
        end = 0
        parts = _split_sections(window, name) if sections else [("", window.text)]
        for heading, part in parts:
            titled = f"{name}: {heading}" if heading else name
            for text in cut(part):
                start = max(end, window.text.find(text, end))
                end = start + len(text)
                beside = start >= window.end or end <= window.start
                yield Evidence(text, "web", titled, hit.page_url, hit.score, beside=beside)


def format_breadcrumb(url: str) -> str:
    """Return the path of a page: ``en.wikipedia.org > wiki > Eiffel_Tower``; empty if the text is no URL."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").removeprefix("www.")
    except ValueError:
        host = ""
    if not host:
        return ""
    *folders, name = [host.removesuffix(".com") if host.count(".") == 1 else host, *filter(None, parts.path.split("/"))]
    stem = name.rpartition(".")[0] if folders else ""
    return neutral(" > ".join([*folders, stem or name])[:_MAX_BREADCRUMB])


@dataclass(frozen=True)
class Window:
    """A part of a page, and the place of the found part: from ``start`` to before ``end``.

    ``heading`` is that of the section in which the text begins.
    """

    text: str
    start: int
    end: int
    heading: str = ""


def find_windows(page: str, part: str, characters: int) -> tuple[Window, ...]:
    """Return the part of a page around the part found: at most ``characters``, at least the part found.

    Returns:
        Two windows, that part and the page's beginning, if the page does not contain the part because it changed since it was
        indexed.
    """
    at = _find_place(page, part)
    if at < 0:
        windows = Window(part, 0, len(part)), Window(page[:characters], 0, 0)
        return tuple(window for window in windows if window.text)
    before = max(0, characters - len(part)) // 2
    start = max(0, min(at - before, len(page) - characters))
    text = page[start : max(start + characters, at + len(part))]
    above = _HEADING.findall(page[: start + 1])
    return (Window(text, at - start, at - start + len(part), neutral(above[-1]) if above else ""),)


def _split_sections(window: Window, name: str) -> Iterator[tuple[str, str]]:
    """Yield the sections of a window of a page: the headings above a text, and the text.

    Headings that follow each other are joined. One in the page's name is left out.
    """
    headings, at = [window.heading], 0
    for match in _HEADING.finditer(window.text):
        body, own = window.text[at : match.start()], neutral(match[1].strip())
        if at > 0 and not body.strip() and sum(map(len, headings)) + len(own) < _MAX_HEADING:
            headings.append(own)
        else:
            yield _join_headings(headings, name), body if body.strip() or at == 0 else headings[-1]
            headings = [own]
        at = match.end()
    yield _join_headings(headings, name), window.text[at:]


def _join_headings(headings: Sequence[str], name: str) -> str:
    return ": ".join(heading for heading in headings if heading.casefold() not in name.casefold())


def _find_place(page: str, part: str) -> int:
    """Return where a page contains the beginning of the part found, regardless of white space and marks of headings; -1 if not."""
    if not part:
        return -1
    at = page.find(part[:_PROBE])
    words = part[:_PROBE].split()
    if at >= 0 or len(words) < _MIN_WORDS:
        return at
    match = re.search(r"\s+(?:#+\s+)?".join(map(re.escape, words[:-1])), page)  # the last word may be cut
    return match.start() if match else -1


def interleave_by_entity(turn: Turn, chunks: Sequence[Evidence]) -> list[Evidence]:
    """Interleave chunks so that each object of the question gets its share: the best of each, then the second best ...

    A chunk belongs to the entity that its title names; the others are a group of their own. The group of the best chunk begins. If the
    question is not about several objects, the order stays.
    """
    names = [_words(entity.name) for entity in turn.entities]
    if len(names) < 2:
        return list(chunks)
    groups: dict[str | None, list[Evidence]] = {}
    for chunk in chunks:
        title = _words(chunk.title)
        named = [name for name in names if name in title]
        groups.setdefault(max(named, key=len) if named else None, []).append(chunk)
    return [chunk for round_ in zip_longest(*groups.values()) for chunk in round_ if chunk is not None]


def _words(name: str) -> str:
    """Normalise a name for comparison: its words in lower case, each between blanks."""
    return f" {' '.join(_WORD.findall(name.lower()))} "


def deduplicate(chunks: Sequence[Evidence]) -> list[Evidence]:
    """Drop repeated chunks and sort the rest: first those found, then those beside them, each by score.

    A limit on the number of chunks then keeps the part found on every page before the rest of the best page.
    """
    unique: dict[tuple[str, str], Evidence] = {}
    for chunk in chunks:
        unique.setdefault((chunk.title, chunk.text), chunk)
    return sorted(unique.values(), key=lambda chunk: (chunk.beside, -chunk.retrieval))
