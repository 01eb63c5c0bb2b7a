"""Every kind of fault on every preset: what is promised, and whether it held.

Run: ``python -m benchmarks.faults [--out results/faults.md]``. Scripted models and searches fail in one way at a time, over the real
stages of each preset; each trial is two calls of three turns, and a third one where something
hung. A fault *held* when both calls gave the right number of answers, in order and within the limit, turns that it does not concern were
answered as ever, and the trace of each turn that abstained says why. On the real clock the challenge's limits are a twenty-fifth of
their size; ``--scripted`` keeps them whole, on a clock on which a hang takes no time.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from agents.search.atomic import write_whole
from agents.settings import PRESETS, names
from tests.support.all_faults import FAULTS
from tests.support.fault_plan import Fault
from tests.support.fault_trial import CALLS, TURNS, trial
from tests.support.fault_variants import SECONDS_PER_TURN, full_settings
from tests.support.stage_faults import STAGE_FAULTS, in_stage

OUT = Path("results/faults.md")


@dataclass(frozen=True)
class Tried:
    """One fault on one preset.

    Attributes:
        group: The kind; for faults of stages what the stage does.
        kind: With the name of the stage.
        overrun_ms: Of the longer call; negative where it was in time.
        broken: Promises that were not kept.
    """

    group: str
    kind: str
    preset: str
    held: bool
    overrun_ms: float
    broken: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """A fault to try."""

    group: str
    kind: str
    preset: str
    fault: Fault


def cases(presets: Iterable[str], kinds: Sequence[str] | None = None) -> list[Case]:
    """All faults on some presets; ``kinds`` leaves the others out."""
    found: list[Case] = []
    for preset in presets:
        found += [Case(kind, kind, preset, fault) for kind, fault in FAULTS.items()]
        found += [
            Case(f"a stage {kind}", f"{stage} {kind}", preset, in_stage(stage, kind))
            for kind in STAGE_FAULTS
            for stage in full_settings(preset).stages
        ]
    return [case for case in found if kinds is None or case.kind in kinds or case.group in kinds]


def tried(case: Case, *, scripted: bool) -> Tried:
    """The outcome of one case; an agent that raises has not held."""
    try:
        outcome = trial(case.preset, case.fault, scripted=scripted)
    except Exception as error:  # noqa: BLE001 - whatever the agent lets out is a fault that did not hold
        return Tried(case.group, case.kind, case.preset, False, float("nan"), (f"{type(error).__name__}: {error}",))
    return Tried(case.group, case.kind, case.preset, outcome.held, outcome.overrun_ms, outcome.broken)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try, print the short table and write both; 1 where a fault did not hold, 2 where a name is not known."""
    options = _parser().parse_args(arguments)
    known = names(PRESETS)
    unknown = [name for name in options.presets or () if name not in known]
    chosen = cases(options.presets or known, options.kinds) if not unknown else []
    if not chosen:
        print(f"error: nothing to try; unknown presets: {', '.join(unknown) or 'none'}", file=sys.stderr)
        return 2
    logging.disable(logging.CRITICAL)  # each fault is logged as it should be, thousands of times
    try:
        results = [
            tried(case, scripted=options.scripted) for case in tqdm(chosen, unit="fault", disable=options.no_progress)
        ]
    finally:
        logging.disable(logging.NOTSET)
    seconds = "the challenge's 10" if options.scripted else f"{SECONDS_PER_TURN:g}"
    setting = (
        f"{CALLS} calls of {TURNS} turns each, {seconds} s a turn, {'scripted' if options.scripted else 'real'} clock."
    )
    write_whole(options.out, _document(results, setting).encode("utf-8"))
    _print(results, setting)
    failed = [result for result in results if not result.held]
    for result in failed:
        print(f"not held: {result.kind} on {result.preset}: {_why(result)}", file=sys.stderr)
    return 1 if failed else 0


def _groups(results: Sequence[Tried]) -> list[tuple[str, ...]]:
    """Kind, trials, how many held, and the worst overrun, for each group."""
    rows: list[tuple[str, ...]] = []
    for group in dict.fromkeys(result.group for result in results):
        own = [result for result in results if result.group == group]
        worst = max(result.overrun_ms for result in own)
        rows.append((group, str(len(own)), str(sum(result.held for result in own)), f"{worst:.0f}"))
    return rows


def _document(results: Sequence[Tried], setting: str) -> str:
    lines = ["# Faults", "", setting, "", "| kind | trials | held | worst overrun, ms |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in _groups(results)]
    lines += ["", "| kind | preset | held | overrun, ms | why not |", "|---|---|---|---|---|"]
    lines += [
        f"| {result.kind} | {result.preset} | {'yes' if result.held else '**no**'} | {result.overrun_ms:.0f} | {_why(result)} |"
        for result in results
    ]
    return "\n".join([*lines, ""])


def _why(result: Tried) -> str:
    if result.held:
        return ""
    said = "; ".join(result.broken) or "over the limit"
    return said.replace("|", "/").replace("\n", " ")[:300]


def _print(results: Sequence[Tried], setting: str) -> None:
    table = Table(title=f"{len(results)} trials: {setting}")
    for column in ("kind", "trials", "held", "worst overrun, ms"):
        table.add_column(column, justify="left" if column == "kind" else "right")
    for row in _groups(results):
        table.add_row(*row)
    Console(width=110).print(table)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--presets", nargs="+", metavar="NAME", help="only these")
    parser.add_argument(
        "--kinds",
        nargs="+",
        metavar="KIND",
        help="only these, as the table names them, such as 'engine dead' or 'rerank hangs'",
    )
    parser.add_argument("--scripted", action="store_true", help="the challenge's own limits, on a scripted clock")
    parser.add_argument("--out", type=Path, default=OUT, help="where the whole table is written, as markdown")
    parser.add_argument("--no-progress", action="store_true", help="no progress bar")
    return parser


if __name__ == "__main__":
    sys.exit(main())
