"""Judged answers of several agents ranked by truthfulness and tested against one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evaluation.records import EvaluationError
from evaluation.scores.scoring import score
from evaluation.scores.slices import SLICES, Group, group_sizes, groups_of, mean_points, points_interval, weighted_total
from evaluation.studies.figures import Result, figures_of
from evaluation.studies.judged_entries import Entries, Entry
from evaluation.studies.paired_tests import Paired, adjusted, compare_runs
from evaluation.studies.variants import Variant


@dataclass(frozen=True)
class Place:
    """An entry on the leaderboard of a task.

    Attributes:
        total: Truthfulness by domain, weighted by the domains' numbers of turns in the whole task; None without domains.
        against: How it differs from the base; None for the base itself.
        slices: Groups of turns by the name of the slice.
        adjusted_p: ``against.p`` adjusted for the number of entries compared.
    """

    result: Result
    total: float | None
    against: Paired | None
    adjusted_p: float | None
    slices: Mapping[str, Mapping[str, Group]]

    @property
    def label(self) -> str:
        """The entry's name."""
        return self.result.variant.label

    @property
    def not_judged(self) -> int:
        """Answers for which the judge gave no usable reply."""
        return sum(judged.judge_failed for judged in self.result.turns)


@dataclass(frozen=True)
class Board:
    """The entries of a task by truthfulness, best first.

    Attributes:
        base: The entry that the others are tested against.
        turns: How many turns any entry answered.
        slices: Size of each group by the name of the slice; slices in which all turns are alike are left out.
    """

    task: str
    base: str
    turns: int
    slices: Mapping[str, Mapping[str, int]]
    places: tuple[Place, ...]


def boards(entries: Sequence[Entry], against: str | None = None) -> list[Board]:
    """A leaderboard of the questions (sessions of one turn) and one of the dialogs.

    ``against`` labels the entry that the others are tested against (EvaluationError: there is none); None: the best of each task.
    """
    labels = [entry.label for entry in entries]
    if against is not None and against not in labels:
        raise EvaluationError(f"--against takes one of {', '.join(labels)}, not {against!r}")
    made = []
    for task in ("single-turn", "multi-turn"):  # by whether it is the only turn of its session
        results = [
            Result(Variant(entry.label, ""), task, figures_of(turns, entry.folders), turns, about=entry.about)
            for entry in entries
            if (turns := [turn for turn in entry.turns if (turn.turn.total_turn_count > 1) == (task == "multi-turn")])
        ]
        if results:
            made.append(_board(task, results, against))
    return made


def _board(task: str, results: Sequence[Result], against: str | None) -> Board:
    ranked = sorted(results, key=lambda result: -mean_points(result.turns))
    base = next((each for each in ranked if each.variant.label == against), ranked[0])
    everything = {judged.turn.key: judged for result in results for judged in result.turns}
    sizes = {name: group_sizes(everything.values(), key) for name, key in SLICES.items()}
    slices = {name: groups for name, groups in sizes.items() if len(groups) > 1}
    compared = [None if each is base else compare_runs(base.turns, each.turns) for each in ranked]
    corrected = adjusted([each.p if each is not None else None for each in compared])
    places = tuple(
        Place(
            result,
            weighted_total(result.turns, sizes["domain"]),
            paired,
            p,
            {name: groups_of(result.turns, SLICES[name]) for name in slices},
        )
        for result, paired, p in zip(ranked, compared, corrected, strict=True)
    )
    return Board(task, base.variant.label, len(everything), slices, places)


def content(made: Sequence[Board], entries: Entries) -> dict[str, Any]:
    """What leaderboard.json holds: rates are 0 to 1, truthfulness -1 to 1."""
    return {
        "judge": entries.judge,
        "verdicts": entries.verdicts,
        "tasks": {
            board.task: {
                "turns": board.turns,
                "against": board.base,
                "entries": [_place_content(place) for place in board.places],
            }
            for board in made
        },
    }


def _place_content(place: Place) -> dict[str, Any]:
    turns, figures = place.result.turns, place.result.figures
    return {
        "label": place.label,
        "about": dict(place.result.about),
        "truthfulness": mean_points(turns),
        "truthfulness_interval_95": points_interval(turns),
        "domain_weighted_truthfulness": place.total,
        "scores": score(turns).to_dict(),
        "intervals_95": dict(figures.intervals),
        "not_judged": place.not_judged,
        "seconds_a_turn": figures.seconds,
        "against": None if place.against is None else {**asdict(place.against), "adjusted_p": place.adjusted_p},
        "slices": {
            name: {group: asdict(found) for group, found in groups.items()} for name, groups in place.slices.items()
        },
    }
