"""Study of a gate: what it is fitted to, what it promises on photos that it has not seen, and how that is shown and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from agents.methods.gate import Gate
from agents.settings.shared_options import print_json
from evaluation.files.manifest import write_json
from evaluation.records import EvaluationError
from evaluation.studies.decisions import FloatArray, Turns
from evaluation.studies.gate_fit import (
    BREAK_EVEN,
    Fit,
    HeldOut,
    Truthfulness,
    apply_gate,
    cross_validate,
    fit,
    make_gate,
    measure_truthfulness,
    select_usable,
)
from evaluation.studies.plots import plot_gate
from evaluation.studies.result_tables import ResultTable, name_files

EVERYTHING = "every candidate is given"


SAME_TURNS = "gate, on the same turns"
CROSS_VALIDATED = "gate, cross-validated"


@dataclass(frozen=True)
class RunOrigin:
    """A run as it was named, with the profile that answered it and the chat model that it notes.

    The chat model's name tells its engine and arithmetic, such as ``NAME (int8)``.
    """

    name: str
    profile: str
    chat: str

    @property
    def weights(self) -> str:
        """Name of the chat model's weights; "" if the run does not note it."""
        return self.chat.partition(" + ")[0].partition(" (")[0]


@dataclass(frozen=True)
class FitData:
    """Judged candidates of one preset and the same weights, and their origin."""

    turns: Turns
    origins: tuple[RunOrigin, ...]
    models: tuple[str, ...]  # chat model and model of image search, for which the fit holds
    chat_model: str | None  # replaces the chat model of the first run's profile
    splits: tuple[str, ...]
    runs: tuple[str, ...]
    judges: tuple[str, ...]
    left_out: int = 0  # turns of the runs that tell nothing about the method (see ``read_decisions``)
    without: str = ""  # stages that the runs left out
    settings: tuple[str, ...] = ()  # that the runs replaced

    @property
    def profiles(self) -> tuple[str, ...]:
        """Profiles that answered, in the order of the runs."""
        return tuple(dict.fromkeys(origin.profile for origin in self.origins))

    @property
    def about(self) -> dict[str, Any]:
        """Origin of the fit, for the files that are written."""
        return {
            "runs": list(self.runs),
            "split": ", ".join(self.splits),
            "profile": ", ".join(self.profiles),
            "chat": list(dict.fromkeys(origin.chat for origin in self.origins if origin.chat)),
            "models": list(self.models),
            "without": self.without,
            "set": ", ".join(self.settings),
            "judge": ", ".join(self.judges),
            "turns": len(self.turns.points),
            "left_out": self.left_out,
            "sessions": len(np.unique(self.turns.session)),
            "candidates": int(self.turns.gate_decides.sum()),
            "right": int(self.turns.right.sum()),
        }


@dataclass(frozen=True)
class GateStudy:
    """A fitted gate with its scores on held-out photos.

    Attributes:
        names: Signals that it weighs.
        honest: Held-out predictions and scores.
        fitted: The fit to all candidates.
        threshold: Least probability of a given candidate: one half, or the fitted one if it earns more on held-out photos.
        egocentric: Threshold of photos of smart glasses, if one of their own gains beyond chance.
    """

    names: tuple[str, ...]
    honest: HeldOut
    fitted: Fit
    threshold: float
    egocentric: float | None

    @property
    def points(self) -> FloatArray:
        """Held-out points of every turn with the thresholds of the study."""
        if self.egocentric is not None:
            return self.honest.at_both
        return self.honest.at_half if self.threshold == BREAK_EVEN else self.honest.at_fitted

    def make_gate(self, about: Mapping[str, object]) -> Gate:
        """Make the gate, as it is written."""
        return make_gate(self.fitted, self.names, self.threshold, dict(about), self.egocentric)

    def is_better(self, turns: Turns) -> bool:
        """Return whether it earns more on held-out photos, with its own thresholds, than giving every candidate."""
        return bool(self.points.mean() > turns.score(np.ones_like(turns.right)).mean())

    def score_policies(self, turns: Turns, gate: Gate, more: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        """Return the points of every turn by policy; ``more`` stand behind the one that gives every candidate."""
        honest, fitted = self.honest, self.fitted
        policies = {
            EVERYTHING: turns.score(np.ones_like(turns.right)),
            **more,
            SAME_TURNS: turns.score(apply_gate(turns, gate)),
            CROSS_VALIDATED: self.points,
            f"{CROSS_VALIDATED}, threshold {BREAK_EVEN}": honest.at_half,
            f"{CROSS_VALIDATED}, threshold fitted (here {fitted.threshold:.3f})": honest.at_fitted,
        }
        if len(np.unique(turns.is_egocentric_candidate)) == 2:
            here = "{:.3f}, {:.3f}".format(*fitted.thresholds)
            policies[f"{CROSS_VALIDATED}, thresholds of egocentric photos and of others (here {here})"] = honest.at_both
        return policies


def study_gate(turns: Turns, *, folds: int, repeats: int) -> GateStudy:
    """Fit a gate, and estimate by cross-validation over photos what it earns on others.

    Raises:
        EvaluationError: No signal differs between candidates, or right or wrong candidates are about too few photos.
    """
    names = select_usable(turns)
    if not names:
        raise EvaluationError("no signal differs from one candidate of these runs to another; nothing can be fitted")
    honest = cross_validate(turns, names, folds=folds, repeats=repeats)
    fitted = fit(
        turns.matrix(names),
        turns.right,
        turns.groups,
        names,
        folds,
        0,
        turns.is_egocentric_candidate,
        turns.negative_signals,
    )
    one = bool(honest.at_fitted.mean() > honest.at_half.mean())
    gain = measure_truthfulness(turns, honest.at_both - (honest.at_fitted if one else honest.at_half))
    if gain.low > 0:  # a further parameter has to gain beyond chance
        return GateStudy(tuple(names), honest, fitted, fitted.thresholds[1], fitted.thresholds[0])
    return GateStudy(tuple(names), honest, fitted, fitted.threshold if one else BREAK_EVEN, None)


def measure_policies(turns: Turns, policies: Mapping[str, FloatArray]) -> dict[str, Truthfulness]:
    """Compute the truthfulness of each policy from its points."""
    return {policy: measure_truthfulness(turns, points) for policy, points in policies.items()}


def measure_runs(material: FitData, policies: Mapping[str, FloatArray]) -> list[dict[str, Any]]:
    """Compute the truthfulness of each policy on each run by itself; nothing for a single run."""
    turns = material.turns
    if len(material.origins) < 2:
        return []
    return [
        {
            "run": origin.name,
            "profile": origin.profile,
            "chat": origin.chat,
            "turns": int((turns.run == origin.name).sum()),
            "truthfulness": {
                policy: asdict(measure_truthfulness(turns, points, origin.name)) for policy, points in policies.items()
            },
        }
        for origin in material.origins
    ]


def show_runs(console: Console, by_run: Sequence[Mapping[str, Any]], policies: Sequence[str]) -> None:
    """Print the truthfulness of some policies on each run, a row each; nothing for a single run."""
    if not by_run:
        return
    rows = [
        (
            each["run"],
            each["profile"],
            each["chat"].partition(" + ")[0],  # without the models that look at the photo for it
            str(each["turns"]),
            *("{mean:.1f} [{low:.1f}, {high:.1f}]".format(**_percent(each["truthfulness"][name])) for name in policies),
        )
        for each in by_run
    ]
    ResultTable("Truthfulness of each run (%)", ("run", "profile", "chat model", "turns", *policies), rows).show(
        console
    )


def _percent(truthfulness: Mapping[str, float]) -> dict[str, float]:
    return {name: 100 * value for name, value in truthfulness.items()}


def show_study(
    console: Console, material: FitData, rows: Mapping[str, Truthfulness], areas: Mapping[str, tuple[float, int]]
) -> None:
    """Print the truthfulness of each policy and the AUROC of each signal."""
    about = material.about
    summary = (
        f"{about['turns']} turns of {about['sessions']} sessions ({about['split']}), {about['candidates']} candidates that no rule "
        f"forbids, {about['right']} of them right; judge {about['judge']}"
    )
    console.print(summary, markup=False, highlight=False, soft_wrap=True)
    cells = [
        (name, f"{100 * truthfulness.mean:.1f}%", f"{100 * truthfulness.low:.1f} .. {100 * truthfulness.high:.1f}")
        for name, truthfulness in rows.items()
    ]
    ResultTable("Truthfulness", ("policy", "truthfulness", "95% interval"), cells).show(console)
    ordered = sorted(areas.items(), key=lambda item: -np.nan_to_num(item[1][0]))
    cells = [(name, "-" if np.isnan(area) else f"{area:.3f}", str(count)) for name, (area, count) in ordered]
    ResultTable("Right against wrong candidates", ("signal", "AUROC", "candidates"), cells).show(console)


def write_study(
    place: Path,
    material: FitData,
    rows: Mapping[str, Truthfulness],
    areas: Mapping[str, tuple[float, int]],
    probability: FloatArray,
    more: Mapping[str, Any],
    console: Console,
    *,
    as_json: bool,
) -> None:
    """Write what was fitted as PLACE.json, print it if ``as_json``, and plot it."""
    aurocs = {signal: None if np.isnan(area) else area for signal, (area, _) in areas.items()}
    earned = {policy: asdict(truthfulness) for policy, truthfulness in rows.items()}
    content = {**material.about, "truthfulness": earned, "auroc": aurocs, **more}
    write_json(place.with_suffix(".json"), content)
    if as_json:
        print_json(content)
    finite_areas = {signal: area for signal, area in aurocs.items() if area is not None}
    plots = plot_gate(place, probability, material.turns.right, finite_areas)
    console.print(f"written: {name_files(place.with_suffix('.json'), *plots)}", markup=False, soft_wrap=True)
