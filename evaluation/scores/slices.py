"""Groups of turns by domain, category and other labels, and the truthfulness of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from evaluation.records import JudgedTurn
from evaluation.scores.scoring import (
    SPLITS,
    Interval,
    Slice,
    by_session,
    grouped,
    points_of,
    session_interval,
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
"""By name: the labels of the data set, the number of the turn, the kind of picture, and the facts that a data set states."""


def mean_points(turns: Sequence[JudgedTurn]) -> float:
    """Truthfulness, also of a single turn, which the organiser's formula calls 0."""
    return fmean(map(truthfulness_points, turns))


def group_sizes(turns: Iterable[JudgedTurn], key: Slice) -> dict[str, int]:
    """Number of turns by group, in alphabetical order; turns of which nothing is known are left out."""
    return {name: len(group) for name, group in sorted(grouped(turns, key).items())}


@dataclass(frozen=True)
class Group:
    """Turns of one group: how many, their truthfulness, and its 95% interval where there are two sessions."""

    turns: int
    truthfulness: float
    interval_95: Interval | None


def group_of(turns: Sequence[JudgedTurn]) -> Group:
    """These turns as a group; whole sessions are resampled for the interval."""
    sums = points_of(by_session(turns).values())
    interval = session_interval(sums, lambda points, number: points / number) if len(sums) > 1 else None
    return Group(len(turns), mean_points(turns), interval)


def groups_of(turns: Sequence[JudgedTurn], key: Slice) -> dict[str, Group]:
    """The groups of a slice by name, in alphabetical order."""
    return {name: group_of(group) for name, group in sorted(grouped(turns, key).items())}


def weighted_total(turns: Sequence[JudgedTurn], sizes: Mapping[str, int]) -> float | None:
    """Mean truthfulness of the domains, each weighted by its size; None where no domain is known.

    Over all turns of the task this is the truthfulness itself. An entry that answered some domains more completely than
    others is put right by it; a domain without any answer is left out.
    """
    groups = grouped(turns, SLICES["domain"])
    known = {name: sizes[name] for name in groups if name in sizes}
    if not known:
        return None
    return sum(mean_points(groups[name]) * size for name, size in known.items()) / sum(known.values())
