"""``python -m evaluation.studies.leaderboard``: saved answers of any agents, judged by one judge and ranked."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from pydantic import Field
from rich.console import Console

from agents.base.command_options import Flag
from agents.settings.shared_options import print_json
from evaluation.commands import make_console, run_to_exit_status
from evaluation.files.folder_lock import lock_folders
from evaluation.records import JudgedTurn
from evaluation.scores.scoring import score
from evaluation.scores.slices import (
    SLICES,
    Group,
    count_groups,
    mean_points,
    summarise_group,
    summarise_groups,
    weighted_total,
)
from evaluation.studies.figures import Result, check_base, compare_with_bases, compute_figures
from evaluation.studies.judged_entries import Entries, Entry, OneJudgeOptions, read_entries
from evaluation.studies.plots import plot_results
from evaluation.studies.result_tables import (
    Column,
    ResultTable,
    build_card_table,
    build_paired_tables,
    build_table,
    describe_failures,
    format_rate,
    format_with_interval,
    make_figure_column,
    make_metric_columns,
    make_time_columns,
    make_turn_columns,
    publish,
    write_tables,
)
from evaluation.studies.variants import Variant

_EXAMPLES = """examples:
  two agents, of which one is not ours, judged by gpt-4o-mini (key in OPENAI_API_KEY):
    python -m evaluation.studies.leaderboard results/best theirs=kit/response.jsonl --eval-model gpt-4o-mini --out results/board

  answers saved without labels, which the data set knows; everyone against the first:
    python -m evaluation.studies.leaderboard mine.jsonl theirs.jsonl --dataset .cache/datasets --against mine
"""


@dataclass(frozen=True)
class Place:
    """An entry on the leaderboard of a task.

    Attributes:
        whole: Group of all its turns.
        total: Truthfulness by domain, weighted by the domains' numbers of turns in the whole task; None without domains.
        slices: Groups of turns by the name of the slice.
    """

    result: Result
    whole: Group
    total: float | None
    slices: Mapping[str, Mapping[str, Group]]

    @property
    def label(self) -> str:
        """Name of the entry."""
        return self.result.variant.label


@dataclass(frozen=True)
class Board:
    """Entries of a task by truthfulness, best first.

    Attributes:
        base: The entry that the others are tested against.
        turns: Number of turns that any entry answered.
        slices: Size of each group by the name of the slice; slices of one group are left out.
    """

    task: str
    base: str
    turns: int
    slices: Mapping[str, Mapping[str, int]]
    places: tuple[Place, ...]


BOTH = "single-turn and multi-turn"
"""Task of the board of questions and dialogs together. Sessions are its clusters too: a question is a session of one turn."""


def build_boards(entries: Sequence[Entry], against: str | None = None, *, both: bool = False) -> list[Board]:
    """Build a leaderboard of the questions (sessions of one turn) and one of the dialogs.

    Args:
        entries: Judged answers.
        against: Label of the entry that the others are tested against; None: the best of each task.
        both: Build one of all turns too, if there are questions and dialogs.

    Raises:
        EvaluationError: No entry has the label.
    """
    labels = [entry.label for entry in entries]
    if against is not None:
        check_base(against, labels)
    boards = []
    for task in ("single-turn", "multi-turn"):
        selection = [(entry, turns) for entry in entries if (turns := _select_task(entry.turns, task))]
        if selection:
            boards.append(_build_board(task, [_make_result(entry, task, turns) for entry, turns in selection], against))
    if both and len(boards) > 1:
        boards.append(_build_board(BOTH, [_make_result(entry, BOTH, entry.turns) for entry in entries], against))
    return boards


def _select_task(turns: Sequence[JudgedTurn], task: str) -> list[JudgedTurn]:
    """Select the turns of a task: a session of one turn belongs to single-turn."""
    return [judged for judged in turns if (judged.turn.total_turn_count > 1) == (task == "multi-turn")]


def _make_result(entry: Entry, task: str, turns: Sequence[JudgedTurn]) -> Result:
    about = entry.describe_origin(turns)
    variant = Variant(entry.label, str(about.get("preset", "")))
    return Result(variant, task, compute_figures(turns, entry.folders), turns, about=about)


def _build_board(task: str, results: Sequence[Result], against: str | None) -> Board:
    ranked = sorted(results, key=lambda result: -mean_points(result.turns))
    base = next((each for each in ranked if each.variant.label == against), ranked[0])
    everything = {judged.turn.key: judged for result in results for judged in result.turns}
    sizes = {name: count_groups(everything.values(), key) for name, key in SLICES.items()}
    slices = {name: groups for name, groups in sizes.items() if len(groups) > 1}
    places = tuple(
        Place(
            result,
            summarise_group(result.turns),
            weighted_total(result.turns, sizes["domain"]),
            {name: summarise_groups(result.turns, SLICES[name]) for name in slices},
        )
        for result in compare_with_bases(ranked, lambda _: base.variant.label)
    )
    return Board(task, base.variant.label, len(everything), slices, places)


def build_content(boards: Sequence[Board], entries: Entries) -> dict[str, Any]:
    """Return the content of leaderboard.json: rates are 0 to 1, truthfulness -1 to 1."""
    tasks = {
        board.task: {"turns": board.turns, "against": board.base, "entries": [*map(_place_content, board.places)]}
        for board in boards
    }
    return {"judge": entries.judge, "verdicts": entries.verdicts, "tasks": tasks}


def _place_content(place: Place) -> dict[str, Any]:
    figures = place.result.figures
    return {
        "label": place.label,
        "about": dict(place.result.about),
        "truthfulness": place.whole.truthfulness,
        "truthfulness_interval_95": place.whole.interval_95,
        "domain_weighted_truthfulness": place.total,
        "scores": score(place.result.turns).to_dict(),
        "intervals_95": dict(figures.intervals),
        "not_judged": figures.unjudged,
        "errors": figures.errors,
        "failing_stages": list(figures.failing),
        "seconds_a_turn": figures.seconds,
        "against": None if place.result.against is None else asdict(place.result.against),
        "slices": {
            name: {group: asdict(scores) for group, scores in groups.items()} for name, groups in place.slices.items()
        },
    }


def build_tables(board: Board, *, groups: bool = False) -> list[ResultTable]:
    """Build the tables of the ranking, the tests against the base, and with ``groups`` of each group."""
    results = [place.result for place in board.places]
    placed = {place.label: place for place in board.places}

    def total(result: Result) -> str:
        value = placed[result.variant.label].total
        return "-" if value is None else format_rate(value)

    columns = [
        Column(
            "Truthfulness (%) [95%]", "truthfulness", lambda result: _format_cell(placed[result.variant.label].whole)
        ),
        make_figure_column("Accuracy (%)", "acc.", "accuracy"),
        make_figure_column("Missing (%)", "miss.", "missing"),
        make_figure_column("Hallucination (%)", "hall.", "hallucination"),
        *make_metric_columns(),
        Column("By domain (%)", "domains", total),
    ]
    if board.task == "multi-turn":
        columns.append(make_figure_column("Dialog score (%) [95%]", "dialogs", "conversation", intervals=True))
    short = {place.label: board.turns - len(place.result.turns) for place in board.places}
    lacking = [f"{label} {number}" for label, number in short.items() if number]
    notes = [f"of {board.turns} turns some entries lack answers: {', '.join(lacking)}"] if lacking else []
    timed = any(result.figures.seconds is not None for result in results)
    times = make_time_columns(results) if timed else make_turn_columns(results)
    notes += describe_failures(results)
    ranking = build_table(board.task, "Entry", [*columns, *times], results)
    tests = [replace(table, notes=(*table.notes, _CHOICE_NOTE)) for table in build_paired_tables("Entry", results)]
    return [replace(ranking, notes=notes), *tests, *(_build_slice_tables(board) if groups else ())]


_CHOICE_NOTE = "the best entry on these same turns as base biases p; to test a claim, choose a base beforehand and name it with --against"


def _build_slice_tables(board: Board) -> Iterator[ResultTable]:
    """Yield the tables of truthfulness by group, with a column for each entry."""
    for name, sizes in board.slices.items():
        heads = (name, "turns", *(place.result.label for place in board.places))
        rows = [
            (group, str(size), *(_format_cell(place.slices[name].get(group)) for place in board.places))
            for group, size in sizes.items()
        ]
        yield ResultTable(f"{board.task}, truthfulness (%) by {name} [95%]", heads, rows)


def _format_cell(group: Group | None) -> str:
    return "-" if group is None else format_with_interval(group.truthfulness, group.interval_95)


class LeaderboardOptions(OneJudgeOptions):
    """Judge saved answers of one or many agents by one judge, and rank them."""

    answers: Annotated[tuple[str, ...], Flag(positional=True, metavar="FILE_OR_RUN")] = Field(
        description="response.jsonl of any agent, or a run's folder; LABEL=PATH names it"
    )
    against: Annotated[str | None, Flag(metavar="LABEL")] = Field(
        None, description="base of the tests; not given: the best of each data set"
    )
    both: bool = Field(
        False,
        description="a table of questions and dialogs together too; intervals and tests resample whole sessions, as in the others",
    )
    groups: bool = Field(
        False, description="tables by domain, category, turn number and the data set's further facts too"
    )


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Judge, rank, print and write; return the exit status: 0, or 2 after an expected error."""
    options = LeaderboardOptions.parse(arguments, epilog=_EXAMPLES)
    console = console or make_console(aside=options.as_json)

    def run() -> None:
        with lock_folders(options.out):
            _run(options, console)

    return run_to_exit_status(run, console)


def _run(options: LeaderboardOptions, console: Console) -> None:
    entries = read_entries(options.answers, options, console)
    boards = build_boards(entries.entries, options.against, both=options.both)
    tables = [table for board in boards for table in build_tables(board, groups=options.groups)]
    for table in tables:
        table.show(console)
    console.print(f"verdicts: {entries.verdicts}", markup=False, highlight=False)
    if options.as_json:
        print_json(build_content(boards, entries))
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        place, results = options.out / "leaderboard", [place.result for board in boards for place in board.places]
        all_tables = [*tables, build_card_table(entries.cards)]
        files = [*write_tables(place, all_tables, results), *plot_results(place, results)]
        title = f"Leaderboard (verdicts: {entries.verdicts})"
        publish(place, build_content(boards, entries), title, all_tables, console, files)


if __name__ == "__main__":
    sys.exit(main())
