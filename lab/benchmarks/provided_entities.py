"""Entities that the research release passes to an agent, for several thresholds of the cosine.

    python -m lab.benchmarks.provided_entities [--split validation] [--cuts 0.725 0.75 0.8]

The search is with the whole photo. For each threshold the table has the turns whose photo gets any entity, and the number of entities
listed. Of the turns whose entity the graph holds, it has those that list the entity, and those that list it first.
``agents.search.clip.SHARED_COSINE`` was chosen by this table on validation.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from statistics import fmean
from typing import Annotated

from pydantic import Field

from agents.base.command_options import Flag
from evaluation.commands import make_console
from evaluation.run.provided_evidence import MIN_COSINE, PICTURES
from lab.benchmarks.common import ProfileOptions, build_table, run
from lab.benchmarks.entity_choice import read_shown_names
from mini_crag_mm.loader import PreparedSet

Hits = list[tuple[float, tuple[str, ...]]]
"""Cosine and names of what each picture shows, best first."""


def build_row(cut: float, questions: Sequence[tuple[Hits, frozenset[str]]]) -> list[str]:
    """Build one line of the table; the names are empty if the graph does not hold the entity."""
    listed = [[names for cosine, names in hits if cosine > cut] for hits, _ in questions]
    pairs = [(listing, names) for listing, (_, names) in zip(listed, questions, strict=True) if names]
    shares = (
        fmean(bool(listing) for listing in listed),
        fmean(any(not names.isdisjoint(each) for each in listing) for listing, names in pairs),
        fmean(bool(listing) and not names.isdisjoint(listing[0]) for listing, names in pairs),
    )
    first = [not names.isdisjoint(listing[0]) for listing, (_, names) in zip(listed, questions, strict=True) if listing]
    right = f"{fmean(first):.0%}" if first else "-"
    named, anywhere, at_first = (f"{share:.0%}" for share in shares)
    return [f"{cut:g}", named, f"{fmean(map(len, listed)):.1f}", anywhere, at_first, right]


def _measure(options: ProvidedEntitiesOptions) -> int:
    mini = PreparedSet(options.split, options.cache)
    search = mini.search(options.profile)
    from agents.models.pixels import to_rgb

    shown_names, searched = read_shown_names(options.split), dict[bytes, Hits]()
    questions = []
    for each in mini.turns(options.sessions):
        if each.image is None:
            continue
        pixels = each.image.tobytes()
        if pixels not in searched:
            searched[pixels] = [
                (hit["score"], tuple(entity["entity_name"] for entity in hit["entities"]))
                for hit in search(to_rgb(each.image), k=PICTURES)
            ]
        questions.append((searched[pixels], shown_names.get(each.facts.get("entity", ""), frozenset())))
    title = f"{options.split}: {len(questions)} turns, {sum(bool(names) for _, names in questions)} whose entity the graph holds"
    heads = ("cosine above", "any listed", "listed", "entity listed", "entity first", "first one right, of all")
    make_console().print(build_table(title, heads, [build_row(cut, questions) for cut in options.cuts]))
    return 0


class ProvidedEntitiesOptions(ProfileOptions):
    """Options of the thresholds to compare."""

    cuts: tuple[float, ...] = Field((MIN_COSINE,), description="cosines; one is the release's")
    sessions: Annotated[int | None, Flag(metavar="N")] = Field(
        None, description="only the first N sessions of each data set"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table.

    Returns:
        0, or 2 if an index is missing.
    """
    return run(_measure, ProvidedEntitiesOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
