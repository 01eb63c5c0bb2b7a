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
from evaluation.commands import exit_status, output, print_json
from evaluation.files.folder_lock import writing_into
from evaluation.files.traces import traces_in
from evaluation.records import EvaluationError, JudgedTurn
from evaluation.scores.scoring import truthfulness_points
from evaluation.studies.judged_entries import Entry, OneJudgeOptions, read_entries
from evaluation.studies.paired_tests import compare_runs, shared_turns
from evaluation.studies.result_tables import ResultTable, card_table, cut, publish, with_interval

VERDICTS = ("right", "missing", "wrong", "unjudged")
_NAMES = {"correct": "right", "miss": "missing", "hallucination": "wrong"}
_MAX_CHARACTERS = 80
"""Characters of a question or an answer on the terminal; the files hold all."""

_NOT_COMPARED = frozenset({"stage", "seconds", "reason", "notes"})
"""Reasons quote how much time was left; notes are compared one by one."""

_DIGITS = 3
"""Decimals of scores that are compared: the last bits depend on what else was in the batch."""


@dataclass(frozen=True)
class Difference:
    """The first stage in which two traces differ ("(answer)" where all stages noted the same), and the notes that differ there."""

    stage: str
    what: str


@dataclass(frozen=True)
class Flip:
    """A turn whose verdict changed; ``difference`` is None where one of the runs has no trace of it."""

    before: JudgedTurn
    after: JudgedTurn
    difference: Difference | None

    @property
    def points(self) -> float:
        """What the change brings: -2 to 2."""
        return truthfulness_points(self.after) - truthfulness_points(self.before)


def verdict(judged: JudgedTurn) -> str:
    """One of ``VERDICTS``."""
    return "unjudged" if judged.judge_failed else _NAMES[judged.verdict]


def first_difference(one: TurnRecord, other: TurnRecord) -> Difference:
    """The first stage of both records that found or noted something else; else the first that one record alone has.

    Runs of different presets have different stages in every turn, which says little of one turn: what both have is
    compared first, in the order of the first record. A stage that was skipped counts as one that noted nothing.
    """
    before, after = _stages(one), _stages(other)
    for name, notes in before.items():
        if name in after and notes != after[name]:
            changed = sorted(key for key in {*notes, *after[name]} if notes.get(key) != after[name].get(key))
            return Difference(name, ", ".join(changed))
    for there, here, which in ((before, after, "first"), (after, before, "second")):
        for name, notes in there.items():
            if name not in here and notes.get("status") in ("ran", "reduced"):
                return Difference(name, f"in the {which} run alone")
    return Difference("(answer)", "all stages noted the same")


def _stages(record: TurnRecord) -> dict[str, dict[str, Any]]:
    return {
        stage.stage: {
            name: _rounded(value)
            for name, value in {**asdict(stage), **stage.notes}.items()
            if name not in _NOT_COMPARED and value not in (None, [], (), "", {})
        }
        for stage in record.stages
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, Mapping):
        return {str(name): _rounded(inner) for name, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value


def find_flips(one: Entry, other: Entry) -> list[Flip]:
    """The turns of both whose verdicts differ; the losses first. Raises EvaluationError where no turn is in both."""
    pairs = shared_turns(one.turns, other.turns)
    if not pairs:
        raise EvaluationError(f"{one.label} and {other.label} have no turn in common")
    first, second = (traces_in(entry.folders) for entry in (one, other))
    found = []
    for before, after in pairs:
        if verdict(before) != verdict(after):
            key = before.turn.key
            traces = (first[key], second[key]) if key in first and key in second else None
            found.append(Flip(before, after, first_difference(*traces) if traces is not None else None))
    return sorted(found, key=lambda flip: flip.points)


def _counts(one: Entry, other: Entry) -> Counter[tuple[str, str]]:
    return Counter((verdict(before), verdict(after)) for before, after in shared_turns(one.turns, other.turns))


def tables(one: Entry, other: Entry, flips: Sequence[Flip], longest: int | None = None) -> list[ResultTable]:
    """The matrix of verdicts, the flips by the stage in which traces first differ, and every flip; texts cut to ``longest`` characters."""
    counts, paired = _counts(one, other), compare_runs(one.turns, other.turns)
    shown = [name for name in VERDICTS if any(name in pair for pair in counts)]
    heads = (f"{one.label} \\ {other.label}", *shown, "together")
    rows = [(name, *map(str, row := [counts[name, to] for to in shown]), str(sum(row))) for name in shown]
    p = "" if paired.p is None else f", p {paired.p:.3f} (paired permutation test over sessions)"
    change = with_interval(paired.change, paired.interval, signed=True)
    notes = [f"{len(flips)} of {paired.turns} turns of both flipped; truthfulness {change}{p}"]
    alone = [f"{entry.label} {extra}" for entry in (one, other) if (extra := len(entry.turns) - paired.turns)]
    notes += [f"turns of one run alone are left out: {', '.join(alone)}"] * bool(alone)
    made = [ResultTable("Verdicts", heads, rows, notes)]
    if flips:
        made += [_by_stage(flips), _every_flip(flips, longest)]
    return made


def _by_stage(flips: Sequence[Flip]) -> ResultTable:
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


def _every_flip(flips: Sequence[Flip], longest: int | None) -> ResultTable:
    heads = ("flip", "question", "truth", "before", "after", "first difference")
    rows = []
    for flip in flips:
        turn = flip.before.turn
        texts = (turn.query, turn.ground_truth, turn.agent_response, flip.after.turn.agent_response)
        where = "" if flip.difference is None else f"{flip.difference.stage}: {flip.difference.what}"
        changed = f"{verdict(flip.before)} → {verdict(flip.after)}"
        rows.append((changed, *(cut(text, longest) for text in texts), where))
    return ResultTable("Every flip, losses first", heads, rows, words=True)


def content(one: Entry, other: Entry, flips: Sequence[Flip], verdicts: str) -> dict[str, Any]:
    """What flips.json holds."""
    counts = _counts(one, other)
    return {
        "before": one.label,
        "after": other.label,
        "verdicts": verdicts,
        "matrix": {name: {to: counts[name, to] for to in VERDICTS} for name in VERDICTS},
        "comparison": asdict(compare_runs(one.turns, other.turns)),
        "flips": [
            {
                "session_id": flip.before.turn.session_id,
                "interaction_id": flip.before.turn.interaction_id,
                "query": flip.before.turn.query,
                "ground_truth": flip.before.turn.ground_truth,
                "before": {"verdict": verdict(flip.before), "answer": flip.before.turn.agent_response},
                "after": {"verdict": verdict(flip.after), "answer": flip.after.turn.agent_response},
                "first_difference": None if flip.difference is None else asdict(flip.difference),
            }
            for flip in flips
        ],
    }


class FlipsOptions(OneJudgeOptions):
    """Which verdicts changed between two runs over the same questions, and in which stage their traces first differ."""

    before: Annotated[str, Flag(positional=True, metavar="RUN_A")] = Field(
        description="a run's folder, or a file of answers; LABEL=PATH names it"
    )
    after: Annotated[str, Flag(positional=True, metavar="RUN_B")] = Field(description="the other")


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Compare, print and write. Returns the exit status: 0, 2 for what cannot be done."""
    options = FlipsOptions.parse(arguments)
    console = console or output(aside=options.as_json)

    def run() -> None:
        with writing_into(options.out):
            _run(options, console)

    return exit_status(run, console)


def _run(options: FlipsOptions, console: Console) -> None:
    entries = read_entries([options.before, options.after], options, console)
    one, other = entries.entries
    flips = find_flips(one, other)
    for table in tables(one, other, flips, _MAX_CHARACTERS):
        table.show(console)
    console.print(f"verdicts: {entries.verdicts}", markup=False, highlight=False)
    made = content(one, other, flips, entries.verdicts)
    if options.as_json:
        print_json(made)
    if options.out is not None:
        title = f"{one.label} → {other.label} (verdicts: {entries.verdicts})"
        publish(options.out / "flips", made, title, [*tables(one, other, flips), card_table(entries.cards)], console)


if __name__ == "__main__":
    sys.exit(main())
