"""Shared by the commands that compare runs: run each variant, or resume it, then tabulate and write."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field
from rich.console import Console

from agents.base.command_options import Flag
from agents.base.console import SafeConsole
from agents.base.files import annotate_os_error
from agents.settings.shared_options import JsonOptions, print_json
from agents.time_limits.signals import INTERRUPTED
from evaluation.commands import make_console, run_to_exit_status
from evaluation.files.folder_lock import lock_folders
from evaluation.files.outputs import read_about
from evaluation.progress import MakeBar, label_bars
from evaluation.records import EvaluationError
from evaluation.run import command
from evaluation.run.launching import read_settings
from evaluation.run.options import AgentOptions, AskedOptions, RunJudgeOptions, RunOptions
from evaluation.studies.figures import Result, compare_with_bases, read_figures
from evaluation.studies.plots import plot_results
from evaluation.studies.result_tables import (
    ResultTable,
    build_card_table,
    build_figure_rows,
    make_result_cards,
    name_files,
    write_tables,
)
from evaluation.studies.variants import Variant, check_labels

LOG = "log.txt"
TASKS = ("single-turn", "multi-turn")


class TaskOptions(AskedOptions):
    """Data sets of the questions."""

    group = "questions"

    tasks: str = Field(",".join(TASKS), description="single-turn, multi-turn or both, separated by a comma")


class ComparisonOptions(TaskOptions, AgentOptions, RunJudgeOptions, JsonOptions):
    """Options that all runs of a comparison share; its flags mean what they mean to local_evaluation.py."""

    group = "result"

    out: Annotated[Path, Flag(metavar="DIR")] = Field(
        description="folder of the runs, the tables and the log; interrupted runs are resumed, and finished ones are not repeated"
    )
    restart: bool = Field(
        False, description="repeat every run from the beginning, for example after a change of the code"
    )
    no_progress: bool = Field(False, description="no progress bar")


def parse_tasks(options: ComparisonOptions) -> list[str]:
    """Return the data sets of ``--tasks``, as local_evaluation.py names them; one for one's own questions.

    Raises:
        EvaluationError: There is no such task.
    """
    if options.own_questions is not None:
        return ["single-turn"]
    names = [name.strip() for name in options.tasks.split(",") if name.strip()]
    if not names or not set(names) <= set(TASKS):
        raise EvaluationError(f"--tasks takes {' and '.join(TASKS)}, not {options.tasks!r}")
    return [task for task in TASKS if task in names]


def run_all(
    variants: Sequence[Variant], tasks: Sequence[str], options: ComparisonOptions, console: Console
) -> tuple[list[Result], bool]:
    """Run each variant over each task and read the results; a failed variant does not stop the others.

    The output of a run goes into ``log.txt`` in ``options.out``.

    Returns:
        The results, variant by variant, and whether a variant could not be run or has too many errors.

    Raises:
        EvaluationError: Two variants would write into one folder, or a data set cannot be loaded.
        KeyboardInterrupt: A run was stopped; the same command resumes it.
    """
    check_labels(variants)
    results, failed = [], False
    runs = [make_run_options(variant, tasks, options) for variant in variants]
    for kind, _ in runs[0].folders:
        command.load(kind, runs[0])  # a data set that is not there ends the study, before any model is loaded
    for number, (variant, run) in enumerate(zip(variants, runs, strict=True), 1):
        try:
            bars = label_bars(f"[{number}/{len(variants)}] {variant.label}")
            if (too_many := _run(run, variant, options.out / LOG, bars)) is not None:
                failed = True
                console.print(f"{variant.label}: {too_many}", style="red", markup=False, soft_wrap=True)
            for task, folder in run.folders:
                figures, turns = read_figures(folder)
                results.append(Result(variant, task, figures, turns, read_about(folder)))
        except EvaluationError as error:
            failed = True
            console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
    return results, failed


def check_settings(variants: Iterable[Variant], options: ComparisonOptions) -> None:
    """Check the settings of every variant, before hours are spent on the first.

    ``--set`` is for all of them: a setting that one of the presets does not have is refused.

    Raises:
        EvaluationError: A preset is unknown or malformed, or lacks a stage or a setting that a variant replaces or leaves out.
    """
    for variant in variants:
        try:
            read_settings(
                variant.preset,
                options.profile,
                options.model_name,
                options.base_url,
                without=variant.without,
                overrides=(*options.set, *variant.settings),
            )
        except EvaluationError as error:
            raise EvaluationError(f"{variant.label}: {error}") from error


def make_run_options(variant: Variant, tasks: Sequence[str], options: ComparisonOptions) -> RunOptions:
    """Return the options of local_evaluation.py for a run of a variant."""
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


def _run(run: RunOptions, variant: Variant, log: Path, bars: MakeBar) -> str | None:
    """Run a variant; return its message if it ends with too many errors, whose results can still be read.

    Raises:
        EvaluationError: It could not be run.
        KeyboardInterrupt: It was stopped.
    """
    with annotate_os_error(f"writing {log}"):
        stream = log.open("a+", encoding="utf-8", errors="replace")
    with stream as file:
        start = file.tell()
        file.write(f"== {variant.label}\n")
        status = command.evaluate(run, SafeConsole(file=file, width=120), bars=bars)
        gc.collect()  # agents are in reference cycles: free the language model of one run before the next is loaded
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        if status != 0:
            file.seek(start)
            errors = [line.strip() for line in file if line.startswith("error: ")]
            reason = errors[-1].removeprefix("error: ") if errors else f"exit status {status}"
            if status == command.TOO_MANY_ERRORS:
                return reason
            raise EvaluationError(f"{variant.label}: {reason} (see {log})")
    return None


def compare(
    variants: Callable[[], list[Variant]],
    base_of: Callable[[Variant], str],
    tables: Callable[[str, Sequence[Result]], list[ResultTable]],
    options: ComparisonOptions,
    stem: str,
) -> int:
    """Run the variants, print their tables, and write them with a plot and the cards of the runs.

    Args:
        variants: Returns the variants to run.
        base_of: Returns the label of the variant that one is tested against.
        tables: Builds the tables of a task from the results of the variants.
        options: Options of the command.
        stem: Name of the files in ``options.out``, without suffix.

    Returns:
        Exit status: 0, 1 if a run failed or has more errors than ``--fail-on-error`` allows, 2 after an expected error, 130 when
        stopped by Ctrl-C.
    """
    console = make_console(aside=options.as_json)

    def run() -> int:
        with lock_folders(options.out):
            # One that is named twice would be a comparison more, by which every p is adjusted.
            selection, tasks = [*dict.fromkeys(variants())], parse_tasks(options)
            check_settings(selection, options)
            run_results, failed = run_all(selection, tasks, options, console)
            results = compare_with_bases(run_results, base_of)
            if results:
                by_task = {task: [result for result in results if result.task == task] for task in tasks}
                all_tables = [table for task, group in by_task.items() if group for table in tables(task, group)]
                for table in all_tables:
                    table.show(console)
                place = options.out / stem
                files = write_tables(place, [*all_tables, build_card_table(make_result_cards(results))], results)
                files += plot_results(place, results)
                console.print(f"written: {name_files(*files)}", markup=False, soft_wrap=True)
                if options.as_json:
                    print_json({"results": build_figure_rows(results)})
            return int(failed)

    return run_to_exit_status(run, console, stopped="stopped; the same command goes on from here")
