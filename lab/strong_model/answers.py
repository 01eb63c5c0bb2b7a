"""The answers of the table in lab/notes/strong_model.md, with what each was judged to be by eye."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

ANSWERS = Path(__file__).with_name("answers.jsonl")

Label = Literal["right", "missing", "wrong"]


class LabelledAnswer(BaseModel):
    """An answer of a preset to a turn.

    Attributes:
        part: Questions that it belongs to.
        answerable: Whether the set holds an answer; a question of common knowledge may be answered all the same.
        by_rule: Label of the rule judge.
        by_eye: Label of whoever compared the answer with the ground truth and the photo.
        calls: Requests to the chat model.
        origin: What a given answer comes from, a key of ``agents.record.ORIGINS``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    part: str
    preset: str
    interaction_id: str
    question: str
    ground_truth: str
    answer: str
    answerable: bool
    by_rule: Label
    by_eye: Label
    calls: int
    origin: str | None = None


def read_answers(path: Path = ANSWERS) -> list[LabelledAnswer]:
    """Read all answers.

    Raises:
        ValidationError: A line is malformed.
    """
    return [LabelledAnswer.model_validate(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def count_labels(answers: Iterable[LabelledAnswer], *, by_rule: bool = False) -> str:
    """Count right, missing and wrong answers, as the cell of a table."""
    counts = Counter(each.by_rule if by_rule else each.by_eye for each in answers)
    return ", ".join(str(counts[label]) for label in ("right", "missing", "wrong"))


def build_rows(answers: Sequence[LabelledAnswer]) -> list[list[str]]:
    """Build the rows of the table: part, preset, turns, labels by eye and by rule, calls a turn."""
    groups: dict[tuple[str, str], list[LabelledAnswer]] = {}
    for each in answers:
        groups.setdefault((each.part, each.preset), []).append(each)
    return [
        [
            part,
            preset,
            f"{len(own)} ({sum(each.answerable for each in own)})",
            count_labels(own),
            count_labels(own, by_rule=True),
            f"{sum(each.calls for each in own) / len(own):.2f}",
        ]
        for (part, preset), own in groups.items()
    ]


def build_origin_rows(answers: Sequence[LabelledAnswer]) -> list[list[str]]:
    """Build the rows of the table by origin: right and wrong answers by eye."""
    given = [each for each in answers if each.by_eye != "missing"]
    origins = sorted({each.origin or "unknown" for each in given})
    return [
        [
            origin,
            *(
                str(sum(each.by_eye == label for each in given if (each.origin or "unknown") == origin))
                for label in ("right", "wrong")
            ),
        ]
        for origin in origins
    ]
