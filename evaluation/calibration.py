"""What a calibration finds: a fitted policy, and what such a fit is worth on sessions it has not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.records import EvaluationError
from evaluation.threshold_fit import (
    SIGNALS,
    Columns,
    Gain,
    Line,
    Policy,
    Signal,
    earned,
    fit,
    gain,
    held_out_points,
)

DIGITS = 4
"""Decimals of the thresholds that are written into presets."""


@dataclass(frozen=True)
class Report:
    """What a calibration found; truthfulness 0 to 1.

    Attributes:
        everything: Truthfulness of giving every candidate.
        now: That of the preset's thresholds as they are.
        fitted: That of the fitted ones on the turns they were fitted on.
        held_out: That of ones fitted on other sessions.
        over_everything: Gain of the latter over giving every candidate.
        over_now: Gain of the latter over the preset as it is.
    """

    turns: int
    sessions: int
    everything: float
    now: float
    fitted: float
    held_out: float
    over_everything: Gain
    over_now: Gain
    policy: Policy


def current_policy(settings: Mapping[str, Any]) -> Policy:
    """The thresholds that a preset has."""
    finalise, verify = settings["finalise"], settings["verify"]
    line = None
    if "white_box" in finalise["verified_by"] and "verify" in settings["stages"]:
        line = Line(verify["weight_least"], verify["weight_mean"], verify["white_box_threshold"])
    return Policy(finalise["min_confidence"], finalise["min_evidence"], line)


def signals_of(turns: Columns, settings: Mapping[str, Any], wanted: Sequence[Signal] | None) -> list[Signal]:
    """What to fit: what was asked for, else every signal that the traces hold and the preset uses.

    Raises:
        EvaluationError: A signal that was asked for is not in the traces.
    """
    free = turns.take(turns.free)
    there: dict[Signal, bool] = {
        "confidence": bool(np.isfinite(free.confidence).any()),
        "evidence": bool((free.evidence[~free.direct] != 0).any()),
        "white_box": bool(np.isfinite(free.least).any()),
    }
    if wanted is not None:
        missing = [signal for signal in wanted if not there[signal]]
        if missing:
            raise EvaluationError(f"the traces hold no {' and no '.join(missing)} to fit on")
        return list(wanted)
    uses_line = "verify" in settings["stages"] and settings["verify"]["white_box"]
    return [signal for signal in SIGNALS if there[signal] and (signal != "white_box" or uses_line)]


def calibrate(
    turns: Columns, now: Policy, signals: Sequence[Signal], *, folds: int = 5, repeats: int = 10, seed: int = 0
) -> Report:
    """Fit on all turns, and measure by cross-validation over sessions what such a fit is worth.

    Raises:
        EvaluationError: There are fewer than two sessions.
    """
    try:
        held_out = held_out_points(turns, signals, folds=folds, repeats=repeats, seed=seed)
    except ValueError as error:
        raise EvaluationError(str(error)) from error
    policy = rounded(fit(turns, signals))
    everything, as_is = earned(turns, Policy()), earned(turns, now)
    return Report(
        turns=len(turns.points),
        sessions=turns.sessions,
        everything=float(everything.mean()),
        now=float(as_is.mean()),
        fitted=float(earned(turns, policy).mean()),
        held_out=float(held_out.mean()),
        over_everything=gain(turns, everything, held_out, seed=seed),
        over_now=gain(turns, as_is, held_out, seed=seed),
        policy=policy,
    )


def rounded(policy: Policy) -> Policy:
    """A policy with as many decimals as are written into presets."""

    def short(value: float | None) -> float | None:
        return None if value is None else round(value, DIGITS)

    line = policy.line
    if line is not None:
        line = Line(line.weight_least, line.weight_mean, round(line.threshold, DIGITS))
    return Policy(short(policy.min_confidence), short(policy.min_evidence), line)


def values_of(policy: Policy, signals: Sequence[Signal]) -> dict[str, float | None]:
    """The settings of a fitted policy; None where the fit found that a threshold does no good.

    A line that does no good leaves the preset's own untouched: whether a verifier is asked is the method, not a threshold.
    """
    values: dict[str, float | None] = {}
    if "confidence" in signals:
        values["finalise.min_confidence"] = policy.min_confidence
    if "evidence" in signals:
        values["finalise.min_evidence"] = policy.min_evidence
    if "white_box" in signals and policy.line is not None:
        values["verify.weight_least"] = policy.line.weight_least
        values["verify.weight_mean"] = policy.line.weight_mean
        values["verify.white_box_threshold"] = policy.line.threshold
    return values
