"""Stage 8: web search with all queries of all turns at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from math import isfinite
from typing import ClassVar

from agents.search.hits import WebHit
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
        texts = self._full_texts(list(best.values()), len(turns), context)
        for turn in turns:
            pages = best.get(id(turn), {})
            turn.web_hits = tuple(
                replace(hit, page_text=self._text(hit, texts, context))
                for hit in sorted(pages.values(), key=lambda hit: -hit.score)
            )
            turn.note(
                pages=[
                    {"name": hit.page_name, "url": hit.page_url, "score": round(hit.score, 4)} for hit in turn.web_hits
                ],
                full_texts=sum(bool(hit.page_text) for hit in turn.web_hits),
                without_text=sum(hit.page_text == "" for hit in turn.web_hits),
                search_error=errors.get(id(turn)),
            )

    @staticmethod
    def _full_texts(found: Sequence[dict[str, WebHit]], turns: int, context: Context) -> dict[str, str]:
        """The whole pages behind the hits of each turn, the best of every turn first."""
        settings = context.settings.web_search
        if not settings.full_text:
            return {}
        ranked = [sorted(pages.values(), key=lambda hit: -hit.score) for pages in found]
        by_rank = [hit for rank in zip_longest(*ranked) for hit in rank if hit is not None and hit.page_text is None]
        left = context.deadline.left()
        deadline = (
            context.deadline.sooner(max(0.0, left - settings.full_text_seconds * turns))
            if isfinite(left)
            else context.deadline
        )
        return context.search.page_texts([hit.page_url for hit in by_rank], settings.fetch, deadline)

    @staticmethod
    def _text(hit: WebHit, texts: dict[str, str], context: Context) -> str | None:
        if not context.settings.web_search.full_text:
            return None
        return hit.page_text if hit.page_text is not None else texts.get(hit.page_url)
