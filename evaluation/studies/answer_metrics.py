"""``python -m evaluation.studies.answer_metrics``: the papers' metrics of saved answers, one row an entry."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import Field
from rich.console import Console

from agents.base.command_options import Flag
from evaluation.commands import make_console, run_to_exit_status
from evaluation.data.crag_dataset import CragDataset
from evaluation.files.folder_lock import lock_folders
from evaluation.records import JudgedTurn, TurnFacts
from evaluation.scores.metrics import METRICS
from evaluation.studies.figures import compute_figures, describe_failing, mark_failing
from evaluation.studies.judged_entries import Entries, Entry, OneJudgeOptions, load_labels, read_entries
from evaluation.studies.result_tables import ResultTable, format_rate, show_and_publish

_EXAMPLES = """examples:
  two runs over the mini set, whose short right answers are references too:
    python -m evaluation.studies.answer_metrics results/best results/core_mmrag --dataset .cache/datasets --split public_test

  answers of any agent, judged by a BERT of answer equivalence (BEM) on this disk:
    python -m evaluation.studies.answer_metrics theirs=kit/response.jsonl --eval-model bem:models/answer-equivalence-bem

accuracy is the judge's. overlap: QA-Dragon's; F1, EM: SQuAD's, against the ground truth and the short right answers of the data set; VQA:
exact after normalisation, numbers to 5%. An answer that is withheld counts as the words "I don't know".
"""

Modality = Literal["single", "multi", "overall"]
MODALITIES: tuple[Modality, ...] = ("single", "multi", "overall")

SINGLE_SOURCES = frozenset({"kg", "web", "image"})
"""``TurnFacts.source`` of turns that one modality answers: the graph's attributes (a table), pages (text) or the photo."""


@dataclass(frozen=True)
class TurnMetrics:
    """Metrics of one answer by name.

    Attributes:
        single: Whether one modality of evidence answers the question; None if unknown.
    """

    values: Mapping[str, float]
    single: bool | None


Means = Mapping[str, float | None]
"""Number of turns as ``turns``, and the mean of each metric by its name; None for no turns."""


def is_single_modality(facts: TurnFacts) -> bool | None:
    """Return whether evidence of one modality answers a turn.

    "Semantic Coherence-Aware Evidence Filtering", section 4.1.2: a question that text, image or table answers alone is of a single
    modality.

    Returns:
        None if the data set does not say, or nothing answers the turn.
    """
    if facts.source in SINGLE_SOURCES:
        return True
    return False if facts.source == "both" else None


def measure(judged: JudgedTurn, accept: Sequence[str] = ()) -> TurnMetrics:
    """Measure one answer against its ground truth and the short right answers in ``accept``."""
    references = (judged.turn.ground_truth, *accept)
    values = {name: metric.compute(judged, references) for name, metric in METRICS.items()}
    return TurnMetrics(values, is_single_modality(judged.facts))


def average(turns: Sequence[TurnMetrics]) -> Means:
    """Average each metric over turns."""
    return {"turns": len(turns)} | {
        name: fmean(turn.values[name] for turn in turns) if turns else None for name in METRICS
    }


def average_by_modality(turns: Sequence[TurnMetrics]) -> dict[str, Means]:
    """Average over turns of one modality, of several, and over all, those of unknown modality included."""
    groups: dict[Modality, Sequence[TurnMetrics]] = {
        "single": [turn for turn in turns if turn.single is True],
        "multi": [turn for turn in turns if turn.single is False],
        "overall": turns,
    }
    return {name: average(groups[name]) for name in MODALITIES}


def build_content(entries: Entries, sets: Sequence[CragDataset]) -> dict[str, Any]:
    """Return the content of answer_metrics.json: rates are 0 to 1, None for no turns; ``sets`` have accepted answers."""
    return {
        "judge": entries.judge,
        "verdicts": entries.verdicts,
        "entries": [_entry_content(entry, sets) for entry in entries.entries],
    }


def _entry_content(entry: Entry, sets: Sequence[CragDataset]) -> dict[str, Any]:
    turns = [judged.turn for judged in entry.turns]
    accept = {key: forms for each in sets for key, forms in each.select_accept(turns).items()}
    figures = compute_figures(entry.turns, entry.folders)
    measured = [measure(judged, accept.get(judged.turn.interaction_id, ())) for judged in entry.turns]
    return {
        "label": entry.label,
        "errors": figures.errors,
        "not_judged": figures.unjudged,
        "failing_stages": list(figures.failing),
        "accuracy": figures.accuracy,
        "seconds_a_turn": figures.seconds,
        **{name: dict(means) for name, means in average_by_modality(measured).items()},
    }


def build_tables(content: Mapping[str, Any]) -> list[ResultTable]:
    """Build the tables of all metrics, and of F1 and EM by modality as in the paper's table 1."""
    entries = content["entries"]
    rows = [
        (
            mark_failing(each["label"], each["failing_stages"]),
            str(each["overall"]["turns"]),
            format_rate(each["accuracy"]),
            *(_format_cell(name, each["overall"][name]) for name in METRICS),
            "-" if each["seconds_a_turn"] is None else f"{each['seconds_a_turn']:.2f}",
        )
        for each in entries
    ]
    measures = (metric.full_heading for metric in METRICS.values())
    heads = ("Entry", "turns", "accuracy (%)", *measures, "elapse (s a turn)")
    notes = [f"verdicts: {content['verdicts']}"]
    notes += [note for each in entries for note in describe_failing(each["label"], each["failing_stages"])]
    notes += _count_failures(entries, "errors", "errors, whose answer counts as the words I don't know")
    notes += _count_failures(
        entries, "not_judged", "unjudged, on which the judge gave no usable reply and which count as wrong in accuracy"
    )
    tables = [ResultTable("Metrics of the papers", heads, rows, notes)]
    if any(each[name]["turns"] for each in entries for name in ("single", "multi")):
        tables.append(_modality_table(entries))
    return tables


def _count_failures(entries: Sequence[Mapping[str, Any]], name: str, meaning: str) -> list[str]:
    """Return the note on a kind of failure that counts its turns of each entry; [] if no entry has any."""
    counts = ", ".join(f"{each['label']} {each[name]}" for each in entries if each[name])
    return [f"{meaning}: {counts}"] if counts else []


def _modality_table(entries: Sequence[Mapping[str, Any]]) -> ResultTable:
    heads = ("Entry", *(f"{name} {metric}" for name in MODALITIES for metric in ("turns", "F1", "EM")))
    rows = [
        (
            mark_failing(each["label"], each["failing_stages"]),
            *(
                cell
                for name in MODALITIES
                for cell in (
                    str(each[name]["turns"]),
                    *(_format_cell(metric, each[name][metric]) for metric in ("f1", "em")),
                )
            ),
        )
        for each in entries
    ]
    note = (
        "single: the graph, pages or the photo alone answer; multi: graph and pages; overall: these and all other turns"
    )
    return ResultTable("F1 and EM by modality (%)", heads, rows, notes=(note,))


def _format_cell(name: str, value: float | None) -> str:
    return "-" if value is None else METRICS[name].format(value)


class MetricsOptions(OneJudgeOptions):
    """Measure saved answers by the metrics that the papers print."""

    answers: Annotated[tuple[str, ...], Flag(positional=True, metavar="FILE_OR_RUN")] = Field(
        description="response.jsonl of any agent, or a run's folder; LABEL=PATH names it"
    )


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Measure, print and write; return the exit status: 0, or 2 after an expected error."""
    options = MetricsOptions.parse(arguments, epilog=_EXAMPLES)
    console = console or make_console(aside=options.as_json)

    def run() -> None:
        with lock_folders(options.out):
            _run(options, console)

    return run_to_exit_status(run, console)


def _run(options: MetricsOptions, console: Console) -> None:
    entries = read_entries(options.answers, options, console)
    content = build_content(entries, load_labels(options))
    place = options.out and options.out / "answer_metrics"
    title = f"Metrics of the papers (verdicts: {entries.verdicts})"
    show_and_publish(
        place, content, title, build_tables(content), console, cards=entries.cards, as_json=options.as_json
    )


if __name__ == "__main__":
    sys.exit(main())
