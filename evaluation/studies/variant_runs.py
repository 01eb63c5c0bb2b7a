"""What the commands that compare runs have in common: run each variant or take up its finished run, tabulate, write."""

from __future__ import annotations

import argparse
import gc
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from agents.secrets import keep_out_of_logs
from evaluation.judge.judge_options import add_judge_options, judge_arguments
from evaluation.records import DEFAULT_REVISION, EvaluationError
from evaluation.rules import RULES
from evaluation.run import command
from evaluation.run.options import add_shared_options, data_folders, parse, reply_cache
from evaluation.studies.figures import Result, Results, read_about, read_figures
from evaluation.studies.plots import plot_truthfulness
from evaluation.studies.result_tables import ResultTable, write_csv
from evaluation.studies.variants import Variant, check_labels

LOG = "log.txt"
TASKS = {"single": "single-turn", "multi": "multi-turn"}


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
    who.add_argument("--rules", choices=list(RULES), default="ours", help="see local_evaluation.py")
    add_judge_options(who, limit_of="one of the runs")
    who.add_argument("--num-workers", type=int, default=8, metavar="N", help="judgements asked for at the same time")
    who.add_argument("--tokenizer", metavar="ID_OR_PATH", help="tokenizer that cuts answers (see local_evaluation.py)")
    who.add_argument("--cache", type=Path, default=Path(".cache"), help="folder for indices, models, judgements")
    add_shared_options(what, who)
    out = parser.add_argument_group("the result")
    out.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the runs, the tables and the log; "
                     "interrupted runs are resumed, and finished ones are not repeated")  # fmt: skip
    out.add_argument(
        "--restart",
        action="store_true",
        help="repeat every run from the beginning, for example after a change of the code",
    )


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
        KeyboardInterrupt: A run was stopped; the same command resumes it.
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
            for task, folder in data_folders(parse(arguments)):
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
        *(() if options.restart else ("--resume",)), "--no_progress", "--no-report",
        *(word for setting in options.set for word in ("--set", setting)),
        *variant.arguments(),
    ]  # fmt: skip
    same = "dataset split revision num_conversations profile eval_model rules num_workers tokenizer cache".split()
    given = ((name, getattr(options, name)) for name in same)
    arguments += [f"--{name.replace('_', '-')}={value}" for name, value in given if value is not None]
    arguments += judge_arguments(options)
    if (replies := reply_cache(options)) is not None:
        arguments.append(f"--reply-cache={replies}")
    arguments += ["--suppress-web-search-api"] * options.suppress_web_search_api
    return arguments + ["--suppress-image-search-api"] * options.suppress_image_search_api


def _run(arguments: Sequence[str], variant: Variant, log: Path) -> None:
    with log.open("a+", encoding="utf-8") as file:
        start = file.tell()
        file.write(f"== {variant.label}: local_evaluation.py {' '.join(arguments)}\n")
        status = command.main(arguments, Console(file=file, width=120))
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
    tables: Callable[[Results, Sequence[str]], list[ResultTable]],
    options: argparse.Namespace,
    stem: str,
) -> int:
    """Run the variants, print their tables, and write them with a plot as ``STEM.md``, ``.csv`` and ``.png`` in ``options.out``.

    Args:
        variants: What to run; may raise EvaluationError.
        tables: The tables of the results on the tasks asked for.

    Returns:
        Exit status: 0, 1 where a run failed, 2 for what cannot be done, 130 when stopped by Ctrl-C.
    """
    keep_out_of_logs()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    console = Console()
    try:
        results = run_all(variants(), options, console)
        made = tables(results, tasks_of(options))
    except EvaluationError as error:
        console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from here")
        return command.INTERRUPTED
    if results.made:
        for table in made:
            table.show(console)
        text, numbers, plot = (options.out / f"{stem}.{kind}" for kind in ("md", "csv", "png"))
        text.write_text("\n".join(table.markdown() for table in made), encoding="utf-8")
        write_csv(numbers, results.made)
        plot_truthfulness(plot, results.made)
        console.print(f"written: {text}, {numbers}, {plot}", markup=False, soft_wrap=True)
    return 1 if results.failed else 0
