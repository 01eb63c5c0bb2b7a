"""Groups of turns by domain, category and other labels, and the truthfulness of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from evaluation.records import JudgedTurn
from evaluation.scores.scoring import (
    POINTS,
    SPLITS,
    Interval,
    Slice,
    group_by_session,
    group_turns,
    session_interval,
    sum_points,
    truthfulness_points,
)

SLICES: dict[str, Slice] = {
    "domain": lambda judged: judged.turn.domain or None,
    "query category": lambda judged: judged.turn.query_category or None,
    "dynamism": lambda judged: judged.turn.dynamism or None,
    "image quality": lambda judged: judged.turn.image_quality or None,
    "turn number": lambda judged: f"turn {judged.turn.turn_idx + 1}",
    "picture": lambda judged: "egocentric" if judged.turn.is_ego else "other",
    **{split.key.removeprefix("by_"): split.group for split in SPLITS},
}
"""Slices by name: labels of the data set, number of the turn, kind of picture, and facts that a data set states."""


def mean_points(turns: Sequence[JudgedTurn]) -> float:
    """Return the truthfulness, also of a single turn, for which the organiser's formula gives 0."""
    return fmean(map(truthfulness_points, turns))


def count_groups(turns: Iterable[JudgedTurn], key: Slice) -> dict[str, int]:
    """Count the turns by group, in alphabetical order; turns without a group are left out."""
    return {name: len(group) for name, group in sorted(group_turns(turns, key).items())}


@dataclass(frozen=True)
class Group:
    """Size of a group of turns, its truthfulness, and the 95% interval if it has two sessions."""

    turns: int
    truthfulness: float
    interval_95: Interval | None


def summarise_group(turns: Sequence[JudgedTurn]) -> Group:
    """Sum up turns as a group; whole sessions are resampled for the interval."""
    sums = sum_points(group_by_session(turns).values())
    interval = session_interval(sums, lambda points, number: points / number, POINTS) if len(sums) > 1 else None
    return Group(len(turns), mean_points(turns), interval)


def summarise_groups(turns: Sequence[JudgedTurn], key: Slice) -> dict[str, Group]:
    """Sum up the groups of a slice by name, in alphabetical order."""
    return {name: summarise_group(group) for name, group in sorted(group_turns(turns, key).items())}


def weighted_total(turns: Sequence[JudgedTurn], sizes: Mapping[str, int]) -> float | None:
    """Average the truthfulness of the domains, weighted by their sizes; None if no domain is known.

    Over all turns of the task this is the truthfulness itself. It corrects for an entry that answered some domains more completely than
    others. A domain without any answer is left out.
    """
    groups = group_turns(turns, SLICES["domain"])
    domain_sizes = {name: sizes[name] for name in groups if name in sizes}
    if not domain_sizes:
        return None
    return sum(mean_points(groups[name]) * size for name, size in domain_sizes.items()) / sum(domain_sizes.values())
