"""Does the check of an answer say no? Faults are planted into turns that a model answered rightly.

    python -m lab.strong_model.planted --runs results/strong/best/single results/strong/best/museum --profile PROFILE --out planted.jsonl

The runs are recorded with their requests (``--record-requests``) and judged. As many of each fault are drawn by a seed: *sum*, a figure of
the answer is changed; *draft*, the answer is another turn's, and the evidence holds nothing of it; *passage*, it begins with another
turn's passages under this thing's name, and the answer is theirs; *entity*, recognised thing, evidence and answer are another turn's. Right
answers are checked as they are, besides. The other turn is the one with the most similar question.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from PIL import Image
from pydantic import Field
from rapidfuzz import fuzz

from agents.asking.ask import Ask, Question, put
from agents.asking.readers.grounded import CHOICE
from agents.record import REQUEST_IMAGES, EvidenceFound, TurnRecord
from agents.settings.run_config import RunConfig
from evaluation.commands import make_console
from evaluation.files.outputs import read_turn_table
from evaluation.files.traces import TRACE, read_traces
from lab.benchmarks.common import BenchmarkOptions, build_table, run

Fault = Literal["none", "sum", "draft", "passage", "entity"]
FAULTS: tuple[Fault, ...] = ("sum", "draft", "passage", "entity")

_ASK = Ask("cross_check", CHOICE)
_FIGURE = re.compile(r"\d+(?:\.\d+)?")
_SHIFT = 1.3  # factor of a changed figure
_PASSAGES = 4  # of another turn, put first


@dataclass(frozen=True)
class Case:
    """What a check is shown of a turn."""

    key: tuple[str, str]
    question: str
    answer: str
    entity: str | None
    evidence: tuple[EvidenceFound, ...]
    image: Image.Image | None
    fault: Fault = "none"


class PlantedOptions(BenchmarkOptions):
    """Options of which turns are taken, and how many."""

    runs: tuple[Path, ...] = Field(description="judged runs with recorded requests")
    profile: str = Field(description="profile of the model that checks")
    each: int = Field(10, ge=1, description="cases of each fault")
    right: int = Field(40, ge=0, description="right answers that are checked as they are")
    seed: int = Field(0, description="draws the cases")
    out: Path = Field(description="where the cases are written with the choices, a JSON object a line")


def read_cases(runs: Sequence[Path]) -> list[Case]:
    """Read the rightly answered turns of some runs that have evidence and no history."""
    cases = []
    for folder in runs:
        records = read_traces(folder / TRACE, is_required=True)
        for judged in read_turn_table(folder):
            record = records.get(judged.turn.key)
            if record is None or not judged.correct or judged.miss or record.history or not record.evidence:
                continue
            image = _open_photo(record, folder)
            cases.append(Case(record.key, record.question, record.answer, record.entity, tuple(record.evidence), image))
    return cases


def _open_photo(record: TurnRecord, folder: Path) -> Image.Image | None:
    return Image.open(folder / REQUEST_IMAGES / f"{record.photo}.png") if record.photo else None


def plant(case: Case, other: Case, fault: Fault) -> Case | None:
    """Plant a fault into a case, with what another turn has; None if it has no figure to change."""
    if fault == "sum":
        figures = list(_FIGURE.finditer(case.answer))
        if not figures:
            return None
        last = figures[-1]
        changed = f"{float(last.group()) * _SHIFT:.0f}"
        return replace(case, answer=case.answer[: last.start()] + changed + case.answer[last.end() :], fault=fault)
    if fault == "draft":
        told = tuple(chunk for chunk in case.evidence if not _shares_figures(chunk.text, case.answer))
        return replace(case, answer=other.answer, evidence=told, fault=fault)
    if fault == "passage":
        title = case.entity or case.evidence[0].title
        swapped = tuple(replace(chunk, title=title) for chunk in other.evidence[:_PASSAGES])
        return replace(case, answer=other.answer, evidence=(*swapped, *case.evidence), fault=fault)
    return replace(case, answer=other.answer, entity=other.entity, evidence=other.evidence, fault=fault)


def _shares_figures(text: str, answer: str) -> bool:
    return bool({*_FIGURE.findall(text)} & {*_FIGURE.findall(answer)})


def draw_cases(cases: Sequence[Case], each: int, right: int, seed: int) -> Iterator[Case]:
    """Yield right cases as they are, then ``each`` cases of each fault."""
    random_cases = random.Random(seed)
    yield from random_cases.sample(list(cases), min(right, len(cases)))
    for fault in FAULTS:
        count = 0
        for case in random_cases.sample(list(cases), len(cases)):
            if count == each:
                break
            other = _find_similar(case, cases)
            planted = plant(case, other, fault) if other is not None else None
            if planted is not None:
                count += 1
                yield planted


def _find_similar(case: Case, cases: Sequence[Case]) -> Case | None:
    """Return the case of another thing with the most similar question, so that its answer is one that could be right."""
    others = [other for other in cases if other.entity != case.entity and other.answer != case.answer]
    return max(others, key=lambda other: fuzz.token_sort_ratio(other.question, case.question), default=None)


def _measure(options: PlantedOptions) -> int:
    config = RunConfig.read("best", options.profile)
    cases = list(draw_cases(read_cases(options.runs), options.each, options.right, options.seed))
    models = config.models()
    questions = [
        Question(
            _ASK,
            {
                "image": case.image,
                "question": case.question,
                "history": (),
                "evidence": case.evidence,
                "recognised": [(case.entity, 0.9)] if case.entity else [],
                "by_eye": [],
                "parts": [],
                "pictured": None,
                "sheet": None,
                "answers": [case.answer],
                "letters": ("A", "B"),
                "own": True,
            },
        )
        for case in cases
    ]
    answers = put(questions, config.prompts, models.chat)
    with options.out.open("w", encoding="utf-8") as file:
        for case, answer in zip(cases, answers, strict=True):
            row = {"fault": case.fault, "question": case.question, "answer": case.answer, "choice": answer.value.choice}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    rows = []
    for fault in ("none", *FAULTS):
        choices = [each.value.choice for case, each in zip(cases, answers, strict=True) if case.fault == fault]
        rows.append((fault, str(len(choices)), str(sum(choice == "none" for choice in choices))))
    make_console().print(build_table("planted faults", ("fault", "cases", "the check says no"), rows))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask all checks in one batch, and print how many of each fault were rejected."""
    return run(_measure, PlantedOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
