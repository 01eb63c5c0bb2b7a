"""Retrieval of runs against the mini set's truth: entries (CoRe-MMRAG, table 2), documents (MAVIS, 3).

    python -m lab.benchmarks.retrieval_recall --runs results/core_mmrag results/mavis

Entries are the pictures that image search found. The right one is the photograph of the entity in question, if the graph holds it, and
``settled`` is the share of turns that settled on that entity. Documents (MAVIS, table 3) are pages and pictures with their attributes, in
the order of the stage ``documents``; in other presets they are the evidence that was kept. The right ones are the entity's photograph if
the graph answers, and the pages that do. Chunks of one document count as one.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from pydantic import Field

from agents.base.command_options import Flag
from agents.record import TurnRecord
from agents.runner.intake import tidy
from evaluation.commands import make_console
from evaluation.files.traces import TRACE, read_traces
from lab.benchmarks.common import BenchmarkOptions, build_table, refuse_other_questions, run
from lab.benchmarks.rankings import ndcg_at, recall_at
from mini_crag_mm.content_models import WIKI_PREFIX, Content, Split, load_content
from mini_crag_mm.loader import SET, PreparedSet, read_kg, read_pages

ENTRY_RANKS, DOCUMENT_RANKS = (1, 2, 5, 10), (5, 10, 100)
GAIN_RANKS = 10


@dataclass(frozen=True)
class Truth:
    """Sources of the answer to a turn.

    ``entry`` is the address of the entity's photograph, with its ``name``; both are None if none is indexed.
    """

    entry: str | None
    name: str | None
    documents: frozenset[str]


class Truths:
    """Truths of the set's turns, from their facts (``collect_turn_facts``)."""

    def __init__(self, content: Content, split: Split) -> None:
        self._photos = {Path(image["image"]).stem: image["image_url"] for image in read_kg(split)}
        self._names = {identifier: entity.name for identifier, entity in content.entities.items()}
        self._pages = {identifier: page.url for identifier, page in content.pages.items()}
        self._pages |= {f"{WIKI_PREFIX}{page['page_name']}": page["page_url"] for page in read_pages()}

    def get(self, facts: Mapping[str, Any]) -> Truth:
        """Return the truth on a turn."""
        entity = facts["entity"]
        entry = self._photos.get(entity)
        answering = [entry] if entry is not None and facts["source"] in ("kg", "both") else []
        pages = (self._pages.get(page) for page in facts["pages"])
        documents = frozenset([*answering, *(url for url in pages if url is not None)])
        return Truth(entry, self._names.get(entity) if entry is not None else None, documents)


def list_documents(record: TurnRecord) -> list[str]:
    """Return the addresses of a turn's documents, best first."""
    return record.get_note("ranking") or [chunk.url for chunk in record.evidence]


def compute_recall(turns: Sequence[tuple[TurnRecord, Truth]]) -> dict[str, float | None]:
    """Compute the means over the turns that have a truth, by the name of the column.

    Returns:
        None for a column without such turns.
    """
    entries = [(record, truth) for record, truth in turns if truth.entry is not None]
    answered = [(list_documents(record), truth.documents) for record, truth in turns if truth.documents]
    if not any(ranking for ranking, _ in answered):  # a run without documents
        answered = []
    values_by_column = {
        f"entry R@{k}": [
            recall_at(k, [it.url for it in record.pictures], [truth.entry or ""]) for record, truth in entries
        ]
        for k in ENTRY_RANKS
    }
    values_by_column["settled"] = [float(record.entity == truth.name) for record, truth in entries]
    values_by_column[f"NDCG@{GAIN_RANKS}"] = [ndcg_at(GAIN_RANKS, ranking, truth) for ranking, truth in answered]
    values_by_column |= {
        f"R@{k}": [recall_at(k, ranking, truth) for ranking, truth in answered] for k in DOCUMENT_RANKS
    }
    return {name: fmean(values) if values else None for name, values in values_by_column.items()}


def _measure(options: RecallOptions) -> int:
    truths = Truths(load_content(SET.content), options.split)
    # A question of the set that is reworded keeps its ids.
    facts = {
        (each.session.session_id, each.turn.interaction_id, tidy(each.turn.query)): each.facts
        for each in PreparedSet(options.split, options.cache).turns()
        if each.facts
    }
    rows: list[tuple[str, ...]] = []
    headings: Sequence[str] = ()
    for folder in options.runs:
        records = read_traces(folder / TRACE, is_required=True)
        own = [
            (record, truths.get(facts[asked]))
            for key, record in records.items()
            if (asked := (*key, record.query)) in facts
        ]
        refuse_other_questions(folder, options.split, own)
        columns = compute_recall(own)
        headings = ("run", "turns", *columns)
        rates = ("-" if value is None else f"{100 * value:.1f}" for value in columns.values())
        rows.append((folder.name, str(len(own)), *rates))
    make_console().print(build_table(f"Retrieval, {options.split} (%)", headings, rows))
    return 0


class RecallOptions(BenchmarkOptions):
    """Options of the runs to measure."""

    runs: Annotated[tuple[Path, ...], Flag(metavar="DIR")] = Field(description="output folders of runs over the split")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table.

    Returns:
        0, or 2 if a run cannot be read.
    """
    return run(_measure, RecallOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
