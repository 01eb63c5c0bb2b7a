"""Accuracy of entity selection: how often a preset selects an entity that the question is about.

    python -m lab.benchmarks.entity_choice [--split validation] [--set ground.masks=false ...] [--select word_weight=0.5 ...]

The turns are those whose entity the graph holds, in dialogs after the true answers to earlier turns. Rules make the questions standalone.
All stages before ``select_entity`` run once, with the settings of ``--set``. Each ``--select`` is one more way to choose, with these
settings of the stage, KEY=VALUE or several of them with commas between. The table also has two bounds of any choice: an entity that is
first in some list of hits, and one that is among those to choose from. The last column has the turns whose entity the graph does not
hold, and for how many of them nothing is recognised.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from pydantic import Field
from tqdm import tqdm

from agents.base.command_options import Flag
from agents.search.gateway import SearchGateway
from agents.settings.presets import Settings
from agents.settings.run_config import RunConfig
from agents.turn import Turn
from evaluation.commands import make_console
from lab.benchmarks.common import ProfileOptions, build_table, make_turn, run, run_stages
from mini_crag_mm.content_models import Split
from mini_crag_mm.loader import PreparedSet, read_kg

STAGE = "select_entity"
_BATCH = 16
PHOTOS = ("other-photo", "altered-copy")  # groups of ``mini_crag_mm.organiser_format``
OUTSIDE = "not-in-graph"  # likewise
_BY_RULES = ("understand.rewrite=rules",)

Test = Callable[[Turn, frozenset[str]], bool]
"""Test of a turn, given the names of what the graph's photograph of its entity shows."""

TurnWithNames = tuple["Turn", frozenset[str]]
"""A turn with those names."""


def is_chosen(turn: Turn, names: frozenset[str]) -> bool:
    """Return whether the selected entity, or one kept for a question about several, is shown."""
    return not names.isdisjoint(entity.name for entity in (turn.entity, *turn.entities) if entity is not None)


def recognises_nothing(turn: Turn) -> bool:
    """Return whether nothing in the photo is recognised."""
    return not turn.shown_entities()


def is_first_of_a_list(turn: Turn, names: frozenset[str]) -> bool:
    """Return whether the best hit of the whole picture or of some crop is shown."""
    best = (view.hits[0].entities for view in turn.views if view.hits)
    return any(entity.name in names for entities in best for entity in entities)


def is_among_choices(turn: Turn, names: frozenset[str]) -> bool:
    """Return whether a shown entity is among the best of all lists.

    ``select_entity`` chooses from these if the question names no place.
    """
    from agents.stages.select_entity import MAX_CHOICES, candidates

    return any(candidate.entity.name in names for candidate in candidates(turn)[:MAX_CHOICES])


def read_shown_names(split: Split) -> dict[str, frozenset[str]]:
    """Read the names of the entities in each photograph of the graph, by its id."""
    return {
        Path(image["image"]).stem: frozenset(str(entity["entity_name"]) for entity in image["entities"])
        for image in read_kg(split)
    }


def run_on_copies(
    questions: Sequence[TurnWithNames], settings: Settings, stages: Sequence[str], **parts: Any
) -> list[TurnWithNames]:
    """Run these stages on copies of the turns; see ``run_stages``."""
    results = run_stages([turn.snapshot() for turn, _ in questions], settings, stages, **parts)
    return [(turn, names) for turn, (_, names) in zip(results, questions, strict=True)]


def format_shares(questions: Sequence[TurnWithNames], holds: Test) -> list[str]:
    """Format for how many turns it holds.

    Of all turns, of those that name a place in the picture, and of the others.
    """
    outcomes = [(turn.target.position is not None, holds(turn, names)) for turn, names in questions]
    at_places, elsewhere = ([right for named, right in outcomes if named is placed] for placed in (True, False))
    return [format_share(group) for group in ([*at_places, *elsewhere], at_places, elsewhere)]


def format_shares_by_photo(questions: Sequence[TurnWithNames], groups: Sequence[str], holds: Test) -> list[str]:
    """Format for how many turns it holds, by the photograph of the thing in question.

    It is another photograph than the graph's, or an altered copy of it.
    """
    outcomes = [(group, holds(turn, names)) for group, (turn, names) in zip(groups, questions, strict=True)]
    return [format_share([right for own, right in outcomes if own == group]) for group in PHOTOS]


def format_share(flags: Sequence[bool]) -> str:
    """Format how many of them hold; a dash for none."""
    return f"{sum(flags)} of {len(flags)} ({fmean(flags):.0%})" if flags else "-"


def _measure(options: EntityChoiceOptions) -> int:
    mini = PreparedSet(options.split, options.cache)
    search = mini.search(options.profile)
    ways = {options.preset: (), **{each: [f"{STAGE}.{key}" for key in each.split(",")] for each in options.select}}
    launches = {
        label: RunConfig.read(
            options.preset, options.profile, overrides=[*_BY_RULES, *options.set, *changes], cache=options.cache
        )
        for label, changes in ways.items()
    }
    first = launches[options.preset]
    if STAGE not in first.settings.stages:
        raise ValueError(f"preset {options.preset} has no stage {STAGE}")
    parts: dict[str, Any] = {"models": first.models(), "search": SearchGateway(search), "prompts": first.prompts}
    shown_names = read_shown_names(options.split)
    turns = [each for each in mini.turns(options.sessions) if each.image is not None]
    graph_turns = [each for each in turns if each.facts.get("entity") in shown_names]
    outside = [each for each in turns if each.facts.get("photo_group") == OUTSIDE]
    groups = [str(each.facts.get("photo_group")) for each in graph_turns]
    questions = [
        (make_turn(each), shown_names.get(each.facts["entity"], frozenset())) for each in (*graph_turns, *outside)
    ]
    before = first.settings.stages[: first.settings.stages.index(STAGE)]
    searched: list[TurnWithNames] = []
    for start in tqdm(range(0, len(questions), _BATCH), desc="searching", unit="batch"):
        searched += run_on_copies(questions[start : start + _BATCH], first.settings, before, **parts)
    rows = [
        *(
            (label, run_on_copies(searched, each.settings, (STAGE,), **parts), is_chosen)
            for label, each in launches.items()
        ),
        ("first in some list of hits", searched, is_first_of_a_list),
        ("among the entities to choose from", searched, is_among_choices),
    ]
    title = f"{options.split}: {len(graph_turns)} turns whose entity the graph holds, {options.profile}"
    photos = ("another photograph", "an altered copy")
    headings = ("the right entity", "all", "a place is named", "no place", *photos, "not held: nothing recognised")
    cells = []
    for label, results, holds in rows:
        graph_results, others = results[: len(graph_turns)], results[len(graph_turns) :]
        rejected = format_share([recognises_nothing(turn) for turn, _ in others] if holds is is_chosen else [])
        cells.append(
            (
                label,
                *format_shares(graph_results, holds),
                *format_shares_by_photo(graph_results, groups, holds),
                rejected,
            )
        )
    make_console().print(build_table(title, headings, cells))
    return 0


class EntityChoiceOptions(ProfileOptions):
    """Options of whose entities are compared, and on how much."""

    preset: str = Field("best", description="preset whose stages are run")
    select: Annotated[tuple[str, ...], Flag(metavar="KEY=VALUE", repeated=True)] = Field(
        (), description=f"settings of {STAGE} to compare with, commas between; may be repeated"
    )
    set: Annotated[tuple[str, ...], Flag(metavar="STAGE.KEY=VALUE", repeated=True)] = Field(
        (), description="a setting of the preset; may be repeated"
    )
    sessions: Annotated[int | None, Flag(metavar="N")] = Field(
        None, description="only the first N sessions of each data set"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table.

    Returns:
        0, or 2 if an index, a setting or the stage is missing.
    """
    return run(_measure, EntityChoiceOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
