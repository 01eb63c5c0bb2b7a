"""Runs of local_evaluation.py under a common folder, for commands that compare several; finished ones are reused."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

import local_evaluation
from evaluation.records import DEFAULT_REVISION, EvaluationError
from evaluation.run.options import add_shared_options, data_folders, reply_cache
from evaluation.run.options import parse as parse_run
from evaluation.scores.figures import Figures, read_about, read_figures
from evaluation.scores.scoring import JudgedTurn
from evaluation.studies.variants import Variant, check_labels

LOG = "log.txt"
TASKS = {"single": "single-turn", "multi": "multi-turn"}


@dataclass(frozen=True)
class Result:
    """What a variant reached on one data set; ``folder`` holds the run's files, ``about`` what it was made with."""

    variant: Variant
    task: str
    figures: Figures
    turns: Sequence[JudgedTurn]
    folder: Path = Path()
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """What all variants reached, and why some could not be run."""

    made: tuple[Result, ...]
    failed: tuple[str, ...] = ()

    def of_task(self, task: str) -> list[Result]:
        """The results on one data set, in the order of the variants."""
        return [result for result in self.made if result.task == task]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The flags that all runs of a comparison share; they mean what they mean to local_evaluation.py."""
    what = parser.add_argument_group("what is asked")
    what.add_argument(
        "--dataset", type=Path, metavar="PATH", help="local folder with the data sets; None: from the hub"
    )
    what.add_argument("--split", default="validation", help="split of the data sets")
    what.add_argument("--revision", default=DEFAULT_REVISION, help="revision of the data sets")
    what.add_argument("--tasks", default="single,multi", help="single, multi or both of them")
    who = parser.add_argument_group("who answers and judges")
    who.add_argument("--profile", default="embedded", help="where models run: embedded (CPU), gpu or server")
    who.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="setting replaced in every run, such as "
                     "limits.seconds_per_turn=60 where a busy machine would cut turns short; may be repeated")  # fmt: skip
    who.add_argument("--suppress-web-search-api", action="store_true", help="no web search, as in task 1")
    who.add_argument("--suppress-image-search-api", action="store_true", help="no image search")
    who.add_argument("--eval-model", metavar="MODEL", help="judge (see local_evaluation.py)")
    who.add_argument("--num-workers", type=int, default=8, metavar="N", help="judgements asked for at the same time")
    who.add_argument("--tokenizer", metavar="ID_OR_PATH", help="tokenizer that cuts answers (see local_evaluation.py)")
    who.add_argument("--cache", type=Path, default=Path(".cache"), help="folder for indices, models, judgements")
    add_shared_options(what, who)
    out = parser.add_argument_group("the result")
    out.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the runs, the tables and the log; "
                     "runs that are there are gone on with, and finished ones are not made again")  # fmt: skip
    out.add_argument("--anew", action="store_true", help="make every run again, as after a change of the code")


def tasks_of(options: argparse.Namespace) -> list[str]:
    """The data sets asked for, by the names that local_evaluation.py has for them.

    Raises:
        EvaluationError: There is no such task.
    """
    names = [name.strip() for name in options.tasks.split(",") if name.strip()]
    unknown = [name for name in names if name not in TASKS]
    if unknown or not names:
        raise EvaluationError(f"--tasks takes single and multi, not {options.tasks!r}")
    return [kind for name, kind in TASKS.items() if name in names]


def run_all(variants: Sequence[Variant], options: argparse.Namespace, console: Console) -> Results:
    """Run each variant over each task and read what it reached; one that cannot be run does not stop the others.

    What a run prints goes into ``log.txt`` in ``options.out``.

    Raises:
        EvaluationError: The variants or the tasks are not well given.
        KeyboardInterrupt: A run was stopped; the same command goes on with it.
    """
    check_labels(variants)
    tasks = tasks_of(options)
    options.out.mkdir(parents=True, exist_ok=True)
    made, failed = [], []
    for number, variant in enumerate(variants, 1):
        console.print(f"[{number}/{len(variants)}] {variant.label}", markup=False, highlight=False)
        arguments = _arguments(variant, tasks, options)
        try:
            _run(arguments, variant, options.out / LOG)
            for task, folder in data_folders(parse_run(arguments)):
                figures, turns = read_figures(folder)
                made.append(Result(variant, task, figures, turns, folder, read_about(folder)))
        except EvaluationError as error:
            failed.append(str(error))
            console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
    return Results(tuple(made), tuple(failed))


def _arguments(variant: Variant, tasks: Sequence[str], options: argparse.Namespace) -> list[str]:
    folder = options.out / variant.folder
    both = len(tasks) > 1
    arguments = [
        "--dataset-type", "both" if both else tasks[0],
        "--output-dir", str(folder if both else folder / tasks[0]),
        "--split", options.split,
        "--revision", options.revision,
        f"--num-conversations={options.num_conversations}",
        "--profile", options.profile,
        "--num-workers", str(options.num_workers),
        "--cache", str(options.cache),
        *(() if options.anew else ("--resume",)), "--no_progress", "--no-report",
        *(word for setting in options.set for word in ("--set", setting)),
        *variant.arguments(),
    ]  # fmt: skip
    for flag, value in (
        ("--dataset", options.dataset),
        ("--eval-model", options.eval_model),
        ("--tokenizer", options.tokenizer),
        ("--reply-cache", reply_cache(options)),
    ):
        if value is not None:
            arguments += [flag, str(value)]
    arguments += ["--suppress-web-search-api"] * options.suppress_web_search_api
    arguments += ["--suppress-image-search-api"] * options.suppress_image_search_api
    return arguments


def _run(arguments: Sequence[str], variant: Variant, log: Path) -> None:
    with log.open("a+", encoding="utf-8") as file:
        start = file.tell()
        file.write(f"== {variant.label}: local_evaluation.py {' '.join(arguments)}\n")
        status = local_evaluation.main(arguments, Console(file=file, width=120))
        gc.collect()  # agents hold themselves in cycles: the language model of one run must go before the next is loaded
        if status == local_evaluation.INTERRUPTED:
            raise KeyboardInterrupt
        if status != 0:
            file.seek(start)
            errors = [line.strip() for line in file if line.startswith("error: ")]
            reason = errors[-1].removeprefix("error: ") if errors else f"exit status {status}"
            raise EvaluationError(f"{variant.label}: {reason} (see {log})")
