"""What the commands that compare runs have in common: run, tabulate, write."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Sequence

from rich.console import Console

from agents.secrets import keep_out_of_logs
from evaluation.records import EvaluationError
from evaluation.studies.comparison_plot import plot_truthfulness
from evaluation.studies.result_tables import ResultTable, write_csv
from evaluation.studies.runs import Results, run_all, tasks_of
from evaluation.studies.variants import Variant
from local_evaluation import INTERRUPTED


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
        return INTERRUPTED
    if results.made:
        for table in made:
            table.show(console)
        text, numbers, plot = (options.out / f"{stem}.{kind}" for kind in ("md", "csv", "png"))
        text.write_text("\n".join(table.markdown() for table in made), encoding="utf-8")
        write_csv(numbers, results.made)
        plot_truthfulness(plot, results.made)
        console.print(f"written: {text}, {numbers}, {plot}", markup=False, soft_wrap=True)
    return 1 if results.failed else 0
