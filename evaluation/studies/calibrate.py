"""``python -m evaluation.studies.calibrate``: fits the gate of a preset on validation runs, and measures it on unseen photos."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tomlkit
from pydantic import Field, model_validator
from rich.console import Console
from tomlkit.exceptions import TOMLKitError

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Flag, Options
from agents.base.data_folder import data_path
from agents.base.files import read_toml, write_whole
from agents.base.linear_head import HeadError
from agents.base.named import canonical, find_file, parse_name
from agents.methods.gate import Gate
from agents.settings.shared_options import JsonOptions, print_json
from evaluation.commands import make_console, run_to_exit_status
from evaluation.files.folder_lock import lock_folders
from evaluation.files.manifest import current_commit, list_models, read_manifest
from evaluation.files.outputs import ACCEPTED, SCORES, read_about
from evaluation.files.responses import read_all_lines
from evaluation.files.run_dataset import load_run_dataset
from evaluation.judge.judging import Judge, choose_judge, needs_accepted_answers
from evaluation.records import EvaluationError
from evaluation.rules import OURS, RULES
from evaluation.run.launching import MODELS, PRESETS, gate_models, make_local_judge, read_settings
from evaluation.studies.decisions import (
    FITTED_SPLIT,
    BoolArray,
    Decision,
    FloatArray,
    Turns,
    count_left_out,
    read_decisions,
    run_folders,
)
from evaluation.studies.gate_fit import (
    BREAK_EVEN,
    apply_gate,
    auroc,
    fit_algorithm1_confidences,
    fit_own_knowledge,
    fit_white_box_line,
    predict_probability,
    select_usable,
    signal_auroc,
)
from evaluation.studies.gate_study import (
    CROSS_VALIDATED,
    EVERYTHING,
    SAME_TURNS,
    FitData,
    RunOrigin,
    measure_policies,
    measure_runs,
    show_runs,
    show_study,
    study_gate,
    write_study,
)

_HOW = """for questions of your own, in a collection: crag calibrate COLLECTION (crag calibrate COLLECTION --help)

how it is done:
  1. Answer the validation split with every candidate given, so that dialogs go on after each:
       python local_evaluation.py --preset best --dataset-type both --dataset .cache/datasets --split validation \\
         --set finalise.gate=null --set finalise.max_idk=null --set 'finalise.verified_by=[]' --output-dir results/open
  2. Fit, look, and write the gate into the preset:
       python -m evaluation.studies.calibrate --runs results/open --preset best --dataset .cache/datasets
  3. Run the preset on public_test, and see what the gate is worth there:
       python -m evaluation.studies.calibrate --measure results/test --preset best --dataset .cache/datasets

Runs with a gate can be used as well: the trace holds the candidates that were held back, and they are judged now; but later turns of
their dialogs have seen "I don't know" instead. docs/calibration.md says more.
"""


_RULES: dict[str, Callable[[Turns], Mapping[str, float | str]]] = {
    "white_box": lambda turns: {"verify.white_box": "line", **fit_white_box_line(turns)},
    "algorithm1": fit_algorithm1_confidences,
    "own_knowledge": fit_own_knowledge,
}


_MAY_DIFFER = ("finalise.", "limits.")
"""Tables that ``--set`` may change in some runs of a fit: what becomes of their candidates, and how long these may take."""

_BETWEEN_SETTINGS = re.compile(r", (?=[\w.]+\s*=)")  # a value may be a list


class HeldBackOptions(Options):
    """How candidates that were held back are judged."""

    group = "candidates that were held back"

    dataset: Annotated[Path | None, Flag(metavar="PATH")] = Field(
        None, description="local data set, for the accept forms of the rule judge"
    )
    eval_model: Annotated[str | None, Flag(metavar="MODEL")] = Field(
        None, description="who judges them; not given: who judged the run"
    )
    cache: CacheOption = Field(DEFAULT_CACHE, description="folder of judgements")


class CalibrateOptions(HeldBackOptions, JsonOptions):
    """Fit the gate by which a preset abstains, show its worth, and write it into the preset, for the models of the run."""

    runs: Annotated[tuple[Path, ...], Flag(metavar="DIR")] = Field(
        (),
        description=f"judged runs of {FITTED_SPLIT} to fit on, of profiles with the same weights; the first gets summary and plot",
    )
    measure: Annotated[tuple[Path, ...], Flag(metavar="DIR")] = Field(
        (), description="in place of --runs: judged runs of any split to measure a fitted gate on"
    )
    preset: Annotated[str, Flag(metavar="NAME")] = Field(
        description="preset the runs were made with, or the path of its file"
    )
    fit: Literal["gate", "white_box", "algorithm1", "own_knowledge"] = Field(
        "gate",
        description="what is fitted: the gate, the line of QA-Dragon's white-box verifier, the confidences of CRUISE's Algorithm 1, or "
        "whether and from which probability the model's own knowledge is given",
    )
    gate: Annotated[Path | None, Flag(metavar="FILE")] = Field(
        None,
        description="where the fitted gate is written, and the preset left as it is; with --measure: the gate that is measured "
        "(default: the one that the preset has for the models of the runs)",
    )
    leave_out: Annotated[tuple[Path, ...], Flag(metavar="FILE")] = Field(
        (),
        description="JSON lines whose session_ids are left out, such as the train.jsonl that the run's model was trained on",
    )
    folds: int = Field(5, ge=2, description="parts of the cross-validation")
    repeats: int = Field(5, ge=1, description="divisions into parts that are averaged")
    dry_run: bool = Field(False, description="write neither gate nor preset")

    @model_validator(mode="after")
    def _one_study(self) -> CalibrateOptions:
        if bool(self.runs) == bool(self.measure):
            raise ValueError("give one of --runs and --measure")
        return self


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit or measure, print, plot and write; with a collection as first argument fit its own gate.

    Returns:
        The exit status: 0, or 2 after an expected error.
    """
    argv = [*(sys.argv[1:] if arguments is None else arguments)]
    if argv and not argv[0].startswith("-"):
        from evaluation.studies import collection_gate

        return collection_gate.main(argv)
    options = CalibrateOptions.parse(argv, epilog=_HOW)
    console = make_console(aside=options.as_json)
    study = _measure if options.measure else _fit_gate if options.fit == "gate" else _fit_rule

    def run() -> None:
        with lock_folders((options.runs or options.measure)[0]):
            study(options, console)

    return run_to_exit_status(run, console, (EvaluationError, HeadError))


def _fit_gate(options: CalibrateOptions, console: Console) -> None:
    material = _read_material(options.runs, options, fitting=True)
    turns = material.turns
    study = study_gate(turns, folds=options.folds, repeats=options.repeats)
    fitted, honest = study.fitted, study.honest
    about = {"preset": options.preset, **material.about, "commit": current_commit(), "strength": fitted.strength}
    gate = study.make_gate(about)
    policies = study.score_policies(turns, gate, _score_preset(turns, options.preset, material))
    rows, by_run = measure_policies(turns, policies), measure_runs(material, policies)
    areas = {name: signal_auroc(turns, name) for name in study.names}
    areas[CROSS_VALIDATED] = (honest.auroc, len(turns.right))
    show_study(console, material, rows, areas)
    show_runs(console, by_run, (EVERYTHING, SAME_TURNS, CROSS_VALIDATED))
    weights = zip(gate.features, gate.coefficients[0], strict=True)
    for name, weight in sorted(weights, key=lambda item: -abs(item[1])):
        console.print(f"{name}: {weight:+.3f} a standard deviation", highlight=False)
    fits = {"threshold": study.threshold, "fitted_threshold": fitted.threshold, "fitted_of_each": fitted.thresholds}
    summary = {**fits, "by_run": by_run, "gate": gate.model_dump()}
    write_study(
        options.runs[0] / "calibration",
        material,
        rows,
        areas,
        honest.probability,
        summary,
        console,
        as_json=options.as_json,
    )
    if options.dry_run:
        return
    if not study.is_better(turns):
        console.print("no gate is written: on photos it has not seen it is no better than giving every candidate")
        return
    if options.gate is None:
        _refuse_left_out(material)
        _refuse_other_weights(material)
    path = options.gate or _gate_file(options, material)
    gate.save(path)
    console.print(f"written: {path}", markup=False, soft_wrap=True)
    if options.gate is not None:
        console.print(f"used with: --set finalise.gate={path.absolute()}", markup=False, soft_wrap=True)
        return
    values = {"finalise.gate": f"presets/gates/{path.name}"}
    _write_into_preset(options, material, MODELS.join(material.models), values, console)


def _measure(options: CalibrateOptions, console: Console) -> None:
    """Measure a fitted gate on a run; nothing is fitted."""
    material = _read_material(options.measure, options, fitting=False)
    turns = material.turns
    gate = Gate.load(options.gate or _find_gate(options, material))
    if missing := [name for name in gate.features if name not in turns.signals]:
        console.print(f"these runs hold no {', '.join(missing)}: each counts as its mean", markup=False, soft_wrap=True)
    probability, own = predict_probability(turns, gate.probability), gate.threshold_egocentric
    thresholds = f"{gate.threshold:.3f}" + (f", {own:.3f} for egocentric photos" if own is not None else "")
    policies = {
        EVERYTHING: turns.score(np.ones_like(turns.right)),
        _mark_fitted(f"gate, threshold {BREAK_EVEN}", gate, material): turns.score(probability >= BREAK_EVEN),
        _mark_fitted(f"gate, its threshold ({thresholds})", gate, material): turns.score(apply_gate(turns, gate)),
    }
    rows, by_run = measure_policies(turns, policies), measure_runs(material, policies)
    areas = {name: signal_auroc(turns, name) for name in select_usable(turns)}
    areas["gate"] = auroc(turns, probability)
    show_study(console, material, rows, areas)
    show_runs(console, by_run, [*policies])
    place, more = options.measure[0] / "gate_measured", {"by_run": by_run, "fitted_on": gate.fitted_on}
    write_study(place, material, rows, areas, probability, more, console, as_json=options.as_json)


def _mark_fitted(policy: str, gate: Gate, material: FitData) -> str:
    """Return the name of a policy, marked if its gate was fitted on a split of these turns."""
    fitted_on = str(gate.fitted_on.get("split", "")).split(", ")
    return f"{policy} (fitted on these turns)" if {*fitted_on} & {*material.splits} else policy


def _refuse_left_out(material: FitData) -> None:
    """Check that the runs are of the whole preset, into which the fit is written.

    Raises:
        EvaluationError: Stages of it were left out.
    """
    if material.without:
        raise EvaluationError(
            f"the runs were made without {material.without}, and the fit would be written into the whole preset: make them with it, or "
            "name a file for a gate with --gate"
        )


def _refuse_other_weights(material: FitData) -> None:
    """Check that the runs' chat model is the one of their profiles, for whose weights the gate is stored.

    Raises:
        EvaluationError: A run was made with another chat model.
    """
    expected = Path(material.models[0]).name
    for origin in material.origins:
        if origin.chat and expected not in origin.chat:
            raise EvaluationError(
                f"{origin.name} was made with the chat model {origin.chat!r}, and profile {origin.profile!r} has {expected!r}: set "
                "CRAG_GGUF as it was, or name a file for the gate with --gate"
            )


def _gate_file(options: CalibrateOptions, material: FitData) -> Path:
    parts = (options.preset, *material.profiles, *([Path(material.chat_model).name] if material.chat_model else []))
    return PRESETS / "gates" / f"{'_'.join(map(parse_name, parts))}.json"


def _find_gate(options: CalibrateOptions, material: FitData) -> Path:
    """Return the gate that the preset has for the models of the runs.

    Raises:
        EvaluationError: It has none.
    """
    path = read_settings(options.preset, material.profiles[0], material.chat_model)["finalise"]["gate"]
    if path is None:
        models = MODELS.join(material.models)
        raise EvaluationError(
            f"preset {options.preset!r} has no gate for {models}: fit one with --runs, or name a file with --gate"
        )
    return data_path(path)


def _fit_rule(options: CalibrateOptions, console: Console) -> None:
    """Fit the settings of a paper's own rule."""
    material = _read_material(options.runs, options, fitting=True)
    values = _RULES[options.fit](material.turns)
    for key, value in values.items():
        console.print(f"{key} = {value}", markup=False, highlight=False)
    if options.as_json:
        print_json({**material.about, "settings": dict(values)})
    if not options.dry_run:
        _refuse_left_out(material)
        _write_into_preset(options, material, material.models[0], values, console)


def _read_material(places: Sequence[Path], options: CalibrateOptions, *, fitting: bool) -> FitData:
    """Read the judged candidates of some runs.

    Raises:
        EvaluationError: A run is of another preset, or of a split that nothing may be fitted on; or their models or settings differ.
    """
    named = [(str(place), run) for place in dict.fromkeys(places) for run in run_folders([place])]
    runs = [run for _, run in named]
    manifests = [read_manifest(run) for run in runs]
    for run, about in zip(runs, manifests, strict=True):
        if about.get("preset") != canonical(options.preset):
            raise EvaluationError(f"{run} was made with preset {about.get('preset')!r}, not {options.preset!r}")
        if fitting and _split_name(about) != FITTED_SPLIT:
            raise EvaluationError(
                f"{run} is of the split {_split_name(about)!r}: only {FITTED_SPLIT} is fitted on, or the figures of other splits are worth "
                "nothing; --measure evaluates a fitted gate on this run"
            )
    origins = [
        RunOrigin(name, str(about.get("profile")), list_models(about).get("chat", ""))
        for (name, _), about in zip(named, manifests, strict=True)
    ]
    models = _read_models(origins, manifests)
    _refuse_mixed_settings(runs, manifests)
    judges = [_choose_judge(run, options) for run in runs]
    for run, judge in zip(runs, judges, strict=True):
        if options.dataset is None and needs_accepted_answers(judge.name) and read_about(run).get(ACCEPTED):
            raise EvaluationError(
                f"{run} was judged with accepted answers, and candidates that were held back would be judged without them: name the "
                "data set with --dataset"
            )
    decisions = [
        replace(decision, run=name)
        for (name, run), judge in zip(named, judges, strict=True)
        for decision in _read_decisions(run, judge, options)
    ]
    trained_on = _read_sessions(options.leave_out)
    turns = Turns.from_decisions([decision for decision in decisions if decision.session not in trained_on])
    if not turns.gate_decides.any():
        raise EvaluationError(
            "all candidates of these runs are missing or forbidden by a rule; take runs with more answers"
        )
    splits, names = {_split_name(about) for about in manifests}, {judge.name for judge in judges}
    return FitData(
        turns=turns,
        origins=tuple({each.name: each for each in origins}.values()),
        models=models,
        chat_model=manifests[0].get("model_name") or None,
        splits=tuple(sorted(splits)),
        runs=tuple(map(str, runs)),
        judges=tuple(sorted(names)),
        left_out=count_left_out(runs, decisions),
        without=_read_without(manifests[0]),
        settings=tuple(dict.fromkeys(chain(*map(_split_settings, manifests)))),
    )


def _read_models(origins: Sequence[RunOrigin], manifests: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the models that answered the runs, by the names of their weights, whatever engine and arithmetic ran them.

    Raises:
        EvaluationError: Two runs were answered by other models.
    """
    known = next((each.weights for each in origins if each.weights), "")
    models = [
        (*gate_models(origin.profile, about.get("model_name") or None), origin.weights or known)
        for origin, about in zip(origins, manifests, strict=True)
    ]
    for origin, each in zip(origins, models, strict=True):
        if each != models[0]:
            raise EvaluationError(
                f"{origins[0].name} was answered by {MODELS.join(filter(None, models[0]))} and {origin.name} by "
                f"{MODELS.join(filter(None, each))}: a gate is for the same weights, whatever profiles run them; one model at a time"
            )
    return models[0][:-1]


def _read_decisions(run: Path, judge: Judge, options: CalibrateOptions) -> list[Decision]:
    """Read the decisions of a run, with accept forms and photos of the data set that it answered if that is given."""
    if options.dataset is None:
        return read_decisions(run, judge)
    data = load_run_dataset(run, options.dataset, options.cache)
    photos = {session.session_id: photo for session in data.sessions if (photo := data.identify_photo(session))}
    decisions = read_decisions(run, judge, data.select_accept)
    return [replace(each, photo=photos.get(each.session, each.photo)) for each in decisions]


def _refuse_mixed_settings(runs: Sequence[Path], manifests: Sequence[Mapping[str, Any]]) -> None:
    """Check that the candidates of all runs were made with the same stages and settings (but ``_MAY_DIFFER``).

    Raises:
        EvaluationError: Two runs differ.
    """
    described = [_describe_changes(about) for about in manifests]
    for run, changes in zip(runs, described, strict=True):
        if changes != described[0]:
            raise EvaluationError(
                f"{runs[0]} was made with {described[0]} and {run} with {changes}: their candidates are of several presets; one at a time"
            )


def _describe_changes(about: Mapping[str, Any]) -> str:
    """Return how the candidates of a run were made, as options; "the whole preset" without any."""
    without = _read_without(about)
    settings = sorted({each for each in _split_settings(about) if not each.startswith(_MAY_DIFFER)})
    changes = [f"--without {without}"] if without else []
    return " ".join([*changes, *(f"--set {each}" for each in settings)]) or "the whole preset"


def _read_without(about: Mapping[str, Any]) -> str:
    return str(about.get("without") or "")


def _split_settings(about: Mapping[str, Any]) -> list[str]:
    return [each.strip() for each in _BETWEEN_SETTINGS.split(str(about.get("set") or "")) if each.strip()]


def _read_sessions(files: Sequence[Path]) -> set[str]:
    """Read the session ids in files of JSON lines.

    Raises:
        EvaluationError: A line is broken or has no session id.
    """
    sessions: set[str] = set()
    for file in files:
        try:
            sessions |= {line["session_id"] for line in read_all_lines(file)}
        except (KeyError, TypeError) as error:  # missing, or no text
            raise EvaluationError(f"{file} is no file of JSON lines that have a session_id: {error!r}") from error
    return sessions


def _split_name(about: Mapping[str, Any]) -> str:
    """Return the split of a run, whose data set is noted as NAME@REVISION/SPLIT."""
    return str(about.get("dataset", "")).rpartition("/")[2]


def _score_preset(turns: Turns, preset: str, material: FitData) -> dict[str, FloatArray]:
    """Return the points of every turn under the preset's current gate or cut, by the name of its row; its rules are the run's.

    Returns:
        Nothing if verifiers decide, whose verdicts no signal tells.
    """
    finalise = read_settings(preset, material.profiles[0], material.chat_model)["finalise"]
    name = "the preset as it is"
    is_given: BoolArray = np.ones(int(turns.gate_decides.sum()), dtype=np.bool_)
    if finalise["gate"] is not None:
        gate = Gate.load(data_path(finalise["gate"]))
        is_given = apply_gate(turns, gate)
        name = _mark_fitted(name, gate, material)
    elif finalise["verified_by"]:
        return {}
    elif finalise["max_idk"] is not None:
        is_given = ~(turns.signal("p_idk")[turns.gate_decides] > finalise["max_idk"])  # an unknown value passes
    return {name: turns.score(is_given)}


def _choose_judge(run: Path, options: CalibrateOptions) -> Judge:
    """Return the judge of the run, unless another is named.

    Raises:
        EvaluationError: The run does not say who judged, or its judge cannot be made from what it says.
    """
    about = read_about(run)
    noted = str(about.get("judge", ""))
    make = partial(
        choose_judge, cache=options.cache, rules=RULES.get(str(about.get("rules")), OURS), local=make_local_judge
    )
    if options.eval_model is not None:
        return make(options.eval_model)
    if not noted:
        raise EvaluationError(f"{run / SCORES} does not say who judged; name the judge with --eval-model")
    fault = f"{run} was judged by {noted!r}"
    remedy = "name a judge of the candidates that were held back with --eval-model"
    try:
        judge = make(noted.partition(" (")[0])
    except EvaluationError as error:
        raise EvaluationError(f"{fault}, which cannot be asked again ({error}); {remedy}") from error
    if judge.name != noted:
        raise EvaluationError(f"{fault}, and its name alone gives {judge.name!r}; {remedy}")
    return judge


def _write_into_preset(
    options: CalibrateOptions, material: FitData, models: str, values: Mapping[str, float | str], console: Console
) -> None:
    path = find_file(options.preset, "preset", PRESETS, EvaluationError)
    about = material.about
    comment = f"fitted on {about['turns']} turns of {about['sessions']} sessions of {about['split']} (evaluation.studies.calibrate)"
    write_whole(path, set_values(path, models, values, comment))
    console.print(f'written: {path}, [models."{models}"]', markup=False, soft_wrap=True)


def set_values(path: Path, models: str, values: Mapping[str, float | str], comment: str) -> str:
    """Return the text of a preset with settings replaced in its table for some models.

    Args:
        path: File of the preset.
        models: Name of the table below ``[models]``.
        values: New values by dotted setting.
        comment: Comment behind each value.

    Raises:
        EvaluationError: The file is missing or no TOML, a name stands for something else in it, or a value would not end up in its place.
    """
    assignments = ", ".join(f"{key} = {value!r}" for key, value in values.items())
    by_hand = EvaluationError(f'{path} cannot be edited; write [models."{models}"] by hand: {assignments}')
    try:
        read_toml(path)  # its error messages are better
        document = tomlkit.parse(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise EvaluationError(f"there is no preset {path}; correct the name") from error
    except ValueError as error:  # TOMLKitError too
        raise EvaluationError(f"{path} is not valid TOML: {error}") from error
    try:
        for key, value in values.items():
            *folders, last = "models", models, *key.split(".")
            table: Any = document
            for name in folders:
                table = table.setdefault(name, tomlkit.table(is_super_table=name != folders[-1]))
                if not isinstance(table, Mapping):
                    raise EvaluationError(f"{path}: {name} is no table")
            item = tomlkit.item(value)
            item.comment(comment)
            table[last] = item
        text = tomlkit.dumps(document)
        settings = tomllib.loads(text)
    except (TOMLKitError, ValueError) as error:  # such as a table within an inline one
        raise by_hand from error
    for key, value in values.items():
        node: Any = settings
        for name in ("models", models, *key.split(".")):
            node = node.get(name) if isinstance(node, Mapping) else None
        if node != value:  # tomlkit may put a table beside dotted keys into another place
            raise by_hand
    return text


if __name__ == "__main__":
    sys.exit(main())
