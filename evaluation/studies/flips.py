"""``python -m evaluation.studies.flips``: verdicts that changed between two runs, and the first stage in which their traces differ."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import Field
from rich.console import Console

from agents.base.command_options import Flag
from agents.record import TurnRecord
from agents.settings.shared_options import print_json
from evaluation.commands import make_console, run_to_exit_status
from evaluation.files.folder_lock import lock_folders
from evaluation.files.traces import read_all_traces
from evaluation.records import EvaluationError, JudgedTurn
from evaluation.scores.scoring import truthfulness_points
from evaluation.studies.figures import describe_failing
from evaluation.studies.judged_entries import Entry, OneJudgeOptions, read_entries
from evaluation.studies.paired_tests import compare_runs, pair_turns
from evaluation.studies.result_tables import ResultTable, build_card_table, format_change, publish, shorten

VERDICTS = ("right", "missing", "wrong", "error", "unjudged")
_NAMES = {"correct": "right", "miss": "missing", "hallucination": "wrong"}
_MAX_CHARACTERS = 80
"""Most characters of a question or an answer on the terminal. The files hold all."""

_NOT_COMPARED = frozenset({"stage", "began", "seconds", "calls", "reason", "notes"})
"""Fields left out of comparisons: times, reasons, which quote the time left, and notes, which are compared one by one."""

_TIMES = frozenset({"began", "seconds"})
"""Fields of an exchange left out of comparisons."""

_DIGITS = 3
"""Compared decimals of scores. The last bits depend on the rest of the batch."""


@dataclass(frozen=True)
class Difference:
    """The first stage in which two traces differ, and the notes that differ there.

    The stage is "(answer)" if all stages noted the same.
    """

    stage: str
    what: str


@dataclass(frozen=True)
class Flip:
    """A turn whose verdict changed; ``difference`` is None if one of the runs has no trace of it."""

    before: JudgedTurn
    after: JudgedTurn
    difference: Difference | None

    @property
    def points(self) -> float:
        """Points that the change brings: -2 to 2."""
        return truthfulness_points(self.after) - truthfulness_points(self.before)


def name_verdict(judged: JudgedTurn) -> str:
    """Return the verdict, one of ``VERDICTS``."""
    return _NAMES.get(judged.verdict, judged.verdict)


def find_first_difference(one: TurnRecord, other: TurnRecord) -> Difference:
    """Find the first stage that noted something else in both records, or that only one record has.

    Runs of different presets have different stages in every turn, which says little about one turn. So stages of both are
    compared first, in the order of the first record. A skipped stage counts as one without notes.
    """
    before, after = _flatten_stages(one), _flatten_stages(other)
    for name, notes in before.items():
        if name in after and notes != after[name]:
            changed = sorted(key for key in {*notes, *after[name]} if notes.get(key) != after[name].get(key))
            return Difference(name, ", ".join(changed))
    for there, here, which in ((before, after, "first"), (after, before, "second")):
        for name, notes in there.items():
            if name not in here and notes.get("status") in ("ran", "reduced"):
                return Difference(name, f"in the {which} run alone")
    return Difference("(answer)", "all stages noted the same")


def _flatten_stages(record: TurnRecord) -> dict[str, dict[str, Any]]:
    return {
        stage.stage: {
            name: _round(value)
            for name, value in {**asdict(stage), **stage.notes}.items()
            if name not in _NOT_COMPARED and value not in (None, [], (), "", {})
        }
        for stage in record.stages
    }


def _round(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, Mapping):
        return {str(name): _round(inner) for name, inner in value.items() if name not in _TIMES}
    return [_round(inner) for inner in value] if isinstance(value, list | tuple) else value


def find_flips(one: Entry, other: Entry) -> list[Flip]:
    """Find the turns of both runs whose verdicts differ, losses first.

    Raises:
        EvaluationError: No turn is in both.
    """
    pairs = pair_turns(one.turns, other.turns)
    if not pairs:
        raise EvaluationError(
            f"{one.label} and {other.label} have no turn in common; compare runs over the same questions"
        )
    first, second = (read_all_traces(entry.folders) for entry in (one, other))
    flips = []
    for before, after in pairs:
        if name_verdict(before) != name_verdict(after):
            key = before.turn.key
            traces = (first[key], second[key]) if key in first and key in second else None
            flips.append(Flip(before, after, find_first_difference(*traces) if traces is not None else None))
    return sorted(flips, key=lambda flip: flip.points)


def _count_verdicts(one: Entry, other: Entry) -> Counter[tuple[str, str]]:
    return Counter((name_verdict(before), name_verdict(after)) for before, after in pair_turns(one.turns, other.turns))


def build_tables(one: Entry, other: Entry, flips: Sequence[Flip], longest: int | None = None) -> list[ResultTable]:
    """Build the tables of verdicts, of flips by the stage in which traces first differ, and of all flips.

    Args:
        one: The first run.
        other: The second run.
        flips: Turns whose verdicts differ.
        longest: Most characters of a text; None: all.
    """
    counts, paired = _count_verdicts(one, other), compare_runs(one.turns, other.turns)
    verdicts = [name for name in VERDICTS if any(name in pair for pair in counts)]
    heads = (f"{one.marked} \\ {other.marked}", *verdicts, "together")
    rows = [(name, *map(str, row := [counts[name, to] for to in verdicts]), str(sum(row))) for name in verdicts]
    p = "" if paired.p is None else f", p {paired.p:.3f} (paired permutation test over sessions)"
    change = format_change(paired)
    notes = [f"{len(flips)} of {paired.turns} turns of both flipped; truthfulness {change}{p}"]
    alone = [f"{entry.label} {extra}" for entry in (one, other) if (extra := len(entry.turns) - paired.turns)]
    notes += [f"turns of one run alone are left out: {', '.join(alone)}"] * bool(alone)
    notes += [note for entry in (one, other) for note in describe_failing(entry.label, entry.failing)]
    tables = [ResultTable("Verdicts", heads, rows, notes)]
    if flips:
        tables += [_build_stage_table(flips), _build_flip_table(flips, longest)]
    return tables


def _build_stage_table(flips: Sequence[Flip]) -> ResultTable:
    points: dict[str, list[float]] = {}
    for flip in flips:
        stage = flip.difference.stage if flip.difference is not None else "(no trace)"
        points.setdefault(stage, []).append(flip.points)
    heads = ("first difference", "flips", "better", "worse", "points")
    rows = [
        (name, str(len(all_)), str(sum(n > 0 for n in all_)), str(sum(n < 0 for n in all_)), f"{sum(all_):+g}")
        for name, all_ in sorted(points.items(), key=lambda item: -len(item[1]))
    ]
    return ResultTable("Flips by the stage in which the traces first differ", heads, rows)


def _build_flip_table(flips: Sequence[Flip], longest: int | None) -> ResultTable:
    heads = ("flip", "question", "truth", "before", "after", "first difference")
    rows = []
    for flip in flips:
        turn = flip.before.turn
        texts = (turn.query, turn.ground_truth, turn.agent_response, flip.after.turn.agent_response)
        where = "" if flip.difference is None else f"{flip.difference.stage}: {flip.difference.what}"
        changed = f"{name_verdict(flip.before)} → {name_verdict(flip.after)}"
        rows.append((changed, *(shorten(text, longest) for text in texts), where))
    return ResultTable("Every flip, losses first", heads, rows, words=True)


def build_content(one: Entry, other: Entry, flips: Sequence[Flip], verdicts: str) -> dict[str, Any]:
    """Return the content of flips.json."""
    counts = _count_verdicts(one, other)
    return {
        "before": one.label,
        "after": other.label,
        "verdicts": verdicts,
        "matrix": {name: {to: counts[name, to] for to in VERDICTS} for name in VERDICTS},
        "comparison": asdict(compare_runs(one.turns, other.turns)),
        "failing_stages": {entry.label: list(entry.failing) for entry in (one, other)},
        "flips": [
            {
                "session_id": flip.before.turn.session_id,
                "interaction_id": flip.before.turn.interaction_id,
                "query": flip.before.turn.query,
                "ground_truth": flip.before.turn.ground_truth,
                "before": {"verdict": name_verdict(flip.before), "answer": flip.before.turn.agent_response},
                "after": {"verdict": name_verdict(flip.after), "answer": flip.after.turn.agent_response},
                "first_difference": None if flip.difference is None else asdict(flip.difference),
            }
            for flip in flips
        ],
    }


class FlipsOptions(OneJudgeOptions):
    """Show which verdicts changed between two runs over the same questions, and in which stage their traces first differ."""

    before: Annotated[str, Flag(positional=True, metavar="RUN_A")] = Field(
        description="a run's folder, or a file of answers; LABEL=PATH names it"
    )
    after: Annotated[str, Flag(positional=True, metavar="RUN_B")] = Field(description="the other")


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Compare, print and write; return the exit status: 0, or 2 after an expected error."""
    options = FlipsOptions.parse(arguments)
    console = console or make_console(aside=options.as_json)

    def run() -> None:
        with lock_folders(options.out):
            _run(options, console)

    return run_to_exit_status(run, console)


def _run(options: FlipsOptions, console: Console) -> None:
    entries = read_entries([options.before, options.after], options, console)
    one, other = entries.entries
    flips = find_flips(one, other)
    for table in build_tables(one, other, flips, _MAX_CHARACTERS):
        table.show(console)
    console.print(f"verdicts: {entries.verdicts}", markup=False, highlight=False)
    content = build_content(one, other, flips, entries.verdicts)
    if options.as_json:
        print_json(content)
    if options.out is not None:
        title = f"{one.label} → {other.label} (verdicts: {entries.verdicts})"
        publish(
            options.out / "flips",
            content,
            title,
            [*build_tables(one, other, flips), build_card_table(entries.cards)],
            console,
        )


if __name__ == "__main__":
    sys.exit(main())
