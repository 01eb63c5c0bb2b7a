"""``python -m evaluation.studies.leaderboard``: saved answers of any agents, judged alike and ranked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from evaluation.commands import exit_status, parser_of
from evaluation.scores.slices import Group, mean_points, points_interval
from evaluation.studies.figures import Result
from evaluation.studies.judged_entries import add_entry_options, read_entries
from evaluation.studies.plots import plot_truthfulness
from evaluation.studies.ranking import Board, boards, content
from evaluation.studies.result_tables import (
    Column,
    ResultTable,
    build_table,
    figure_column,
    publish,
    rate,
    time_columns,
    with_interval,
)

_EXAMPLES = """examples:
  two agents, of which one is not ours, judged by gpt-4o-mini (key in OPENAI_API_KEY):
    python -m evaluation.studies.leaderboard results/best theirs=kit/response.jsonl --eval-model gpt-4o-mini --out results/board

  answers saved without labels, which the data set knows; everyone against the first:
    python -m evaluation.studies.leaderboard mine.jsonl theirs.jsonl --dataset .cache/datasets --against mine
"""


def tables(board: Board) -> list[ResultTable]:
    """The ranking of a task, the tests against the base, and the truthfulness of every entry in each group of each slice."""
    results = [place.result for place in board.places]
    totals = {place.label: "-" if place.total is None else rate(place.total) for place in board.places}
    failed = {place.label: place.not_judged for place in board.places}
    columns = [
        Column("Truthfulness (%) [95%]", "truthfulness", _truthfulness),
        figure_column("Accuracy (%)", "acc.", "accuracy"),
        figure_column("Missing (%)", "miss.", "missing"),
        figure_column("Hallucination (%)", "hall.", "hallucination"),
        Column("By domain (%)", "domains", lambda result: totals[result.variant.label]),
    ]
    if board.task == "multi-turn":
        columns.append(figure_column("Dialog score (%) [95%]", "dialogs", "conversation", intervals=True))
    if any(failed.values()):
        columns.append(Column("Not judged", "unjudged", lambda result: str(failed[result.variant.label])))
    timed = any(result.figures.seconds is not None for result in results)
    times = time_columns(results) if timed else time_columns(results)[:1]
    ranking = build_table(board.task, "Entry", [*columns, *times], results)
    made = [replace(ranking, notes=_notes(board))]
    if len(results) > 1:
        made.append(test_table(board))
    return [*made, *slice_tables(board)]


def test_table(board: Board) -> ResultTable:
    """Every entry but the base against it."""
    rows = [
        (
            place.label,
            with_interval(place.against.change, place.against.interval, signed=True),
            "-" if place.adjusted_p is None else f"{place.adjusted_p:.3f}",
            str(place.against.turns),
        )
        for place in board.places
        if place.against is not None
    ]
    notes = (
        "p: two-sided paired permutation test that swaps whole sessions, adjusted for the number of entries (Benjamini-Hochberg)",
        "where the base is the best entry it was chosen by these turns: name one with --against to test a claim",
    )
    heads = ("Entry", "change (%) [95%]", "p", "turns of both")
    return ResultTable(f"{board.task}, truthfulness against {board.base}", heads, rows, notes)


def slice_tables(board: Board) -> list[ResultTable]:
    """Truthfulness by group, a column for each entry."""
    made = []
    for name, sizes in board.slices.items():
        heads = (name, "turns", *(place.label for place in board.places))
        rows = [
            (group, str(size), *(_cell(place.slices[name].get(group)) for place in board.places))
            for group, size in sizes.items()
        ]
        made.append(ResultTable(f"{board.task}, truthfulness (%) by {name} [95%]", heads, rows))
    return made


def _cell(group: Group | None) -> str:
    return "-" if group is None else with_interval(group.truthfulness, group.interval_95)


def _truthfulness(result: Result) -> str:
    return with_interval(mean_points(result.turns), points_interval(result.turns))


def _notes(board: Board) -> tuple[str, ...]:
    short = {place.label: board.turns - len(place.result.turns) for place in board.places}
    lacking = [f"{label} {number}" for label, number in short.items() if number]
    notes = [f"of {board.turns} turns some entries lack answers: {', '.join(lacking)}"] if lacking else []
    if any(place.not_judged for place in board.places):
        notes.append("unjudged: the judge gave no usable reply; they count as wrong, as in the organiser's evaluation")
    return tuple(notes)


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Judge, rank, print and write. Returns the exit status: 0, 2 for what cannot be done."""
    options, console = _parser().parse_args(arguments), console or Console()
    return exit_status(lambda: _run(options, console), console)


def _run(options: argparse.Namespace, console: Console) -> None:
    entries = read_entries(options.answers, options, console)
    made = boards(entries.entries, options.against)
    found = [table for board in made for table in tables(board)]
    for table in found:
        table.show(console)
    console.print(f"verdicts: {entries.verdicts}", markup=False, highlight=False)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        place = options.out / "leaderboard"
        plot = place.with_suffix(".png")
        plot_truthfulness(plot, [place.result for board in made for place in board.places])
        title = f"Leaderboard (verdicts: {entries.verdicts})"
        publish(place, content(made, entries), title, found, console, [plot])


def _parser() -> argparse.ArgumentParser:
    about = "Judge saved answers of one or many agents alike, and rank them."
    parser = parser_of("evaluation.studies.leaderboard", about, _EXAMPLES)
    parser.add_argument("answers", nargs="+", metavar="FILE_OR_RUN",
                        help="response.jsonl of any agent, or a run's folder; LABEL=PATH names it")  # fmt: skip
    parser.add_argument(
        "--against", metavar="LABEL", help="entry that the others are tested against; None: the best of each data set"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for leaderboard.html and leaderboard.json")
    add_entry_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
