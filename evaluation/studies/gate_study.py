"""The one way from judged candidates to a gate: fit it, estimate it on photos that it has not seen, show and write what it earns."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

from pydantic import Field
from rich.console import Console

from agents.base.data_folder import data_path
from agents.methods.gate import Gate
from agents.settings.shared_options import JsonOptions, print_json
from evaluation.files.manifest import current_commit, write_json
from evaluation.run.launching import read_settings
from evaluation.studies.decisions import FitData, FloatArray, Turns
from evaluation.studies.gate_fit import (
    apply_gate,
    auroc,
    measure_truthfulness,
    predict_probability,
    select_usable,
    signal_auroc,
    study_gate,
)
from evaluation.studies.plots import plot_gate
from evaluation.studies.result_tables import ResultTable, name_files

EVERYTHING = "every candidate is given"
SAME_TURNS = "gate, on the same turns"
CROSS_VALIDATED = "gate, cross-validated"
PRESET = "the preset as it is"
_FITTED = " (fitted on these turns)"  # behind the name of a policy

Policies = dict[str, FloatArray]
"""Points of every turn, by the name of the policy that earns them."""


class FitOptions(JsonOptions):
    """How a gate is estimated, and whether it is written."""

    group = "the fit"

    folds: int = Field(5, ge=2, description="parts of the cross-validation")
    repeats: int = Field(5, ge=1, description="divisions into parts that are averaged")
    dry_run: bool = Field(False, description="write neither gate nor preset")


def fit_gate(
    data: FitData, preset: str, about: Mapping[str, object], place: Path, options: FitOptions, console: Console
) -> Gate | None:
    """Fit a gate, show and write what it promises.

    Args:
        data: The candidates.
        preset: Preset, whose present gate or cut is a rival of the new gate, unless it was fitted on the same turns.
        about: Origin of the gate, beside that of the candidates.
        place: Path of the written figures, without suffix.
        options: The fit.
        console: Gets the tables.

    Returns:
        The gate; None if it is not to be written, and the console says why.

    Raises:
        EvaluationError: See ``study_gate``.
    """
    turns = data.turns
    gate, probability, own = study_gate(turns, folds=options.folds, repeats=options.repeats)
    origin = {**about, **data.about, "commit": current_commit(), **gate.fitted_on}
    origin["cross_validated"] = [*measure_truthfulness(turns, own)]
    gate = gate.model_copy(update={"fitted_on": origin})
    rivals = {EVERYTHING: turns.score(), **score_preset(data, preset)}
    policies = rivals | {SAME_TURNS: turns.score(apply_gate(turns, gate)), CROSS_VALIDATED: own}
    report(data, gate, policies, probability, place, console, as_json=options.as_json)
    fair = {policy: points for policy, points in rivals.items() if not policy.endswith(_FITTED)}
    console.print(describe_gain(turns, own, fair), markup=False, highlight=False, soft_wrap=True)
    if options.dry_run:
        return None
    if own.mean() <= max(points.mean() for points in fair.values()):
        console.print(
            "no gate is written: on photos and dialogs that it has not seen it earns no more than the best of the others above; more "
            "questions may change that",
            markup=False, soft_wrap=True,
        )  # fmt: skip
        return None
    return gate


def measure_gate(data: FitData, gate: Gate, place: Path, options: FitOptions, console: Console) -> None:
    """Show and write what a fitted gate earns; nothing is fitted."""
    turns = data.turns
    if missing := [name for name in gate.features if name not in turns.signals]:
        console.print(f"these runs hold no {', '.join(missing)}: each counts as its mean", markup=False, soft_wrap=True)
    own = "" if gate.threshold_egocentric is None else f", {gate.threshold_egocentric:.3f} for egocentric photos"
    policy = mark_fitted(f"gate, threshold {gate.threshold:.3f}{own}", gate, data)
    policies = {EVERYTHING: turns.score(), policy: turns.score(apply_gate(turns, gate))}
    report(data, gate, policies, predict_probability(turns, gate), place, console, as_json=options.as_json)


def score_preset(data: FitData, preset: str) -> Policies:
    """Return the points of every turn under the preset's present gate or cut; its rules are the run's.

    Returns:
        Nothing if verifiers decide, whose verdicts no signal tells.
    """
    turns, finalise = data.turns, read_finalise(data, preset)
    if finalise["gate"] is not None:
        gate = Gate.load(data_path(finalise["gate"]))
        return {mark_fitted(PRESET, gate, data): turns.score(apply_gate(turns, gate))}
    if finalise["verified_by"]:
        return {}
    if finalise["max_idk"] is None:
        return {PRESET: turns.score()}
    return {PRESET: turns.score(~(turns.signal("p_idk")[turns.gate_decides] > finalise["max_idk"]))}  # unknown: passes


def read_finalise(data: FitData, preset: str) -> Mapping[str, Any]:
    """Return the settings of the preset's last stage for the models of the runs."""
    settings = read_settings(preset, data.runs[0].profile, data.runs[0].chat_model)
    finalise: Mapping[str, Any] = settings["finalise"]
    return finalise


def mark_fitted(policy: str, gate: Gate, data: FitData) -> str:
    """Return the name of a policy, marked if its gate was fitted on a split of these turns."""
    splits = {*str(gate.fitted_on.get("split", "")).split(", ")}
    return f"{policy}{_FITTED}" if splits & {run.split for run in data.runs} else policy


def report(
    data: FitData, gate: Gate, policies: Policies, probability: FloatArray, place: Path, console: Console, *, as_json: bool
) -> None:  # fmt: skip
    """Print, write and plot what policies earn on all turns and on each run, and how signals tell right from wrong.

    Args:
        data: The candidates.
        gate: The gate, for the weights of its signals.
        policies: Points of every turn by policy.
        probability: The gate's probability of each candidate.
        place: Path of the files, without suffix.
        console: Gets the tables.
        as_json: Print what is written, too.
    """
    turns = data.turns
    named = {run.name: run for run in data.runs}
    areas = {name: signal_auroc(turns, name) for name in dict.fromkeys([*gate.features, *select_usable(turns)])}
    content = {
        **data.about,
        "truthfulness": _measure(turns, policies),
        "by_run": [
            {"run": name, "profile": run.profile, "chat": run.chat, "truthfulness": _measure(turns, policies, name)}
            for name, run in (named.items() if len(named) > 1 else ())
        ],
        "auroc": {"gate": auroc(turns, probability), **areas},
        "gate": gate.model_dump(),
    }
    _show(console, content, dict(zip(gate.features, gate.coefficients[0], strict=True)))
    write_json(place.with_suffix(".json"), content)
    if as_json:
        print_json(content)
    plots = plot_gate(place, probability, turns.right, {name: area for name, area in areas.items() if area is not None})
    console.print(f"written: {name_files(place.with_suffix('.json'), *plots)}", markup=False, soft_wrap=True)


def _measure(turns: Turns, policies: Policies, run: str | None = None) -> dict[str, dict[str, float]]:
    """Return truthfulness with its interval, and the answers given that are right and wrong, by policy."""
    part = slice(None) if run is None else turns.run == run
    return {
        policy: {
            **measure_truthfulness(turns, points, run)._asdict(),
            "right": float(points[part].clip(min=0).sum()),
            "wrong": float(-points[part].clip(max=0).sum()),
        }
        for policy, points in policies.items()
    }


def _show(console: Console, content: Mapping[str, Any], weights: Mapping[str, float]) -> None:
    """Print the tables of a report."""
    summary = (
        "{turns} turns of {sessions} sessions ({split}), {candidates} candidates that no rule forbids, {right} of them right; judge "
        "{judge}"
    )
    console.print(summary.format(**content), markup=False, highlight=False, soft_wrap=True)
    right, wrong = content["right"], content["candidates"] - content["right"]
    rows = [
        (policy, f"{each['right']:.1f} of {right}", f"{each['wrong']:.1f} of {wrong}", _percent(each))
        for policy, each in content["truthfulness"].items()
    ]
    headings = ["policy", "right answers given", "wrong answers given", "truthfulness (%), 95% interval"]
    ResultTable("Truthfulness", headings, rows, ["cross-validated counts are averages"]).show(console)
    if content["by_run"]:
        of_runs = [
            (run["run"], run["profile"], run["chat"], *map(_percent, run["truthfulness"].values()))
            for run in content["by_run"]
        ]
        headings = ["run", "profile", "chat model", *content["truthfulness"]]
        ResultTable("Truthfulness of each run", headings, of_runs).show(console)
    signals = [
        (name, "-" if area is None else f"{area:.3f}", f"{weights[name]:+.3f}" if name in weights else "")
        for name, area in sorted(content["auroc"].items(), key=lambda item: -(item[1] or 0))
    ]
    headings = ["signal", "AUROC", "weight of a standard deviation"]
    ResultTable("Right against wrong candidates", headings, signals).show(console)


def _percent(truthfulness: Mapping[str, float]) -> str:
    mean, low, high = (100 * truthfulness[name] for name in ("mean", "low", "high"))
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]"


def describe_gain(turns: Turns, own: FloatArray, others: Policies) -> str:
    """Say whether the gain of a gate over the best other policy may be chance, and about how many questions would tell."""
    other, count = max(others, key=lambda policy: others[policy].mean()), len(turns.points)
    gain = measure_truthfulness(turns, own - others[other])
    text = f"gain over {other!r}: {100 * gain.mean:+.1f} points (95% {100 * gain.low:+.1f} .. {100 * gain.high:+.1f}); "
    if gain.low > 0:
        return f"{text}more than chance"
    if gain.mean <= 0:
        return f"{text}{count} questions show none"
    enough = ceil(count * ((gain.mean - gain.low) / gain.mean) ** 2)
    return f"{text}with {count} questions this may be chance, about {enough} like these would tell"
