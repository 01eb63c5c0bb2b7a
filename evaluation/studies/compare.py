"""``python -m evaluation.studies.compare``: presets beside each other, in the layout of CRUISE's table 1."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from evaluation.commands import parser_of
from evaluation.run.launching import preset_names, settings_table
from evaluation.scores.scoring import SPLITS, Split
from evaluation.studies.figures import Result, Results, figures_of
from evaluation.studies.result_tables import Column, ResultTable, build_table, figure_column, time_columns
from evaluation.studies.variant_runs import add_options, compare
from evaluation.studies.variants import Variant, parse_variant

_EXAMPLES = """examples:
  every preset on the mini set:
    python -m evaluation.studies.compare --presets all --dataset .cache/datasets --split public_test --out results/comparison

  CRUISE with and without its checks, single-turn:
    python -m evaluation.studies.compare --presets cruise --also "cruise w/o CoV=cruise,-chain_of_verification" --tasks single --out x
"""


def variants_of(names: str, also: Sequence[str], profile: str) -> list[Variant]:
    """The presets of a comma-separated list (``all``: every one), then those given as variants.

    Raises:
        EvaluationError: There is no such preset or profile, a preset is malformed, or a variant is not well written.
    """
    chosen = preset_names() if names.strip() == "all" else [name.strip() for name in names.split(",") if name.strip()]
    variants = [*(Variant(name, name) for name in dict.fromkeys(chosen)), *map(parse_variant, also)]
    for variant in variants:
        settings_table(variant.preset, profile)  # a slip in a name is told before anything is run
    return variants


def tables(results: Results, tasks: Sequence[str]) -> list[ResultTable]:
    """One table a data set; dialogs also have the score with the early stop. Then one for each split that the data set knows."""
    made = []
    for task in tasks:
        found = results.of_task(task)
        columns = rate_columns()
        if task == "multi-turn":
            columns.append(figure_column("Conversation (%)", "dialog", "conversation", intervals=True))
        if found:
            title = f"{task}, {found[0].figures.turns} turns [95% bootstrap intervals over sessions]"
            made.append(build_table(title, "Preset", [*columns, *time_columns(found)], found))
            parts = (split_table(f"{task}, {split.key.replace('_', ' ')}", split, found) for split in SPLITS)
            made += [table for table in parts if table is not None]
    return made


def split_table(title: str, split: Split, results: Sequence[Result]) -> ResultTable | None:
    """The results in both groups of a split, below each other; None where no data set says which turn belongs to which."""
    parts = []
    for result in results:
        for name, turns in split.groups(result.turns).items():
            variant = replace(result.variant, label=f"{result.variant.label}, {name}")
            parts.append(replace(result, variant=variant, figures=figures_of(turns), turns=turns))
    if not parts:
        return None
    columns = [*rate_columns(), Column("Turns", "turns", lambda result: str(result.figures.turns))]
    return replace(build_table(title, "Preset", columns, parts), notes=())


def rate_columns() -> list[Column]:
    """The four rates of CRUISE's table 1."""
    return [
        figure_column("Accuracy (%)", "accuracy", "accuracy", intervals=True),
        figure_column("Missing (%)", "missing", "missing", intervals=True),
        figure_column("Hallucination (%)", "halluc.", "hallucination", intervals=True),
        figure_column("Truthfulness (%)", "truthfulness", "truthfulness", intervals=True),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print and write the tables; returns the exit status (see ``variant_runs.compare``)."""
    options = _parser().parse_args(arguments)
    return compare(lambda: variants_of(options.presets, options.also, options.profile), tables, options, "comparison")


def _parser() -> argparse.ArgumentParser:
    about = "Run several presets and put their scores beside each other."
    parser = parser_of("evaluation.studies.compare", about, _EXAMPLES)
    which = parser.add_argument_group("what is compared")
    which.add_argument("--presets", default="all", metavar="A,B,C", help="presets, or all (default)")
    which.add_argument("--also", action="append", default=[], metavar="LABEL=PRESET,-STAGE,KEY=VALUE", help="a preset without "
                       "some stages or with other settings, under a label of its own; may be repeated")  # fmt: skip
    add_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
