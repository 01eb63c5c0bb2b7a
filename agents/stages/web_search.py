from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import zip_longest
from operator import attrgetter
from typing import Literal

from pydantic import Field

from agents.methods.ranking import fuse
from agents.record import Unanswered
from agents.search.gateway import READING_SECONDS
from agents.search.hits import PageText, Results, WebHit
from agents.stage import Context, Stage, StageOptions
from agents.turn import Turn

_QUERIES_WHEN_SHORT = 1


class WebSearch(Stage):
    """Searches the web for all queries of the batch at once.

    A page that several queries of a turn return is kept once, with its best score. The full text of a page comes with the result
    (``page_content``), or from ``page_cache/`` below the cache folder or the organiser's page cache (``$CRAG_WEBSEARCH_CACHE_DIR``,
    else ``~/.cache/crag/web_search_results``) under the SHA-256 of its URL.
    """

    class Options(StageOptions):
        k: int = Field(10, ge=1, description="pages wanted for a query")
        pages: Literal["full", "snippets"] = Field(
            "full",
            description="part of a page to read: its full text around the snippet, if the page cache has it, or only the"
            " snippet. Two queries may find two snippets of one page, and both are kept",
        )
        whole_collection: bool = Field(
            False,
            description="of an own collection: search the things of its table by words too, and read its pages whole, as `crag index` kept "
            "them",
        )
        k_pages: int | None = Field(None, ge=1, description="pages or snippets of a turn, the best ones; None: all")

    options: Options
    fills = ("web_hits",)
    searches = "web"
    gathers = True
    doing = "searching the web"
    when_short = f"{_QUERIES_WHEN_SHORT} query"
    min_seconds, wanted_seconds = 0.5, 1.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``web_hits``, best first."""
        limit = _QUERIES_WHEN_SHORT if context.short else None
        turn_queries = [
            (turn, query)
            for turn in turns
            if turn.tools.text and context.search.can_search_web(turn.provided)
            for query in (turn.queries[:limit] or (turn.question,))
            if query
        ]
        if not turn_queries:
            return
        for turn in {id(turn): turn for turn, _ in turn_queries}.values():
            turn.count_search("web")
        provided = [turn.provided for turn, _ in turn_queries]
        queries = [query for _, query in turn_queries]
        all_results = context.search.search_web(queries, self.options.k * context.widen, provided, context.deadline)
        errors: dict[int, str] = {}
        for (turn, _), results in zip(turn_queries, all_results, strict=True):
            if results.error is not None:
                errors[id(turn)] = results.error
        ranked: list[list[WebHit]] = []
        for turn in turns:
            own = [results for (other, _), results in zip(turn_queries, all_results, strict=True) if other is turn]
            ranked.append(self._best(own))
        texts = self._full_texts(ranked, context) if self.options.pages == "full" else {}
        notes = {url: text.note for url, text in texts.items()}
        for turn, pages in zip(turns, ranked, strict=True):
            failed = [
                results.error is not None
                for (other, _), results in zip(turn_queries, all_results, strict=True)
                if other is turn
            ]
            if failed and all(failed):
                turn.mark_fault(Unanswered.SEARCH)
            turn.web_hits = tuple(
                hit
                if hit.page_text is not None or hit.page_url not in texts
                else replace(hit, page_text=texts[hit.page_url].text)
                for hit in pages
            )
            page_notes = [
                {"name": hit.page_name, "url": hit.page_url, "score": round(hit.score, 4)} for hit in turn.web_hits
            ]
            left_out = [
                *(
                    note
                    for (other, _), results in zip(turn_queries, all_results, strict=True)
                    if other is turn
                    for note in results.notes
                ),
                *(f"{hit.page_url}: {note}" for hit in pages if (note := notes.get(hit.page_url))),
            ]
            turn.note(
                pages=page_notes,
                full_texts=sum(bool(hit.page_text) for hit in turn.web_hits),
                without_text=sum(hit.page_text == "" for hit in turn.web_hits),
                search_error=errors.get(id(turn)),
                **({"left_out": left_out} if left_out else {}),
            )

    def _best(self, all_results: Sequence[Results[WebHit]]) -> list[WebHit]:
        """Merge the hits of a turn's queries and keep the best, best first."""
        options = self.options
        one_page: Callable[[WebHit], Hashable] = _identify
        hits = [hit for results in all_results for hit in results.hits]
        if options.pages == "snippets":
            hits, one_page = [replace(hit, page_text=None) for hit in hits], attrgetter("page_url", "page_snippet")
        fused = fuse(([hit] for hit in hits), key=one_page, score=attrgetter("score"))
        return [hit for hit, _ in fused][: options.k_pages]

    @staticmethod
    def _full_texts(ranked: Sequence[Sequence[WebHit]], context: Context) -> dict[str, PageText]:
        """Read the whole pages behind the hits of each turn, the best of every turn before the second best."""
        by_rank = [hit for rank in zip_longest(*ranked) for hit in rank if hit is not None and hit.page_text is None]
        deadline = context.deadline.within(READING_SECONDS * len(ranked))
        return context.search.page_texts([hit.page_url for hit in by_rank if hit.page_url], context.fetch, deadline)


def _identify(hit: WebHit) -> Hashable:
    """Return what makes two hits one page: its URL, or the found part of a page without one, be it the whole text."""
    return hit.page_url or (hit.page_name, hit.page_snippet or hit.page_text)
