"""``python -m evaluation.calibrate``: thresholds of a preset fitted on finished runs, by cross-validation over sessions."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import numpy as np
from rich.console import Console
from rich.table import Table

import local_evaluation
from agents.secrets import keep_out_of_logs
from evaluation.calibration import Report, calibrate, current_policy, signals_of, values_of
from evaluation.calibration_plot import curve_of, plot_curves
from evaluation.choose_judge import choose_judge
from evaluation.decisions import Decision, read_decisions, run_folders
from evaluation.judge import Judge
from evaluation.manifest import read_manifest
from evaluation.outputs import SCORES
from evaluation.preset_file import MAIN, table_of, with_values
from evaluation.records import DEFAULT_REVISION, EvaluationError
from evaluation.tables import percent
from evaluation.threshold_fit import SIGNALS, Columns, Policy, Signal, answers, line_score

PRESETS = Path(local_evaluation.__file__).parent / "presets"
SUMMARY, PLOT = "calibration.json", "calibration.png"

_HOW = """how it is done:
  1. Run the preset on the validation split with its thresholds off, so that dialogs go on after every candidate answer:
       python local_evaluation.py --preset best --dataset-type both --dataset .cache/datasets --split validation \\
         --set finalise.min_confidence=null --set finalise.min_evidence=null --output-dir results/open
     For the white-box line also take it out of the decision: --set 'finalise.verified_by=["model"]'
  2. Fit, look, and write:
       python -m evaluation.calibrate --runs results/open --preset best --dataset .cache/datasets
  3. Run the preset again, on the split that nothing was fitted on, for the figures you report.

What is fitted: finalise.min_confidence and finalise.min_evidence, and for a preset with a white-box verifier verify.weight_least,
verify.weight_mean and verify.white_box_threshold. The gain is that of policies fitted without the session they are measured on;
docs/calibration.md says more. Runs with thresholds on can be used as well: the trace holds the candidates that were held back,
and they are judged now; but later turns of their dialogs have seen "I don't know" instead.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, print, plot, write. Returns the exit status: 0, or 2 for what cannot be done."""
    options = _parser().parse_args(arguments)
    keep_out_of_logs()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    console = Console()
    try:
        _calibrate(options, console)
    except EvaluationError as error:
        console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        return 2
    return 0


def _calibrate(options: argparse.Namespace, console: Console) -> None:
    runs = run_folders(options.runs)
    profile = _profile_of(runs, options.preset)
    settings = local_evaluation.settings_table(options.preset, profile)
    decisions: list[Decision] = []
    for run in runs:
        decisions += read_decisions(run, _judge_of(run, options), _accept_forms(run, options))
    turns = Columns.of(decisions)
    signals = signals_of(turns, settings, options.fit)
    now = current_policy(settings)
    report = calibrate(turns, now, signals, folds=options.folds, repeats=options.repeats, seed=options.seed)

    _show(console, report, signals)
    where = options.to or options.runs[0]
    where.mkdir(parents=True, exist_ok=True)
    summary = {
        "preset": options.preset,
        "profile": profile,
        "runs": [str(run) for run in runs],
        "fitted": signals,
        **asdict(report),
    }
    (where / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    _plot(where / PLOT, turns, report, now)
    console.print(f"written: {where / SUMMARY}, {where / PLOT}", markup=False, soft_wrap=True)
    if options.dry_run:
        return
    source = PRESETS / f"{options.preset}.toml"
    if options.out is None and report.over_now.mean <= 0:
        console.print(
            f"{source} is left as it is: on sessions they were not fitted to, these thresholds are no better than its own. "
            "--out writes them elsewhere",
            markup=False,
            soft_wrap=True,
        )
        return
    out = options.out or source
    table = options.table or table_of(source, profile)
    comment = f"fitted on {report.turns} turns of {report.sessions} sessions (evaluation.calibrate)"
    text = with_values(source, table, values_of(report.policy, signals), comment)
    out.write_text(text, encoding="utf-8")
    console.print(f"written: {out}, table {table}", markup=False, soft_wrap=True)
    _warn_of_what_stays(options, profile, report.policy, signals, out, console)


def _warn_of_what_stays(
    options: argparse.Namespace, profile: str, policy: Policy, signals: Sequence[Signal], out: Path, console: Console
) -> None:
    """An overlay cannot take out a threshold of the main table, and a line that is not asked for changes nothing."""
    if out.resolve() != (PRESETS / f"{options.preset}.toml").resolve():
        return
    settings = local_evaluation.settings_table(
        options.preset, profile
    )  # also says where what was written is no preset any more
    left = current_policy(settings)
    if "white_box" in signals and policy.line is not None and left.line is None:
        console.print(
            "the white-box line is only heeded with white_box in finalise.verified_by", style="yellow", markup=False
        )
    for name in ("min_confidence", "min_evidence"):
        if getattr(left, name) is not None and getattr(policy, name) is None and name.removeprefix("min_") in signals:
            console.print(
                f"finalise.{name} stands in the preset's main table still; it does no good here", style="yellow"
            )


def _profile_of(runs: Sequence[Path], preset: str) -> str:
    profiles = set()
    for run in runs:
        made = read_manifest(run)
        if made.get("preset") != preset:
            raise EvaluationError(f"{run} was made with preset {made.get('preset')!r}, not {preset!r}")
        profiles.add(str(made.get("profile")))
    if len(profiles) != 1:
        raise EvaluationError(
            f"the runs were made with several profiles ({', '.join(sorted(profiles))}); fit one at a time"
        )
    return profiles.pop()


def _judge_of(run: Path, options: argparse.Namespace) -> Judge:
    """The judge of the run, unless another is named."""
    model = options.eval_model
    if model is None:
        try:
            said = json.loads((run / SCORES).read_text(encoding="utf-8"))["about"]["judge"]
        except (OSError, ValueError, KeyError) as error:
            raise EvaluationError(
                f"{run / SCORES} does not say who judged; name the judge with --eval-model"
            ) from error
        model = str(said).partition(" (")[0]
    return choose_judge(model, cache=options.cache)


def _accept_forms(run: Path, options: argparse.Namespace) -> dict[str, list[str]]:
    if options.dataset is None:
        return {}
    from evaluation.datasets import DatasetType, find_local, read_accept

    name = str(read_manifest(run).get("dataset", ""))
    kinds: tuple[DatasetType, ...] = get_args(DatasetType)
    kind = next((kind for kind in kinds if kind in name), None)
    if kind is None:
        raise EvaluationError(f"{run} does not say which data set it is of")
    revision = name.partition("@")[2].partition("/")[0] or DEFAULT_REVISION
    return read_accept(find_local(options.dataset, kind, revision).folders)


def _show(console: Console, report: Report, signals: Sequence[Signal]) -> None:
    table = Table(title=f"Truthfulness on {report.turns} turns of {report.sessions} sessions", title_justify="left")
    for column in ("policy", "truthfulness"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    table.add_row("every candidate is given", percent(report.everything))
    table.add_row("the preset as it is", percent(report.now))
    table.add_row("fitted, on the same turns", percent(report.fitted))
    table.add_row("fitted, cross-validated over sessions", percent(report.held_out))
    console.print(table)
    for name, found in (("giving every candidate", report.over_everything), ("the preset as it is", report.over_now)):
        console.print(
            f"expected gain over {name}: {100 * found.mean:+.1f} points, 95% {100 * found.low:+.1f} .. {100 * found.high:+.1f}",
            highlight=False,
        )
    for key, value in values_of(report.policy, signals).items():
        console.print(f"{key} = {'(none)' if value is None else value}", markup=False, highlight=False)
    if "white_box" in signals and report.policy.line is None:
        console.print("no white-box line does any good")


def _plot(path: Path, turns: Columns, report: Report, now: Policy) -> None:
    always = np.where(turns.direct, np.inf, turns.evidence)
    curves = {"confidence": curve_of(turns, turns.confidence), "evidence": curve_of(turns, always)}
    if report.policy.line is not None:
        scores = np.where(turns.direct, np.inf, line_score(turns, report.policy.line))
        curves["white-box line"] = curve_of(turns, scores)

    def without_answer(policy: Policy) -> float:
        return float(1 - answers(turns, policy).mean())

    points = {
        "every candidate": (without_answer(Policy()), report.everything),
        "preset as it is": (without_answer(now), report.now),
        "fitted": (without_answer(report.policy), report.fitted),
        "fitted, cross-validated": (without_answer(report.policy), report.held_out),
    }
    plot_curves(path, curves, points, report.over_everything, report.everything)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m evaluation.calibrate",
        description="Fit the thresholds at which a preset abstains, so that truthfulness is highest, and write them into it.",
        epilog=_HOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--runs", type=Path, nargs="+", required=True, metavar="DIR", help="output folders of judged runs"
    )
    parser.add_argument("--preset", required=True, metavar="NAME", help="preset the runs were made with")
    parser.add_argument("--out", type=Path, metavar="FILE", help="preset file to write (default: presets/NAME.toml, where "
                        "the thresholds are expected to better it)")  # fmt: skip
    parser.add_argument("--table", help=f"where in it: {MAIN} or profiles.NAME (default: the overlay of the runs' profile "
                        f"where the preset has one, else {MAIN})")  # fmt: skip
    parser.add_argument("--fit", type=_signals, metavar="A,B", help=f"what to fit, of {', '.join(SIGNALS)} (default: what "
                        "the traces hold and the preset uses)")  # fmt: skip
    parser.add_argument("--folds", type=int, default=5, help="parts of the cross-validation (default: 5)")
    parser.add_argument("--repeats", type=int, default=10, help="divisions into parts that are averaged (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="of the divisions and of the bootstrap (default: 0)")
    parser.add_argument(
        "--to", type=Path, metavar="DIR", help=f"folder for {SUMMARY} and {PLOT} (default: the first of --runs)"
    )
    parser.add_argument("--dry-run", action="store_true", help="leave the preset as it is")
    held = parser.add_argument_group("candidates that were held back")
    held.add_argument(
        "--dataset", type=Path, metavar="PATH", help="local data set, for the accept forms of the rule judge"
    )
    held.add_argument("--eval-model", metavar="MODEL", help="who judges them (default: who judged the run)")
    held.add_argument("--cache", type=Path, default=Path(".cache"), help="folder of judgements")
    return parser


def _signals(text: str) -> list[Signal]:
    names = [name.strip().replace("-", "_") for name in text.split(",")]
    if not names or any(name not in SIGNALS for name in names):
        raise argparse.ArgumentTypeError(f"one or more of {', '.join(SIGNALS)}")
    return [signal for signal in SIGNALS if signal in names]


if __name__ == "__main__":
    sys.exit(main())
