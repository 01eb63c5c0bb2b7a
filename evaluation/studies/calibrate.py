"""Fits the gate by which a preset abstains, and measures it on unseen photos.

``python -m evaluation.studies.calibrate`` takes runs of a split, and writes into the preset. ``crag calibrate COLLECTION`` asks the
questions of a collection, and writes into the collection.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tomlkit
from pydantic import Field, model_validator
from rich.console import Console
from tomlkit.exceptions import TOMLKitError

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Flag
from agents.base.data_folder import data_path
from agents.base.files import write_whole
from agents.base.linear_head import HeadError
from agents.base.named import canonical, find_file, parse_name
from agents.methods.gate import Gate
from agents.settings.shared_options import print_json
from evaluation.commands import make_console, run_to_exit_status
from evaluation.files.folder_lock import lock_folders
from evaluation.files.manifest import read_manifest
from evaluation.files.outputs import ACCEPTED, SCORES, read_about
from evaluation.files.run_dataset import load_run_dataset
from evaluation.judge.judging import Judge, choose_judge, needs_accepted_answers
from evaluation.judge.spending import Paid
from evaluation.records import EvaluationError
from evaluation.rules import OURS, RULES
from evaluation.run.command import evaluate
from evaluation.run.launching import MODELS, PRESETS, make_local_judge, prepare
from evaluation.studies import rule_fits
from evaluation.studies.collection_runs import RESULTS, CollectionRunOptions, load_questions
from evaluation.studies.decisions import FITTED_SPLIT, FitData, JudgedRun, find_judged_folders, read_fit_data
from evaluation.studies.gate_study import FitOptions, fit_gate, measure_gate, read_finalise

OPEN = ("finalise.gate=null", "finalise.max_idk=null", "finalise.verified_by=[]")
"""Settings with which every candidate is given, so that dialogs go on after each."""

_HOW = f"""for questions of your own, in a collection: crag calibrate COLLECTION (crag calibrate COLLECTION --help)

Make the runs of --runs with every candidate given, so that dialogs go on after each:
  python local_evaluation.py --preset best --dataset-type both --dataset .cache/datasets --split validation --output-dir results/open \\
    {" ".join(f"--set '{setting}'" for setting in OPEN)}
docs/calibration.md has the next steps.
"""

_HOW_COLLECTION = """It answers the questions with every candidate given, and fits a gate to the signals of right and wrong candidates. The
expected gain is cross-validated: each dialog is decided by a gate fitted to the other dialogs. The gate is written into COLLECTION/gates,
where every command finds it for the same preset and models.
"""


class CollectionGateOptions(CollectionRunOptions, FitOptions):
    """Tune to your own questions when answers about a collection are withheld."""

    group = "the gate"

    output_dir: Annotated[Path | None, Flag(metavar="DIR")] = Field(
        None, description="folder of the run that the gate is fitted to; not given: results/NAME/open"
    )


class CalibrateOptions(FitOptions):
    """Fit the gate by which a preset abstains, show its worth, and write it into the preset, for the models of the run."""

    group = "the runs"

    runs: Annotated[tuple[Path, ...], Flag(metavar="DIR")] = Field(
        (),
        description=f"judged runs of {FITTED_SPLIT} to fit on, of the same weights under any profiles; the first gets summary and plot",
    )
    measure: Annotated[tuple[Path, ...], Flag(metavar="DIR")] = Field(
        (), description="in place of --runs: judged runs of any split to measure a fitted gate on"
    )
    preset: Annotated[str, Flag(metavar="NAME")] = Field(
        description="preset the runs were made with, or the path of its file"
    )
    fit: Literal["gate", "white_box", "algorithm1", "own_knowledge"] = Field(
        "gate",
        description="value to fit: the gate, the threshold of QA-Dragon's white-box verifier, the confidences of CRUISE's Algorithm 1, or "
        "whether and from which probability the model's own knowledge is returned",
    )
    gate: Annotated[Path | None, Flag(metavar="FILE")] = Field(
        None,
        description="where the fitted gate is written, and the preset left as it is; with --measure: the gate that is measured "
        "(default: the one that the preset has for the models of the runs)",
    )
    dataset: Annotated[Path | None, Flag(metavar="PATH")] = Field(
        None,
        description="local data set, for photos, and for the accept forms by which the rule judge judges candidates that were held back",
    )
    eval_model: Annotated[str | None, Flag(metavar="MODEL")] = Field(
        None,
        description="who judges candidates that were held back; not given: who judged the run, unless it is a server",
    )
    cache: CacheOption = Field(DEFAULT_CACHE, description="folder of judgements")

    @model_validator(mode="after")
    def _one_study(self) -> CalibrateOptions:
        if bool(self.runs) == bool(self.measure):
            raise ValueError("give one of --runs and --measure")
        return self


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit or measure, print, plot and write; with a collection as first argument answer its questions and fit its own gate.

    Returns:
        The exit status: 0; 2 after an expected error; for a collection 1 if more turns are errors than ``--fail-on-error`` allows, and 130
        when stopped by Ctrl-C.
    """
    argv = [*(sys.argv[1:] if arguments is None else arguments)]
    if argv and not argv[0].startswith("-"):
        own = CollectionGateOptions.parse(argv, epilog=_HOW_COLLECTION)
        run: Callable[[Console], int] = partial(_calibrate_collection, own)
        as_json = own.as_json
    else:
        options = CalibrateOptions.parse(argv, epilog=_HOW)
        run, as_json = partial(_calibrate_preset, options), options.as_json
    console = make_console(aside=as_json)
    return run_to_exit_status(partial(run, console), console, (EvaluationError, HeadError))


def _calibrate_collection(options: CollectionGateOptions, console: Console) -> int:
    questions = load_questions(options.collection)
    folder = options.output_dir or RESULTS / options.collection.resolve().name / "open"
    run = options.make_run_options(folder, OPEN, no_report=True)
    if (status := evaluate(run, console)) != 0:
        return status
    judge = options.judge(options.judge_name, options.cache, make_local_judge)
    data = read_fit_data([JudgedRun(folder, str(folder), read_manifest(folder), judge, questions.select_accept)])
    config, _ = prepare(run)
    assert config.collection is not None  # the run is one over a collection
    preset = parse_name(config.preset)
    about = {"preset": preset, "collection": config.collection.name}
    gate = fit_gate(data, options.preset, about, folder / "calibration", options, console)
    if gate is not None:
        path = config.collection.gate_file(preset, config.profile.gate_models)
        gate.save(path)
        console.print(
            f"written: {path}; crag ask, web, serve and test use it with this collection, preset {preset!r} and {' + '.join(data.models)}",
            markup=False, soft_wrap=True,
        )  # fmt: skip
    return 0


def _calibrate_preset(options: CalibrateOptions, console: Console) -> int:
    with lock_folders((options.runs or options.measure)[0]):
        data = read_fit_data(list_judged_runs(options))
        if options.measure:
            gate = Gate.load(options.gate or _find_gate(options, data))
            measure_gate(data, gate, options.measure[0] / "gate_measured", options, console)
        else:
            into_preset = not options.dry_run and (options.gate is None or options.fit != "gate")
            if into_preset:
                _refuse_other_origin(data)
            fit = _fit_gate if options.fit == "gate" else _fit_rule
            models, values = fit(options, data, console)
            if into_preset and values:
                _write_into_preset(options, data, models, values, console)
    return 0


def _fit_gate(options: CalibrateOptions, data: FitData, console: Console) -> tuple[str, Mapping[str, float | str]]:
    """Fit a gate and write its file; return its models and settings, or none if no gate is written."""
    models = MODELS.join(data.models)
    place = options.runs[0] / "calibration"
    gate = fit_gate(data, options.preset, {"preset": options.preset}, place, options, console)
    if gate is None:
        return models, {}
    parts = [options.preset, *dict.fromkeys(run.profile for run in data.runs), Path(data.runs[0].chat_model or "").name]
    path = options.gate or PRESETS / "gates" / f"{'_'.join(map(parse_name, filter(None, parts)))}.json"
    gate.save(path)
    console.print(f"written: {path}", markup=False, soft_wrap=True)
    if options.gate is not None:
        console.print(f"used with: --set finalise.gate={path.absolute()}", markup=False, soft_wrap=True)
    return models, {"finalise.gate": f"presets/gates/{path.name}"}


def _fit_rule(options: CalibrateOptions, data: FitData, console: Console) -> tuple[str, Mapping[str, float | str]]:
    """Fit a rule and print its settings; return its model and settings."""
    values = rule_fits.RULES[options.fit](data.turns)
    for key, value in values.items():
        console.print(f"{key} = {value}", markup=False, highlight=False)
    if options.as_json:
        print_json({**data.about, "settings": dict(values)})
    return data.models[0], values


def _find_gate(options: CalibrateOptions, data: FitData) -> Path:
    """Return the gate that the preset has for the models of the runs.

    Raises:
        EvaluationError: It has none.
    """
    path = read_finalise(data, options.preset)["gate"]
    if path is None:
        raise EvaluationError(
            f"preset {options.preset!r} has no gate for {MODELS.join(data.models)}: fit one with --runs, or name a file with --gate"
        )
    return data_path(path)


def list_judged_runs(options: CalibrateOptions) -> list[JudgedRun]:
    """Find the runs of a command line, with their judges and, if it is given, the data set that they answered.

    Raises:
        EvaluationError: A run is of another preset, or of a split that nothing may be fitted on; or its held-back candidates cannot be
            judged as the others were.
    """
    places = dict.fromkeys(options.runs or options.measure)
    runs, datasets = [], {}
    for name, folder in ((str(place), folder) for place in places for folder in find_judged_folders(place)):
        run = JudgedRun(folder, name, read_manifest(folder), _choose_judge(folder, options))
        if run.about.get("preset") != canonical(options.preset):
            raise EvaluationError(f"{folder} was made with preset {run.about.get('preset')!r}, not {options.preset!r}")
        if options.runs and run.split != FITTED_SPLIT:
            raise EvaluationError(
                f"{folder} is of the split {run.split!r}: only {FITTED_SPLIT} is fitted on, or the figures of other splits are worth "
                "nothing; --measure evaluates a fitted gate on this run"
            )
        if options.dataset is not None:
            noted = run.about.get("dataset")  # that of many runs: it is loaded once
            if noted not in datasets:
                datasets[noted] = load_run_dataset(folder, options.dataset, options.cache)
            data = datasets[noted]
            photos = {session.session_id: photo for session in data.sessions if (photo := data.identify_photo(session))}
            run = replace(run, accept=data.select_accept, photos=photos)
        elif needs_accepted_answers(run.judge.name) and read_about(folder).get(ACCEPTED):
            raise EvaluationError(
                f"{folder} was judged with accepted answers, and candidates that were held back would be judged without them: name the "
                "data set with --dataset"
            )
        runs.append(run)
    return runs


def _choose_judge(run: Path, options: CalibrateOptions) -> Judge:
    """Return the judge of the run, unless another is named.

    Raises:
        EvaluationError: The run does not say who judged, or its judge cannot be made from what it says.
    """
    about = read_about(run)
    noted = str(about.get("judge", ""))
    rules = RULES.get(str(about.get("rules")), OURS)
    if not noted and options.eval_model is None:
        raise EvaluationError(f"{run / SCORES} does not say who judged; name the judge with --eval-model")
    try:
        name = options.eval_model or noted.partition(" (")[0]
        judge = choose_judge(name, cache=options.cache, rules=rules, local=make_local_judge)
        if options.eval_model is None and judge.name != noted:
            raise EvaluationError(f"its name alone gives {judge.name!r}")
        if options.eval_model is None and isinstance(judge, Paid):
            raise EvaluationError(f"{judge.name} would get them: if you want that, repeat --eval-model {name}")
    except EvaluationError as error:
        raise EvaluationError(
            f"candidates of {run} that were held back cannot be judged as its others were, by {noted!r}: {error}; name a judge with "
            "--eval-model"
        ) from error
    return judge


def _refuse_other_origin(data: FitData) -> None:
    """Check that a fit holds for the whole preset under the models of its profiles, for which it is to be written.

    Raises:
        EvaluationError: The runs left out stages, or were made with other weights.
    """
    if data.about["without"]:
        raise EvaluationError(
            f"the runs were made without {data.about['without']}, and the fit would be written into the whole preset: make them with it, "
            "or name a file for a gate with --gate"
        )
    expected = Path(data.models[0]).name
    for run in data.runs:
        if run.chat and expected not in run.chat:
            raise EvaluationError(
                f"{run.folder} was made with the chat model {run.chat!r}, and profile {run.profile!r} has {expected!r}: set CRAG_GGUF as "
                "it was, or name a file for the gate with --gate"
            )


def _write_into_preset(
    options: CalibrateOptions, data: FitData, models: str, values: Mapping[str, float | str], console: Console
) -> None:
    path = find_file(options.preset, "preset", PRESETS, EvaluationError)
    fitted_on = "{turns} turns of {sessions} sessions of {split}".format(**data.about)
    write_whole(path, set_values(path, models, values, f"fitted on {fitted_on} (evaluation.studies.calibrate)"))
    console.print(f'written: {path}, [models."{models}"]', markup=False, soft_wrap=True)


def set_values(path: Path, models: str, values: Mapping[str, float | str], comment: str) -> str:
    """Return the text of a preset with settings replaced in its table for some models.

    Args:
        path: File of the preset.
        models: Name of the table below ``[models]``.
        values: New values by dotted setting.
        comment: Comment behind each value.

    Raises:
        EvaluationError: The file is no TOML, a name stands for something else in it, or a value would not end up in its place.
    """
    places = {("models", models, *key.split(".")): value for key, value in values.items()}
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8-sig"))
        for (*folders, last), value in places.items():
            table: Any = document
            for name in folders:
                table = table.setdefault(name, tomlkit.table(is_super_table=name != folders[-1]))
            item = tomlkit.item(value)
            item.comment(comment)
            table[last] = item
        text = tomlkit.dumps(document)
        settings = tomllib.loads(text)
        for names, value in places.items():
            node: Any = settings
            for name in names:
                node = node[name]
            if node != value:  # tomlkit may put a table beside dotted keys into another place
                raise ValueError(f"{'.'.join(names)} would be {node!r}")
    except (TOMLKitError, ValueError, TypeError, AttributeError, KeyError) as error:
        # One is a table within an inline one
        assignments = ", ".join(f"{key} = {value!r}" for key, value in values.items())
        raise EvaluationError(
            f'{path} cannot be edited ({error}); write [models."{models}"] by hand: {assignments}'
        ) from error
    return text


if __name__ == "__main__":
    sys.exit(main())
