"""Search results as a tool shows them to a model, without a reranker: names with facts, pages with their best paragraphs."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from agents.evidence.shown import within_tokens
from agents.search.hits import ImageHit, PageText, WebHit
from agents.texts.infobox import facts
from agents.texts.injection import without_special_tokens
from agents.texts.text import cut_words
from agents.turn import Evidence

_FACTS = 600  # characters of an entity's facts
_SNIPPET, _PARAGRAPH, _PAGE = 700, 500, 1400  # characters of a page's found part, of a paragraph, and of all of a page
_PARAGRAPHS = 2  # of a page, beside its found part
_MIN_PARAGRAPH = 40  # characters; a shorter one is a heading
_LENGTH_WEIGHT = (
    0.3  # power of a paragraph's words, by which long paragraphs lose to short ones with as many words of the query
)
_SAME = 60  # characters by which a paragraph is found in the snippet
_WORD = re.compile(r"\w+")


def list_pictured(hits: Iterable[ImageHit]) -> Iterator[Evidence]:
    """Yield each entity of each picture; its text says how alike the picture is, for whoever checks the answer too, and its facts."""
    for hit in hits:
        for entity in hit.entities:
            text = "; ".join(f"{key}: {value}" for key, value in facts(entity.attributes))
            shown = cut_words(without_special_tokens(text), _FACTS) or "no facts are known of it"
            yield Evidence(f"likeness {hit.score:.2f} of 1; {shown}", "kg", entity.name, hit.url, hit.score)


def list_pages(query: str, hits: Iterable[WebHit], texts: Mapping[str, PageText]) -> Iterator[Evidence]:
    """Yield each page: its found part, and the paragraphs of its whole text that have most words of the query."""
    words = _list_words(query)
    for hit in hits:
        known = texts.get(hit.page_url)
        text = hit.page_text or (known.text if known is not None else None) or ""
        paragraphs = [line.strip() for line in text.split("\n") if len(line.strip()) > _MIN_PARAGRAPH]
        best = sorted(paragraphs, key=lambda paragraph: -_rate(words, paragraph))[:_PARAGRAPHS]
        new = (cut_words(each, _PARAGRAPH) for each in best if each[:_SAME] not in hit.page_snippet)
        body = " … ".join(filter(None, (cut_words(hit.page_snippet, _SNIPPET), *new)))
        if body:
            yield Evidence(
                cut_words(without_special_tokens(body), _PAGE), "web", hit.page_name, hit.page_url, hit.score
            )


def _rate(query: Collection[str], paragraph: str) -> float:
    words = _list_words(paragraph)
    return float(len(words.intersection(query)) / (1 + len(words) ** _LENGTH_WEIGHT))


def _list_words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def select_newest(results: Sequence[Sequence[Evidence]], tokens: int | None) -> list[tuple[Evidence, ...]]:
    """Select the chunks of a series of results that a prompt shows within a budget, the newest results first.

    A chunk that several results have is shown with the newest.

    Args:
        results: Chunks of each result, in the order of the searches.
        tokens: Budget of all of them; None: no budget.

    Returns:
        The chunks to show of each result, in the order of ``results``.
    """
    owners: dict[Evidence, int] = {}
    for number in reversed(range(len(results))):
        for chunk in results[number]:
            owners.setdefault(chunk, number)
    shown = within_tokens(tuple(owners), tokens)
    selected: list[list[Evidence]] = [[] for _ in results]
    for chunk, number in zip(shown, owners.values(), strict=False):  # of the last ones none may be left
        selected[number].append(chunk)
    return [tuple(chunks) for chunks in selected]
