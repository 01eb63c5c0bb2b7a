"""``python -m evaluation.studies.calibrate``: the gate of a preset, fitted on validation runs and measured on sessions it has not seen."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import tomlkit
from rich.console import Console
from rich.table import Table
from tomlkit.exceptions import TOMLKitError

from agents.linear_head import HeadError
from agents.methods.gate import Gate
from agents.secrets import keep_out_of_logs
from evaluation.files.manifest import commit, read_manifest
from evaluation.files.outputs import SCORES
from evaluation.judge.judging import Judge, choose_judge
from evaluation.records import DEFAULT_REVISION, EvaluationError
from evaluation.run.launching import PRESETS, ROOT, local_judge, settings_table
from evaluation.studies.decisions import BoolArray, FloatArray, Turns, read_decisions, run_folders
from evaluation.studies.gate_fit import (
    BREAK_EVEN,
    Truthfulness,
    auroc,
    decided_by,
    fit,
    gate_of,
    given_by,
    held_out,
    signal_auroc,
    truthfulness,
    usable,
    white_box_line,
)
from evaluation.studies.plots import plot_gate

FITTED_SPLIT = "validation"
"""The only split that anything is fitted on; public_test is for figures."""

_HOW = """how it is done:
  1. Answer the validation split with every candidate given, so that dialogs go on after each:
       python local_evaluation.py --preset best --dataset-type both --dataset .cache/datasets --split validation \\
         --set finalise.gate=null --set finalise.most_idk=null --output-dir results/open
  2. Fit, look, and write the gate into the preset:
       python -m evaluation.studies.calibrate --runs results/open --preset best --dataset .cache/datasets
  3. Run the preset on public_test, and see what the gate is worth there:
       python -m evaluation.studies.calibrate --measure results/test --preset best --dataset .cache/datasets

Runs with a gate can be used as well: the trace holds the candidates that were held back, and they are judged now; but later turns of
their dialogs have seen "I don't know" instead. docs/calibration.md says more.
"""


@dataclass(frozen=True)
class Material:
    """Judged candidates of one preset and profile, and where they come from."""

    turns: Turns
    profile: str
    splits: tuple[str, ...]
    runs: tuple[str, ...]
    judges: tuple[str, ...]

    @property
    def about(self) -> dict[str, Any]:
        """For the files that are written."""
        return {
            "runs": list(self.runs),
            "split": ", ".join(self.splits),
            "profile": self.profile,
            "judge": ", ".join(self.judges),
            "turns": len(self.turns.points),
            "sessions": len(np.unique(self.turns.session)),
            "candidates": int(self.turns.free.sum()),
            "right": int(self.turns.right.sum()),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit or measure, print, plot, write. Returns the exit status: 0, or 2 for what cannot be done."""
    options = _parser().parse_args(arguments)
    keep_out_of_logs()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    console = Console()
    try:
        if options.measure:
            _measure(options, console)
        elif options.fit == "white_box":
            _fit_white_box(options, console)
        else:
            _fit_gate(options, console)
    except (EvaluationError, HeadError) as error:
        console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        return 2
    return 0


def _fit_gate(options: argparse.Namespace, console: Console) -> None:
    material = _material(options.runs, options, fitting=True)
    turns = material.turns
    names = usable(turns)
    if not names:
        raise EvaluationError("no signal differs from one candidate of these runs to another; nothing can be fitted")
    right = turns.right
    honest = held_out(turns, names, folds=options.folds, repeats=options.repeats, seed=options.seed)
    fitted = fit(turns.matrix(names), right, turns.groups, names, options.folds, options.seed, turns.of_glasses)
    at_half, at_fitted, at_both = (
        truthfulness(turns, points) for points in (honest.at_half, honest.at_fitted, honest.at_both)
    )
    one = at_fitted.mean > at_half.mean
    gain = truthfulness(turns, honest.at_both - (honest.at_fitted if one else honest.at_half))
    both = gain.low > 0  # a further parameter has to gain beyond chance
    egocentric, threshold = fitted.of_each if both else (None, fitted.threshold if one else BREAK_EVEN)
    about = {"preset": options.preset, **material.about, "commit": commit(), "strength": fitted.strength}
    gate = gate_of(fitted, names, threshold, about, egocentric)

    rows = {
        "every candidate is given": truthfulness(turns, turns.earned(np.ones_like(right))),
        "the preset as it is": truthfulness(turns, turns.earned(_given_now(turns, options.preset, material.profile))),
        "gate, on the same turns": truthfulness(turns, turns.earned(given_by(turns, gate))),
        f"gate, cross-validated, threshold {BREAK_EVEN}": at_half,
        f"gate, cross-validated, threshold fitted (here {fitted.threshold:.3f})": at_fitted,
    }
    if len(np.unique(turns.of_glasses)) == 2:
        here = "{:.3f}, {:.3f}".format(*fitted.of_each)
        rows[f"gate, cross-validated, thresholds of egocentric photos and of others (here {here})"] = at_both
    areas = {name: signal_auroc(turns, name) for name in names}
    areas["gate, cross-validated"] = (honest.auroc, len(right))
    _show(console, material, rows, areas)
    weights = zip(gate.features, gate.coefficients[0], strict=True)
    for name, weight in sorted(weights, key=lambda item: -abs(item[1])):
        console.print(f"{name}: {weight:+.3f} a standard deviation", highlight=False)
    summary = {
        "threshold": threshold,
        "fitted_threshold": fitted.threshold,
        "fitted_of_each": fitted.of_each,
        "gate": gate.model_dump(),
    }
    _write(options.to or options.runs[0], "calibration", material, rows, areas, honest.probability, summary, console)
    if options.dry_run:
        return
    if max(at_half.mean, at_fitted.mean, at_both.mean) <= rows["every candidate is given"].mean:
        console.print("no gate is written: on sessions it has not seen it is no better than giving every candidate")
        return
    path = PRESETS / "gates" / f"{options.preset}_{material.profile}.json"
    gate.save(path)
    _into_preset(options, material, {"finalise.gate": f"presets/gates/{path.name}"}, console)
    console.print(f"written: {path}", markup=False, soft_wrap=True)


def _measure(options: argparse.Namespace, console: Console) -> None:
    """What a gate that was fitted elsewhere is worth on a run; nothing is fitted."""
    material = _material(options.measure, options, fitting=False)
    turns = material.turns
    gate = Gate.load(options.gate or PRESETS / "gates" / f"{options.preset}_{material.profile}.json")
    said = decided_by(turns, gate.probability)
    rows = {
        "every candidate is given": truthfulness(turns, turns.earned(np.ones_like(turns.right))),
        f"gate, threshold {BREAK_EVEN}": truthfulness(turns, turns.earned(said >= BREAK_EVEN)),
        f"gate, its threshold ({_thresholds(gate)})": truthfulness(turns, turns.earned(given_by(turns, gate))),
    }
    areas = {name: signal_auroc(turns, name) for name in usable(turns)}
    areas["gate"] = auroc(turns, said)
    _show(console, material, rows, areas)
    where = options.to or options.measure[0]
    _write(where, "gate_measured", material, rows, areas, said, {"fitted_on": gate.fitted_on}, console)


def _thresholds(gate: Gate) -> str:
    own = gate.threshold_egocentric
    return f"{gate.threshold:.3f}" + (f", {own:.3f} for egocentric photos" if own is not None else "")


def _fit_white_box(options: argparse.Namespace, console: Console) -> None:
    material = _material(options.runs, options, fitting=True)
    values = white_box_line(material.turns)
    for key, value in values.items():
        console.print(f"{key} = {value}", markup=False, highlight=False)
    if not options.dry_run:
        _into_preset(options, material, values, console)


def _material(places: Sequence[Path], options: argparse.Namespace, *, fitting: bool) -> Material:
    """The judged candidates of some runs.

    Raises:
        EvaluationError: A run is of another preset, or of a split that nothing may be fitted on; or their profiles differ.
    """
    runs = run_folders(places)
    made = [read_manifest(run) for run in runs]
    for run, about in zip(runs, made, strict=True):
        if about.get("preset") != options.preset:
            raise EvaluationError(f"{run} was made with preset {about.get('preset')!r}, not {options.preset!r}")
        if fitting and _split(about) != FITTED_SPLIT:
            raise EvaluationError(
                f"{run} is of the split {_split(about)!r}: only {FITTED_SPLIT} is fitted on, or the figures of other splits are worth "
                "nothing; --measure evaluates a fitted gate on this run"
            )
    profiles = {str(about.get("profile")) for about in made}
    if len(profiles) != 1:
        raise EvaluationError(
            f"the runs were made with several profiles ({', '.join(sorted(profiles))}); one at a time"
        )
    judges = [_judge_of(run, options) for run in runs]
    decisions = [
        decision
        for run, judge in zip(runs, judges, strict=True)
        for decision in read_decisions(run, judge, _accept_forms(run, options))
    ]
    turns = Turns.of(decisions)
    if not turns.free.any():
        raise EvaluationError("no turn of these runs has a candidate that no rule forbids")
    splits = tuple(sorted({_split(about) for about in made}))
    return Material(
        turns, profiles.pop(), splits, tuple(map(str, runs)), tuple(sorted({judge.name for judge in judges}))
    )


def _split(about: Mapping[str, Any]) -> str:
    """The split that a run is of: its data set is noted as NAME@REVISION/SPLIT."""
    return str(about.get("dataset", "")).rpartition("/")[2]


def _given_now(turns: Turns, preset: str, profile: str) -> BoolArray:
    """The free candidates that the preset gives with the gate or the cut that it has now; its rules are those of the run."""
    finalise = settings_table(preset, profile)["finalise"]
    if finalise["gate"] is not None:
        return given_by(turns, Gate.load(ROOT / finalise["gate"]))
    if finalise["most_idk"] is not None:
        given: BoolArray = ~(turns.signals["p_idk"][turns.free] > finalise["most_idk"])  # unknown is given
        return given
    return np.ones(int(turns.free.sum()), dtype=np.bool_)


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
    return choose_judge(model, cache=options.cache, local=local_judge)


def _accept_forms(run: Path, options: argparse.Namespace) -> dict[str, list[str]]:
    if options.dataset is None:
        return {}
    from evaluation.data.crag_dataset import DatasetType, find_local, read_accept

    name = str(read_manifest(run).get("dataset", ""))
    kinds: tuple[DatasetType, ...] = get_args(DatasetType)
    kind = next((kind for kind in kinds if kind in name), None)
    if kind is None:
        raise EvaluationError(f"{run} does not say which data set it is of")
    revision = name.partition("@")[2].partition("/")[0] or DEFAULT_REVISION
    return read_accept(find_local(options.dataset, kind, revision).folders)


def _show(
    console: Console, material: Material, rows: Mapping[str, Truthfulness], areas: Mapping[str, tuple[float, int]]
) -> None:
    about = material.about
    console.print(
        f"{about['turns']} turns of {about['sessions']} sessions ({about['split']}), {about['candidates']} candidates that no rule "
        f"forbids, {about['right']} of them right; judge {about['judge']}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    table = Table("policy", title="Truthfulness", title_justify="left")
    for column in ("truthfulness", "95% interval"):
        table.add_column(column, justify="right")
    for name, found in rows.items():
        table.add_row(name, f"{100 * found.mean:.1f}%", f"{100 * found.low:.1f} .. {100 * found.high:.1f}")
    console.print(table)
    table = Table("signal", title="Right against wrong candidates", title_justify="left")
    for column in ("AUROC", "candidates"):
        table.add_column(column, justify="right")
    for name, (area, known) in sorted(areas.items(), key=lambda item: -np.nan_to_num(item[1][0])):
        table.add_row(name, "-" if np.isnan(area) else f"{area:.3f}", str(known))
    console.print(table)


def _write(
    where: Path,
    name: str,
    material: Material,
    rows: Mapping[str, Truthfulness],
    areas: Mapping[str, tuple[float, int]],
    probability: FloatArray,
    more: Mapping[str, Any],
    console: Console,
) -> None:
    where.mkdir(parents=True, exist_ok=True)
    summary = {
        **material.about,
        "truthfulness": {policy: asdict(found) for policy, found in rows.items()},
        "auroc": {signal: None if np.isnan(area) else area for signal, (area, _) in areas.items()},
        **more,
    }
    (where / f"{name}.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    plot_gate(
        where / f"{name}.png", probability, material.turns.right, {signal: area for signal, (area, _) in areas.items()}
    )
    console.print(f"written: {where / name}.json, {where / name}.png", markup=False, soft_wrap=True)


def _into_preset(
    options: argparse.Namespace, material: Material, values: Mapping[str, float | str], console: Console
) -> None:
    path = PRESETS / f"{options.preset}.toml"
    about = material.about
    comment = f"fitted on {about['turns']} turns of {about['sessions']} sessions of {about['split']} (evaluation.studies.calibrate)"
    path.write_text(with_values(path, material.profile, values, comment), encoding="utf-8")
    console.print(f"written: {path}, [profiles.{material.profile}]", markup=False, soft_wrap=True)


def with_values(path: Path, profile: str, values: Mapping[str, float | str], comment: str) -> str:
    """The text of a preset with some settings replaced in the overlay of a profile, where what was fitted under it belongs.

    Args:
        path: The preset.
        values: Dotted settings, such as ``finalise.gate``.
        comment: Put behind each new value.

    Raises:
        EvaluationError: The file is missing or no TOML, or a name stands for something else in it.
    """
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise EvaluationError(f"there is no preset {path}") from error
    except TOMLKitError as error:
        raise EvaluationError(f"{path} is not valid TOML: {error}") from error
    for key, value in values.items():
        *folders, last = "profiles", profile, *key.split(".")
        table: Any = document
        for name in folders:
            table = _inner(table, name, path, last=name == folders[-1])
        item = tomlkit.item(value)
        item.comment(comment)
        table[last] = item
    text = tomlkit.dumps(document)
    tomllib.loads(text)  # what is written can be read
    return text


def _inner(table: Any, name: str, path: Path, *, last: bool) -> Any:
    if name not in table:
        table[name] = tomlkit.table(is_super_table=not last)
    if not isinstance(table[name], Mapping):
        raise EvaluationError(f"{path}: {name} is no table")
    return table[name]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m evaluation.studies.calibrate",
        description="Fit the gate that decides where a preset abstains, show what it is worth, and write it into the preset.",
        epilog=_HOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--runs", type=Path, nargs="+", metavar="DIR", help=f"judged runs of {FITTED_SPLIT} to fit on")
    what.add_argument(
        "--measure", type=Path, nargs="+", metavar="DIR", help="judged runs of any split to measure a fitted gate on"
    )
    parser.add_argument("--preset", required=True, metavar="NAME", help="preset the runs were made with")
    parser.add_argument("--fit", choices=("gate", "white_box"), default="gate", help="what is fitted: the gate (default), or the line "
                        "of QA-Dragon's white-box verifier")  # fmt: skip
    parser.add_argument(
        "--gate", type=Path, metavar="FILE", help="with --measure: the gate (default: presets/gates/NAME_PROFILE.json)"
    )
    parser.add_argument("--folds", type=int, default=5, help="parts of the cross-validation (default: 5)")
    parser.add_argument("--repeats", type=int, default=5, help="divisions into parts that are averaged (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="of the divisions (default: 0)")
    parser.add_argument("--to", type=Path, metavar="DIR", help="folder for summary and plot (default: the first run's)")
    parser.add_argument("--dry-run", action="store_true", help="write neither gate nor preset")
    held = parser.add_argument_group("candidates that were held back")
    held.add_argument(
        "--dataset", type=Path, metavar="PATH", help="local data set, for the accept forms of the rule judge"
    )
    held.add_argument("--eval-model", metavar="MODEL", help="who judges them (default: who judged the run)")
    held.add_argument("--cache", type=Path, default=Path(".cache"), help="folder of judgements")
    return parser


if __name__ == "__main__":
    sys.exit(main())
