"""Recall of the right page with and without query splitting, on the mini set's multi-hop questions.

    python -m lab.benchmarks.splitting [--split validation]

The questions are the single-turn ones that go from the picture to a page (source "both"). They are asked with the entity that the picture
really shows, so that only the queries differ: the question as it stands, with the entity's name (fusion search), and with the hops that
the rules bridge besides.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from agents.english.bridging import write_hop_questions
from agents.search.gateway import SearchGateway
from agents.search.hits import Entity
from evaluation.commands import make_console
from lab.benchmarks.common import BenchmarkOptions, build_table, run
from mini_crag_mm.content_models import WIKI_PREFIX, Split, load_content
from mini_crag_mm.loader import SET, PreparedSet

RANKS = (1, 3, 5, 10)
WAYS = ("question as it stands", "with the entity's name", "with its hops besides")


@dataclass(frozen=True)
class SplitQuestion:
    """A multi-hop question: its queries for each of ``WAYS``, and the names of the pages with its answer."""

    queries: tuple[tuple[str, ...], ...]
    pages: frozenset[str]


def read_questions(split: Split) -> list[SplitQuestion]:
    """Read the multi-hop questions of a split."""
    content = load_content(SET.content)
    questions = []
    for question in content.questions.values():
        if question.split != split or question.source != "both" or question.entity is None:
            continue
        entry = content.entities[question.entity]
        entity = Entity(entry.name, entry.attributes)
        fused = f"{question.query} ({entity.name})"
        own = {content.pages[page].name for page in question.pages if not page.startswith(WIKI_PREFIX)}
        wiki = {page.removeprefix(WIKI_PREFIX) for page in question.pages if page.startswith(WIKI_PREFIX)}
        queries = ((question.query,), (fused,), (fused, *write_hop_questions(question.query, entity)))
        questions.append(SplitQuestion(queries, frozenset(own | wiki)))
    return questions


def rank_pages(questions: Sequence[SplitQuestion], search: SearchGateway) -> list[list[int]]:
    """Return for each way the rank of the first right page of each question, from 0.

    The rank is a large number if no right page was found.
    """
    limit = max(RANKS)
    table: list[list[int]] = []
    for way in range(len(WAYS)):
        queries = [query for item in questions for query in item.queries[way]]
        hit_results = iter(search.search_web(queries, 3 * limit))
        row = []
        for item in questions:
            best: dict[str, float] = {}
            for hit in (hit for _ in item.queries[way] for hit in next(hit_results).hits[:limit]):
                best[hit.page_name] = max(hit.score, best.get(hit.page_name, -1.0))
            ordered = sorted(best, key=lambda name: -best[name])
            row.append(next((rank for rank, name in enumerate(ordered) if name in item.pages), limit * 100))
        table.append(row)
    return table


class SplittingOptions(BenchmarkOptions):
    """Options of the split to search."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table.

    Returns:
        0, or 2 if an index is missing.
    """
    return run(_measure, SplittingOptions, arguments, __doc__)


def _measure(options: SplittingOptions) -> int:
    search = SearchGateway(PreparedSet(options.split, options.cache).search())
    questions = read_questions(options.split)
    table = zip(WAYS, rank_pages(questions, search), strict=True)
    rows = [(way, *(f"{sum(rank < k for rank in row) / len(row):.0%}" for k in RANKS)) for way, row in table]
    title = f"Right page among the first k: {len(questions)} multi-hop questions, {options.split}"
    make_console().print(build_table(title, ("queries", *(f"@{k}" for k in RANKS)), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
