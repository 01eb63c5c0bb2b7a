"""Judging saved answers again, without the agent that made them (``--mode evaluate``)."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from evaluation.data.crag_dataset import CragDataset
from evaluation.files.responses import read_responses
from evaluation.judge.judging import Judge
from evaluation.report.html_report import ReportPart
from evaluation.run.generate import RESPONSES
from evaluation.run.steps import judge_answers
from evaluation.scores.scoring import MissRule


def replay(
    input_file: Path | None,
    judge: Judge,
    output_dir: Path,
    console: Console,
    *,
    dataset: CragDataset | None = None,
    miss_rule: MissRule = "either",
    workers: int = 1,
    progress: bool = True,
    display: int = 0,
) -> ReportPart:
    """Judge the answers of a response.jsonl and write scores and tables into ``output_dir``.

    Args:
        input_file: ``response.jsonl`` in ``output_dir`` where None.
        dataset: For accept forms and photos, where it is to be had.

    Returns:
        The judged turns, ready for a report.

    Raises:
        EvaluationError: The file is missing or a line of it is bad (names the line), or the judge is not to be had.
    """
    path = input_file or output_dir / RESPONSES
    turns = read_responses(path)
    return judge_answers(
        turns,
        judge,
        output_dir,
        console,
        dataset=dataset,
        answers_dir=path.parent,
        name=f"{len(turns)} answers of {path.name}",
        miss_rule=miss_rule,
        workers=workers,
        progress=progress,
        display=display,
    )
