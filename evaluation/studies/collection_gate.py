"""``crag calibrate COLLECTION``: fits the gate of a preset and its models to the questions of a collection.

Two gates are tried, and the one that earns more on dialogs that it has not seen is kept: one fitted anew to all signals, and the preset's
own with its probabilities fitted to these questions (Platt, 1999), which takes two numbers and therefore fewer questions.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field
from rich.console import Console

from agents.base.command_options import Flag
from agents.base.data_folder import data_path
from agents.base.linear_head import HeadError
from agents.base.named import parse_name
from agents.methods.gate import Gate
from evaluation.commands import make_console, run_to_exit_status
from evaluation.files.manifest import current_commit, list_models, read_manifest
from evaluation.records import EvaluationError
from evaluation.run.command import evaluate
from evaluation.run.launching import make_local_judge, prepare, read_settings
from evaluation.studies.collection_runs import RESULTS, CollectionRunOptions, load_questions
from evaluation.studies.decisions import FloatArray, Turns, count_left_out, read_decisions
from evaluation.studies.gate_fit import apply_gate, measure_truthfulness, signal_auroc
from evaluation.studies.gate_study import EVERYTHING, FitData, GateStudy, RunOrigin, show_study, study_gate, write_study
from evaluation.studies.result_tables import ResultTable

OPEN = ("finalise.gate=null", "finalise.max_idk=null", "finalise.verified_by=[]")
"""Settings with which every candidate is given, so that dialogs go on after each."""

MIN_DIALOGS = 5
"""Dialogs in which right candidates have to stand, and wrong ones: one for each part of the cross-validation."""

OWN_GATE = "preset's gate"
"""Name of the signal that holds the log-odds of the preset's own gate."""

_HOW = """It answers the questions with every candidate given, and fits a gate to the signals of right and wrong candidates. The expected
gain is cross-validated: each dialog is decided by a gate fitted to the other dialogs. The gate is written into COLLECTION/gates, where
every command finds it for the same preset and models.
"""


class CollectionGateOptions(CollectionRunOptions):
    """Fit to your own questions when answers about a collection are withheld."""

    group = "the gate"

    output_dir: Annotated[Path | None, Flag(metavar="DIR")] = Field(
        None, description="folder of the run that the gate is fitted to; not given: results/NAME/open"
    )
    folds: int = Field(5, ge=2, description="parts of the cross-validation")
    repeats: int = Field(5, ge=1, description="divisions into parts that are averaged")
    dry_run: bool = Field(False, description="write no gate")


@dataclass(frozen=True)
class OwnStudy:
    """A gate that was tried, with its study and what the study was made of."""

    name: str
    turns: Turns
    study: GateStudy
    gate: Gate


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer, fit, show and write.

    Returns:
        The exit status: 0; 1 if more turns are errors than ``--fail-on-error`` allows; 2 after an expected error;
        130 when stopped by Ctrl-C.
    """
    options = CollectionGateOptions.parse(arguments, epilog=_HOW)
    console = make_console(aside=options.as_json)
    return run_to_exit_status(lambda: _calibrate(options, console), console, (EvaluationError, HeadError))


def _calibrate(options: CollectionGateOptions, console: Console) -> int:
    questions = load_questions(options.collection)
    folder = options.output_dir or RESULTS / options.collection.resolve().name / "open"
    run = options.make_run_options(folder, OPEN, no_report=True)
    status = evaluate(run, console)
    if status != 0:
        return status
    judge = options.judge(options.judge_name, options.cache, make_local_judge)
    decisions = read_decisions(folder, judge, questions.select_accept)
    turns = Turns.from_decisions(decisions)
    made_with = read_manifest(folder)
    config, _ = prepare(run)
    origin = RunOrigin(str(folder), options.profile, list_models(made_with).get("chat", ""))
    material = FitData(
        turns, (origin,), config.profile.gate_models, options.model_name, (questions.name,), (str(folder),),
        (judge.name,), count_left_out([folder], decisions), ", ".join(options.without), (*options.set, *OPEN),
    )  # fmt: skip
    _refuse_too_few(turns)
    name = parse_name(config.preset)
    before = _load_preset_gate(options)
    tried = _try_gates(turns, before, options)
    best = max(tried, key=lambda each: each.study.points.mean())
    others = {EVERYTHING: turns.score(np.ones_like(turns.right))}
    if before is not None:
        others["the preset's gate"] = turns.score(apply_gate(turns, before))
    points = others | {each.name: each.study.points for each in tried}
    rows = {policy: measure_truthfulness(turns, some) for policy, some in points.items()}
    areas = {signal: signal_auroc(turns, signal) for signal in best.gate.features if signal in turns.signals}
    show_study(console, material, rows, areas)
    _show_answers_given(console, turns, points)
    about = {
        **material.about,
        "preset": name,
        "collection": config.collection.name if config.collection else "",
        "commit": current_commit(),
    }
    promised = measure_truthfulness(turns, best.study.points)
    gate = best.gate.model_copy(
        update={"fitted_on": {**about, "cross_validated": [promised.mean, promised.low, promised.high]}}
    )
    probability = best.study.honest.probability
    write_study(
        folder / "calibration", material, rows, areas, probability, {"gate": gate.model_dump()}, console, as_json=options.as_json
    )  # fmt: skip
    _say_what_it_takes(console, turns, best.study.points, others)
    if options.dry_run:
        return 0
    if best.study.points.mean() <= max(some.mean() for some in others.values()):
        console.print(
            "no gate is written: on dialogs that it has not seen it earns no more than the best of the others above; more questions may "
            "change that",
            markup=False, soft_wrap=True,
        )  # fmt: skip
        return 0
    assert config.collection is not None  # the run is one over a collection
    path = config.collection.gate_file(name, config.profile.gate_models)
    gate.save(path)
    console.print(
        f"written: {path}; crag ask, web, serve and test use it with this collection, preset {name!r} and {' + '.join(material.models)}",
        markup=False, soft_wrap=True,
    )  # fmt: skip
    return 0


def _refuse_too_few(turns: Turns) -> None:
    """Check that right and wrong candidates stand in enough dialogs.

    Raises:
        EvaluationError: They do not; the message says how many questions would be needed.
    """
    if not turns.gate_decides.any():
        raise EvaluationError(
            "there is no candidate answer to fit a gate to: crag test says why questions are not answered"
        )
    dialogs, right = len(np.unique(turns.session)), turns.right
    of_right, of_wrong = (len(np.unique(turns.groups[kind])) for kind in (right, ~right))
    if min(of_right, of_wrong) >= MIN_DIALOGS:
        return
    tally = f"{right.sum()} candidates are right (in {of_right} dialogs) and {(~right).sum()} wrong (in {of_wrong})"
    if of_wrong == 0:
        raise EvaluationError(
            f"nothing is to be withheld: {tally}. To give every candidate: --set finalise.gate=null. Add questions that must not be "
            "answered, to see whether that holds for them too"
        )
    num_required = ceil(dialogs * MIN_DIALOGS / max(1, min(of_right, of_wrong)))
    raise EvaluationError(
        f"too few questions for a gate: {tally}; both have to stand in {MIN_DIALOGS} dialogs or more. With questions like these that takes "
        f"about {num_required} dialogs, and here are {dialogs}; questions that are hard, or that must not be answered, help most"
    )


def _load_preset_gate(options: CollectionGateOptions) -> Gate | None:
    """Load the gate that the preset has for the models of the run, or None."""
    settings = read_settings(
        options.preset, options.profile, options.model_name, options.base_url, without=options.without
    )
    path = settings["finalise"]["gate"]
    return None if path is None else Gate.load(data_path(path))


def _try_gates(turns: Turns, before: Gate | None, options: CollectionGateOptions) -> list[OwnStudy]:
    """Study a gate that is fitted anew and, if the preset has one, that gate fitted to these questions."""
    study = study_gate(turns, folds=options.folds, repeats=options.repeats)
    tried = [OwnStudy("a new gate, cross-validated", turns, study, study.make_gate({}))]
    if before is not None:
        odds = np.full(len(turns.points), np.nan)
        odds[turns.gate_decides] = compute_log_odds(turns, before)
        alone = replace(turns, signals={OWN_GATE: odds}, negative_signals=frozenset())
        study = study_gate(alone, folds=options.folds, repeats=options.repeats)
        gate = compose_gates(before, study.make_gate({}))
        tried.append(OwnStudy("the preset's gate fitted to these questions, cross-validated", alone, study, gate))
    return tried


def compute_log_odds(turns: Turns, gate: Gate) -> FloatArray:
    """Compute a gate's log-odds of each candidate, shape (candidates,); a missing signal counts as its mean."""
    standard = np.nan_to_num((turns.matrix(gate.features) - np.array(gate.mean)) / np.array(gate.scale))
    odds: FloatArray = standard @ np.array(gate.coefficients[0]) + gate.intercept[0]
    return odds


def compose_gates(inner: Gate, outer: Gate) -> Gate:
    """Return one gate that says what ``outer`` says of the log-odds of ``inner``, its only signal."""
    slope = outer.coefficients[0][0] / outer.scale[0]
    intercept = slope * (inner.intercept[0] - outer.mean[0]) + outer.intercept[0]
    return inner.model_copy(
        update={
            "coefficients": (tuple(slope * weight for weight in inner.coefficients[0]),),
            "intercept": (intercept,),
            "threshold": outer.threshold,
            "threshold_egocentric": outer.threshold_egocentric,
        }
    )


def _show_answers_given(console: Console, turns: Turns, points: Mapping[str, FloatArray]) -> None:
    """Print how many right and wrong answers each policy gives."""
    right, wrong = int(turns.right.sum()), int((~turns.right).sum())
    rows = [
        (policy, f"{np.clip(some, 0, None).sum():.1f} of {right}", f"{-np.clip(some, None, 0).sum():.1f} of {wrong}")
        for policy, some in points.items()
    ]
    notes = [
        "cross-validated counts are averages over divisions into parts",
        "the better gate is chosen by these figures, which flatters it a little",
    ]
    ResultTable("Answers given", ("policy", "right", "wrong"), rows, notes).show(console)


def _say_what_it_takes(console: Console, turns: Turns, own: FloatArray, others: Mapping[str, FloatArray]) -> None:
    """Say whether the gain of a gate may be chance, and about how many questions would tell."""
    other = max(others, key=lambda policy: others[policy].mean())
    gain = measure_truthfulness(turns, own - others[other])
    gain_text = (
        f"gain over {other!r}: {100 * gain.mean:+.1f} points (95% {100 * gain.low:+.1f} .. {100 * gain.high:+.1f})"
    )
    if gain.low > 0:
        console.print(f"{gain_text}; more than chance", markup=False, highlight=False, soft_wrap=True)
        return
    count = len(turns.points)
    if gain.mean <= 0:
        console.print(f"{gain_text}; {count} questions show none", markup=False, highlight=False, soft_wrap=True)
        return
    num_required = ceil(count * ((gain.mean - gain.low) / gain.mean) ** 2)
    console.print(
        f"{gain_text}; with {count} questions this may be chance, about {num_required} like these would tell",
        markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
