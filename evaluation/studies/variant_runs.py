"""Shared by the commands that compare runs: run each variant, or resume it, then tabulate and write."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field
from rich.console import Console

from agents.base.command_options import Flag
from agents.base.files import doing
from agents.settings.shared_options import JsonOptions
from evaluation.commands import exit_status, output, print_json
from evaluation.files.folder_lock import writing_into
from evaluation.files.outputs import read_about
from evaluation.files.responses import RESPONSES
from evaluation.progress import MakeBar, Share, StudyBar
from evaluation.records import EvaluationError
from evaluation.run import command
from evaluation.run.generate import ANSWERS
from evaluation.run.launching import settings_table
from evaluation.run.options import AgentOptions, AskedOptions, RunJudgeOptions, RunOptions
from evaluation.studies.figures import Result, against_bases, read_figures
from evaluation.studies.plots import plot_truthfulness
from evaluation.studies.result_tables import (
    ResultTable,
    card_table,
    figure_rows,
    result_cards,
    write_tables,
    written,
)
from evaluation.studies.variants import Variant, check_labels

LOG = "log.txt"
TASKS = {"single": "single-turn", "multi": "multi-turn"}


class TaskOptions(AskedOptions):
    """Which questions of which data sets are asked."""

    group = "what is asked"

    tasks: str = Field("single,multi", description="single, multi or both of them")


class ComparisonOptions(TaskOptions, AgentOptions, RunJudgeOptions, JsonOptions):
    """What all runs of a comparison share; its flags mean what they mean to local_evaluation.py."""

    group = "the result"

    out: Annotated[Path, Flag(metavar="DIR")] = Field(
        description="folder of the runs, the tables and the log; interrupted runs are resumed, and finished ones are not repeated"
    )
    restart: bool = Field(
        False, description="repeat every run from the beginning, for example after a change of the code"
    )
    no_progress: bool = Field(False, description="no progress bar")


def tasks_of(options: ComparisonOptions) -> list[str]:
    """The data sets asked for, by the names that local_evaluation.py has for them. Raises EvaluationError where there is no such task."""
    names = [name.strip() for name in options.tasks.split(",") if name.strip()]
    unknown = [name for name in names if name not in TASKS]
    if unknown or not names:
        raise EvaluationError(f"--tasks takes single and multi, not {options.tasks!r}")
    return [kind for name, kind in TASKS.items() if name in names]


def run_all(
    variants: Sequence[Variant], tasks: Sequence[str], options: ComparisonOptions, console: Console
) -> tuple[list[Result], bool]:
    """Run each variant over each task and read what it reached; one that cannot be run does not stop the others.

    What a run prints goes into ``log.txt`` in ``options.out``.

    Returns:
        The results, variant by variant, and whether a variant could not be run.

    Raises:
        EvaluationError: Two variants would write into one folder.
        KeyboardInterrupt: A run was stopped; the same command resumes it.
    """
    check_labels(variants)
    made, failed = [], False
    runs = {variant.label: options_of(variant, tasks, options) for variant in variants}
    with StudyBar(ANSWERS, shares_of(runs.values()), shown=not options.no_progress) as bar:
        for number, variant in enumerate(variants, 1):
            run = runs[variant.label]
            names = [str(folder) for _, folder in run.folders]
            try:
                _run(run, variant, options.out / LOG, bar.of(f"[{number}/{len(variants)}] {variant.label}", *names))
                for task, folder in run.folders:
                    figures, turns = read_figures(folder)
                    made.append(Result(variant, task, figures, turns, read_about(folder)))
            except EvaluationError as error:
                failed = True
                with bar.aside():
                    console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
            bar.end(*names)
    return made, failed


def check_settings(variants: Iterable[Variant], options: ComparisonOptions) -> None:
    """Check the settings of every variant, before hours are spent on the first.

    ``--set`` is for all of them: a setting that one of the presets does not have is refused.

    Raises:
        EvaluationError: A preset is unknown or malformed, or lacks a stage or a setting that a variant replaces or leaves out.
    """
    for variant in variants:
        try:
            settings_table(
                variant.preset,
                options.profile,
                options.model_name,
                options.base_url,
                without=variant.without,
                overrides=(*options.set, *variant.settings),
            )
        except EvaluationError as error:
            raise EvaluationError(f"{variant.label}: {error}") from error


def shares_of(runs: Iterable[RunOptions]) -> dict[str, Share]:
    """The turns that each run has in each of its folders, and how many of them a run that is resumed finds answered there.

    By the rules of a release a run that is not of all sessions may leave some turns of the last ones out (``queue_schedule``).

    Raises:
        EvaluationError: A data set cannot be loaded.
    """
    totals: dict[str, int] = {}  # by the data set
    shares = {}
    for run in runs:
        for kind, folder in run.folders:
            if kind not in totals:
                sessions = command.load(kind, run).sessions[: run.num_conversations.of(kind)]
                totals[kind] = sum(len(session.turns) for session in sessions)
            answers = folder / RESPONSES
            there = answers.read_bytes().count(b"\n") if run.resume and answers.is_file() else 0
            shares[str(folder)] = Share(totals[kind], min(there, totals[kind]))
    return shares


def options_of(variant: Variant, tasks: Sequence[str], options: ComparisonOptions) -> RunOptions:
    """A run of a variant, as local_evaluation.py takes it."""
    folder, both = options.out / variant.folder, len(tasks) > 1
    shared = {name: getattr(options, name) for name in RunOptions.model_fields.keys() & ComparisonOptions.model_fields}
    run = {
        "preset": variant.preset,
        "without": variant.without,
        "set": (*options.set, *variant.settings),
        "dataset_type": "both" if both else tasks[0],
        "output_dir": folder if both else folder / tasks[0],
        "resume": not options.restart,
        "no_report": True,
    }
    return RunOptions.model_validate(shared | run)


def _run(run: RunOptions, variant: Variant, log: Path, bars: MakeBar) -> None:
    with doing(f"writing {log}"):
        opened = log.open("a+", encoding="utf-8", errors="replace")
    with opened as file:
        start = file.tell()
        file.write(f"== {variant.label}\n")
        status = command.evaluate(run, Console(file=file, width=120), bars=bars)
        gc.collect()  # agents hold themselves in cycles: the language model of one run must go before the next is loaded
        if status == command.INTERRUPTED:
            raise KeyboardInterrupt
        if status != 0:
            file.seek(start)
            errors = [line.strip() for line in file if line.startswith("error: ")]
            reason = errors[-1].removeprefix("error: ") if errors else f"exit status {status}"
            raise EvaluationError(f"{variant.label}: {reason} (see {log})")


def compare(
    variants: Callable[[], list[Variant]],
    base_of: Callable[[Variant], str],
    tables: Callable[[str, Sequence[Result]], list[ResultTable]],
    options: ComparisonOptions,
    stem: str,
) -> int:
    """Run the variants, print their tables, and write them with a plot and the cards of the runs as files STEM in ``options.out``.

    ``base_of`` gives the label of the variant that one is tested against; ``tables`` are those of a task and of what the variants
    reached on it.

    Returns:
        Exit status: 0, 1 where a run failed, 2 for what cannot be done, 130 when stopped by Ctrl-C.
    """
    console = output(aside=options.as_json)

    def run() -> int:
        with writing_into(options.out):
            return run_alone()

    def run_alone() -> int:
        try:
            chosen, tasks = variants(), tasks_of(options)
            check_settings(chosen, options)
            reached, failed = run_all(chosen, tasks, options, console)
            results = against_bases(reached, base_of)
        except KeyboardInterrupt:
            console.print("stopped; the same command goes on from here")
            return command.INTERRUPTED
        if results:
            by_task = {task: [result for result in results if result.task == task] for task in tasks}
            made = [table for task, found in by_task.items() if found for table in tables(task, found)]
            for table in made:
                table.show(console)
            place = options.out / stem
            files = write_tables(place, [*made, card_table(result_cards(results))], results)
            files += plot_truthfulness(place, results)
            console.print(f"written: {written(*files)}", markup=False, soft_wrap=True)
            if options.as_json:
                print_json({"results": figure_rows(results)})
        return int(failed)

    return exit_status(run, console)
