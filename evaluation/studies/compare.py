"""``python -m evaluation.studies.compare``: comparison of presets, in the layout of CRUISE's table 1."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

from pydantic import Field

from agents.base.command_options import Flag
from agents.base.named import parse_name
from evaluation.run.launching import preset_names, read_settings
from evaluation.scores.scoring import SPLITS
from evaluation.studies.figures import Result, check_base, compute_figures
from evaluation.studies.result_tables import (
    TURNS,
    ResultTable,
    build_paired_tables,
    build_table,
    make_figure_column,
    make_metric_columns,
    make_time_columns,
)
from evaluation.studies.variant_runs import ComparisonOptions, compare
from evaluation.studies.variants import Variant, parse_variant

_EXAMPLES = """examples:
  every preset on the mini set:
    python -m evaluation.studies.compare --presets all --dataset .cache/datasets --split public_test --out results/comparison

  CRUISE with and without its checks, single-turn:
    python -m evaluation.studies.compare --presets cruise --also "cruise w/o CoV=cruise,-chain_of_verification" --tasks single-turn --out x
"""


def make_variants(
    names: str, also: Sequence[str], profile: str, chat_model: str | None = None, base_url: str | None = None
) -> list[Variant]:
    """Return the presets of a comma-separated list (``all``: every one), then those given as variants.

    Raises:
        EvaluationError: There is no such preset or profile, a preset is malformed, or a variant is not well written.
    """
    presets = preset_names() if names.strip() == "all" else [name.strip() for name in names.split(",") if name.strip()]
    variants = [*(Variant(parse_name(name), name) for name in dict.fromkeys(presets)), *map(parse_variant, also)]
    for variant in variants:
        read_settings(variant.preset, profile, chat_model, base_url)  # report a misspelt name before anything is run
    return variants


RATES = (
    make_figure_column("Accuracy (%)", "accuracy", "accuracy", intervals=True),
    make_figure_column("Missing (%)", "missing", "missing", intervals=True),
    make_figure_column("Hallucination (%)", "halluc.", "hallucination", intervals=True),
    make_figure_column("Truthfulness (%)", "truthfulness", "truthfulness", intervals=True),
)
"""The four rates of CRUISE's table 1."""


def build_tables(task: str, results: Sequence[Result], *, groups: bool = False) -> list[ResultTable]:
    """Build the table of the results, the tests against the base, and with ``groups`` a table a split.

    Dialogs have the score with the early stop too. Splits are those that the data set knows.
    """
    columns = [*RATES, *make_metric_columns(), *make_time_columns(results)]
    if task == "multi-turn":
        columns.insert(len(RATES), make_figure_column("Conversation (%)", "dialog", "conversation", intervals=True))
    title = f"{task}, {results[0].figures.turns} turns [95% bootstrap intervals over sessions]"
    tables = [build_table(title, "Preset", columns, results), *build_paired_tables("Preset", results)]
    for split in SPLITS if groups else ():
        parts = [
            replace(
                result,
                variant=replace(result.variant, label=f"{result.variant.label}, {name}"),
                figures=replace(compute_figures(turns), failing=result.figures.failing),
                turns=turns,
            )
            for result in results
            for name, turns in split.groups(result.turns).items()
        ]
        if parts:
            table = build_table(f"{task}, {split.key.replace('_', ' ')}", "Preset", [*RATES, TURNS], parts)
            tables.append(replace(table, notes=()))
    return tables


class CompareOptions(ComparisonOptions):
    """Run several presets and compare their scores."""

    group = "comparison"

    presets: Annotated[str, Flag(metavar="A,B,C")] = Field("all", description="presets, or all")
    also: Annotated[tuple[str, ...], Flag(metavar="LABEL=PRESET,-STAGE,KEY=VALUE", repeated=True)] = Field(
        (),
        description="a preset without some stages or with other settings, under a label of its own; may be repeated",
    )
    against: Annotated[str | None, Flag(metavar="NAME")] = Field(
        None, description="base of the tests, a preset or label; not given: the first"
    )
    groups: bool = Field(False, description="tables by photo, question and answer too, if the data set states them")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print and write the tables; return the exit status (see ``variant_runs.compare``)."""
    options = CompareOptions.parse(arguments, epilog=_EXAMPLES)
    model = (options.model_name, options.base_url)

    def variants() -> list[Variant]:
        selection = make_variants(options.presets, options.also, options.profile, *model)
        labels = [variant.label for variant in selection]
        base = options.against or labels[0]
        bases.append(base if base in labels else check_base(parse_name(base), labels))
        return selection

    bases: list[str] = []
    build = partial(build_tables, groups=options.groups)
    return compare(variants, lambda _: bases[0], build, options, "comparison")


if __name__ == "__main__":
    sys.exit(main())
