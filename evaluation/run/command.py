"""Entry point of ``python local_evaluation.py``: answers, judges and reports."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING, Any

from rich.console import Console

from agents.time_limits.signals import INTERRUPTED
from evaluation.commands import make_console, run_to_exit_status
from evaluation.progress import MakeBar, turn_bar
from evaluation.run.options import RunOptions, parse

if TYPE_CHECKING:
    from pathlib import Path

    from evaluation.data.crag_dataset import CragDataset, DatasetType
    from evaluation.data.own_dataset import Exhibits
    from evaluation.data.sampling import Sample
    from evaluation.records import AnsweredTurn
    from evaluation.report.html_report import ReportPart
    from evaluation.run.launching import BuildAgent, LaunchedAgent
    from evaluation.run.phases import Judging

TOO_MANY_ERRORS = 1


def main(
    arguments: Sequence[str] | None = None, console: Console | None = None, build: BuildAgent | None = None
) -> int:
    """Run the command line.

    Args:
        arguments: Command line; None: that of the process.
        console: Gets the output.
        build: Builds the agent in place of ``--agent``, with the arguments of ``CragAgent.from_config``.

    Returns:
        Exit status: 0, 1 with more errors than ``--fail-on-error`` allows, or if the judge judges nothing,
        2 after an expected error, 130 when stopped by Ctrl-C.
    """
    return evaluate(parse(arguments), console or make_console(), build)


def evaluate(options: RunOptions, console: Console, build: BuildAgent | None = None, bars: MakeBar = turn_bar) -> int:
    """Run parsed options (see ``main``); no other command may write into the folders meanwhile."""
    from evaluation.files.folder_lock import lock_folders

    def run() -> int:
        with lock_folders(options.output_dir, *(folder for _, folder in options.folders)):
            if options.mode == "evaluate":
                return _judge_saved(options, console, bars)
            return _answer(options, console, build, bars)

    return run_to_exit_status(run, console)


def _judge_saved(options: RunOptions, console: Console, bars: MakeBar) -> int:
    """Judge saved answers; no agent is built."""
    from evaluation.files.manifest import read_manifest
    from evaluation.files.responses import RESPONSES, find_records, read_responses
    from evaluation.judge.judging import explain_strictness
    from evaluation.rules import explain_ego_source
    from evaluation.run import phases

    judging = _judging(options, bars, options.base_url)
    parts, about = [], {}
    answered: list[AnsweredTurn] = []
    for kind, folder in options.folders:
        path = options.input_file or folder / RESPONSES
        turns = read_responses(path)
        _refuse_other_run(folder / RESPONSES, path)
        answered += turns
        local = options.dataset is not None or options.own_questions is not None
        dataset = load(kind, options) if local else None
        mismatches = phases.find_mismatches(turns, dataset)
        if dataset is None:
            notes = (explain_ego_source(options.rules), explain_strictness(judging.judge.name))
            mismatches += filter(None, notes)
        for mismatch in mismatches:
            console.print(mismatch, style="yellow", markup=False, soft_wrap=True)
        name = f"{len(turns)} answers of {path.name}"
        records = find_records(path)
        parts.append(phases.judge_answers(turns, judging, folder, console, dataset, name, answers_dir=records))
        about = {} if records is None else read_manifest(records)
    _report(options, parts, about, console)
    return _check_errors(options, answered, parts, console)


def _refuse_other_run(own: Path, saved: Path) -> None:
    """Raise an error if judging saved answers would replace the tables of another run, whose answers are ``own``.

    Raises:
        EvaluationError: There are such answers, in another file.
    """
    from evaluation.records import EvaluationError

    if own.is_file() and not own.samefile(saved):
        raise EvaluationError(
            f"{own.parent} has another run, whose tables those of {saved} would replace: name another --output-dir"
        )


def _answer(options: RunOptions, console: Console, build: BuildAgent | None, bars: MakeBar) -> int:
    """Build the agent once, let it answer each data set, and judge the answers if asked to."""
    from evaluation.files.manifest import read_manifest
    from evaluation.files.run_log import read_run_log
    from evaluation.files.traces import TRACE, read_traces
    from evaluation.run import launching

    config, about = launching.prepare(options)
    if "built" in about:
        console.print(f"agent {about['agent']} is {about['built']}", markup=False, soft_wrap=True)
    if config.collection_note:
        console.print(config.collection_note, style="yellow", markup=False, soft_wrap=True)
    from evaluation.run import phases, replicas  # these take seconds to import; an unknown preset is reported before

    judging = _judging(options, bars, config.profile.find_server("OPENAI_API_KEY"))
    with launching.convert_to_evaluation_errors():
        exhibits = config.read_exhibits()
    datasets = [(kind, load(kind, options, exhibits), folder) for kind, folder in options.folders]
    samples = {kind: sample for kind, dataset, _ in datasets if (sample := draw_sample(kind, dataset, options))}
    parts: list[ReportPart] = []
    noted: dict[str, Any] = {}
    answered: list[AnsweredTurn] = []
    if options.replicas is None:
        agent: AbstractContextManager[LaunchedAgent] = closing(launching.launch_agent(options, config, build))
    else:
        agent = replicas.launch_replicas(options, about, build)
    with agent as launched:
        for kind, dataset, folder in datasets:
            sample = samples.get(kind)
            if sample is not None:
                console.print(f"asked of {dataset.name}: {sample.description}", markup=False, soft_wrap=True)
            generation = phases.answer_sessions(
                launched, dataset, folder, console, about=about, sample=sample, tokenizer=options.tokenizer, rules=options.rules,
                conversations=options.num_conversations.limit(kind), resume=options.resume, progress=judging.progress,
                bars=bars, max_failures=options.max_failures,
            )  # fmt: skip
            if generation.interrupted:
                return INTERRUPTED
            answered += generation.turns
            if options.mode == "both":
                turns, name = generation.turns, dataset.name
                parts.append(phases.judge_answers(turns, judging, folder, console, dataset, name, answers_dir=folder))
            else:
                phases.print_missing_pictures(console, generation.turns, read_run_log(folder))
                phases.print_errors(console, generation.turns, read_traces(folder / TRACE))
            noted = read_manifest(folder)  # it has the tokenizer and the models too
    _report(options, parts, noted, console)
    return _check_errors(options, answered, parts, console)


def _check_errors(
    options: RunOptions, turns: Sequence[AnsweredTurn], parts: Sequence[ReportPart], console: Console
) -> int:
    """Return the exit status of a run that came to its end, and say why it is not 0."""
    errors, limit = sum(turn.error_cause is not None for turn in turns), options.fail_on_error
    unjudged = sum(turn.judge_failed for part in parts for turn in part.turns)
    if not limit.is_exceeded(errors + unjudged, len(turns)):
        return 0
    counts = f"{errors} of {len(turns)} turns are errors" + (f" and {unjudged} are not judged" if unjudged else "")
    console.print(
        f"error: {counts}, more than --fail-on-error {limit} allows; mend what failed, then ask "
        "them again with --resume",
        style="red", markup=False, soft_wrap=True,
    )  # fmt: skip
    return TOO_MANY_ERRORS


def _judging(options: RunOptions, bars: MakeBar, server: str | None) -> Judging:
    from evaluation.run.launching import make_local_judge
    from evaluation.run.phases import Judging

    judge = options.judge(options.eval_model, options.cache, make_local_judge, server)
    return Judging(
        judge, options.rules, options.workers, not options.no_progress, options.displayed, bars, options.max_failures
    )


def _report(
    options: RunOptions,
    parts: Sequence[ReportPart],
    about: Mapping[str, Any],
    console: Console,
) -> None:
    from evaluation.files.manifest import WITHOUT_PICTURE
    from evaluation.report.html_report import REPORT, write_report
    from evaluation.run.launching import choose_file_finder

    if parts and not options.no_report:
        # Each part of the report shows its own count of missing pictures.
        details = {name: value for name, value in about.items() if name != WITHOUT_PICTURE}
        path = write_report(options.output_dir / REPORT, parts, details, choose_file_finder(options.knowledge))
        console.print(f"report: {path}", markup=False, soft_wrap=True)


def draw_sample(kind: DatasetType, dataset: CragDataset, options: RunOptions) -> Sample | None:
    """Draw the sessions that ``--balanced`` asks; None if the first ones are asked, or all."""
    from evaluation.data.sampling import draw_balanced

    size = options.num_conversations.limit(kind)
    if options.balanced is None or size is None:
        return None
    return draw_balanced(dataset.sessions, size, options.balanced)


def load(kind: DatasetType, options: RunOptions, exhibits: Exhibits | None = None) -> CragDataset:
    """Load a data set; images may be fetched unless HF_HUB_OFFLINE says that there is no network.

    ``exhibits`` says what the photos of a collection show.
    """
    from evaluation.data import own_dataset
    from evaluation.data.diagnostics import load_diagnostics

    online = os.environ.get("HF_HUB_OFFLINE", "").upper() not in {"1", "ON", "YES", "TRUE"}
    if options.diagnostics is not None:
        return load_diagnostics(
            options.diagnostics, options.split, options.dataset, options.cache, online=online, rules=options.rules
        )
    place = options.own_questions or options.dataset
    return own_dataset.load(
        kind,
        options.split,
        options.revision,
        place,
        options.cache,
        online=online,
        rules=options.rules,
        exhibits=exhibits,
    )
