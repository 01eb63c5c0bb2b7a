"""Stage 8: web search with all queries of all turns at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from agents.search.types import WebHit
from agents.stage import Context
from agents.turn import Turn


class WebSearch:
    """One search for the whole batch; pages found by several queries of a turn are kept once, with their best score."""

    name: ClassVar[str] = "web_search"
    least_seconds: ClassVar[float] = 0.5
    wanted_seconds: ClassVar[float] = 1.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``web_hits``, best first."""
        settings = context.settings.web_search
        asked = [
            (turn, query)
            for turn in turns
            if turn.tools.text and context.search.reads(turn.given)
            for query in (turn.queries[: context.settings.queries.most] or (turn.question,))
            if query
        ]
        if not asked:
            return
        found = context.search.search_web(
            [query for _, query in asked],
            settings.k,
            settings.k * settings.overfetch,
            [turn.given for turn, _ in asked],
        )
        best: dict[int, dict[str, WebHit]] = {}
        errors: dict[int, str] = {}
        for (turn, _), results in zip(asked, found, strict=True):
            pages = best.setdefault(id(turn), {})
            if results.error is not None:
                errors[id(turn)] = results.error
            for hit in results.hits:
                known = pages.get(hit.page_url)
                if known is None or hit.score > known.score:
                    pages[hit.page_url] = hit
        texts = self._full_texts([url for pages in best.values() for url in pages], context)
        for turn in turns:
            pages = best.get(id(turn), {})
            turn.web_hits = tuple(
                replace(hit, page_text=texts.get(hit.page_url))
                for hit in sorted(pages.values(), key=lambda hit: -hit.score)
            )
            turn.note(
                pages=[
                    {"name": hit.page_name, "url": hit.page_url, "score": round(hit.score, 4)} for hit in turn.web_hits
                ],
                full_texts=sum(hit.page_text is not None for hit in turn.web_hits),
                search_error=errors.get(id(turn)),
            )

    @staticmethod
    def _full_texts(urls: Sequence[str], context: Context) -> dict[str, str]:
        settings = context.settings.web_search
        if not settings.full_text:
            return {}
        return context.search.page_texts(urls, settings.fetch, context.deadline)
