"""``python -m evaluation.studies.ablate``: ablation of the parts of a preset, in the layout of QA-Dragon's tables 2 and 4."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from agents.base.command_options import Flag
from agents.base.named import parse_name
from evaluation.run.launching import read_settings
from evaluation.studies.figures import Result
from evaluation.studies.result_tables import (
    P_NOTE,
    Column,
    ResultTable,
    build_table,
    format_change,
    format_p,
    make_figure_column,
    make_metric_columns,
    make_time_columns,
)
from evaluation.studies.variant_runs import ComparisonOptions, compare
from evaluation.studies.variants import MORE_PARTS, PARTS, Variant, leave_out, select_parts

_EXAMPLES = """examples:
  everything of QA-Dragon's tables, on the mini set:
    python -m evaluation.studies.ablate --preset qa_dragon --dataset .cache/datasets --split public_test --out results/ablation

  two parts only, and a setting:
    python -m evaluation.studies.ablate --preset best --without reranking --without answer.k=3 --dataset .cache/datasets --out results/two

overlap is the mean share of the ground truth's content words that stand in the answer (evaluation/scores/answer_words.py). The change of
truthfulness is against the whole preset, compared session by session; interval and p tell whether a part matters.
"""


def make_variants(
    preset: str, profile: str, names: Sequence[str], chat_model: str | None = None, base_url: str | None = None
) -> list[Variant]:
    """Return the whole preset, and the preset without each named part, or without each part it has.

    Raises:
        EvaluationError: There is no such preset or profile, or the preset lacks a named part.
    """
    settings = read_settings(preset, profile, chat_model, base_url)
    left_out = [leave_out(name, preset, settings) for name in names or [part.name for part in select_parts(settings)]]
    return [Variant(parse_name(preset), preset), *left_out]


def build_tables(task: str, results: Sequence[Result]) -> list[ResultTable]:
    """Build the table of a data set; each variant is compared with the whole preset it is made of."""

    def change(result: Result) -> str:
        return "" if result.against is None else format_change(result.against)

    def p(result: Result) -> str:
        return "" if result.against is None else format_p(result.against)

    columns = [
        make_figure_column("Accuracy (%)", "acc.", "accuracy"),
        *make_metric_columns(),
        make_figure_column("Missing (%)", "miss.", "missing"),
        make_figure_column("Hallucination (%)", "hall.", "hallucination"),
        make_figure_column("Truthfulness (%) [95%]", "truthfulness", "truthfulness", intervals=True),
        Column("Change [95%]", "change", change),
        Column("p", "p", p),
        *make_time_columns(results),
    ]
    table = build_table(f"{task}, {results[0].figures.turns} turns", "Method", columns, results)
    return [replace(table, notes=(*table.notes, P_NOTE))]


class AblateOptions(ComparisonOptions):
    """Run a preset whole and then without each of its parts, and tabulate the effect."""

    group = "ablation"

    preset: Annotated[tuple[str, ...], Flag(metavar="NAME", repeated=True)] = Field(
        ("best",), description="preset; may be repeated"
    )
    without: Annotated[tuple[str, ...], Flag(metavar="NAME", repeated=True)] = Field(
        (),
        description=f"a part ({', '.join(part.name for part in (*PARTS, *MORE_PARTS))}), a stage, a group of stages, or KEY=VALUE for "
        "another setting; may be repeated; not given: the preset's parts among the first eight",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print and write the tables; return the exit status (see ``variant_runs.compare``)."""
    options = AblateOptions.parse(arguments, epilog=_EXAMPLES)

    def variants() -> list[Variant]:
        model = (options.model_name, options.base_url)
        return [
            variant
            for preset in options.preset
            for variant in make_variants(preset, options.profile, options.without, *model)
        ]

    return compare(variants, lambda variant: variant.preset_name, build_tables, options, "ablation")


if __name__ == "__main__":
    sys.exit(main())
