"""Where a run loses its answers: by steps, by a right entity, and by an answer in the evidence.

    python -m lab.benchmarks.losses --split public_test --runs results/public_best/best/single-turn

It counts the turns whose entity the graph holds. The entity is right if the selected one, or one that the run kept for a question about
several, is in the photograph of the entity in question. The evidence says the answer if a shown chunk affirms an accepted short answer:
its words, and a figure of the same value. Verdicts are those of the run's own judge; withheld candidates count as missing. So a run
without a gate tells what the model answers, and one with a gate what the user reads.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from agents.base.command_options import Flag
from agents.record import TurnRecord
from evaluation.commands import make_console
from evaluation.files.outputs import read_turn_table
from evaluation.files.traces import TRACE, read_traces
from evaluation.judge.answer_text import AnswerText
from evaluation.judge.quantities import agrees_with_any
from evaluation.records import JudgedTurn, Key
from lab.benchmarks.common import BenchmarkOptions, build_table, run
from lab.benchmarks.entity_choice import read_shown_names
from mini_crag_mm.content_models import Split
from mini_crag_mm.loader import PreparedSet

_OUTCOMES = ("right", "missing", "wrong")


@dataclass(frozen=True, order=True)
class Place:
    """Place of a turn on the way of a question.

    ``found`` is None if the entity is wrong, because the evidence is then another's.
    """

    several_steps: bool
    entity_wrong: bool
    found: bool | None

    @property
    def words(self) -> tuple[str, str, str]:
        """Steps, entity and evidence as the table has them."""
        return (
            "two and more" if self.several_steps else "one",
            "wrong" if self.entity_wrong else "right",
            "" if self.found is None else "yes" if self.found else "no",
        )


def has_settled_on(record: TurnRecord, names: frozenset[str]) -> bool:
    """Return whether a turn's entity is among the names, or one kept for a question about several."""
    return not names.isdisjoint(
        name for name in (record.entity, *(record.get_note("entities") or ())) if name is not None
    )


def says_answer(texts: Iterable[str], accept: Sequence[str]) -> bool:
    """Return whether one of the texts affirms one of the short answers."""
    wanted = [AnswerText(form) for form in accept]
    return any(_says(AnswerText(text), form) for text in texts for form in wanted)


def _says(text: AnswerText, form: AnswerText) -> bool:
    if form.quantities and not all(agrees_with_any(each, text.quantities) for each in form.quantities):
        return False
    words = [word for word in form.content if word not in form.figure_words]
    return text.affirms(words) if words else bool(form.quantities)


def find_place(record: TurnRecord, names: frozenset[str], facts: dict[str, Any], accept: Sequence[str]) -> Place:
    """Return the place of a turn, by its record and by the set's facts about it (``collect_turn_facts``)."""
    right = has_settled_on(record, names)
    shown = (f"{chunk.title}. {chunk.text}" for chunk in record.evidence)
    return Place(facts["hops"] > 1, not right, says_answer(shown, accept) if right else None)


def count_outcomes(folder: Path, split: Split, cache: Path) -> dict[Place, Counter[str]]:
    """Count the outcomes of a run's turns by place.

    Raises:
        EvaluationError: Its traces, its table or the set are missing.
    """
    records = read_traces(folder / TRACE, needed=True)
    outcomes = {judged.turn.key: _outcome(judged) for judged in read_turn_table(folder)}
    shown = read_shown_names(split)
    found: dict[Place, Counter[str]] = {}
    for each in PreparedSet(split, cache).turns():
        key: Key = (each.session.session_id, each.turn.interaction_id)
        if each.facts.get("entity") in shown and key in records and key in outcomes:
            place = find_place(records[key], shown[each.facts["entity"]], dict(each.facts), each.accept)
            found.setdefault(place, Counter())[outcomes[key]] += 1
    return found


def _outcome(judged: JudgedTurn) -> str:
    return "right" if judged.correct else "missing" if judged.miss else "wrong"


class LossesOptions(BenchmarkOptions):
    """Options of the runs to count."""

    runs: Annotated[tuple[Path, ...], Flag(metavar="DIR")] = Field(description="output folders of runs over the split")


def _measure(options: LossesOptions) -> int:
    total: dict[Place, Counter[str]] = {}
    for folder in options.runs:
        for place, counts in count_outcomes(folder, options.split, options.cache).items():
            total.setdefault(place, Counter()).update(counts)
    title = f"{options.split}, {sum(map(Counter.total, total.values()))} turns whose entity the graph holds"
    headings = ("steps", "entity", "answer in the evidence", *_OUTCOMES)
    rows = ((*place.words, *(str(total[place][outcome]) for outcome in _OUTCOMES)) for place in sorted(total))
    make_console().print(build_table(title, headings, rows, left=3))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table.

    Returns:
        0, or 2 if a run cannot be read.
    """
    return run(_measure, LossesOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
