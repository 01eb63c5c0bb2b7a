"""``python -m evaluation.studies.stage_truth``: which stage fails, by the annotations of CRAG-MM-Diagnostics."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from pydantic import Field
from rich.console import Console

from agents.base.command_options import Flag
from agents.english.plain_text import normalise_text, tokenise
from agents.record import BoxFound, TurnRecord
from evaluation.commands import make_console, run_to_exit_status
from evaluation.data.diagnostics import (
    FORMS,
    INDEX_SPLIT,
    NAME,
    Annotation,
    Box,
    DiagnosticsDataset,
    Form,
    is_same_name,
    load_diagnostics,
)
from evaluation.files.folder_lock import lock_folders
from evaluation.files.traces import read_all_traces
from evaluation.records import EvaluationError, JudgedTurn
from evaluation.scores.losses import LOSSES, Loss, Way, find_loss
from evaluation.scores.slices import summarise_group
from evaluation.studies.figures import describe_failing, mark_failing
from evaluation.studies.judged_entries import Entries, Entry, OneJudgeOptions, read_entries
from evaluation.studies.result_tables import ResultTable, format_rate, format_with_interval, show_and_publish

_EXAMPLES = """examples:
  what each stage of the default agent finds, and what knowing the name or the box would bring:
    python local_evaluation.py --diagnostics original --split public_test --output-dir results/original
    python local_evaluation.py --diagnostics named --split public_test --output-dir results/named
    python -m evaluation.studies.stage_truth results/original results/named
"""

MIN_IOU = 0.5
"""Least intersection over union of a right box (the authors' evaluation)."""

RANKS = (5, 10, 20, 30)
"""Numbers of pictures among which the true entity is looked for (the authors' evaluation)."""

WHOLE_PHOTO: Box = (0.0, 0.0, 1.0, 1.0)
"""Box of a turn without one, as in the authors' evaluation; the agent searches the whole photo then."""

_FAILURES = (
    Loss.ERROR,
    Loss.UNJUDGED,
    Loss.NOT_PICTURED,
    Loss.NOT_RECOGNISED,
    Loss.NOT_FOUND,
    Loss.WITHHELD,
    Loss.WRONG,
)
"""Losses that annotations of entities tell apart: first those that say nothing about the stages, then the stages in order."""

_WITH_PHOTO: frozenset[Form] = frozenset({"original", "disambiguated", "named"})
"""Forms that ask about the whole photo, so that boxes can be compared."""


@dataclass(frozen=True)
class TurnTruth:
    """Findings of the stages of one turn, compared with the annotation of its question.

    Attributes:
        first_box: IoU of the best scored box with the true one, 0 to 1; None if boxes cannot be compared.
        best_box: IoU of the box that fits best.
        rank: Place, from 1, of the first picture found that shows the true entity; None if none does.
        is_settled: Whether the true entity was selected.
        is_queried: Whether a web query names it.
        is_in_evidence: Whether a kept chunk names it.
        failure: Why it was lost; evidence counts as found if it names the entity. None for a right answer.
    """

    first_box: float | None
    best_box: float | None
    rank: int | None
    is_settled: bool
    is_queried: bool
    is_in_evidence: bool
    is_right: bool
    failure: Loss | None


def iou(one: Box, other: Box) -> float:
    """Return the intersection over union of two boxes, 0 to 1."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(0.0, width) * max(0.0, height)
    total = _area(one) + _area(other) - shared
    return shared / total if total > 0 else 0.0


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def compare_turn(
    judged: JudgedTurn, record: TurnRecord, annotation: Annotation, size: tuple[int, int] | None
) -> TurnTruth:
    """Compare the record of a turn with its annotation.

    Args:
        judged: The turn with its verdict.
        record: Record of the turn.
        annotation: Annotation of its question.
        size: Width and height of the photo that the agent got, in pixels; None if its boxes cannot be compared.
    """
    first = best = None
    if size is not None:
        boxes = [_to_shares(box, size) for box in record.boxes] or [WHOLE_PHOTO]
        first, best = iou(boxes[0], annotation.box), max(iou(box, annotation.box) for box in boxes)
    ranks = [
        place
        for place, picture in enumerate(record.pictures, 1)
        if any(is_same_name(annotation.entity, name) for name in (picture.name, *picture.name.split(", ")))
    ]
    rank = ranks[0] if ranks else None
    is_settled = record.entity is not None and is_same_name(annotation.entity, record.entity)
    is_in_evidence = any(is_named(annotation.entity, f"{chunk.title} {chunk.text}") for chunk in record.evidence)
    way = Way(
        is_error=judged.turn.error_cause is not None,
        is_unjudged=judged.judge_failed,
        is_declined=judged.miss,
        is_withheld=judged.miss and is_settled and is_in_evidence,
        is_pictured=rank is not None or is_settled,
        is_recognised=is_settled,
        is_found=None if is_in_evidence else False,
    )
    return TurnTruth(
        first_box=first,
        best_box=best,
        rank=rank,
        is_settled=is_settled,
        is_queried=any(is_named(annotation.entity, query) for query in record.queries),
        is_in_evidence=is_in_evidence,
        is_right=judged.correct,
        failure=None if judged.correct else find_loss(way),
    )


def is_named(name: str, text: str) -> bool:
    """Return whether a text contains a name, ignoring case, accents and plurals."""
    name_words, text_words = tokenise(normalise_text(name)), tokenise(normalise_text(text))
    return bool(name_words) and any(
        text_words[at : at + len(name_words)] == name_words for at in range(len(text_words) - len(name_words) + 1)
    )


def _to_shares(box: BoxFound, size: tuple[int, int]) -> Box:
    width, height = size
    return (box.left / width, box.top / height, box.right / width, box.bottom / height)


def parse_form(entry: Entry) -> Form | None:
    """Return the form of CRAG-MM-Diagnostics that a run answered.

    Returns:
        None for answers of another agent, which do not say.

    Raises:
        EvaluationError: The run answered another data set.
    """
    name = str(entry.about.get("dataset", ""))
    if not name:
        return None
    for form in FORMS:
        if name.startswith(f"{NAME}-{form}@"):
            return form
    raise EvaluationError(f"{entry.label} answered {name}, not CRAG-MM-Diagnostics; run it with --diagnostics")


def build_content(entries: Entries, data: DiagnosticsDataset) -> dict[str, Any]:
    """Return the content of stage_truth.json: rates are 0 to 1, None if undefined."""
    return {
        "judge": entries.judge,
        "verdicts": entries.verdicts,
        "entries": [_entry_content(entry, data) for entry in entries.entries],
    }


def _entry_content(entry: Entry, data: DiagnosticsDataset) -> dict[str, Any]:
    form = parse_form(entry)
    annotations = data.annotations
    turns = [judged for judged in entry.turns if judged.turn.interaction_id in annotations]
    if not turns:
        raise EvaluationError(
            f"{entry.label} answers no question of this data set; name the copy that it answered with --dataset"
        )
    records = read_all_traces(entry.folders)
    sizes = _photo_sizes(data) if form in _WITH_PHOTO and records else {}
    truths = [
        compare_turn(judged, records[judged.turn.key], annotations[interaction], sizes.get(interaction))
        for judged in turns
        if judged.turn.key in records and annotations[interaction := judged.turn.interaction_id].entity
    ]
    whole = summarise_group(turns)
    return {
        "label": entry.label,
        "failing_stages": list(entry.failing),
        "form": form,
        "turns": len(turns),
        "accuracy": fmean(judged.correct for judged in turns),
        "missing": fmean(judged.miss for judged in turns),
        "truthfulness": whole.truthfulness,
        "truthfulness_interval_95": whole.interval_95,
        "stages": sum_up(truths) if truths else None,
    }


def _photo_sizes(data: DiagnosticsDataset) -> dict[str, tuple[int, int]]:
    images = {session.session_id: data.image(session).image for session in data.sessions}
    return {name: image.size for name, image in images.items() if image is not None}


def sum_up(truths: Sequence[TurnTruth]) -> dict[str, Any]:
    """Sum up turns that have a record: shares of them, and the first stages that fail."""
    boxed = [truth for truth in truths if truth.best_box is not None]
    failures = Counter(truth.failure for truth in truths if truth.failure is not None)
    settled, other = (
        [truth for truth in truths if truth.is_settled],
        [truth for truth in truths if not truth.is_settled],
    )
    return {
        "turns": len(truths),
        "boxes_compared": len(boxed),
        "first_box": _mean([(truth.first_box or 0.0) >= MIN_IOU for truth in boxed]),
        "any_box": _mean([(truth.best_box or 0.0) >= MIN_IOU for truth in boxed]),
        "mean_iou": _mean([truth.best_box or 0.0 for truth in boxed]),
        **{f"search_at_{k}": _mean([truth.rank is not None and truth.rank <= k for truth in truths]) for k in RANKS},
        "entity": _mean([truth.is_settled for truth in truths]),
        "query": _mean([truth.is_queried for truth in truths]),
        "evidence": _mean([truth.is_in_evidence for truth in truths]),
        "accuracy_if_entity": _mean([truth.is_right for truth in settled]),
        "accuracy_if_not": _mean([truth.is_right for truth in other]),
        "not_right": sum(failures.values()),
        "failures": {name.value: failures[name] for name in _FAILURES},
    }


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def build_tables(content: Mapping[str, Any]) -> list[ResultTable]:
    """Build the tables of accuracy by form, of each stage's findings, and of first failures."""
    entries = content["entries"]
    rows = [
        (
            mark_failing(each["label"], each["failing_stages"]),
            each["form"] or "-",
            str(each["turns"]),
            format_rate(each["accuracy"]),
            format_rate(each["missing"]),
            format_with_interval(each["truthfulness"], each["truthfulness_interval_95"]),
        )
        for each in entries
    ]
    heads = ("Entry", "form", "turns", "accuracy (%)", "missing (%)", "truthfulness (%) [95%]")
    failing_notes = [note for each in entries for note in describe_failing(each["label"], each["failing_stages"])]
    tables = [
        ResultTable(
            "Answers by form of the question", heads, rows, (f"verdicts: {content['verdicts']}", *failing_notes)
        )
    ]
    traced = [
        (mark_failing(each["label"], each["failing_stages"]), each["stages"])
        for each in entries
        if each["stages"] is not None
    ]
    if not traced:
        return [
            *tables[:-1],
            ResultTable(
                tables[0].title, heads, rows, notes=(*tables[0].notes, "no entry has a trace: stages are unknown")
            ),
        ]
    columns = {
        "first_box": "first box",
        "any_box": "any box",
        "mean_iou": "mean IoU",
        **{f"search_at_{k}": f"search @{k}" for k in RANKS},
        "entity": "entity",
        "query": "query",
        "evidence": "evidence",
        "accuracy_if_entity": "right if entity",
        "accuracy_if_not": "right if not",
    }
    cells = [
        (label, str(stages["turns"]), *("-" if stages[name] is None else format_rate(stages[name]) for name in columns))
        for label, stages in traced
    ]
    note = (
        f"box: IoU of {MIN_IOU} or more; search, entity, query, evidence: the true name is found there; "
        "right: accuracy with and without it"
    )
    tables.append(
        ResultTable("Findings of the stages (%)", ("Entry", "turns", *columns.values()), cells, notes=(note,))
    )
    failed = [
        (label, str(stages["not_right"]), *(str(stages["failures"][name]) for name in _FAILURES))
        for label, stages in traced
    ]
    notes = tuple(f"{name}: {LOSSES[name]}" for name in _FAILURES)
    tables.append(
        ResultTable(
            "First stage that fails, of turns not right", ("Entry", "not right", *_FAILURES), failed, notes=notes
        )
    )
    return tables


class StageTruthOptions(OneJudgeOptions):
    """Show which stage of the agent fails on CRAG-MM-Diagnostics."""

    answers: Annotated[tuple[str, ...], Flag(positional=True, metavar="RUN")] = Field(
        description="folders of runs with --diagnostics, or answers of another agent to its questions; LABEL=PATH names one"
    )
    dataset: Annotated[Path | None, Flag(metavar="PATH")] = Field(
        None, description="local copy of CRAG-MM-Diagnostics; not given: the one of the hub"
    )
    split: str = Field(INDEX_SPLIT, description="split of the runs")


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Compare, print and write; return the exit status: 0, or 2 after an expected error."""
    options = StageTruthOptions.parse(arguments, epilog=_EXAMPLES)
    console = console or make_console(aside=options.as_json)

    def run() -> None:
        with lock_folders(options.out):
            _run(options, console)

    return run_to_exit_status(run, console)


def _run(options: StageTruthOptions, console: Console) -> None:
    # --dataset is no CRAG-MM layout here, so that no labels can be loaded from it.
    entries = read_entries(options.answers, options.model_copy(update={"dataset": None}), console)
    data = load_diagnostics("original", options.split, options.dataset, options.cache)
    content = build_content(entries, data)
    place, title = options.out and options.out / "stage_truth", f"Stages (verdicts: {entries.verdicts})"
    show_and_publish(
        place, content, title, build_tables(content), console, cards=entries.cards, as_json=options.as_json
    )


if __name__ == "__main__":
    sys.exit(main())
