"""What ``python local_evaluation.py`` does with its command line: answer, judge, report."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from evaluation.commands import exit_status
from evaluation.run.options import data_folders, parse

if TYPE_CHECKING:
    from evaluation.data.crag_dataset import CragDataset, DatasetType
    from evaluation.report.html_report import ReportPart
    from evaluation.run.launching import BuildAgent, Launch, LaunchedAgent
    from evaluation.run.steps import Judging

INTERRUPTED = 130


def main(
    arguments: Sequence[str] | None = None, console: Console | None = None, build: BuildAgent | None = None
) -> int:
    """Parse, wire, call. Returns the exit status: 0, 2 for what cannot be done, 130 when stopped by Ctrl-C.

    ``build`` takes the place and the arguments of ``CragAgent.from_launch``.
    """
    return evaluate(parse(arguments), console or Console(), build)


def evaluate(options: argparse.Namespace, console: Console, build: BuildAgent | None = None) -> int:
    """What ``main`` does with the options that ``parse`` read."""

    def run() -> int:
        return _judge_saved(options, console) if options.mode == "evaluate" else _answer(options, console, build)

    try:
        return exit_status(run, console)
    except KeyboardInterrupt:
        console.print("stopped")
        return INTERRUPTED


def _judge_saved(options: argparse.Namespace, console: Console) -> int:
    """Judge saved answers; no agent is built."""
    from evaluation.files.manifest import read_manifest
    from evaluation.files.responses import RESPONSES, read_responses
    from evaluation.run import steps

    judging = _judging(options)
    parts, about = [], {}
    for kind, folder in data_folders(options):
        path = options.input_file or folder / RESPONSES
        turns = read_responses(path)
        dataset = _load(kind, options) if options.dataset is not None else None
        name = f"{len(turns)} answers of {path.name}"
        parts.append(steps.judge_answers(turns, judging, folder, console, dataset, name, answers_dir=path.parent))
        about = read_manifest(path.parent)
    _report(options, parts, about, judging, console)
    return 0


def _answer(options: argparse.Namespace, console: Console, build: BuildAgent | None) -> int:
    """Build the agent once, let it answer each data set, and judge the answers unless only they are wanted."""
    from evaluation.run import launching

    launch, about = launching.prepare(options)
    from evaluation.run import steps  # it imports Hugging Face's libraries, which now know where their cache is

    judging = _judging(options)
    asked = [(kind, _load(kind, options), folder) for kind, folder in data_folders(options)]
    parts = []
    with _agent(options, launch, about, build) as launched:
        for kind, dataset, folder in asked:
            made = steps.answer_sessions(
                launched,
                dataset,
                dataset.sessions,
                folder,
                console,
                about=about,
                tokenizer=options.tokenizer,
                conversations=options.num_conversations.of(kind),
                rules=options.rules,
                resume=options.resume,
                progress=judging.progress,
            )
            if made.interrupted:
                return INTERRUPTED
            if options.mode == "both":
                parts.append(steps.judge_answers(made.turns, judging, folder, console, dataset, dataset.name))
    _report(options, parts, about, judging, console)
    return 0


def _agent(
    options: argparse.Namespace, launch: Launch, about: Mapping[str, Any], build: BuildAgent | None
) -> AbstractContextManager[LaunchedAgent]:
    from evaluation.run import launching

    if options.replicas is None:
        return nullcontext(launching.launched(options, launch, build))
    from evaluation.run.replicas import replicated

    return replicated(options, about, build)


def _judging(options: argparse.Namespace) -> Judging:
    from evaluation.judge.judge_options import judge_settings
    from evaluation.judge.judging import choose_judge
    from evaluation.run.launching import local_judge
    from evaluation.run.steps import Judging

    return Judging(
        choose_judge(
            options.eval_model, cache=options.cache, rules=options.rules, local=local_judge, **judge_settings(options)
        ),
        options.rules,
        options.num_workers,
        not options.no_progress,
        options.display_conversations,
    )


def _report(
    options: argparse.Namespace,
    parts: Sequence[ReportPart],
    about: Mapping[str, Any],
    judging: Judging,
    console: Console,
) -> None:
    from evaluation.report.html_report import REPORT, write_report

    if parts and not options.no_report:
        names = " and ".join(part.name for part in parts)
        made_with = {**about, "dataset": names, "judge": judging.judge.name}
        path = write_report(options.output_dir / REPORT, parts, made_with)
        console.print(f"report: {path}", markup=False, soft_wrap=True)


def _load(kind: DatasetType, options: argparse.Namespace) -> CragDataset:
    """A data set; images may be fetched unless Hugging Face's own switch says that there is no network."""
    from evaluation.data import crag_dataset

    online = os.environ.get("HF_HUB_OFFLINE", "").upper() not in {"1", "ON", "YES", "TRUE"}
    return crag_dataset.load(
        kind, options.split, options.revision, options.dataset, Path(options.cache), online=online, rules=options.rules
    )
