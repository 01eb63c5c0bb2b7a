"""Where a run loses its answers: truthfulness by what the graph holds, then steps, entity and evidence of all turns.

    python -m lab.benchmarks.losses --split public_test --runs results/public_best/best/single-turn
    python -m lab.benchmarks.losses --cache .cache/large --runs results/large --one-prompt results/large_without_steps

The first table has the numbers to steer by, each with its interval (whole entities are resampled, because questions on one entity share its
photograph). The second table counts all turns. The entity is right if the selected one, or one that the run kept for a question about
several, is in the photograph of the entity in question; of what the graph does not hold, if none was selected. The evidence says the
answer if a shown chunk affirms an accepted short answer: its words, and a figure of the same value. Verdicts are those of the run's own
judge; withheld candidates count as missing. So a run without a gate tells what the model answers, and one with a gate what the user reads.

``--one-prompt`` names runs of the same turns ``--without steps``: its column counts the turns that are not right here and right there.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from rich.table import Table

from agents.base.command_options import Flag
from agents.record import TurnRecord
from evaluation.commands import make_console
from evaluation.files.outputs import read_turn_table
from evaluation.files.traces import TRACE, read_traces
from evaluation.judge.answer_text import AnswerText
from evaluation.judge.quantities import agrees_with_any
from evaluation.records import AnsweredTurn, JudgedTurn, make_answered_turn
from evaluation.scores.scoring import Interval, session_interval
from evaluation.studies.result_tables import format_interval
from lab.benchmarks.common import BenchmarkOptions, build_table, refuse_other_questions, run
from lab.benchmarks.entity_choice import read_shown_names
from mini_crag_mm.content_models import Split
from mini_crag_mm.loader import PreparedSet

_OUTCOMES = ("right", "missing", "wrong")
_POINTS = {"right": 1, "missing": 0, "wrong": -1}
_IN_GRAPH = "in the graph"
_UNKNOWN = "not in the graph"
_NO_THING = "about no thing"
_NOTHING = "nothing answers"
_ALL = "all"
_TurnId = tuple[str, ...]  # ids, question and truth: a question of the set that is reworded keeps its ids
_GROUPS = ("in the graph, another photograph", "in the graph, altered copy", _UNKNOWN, _NOTHING, _NO_THING, _ALL)
_GROUP_OF_PHOTO = {
    "other-photo": _GROUPS[0],
    "altered-copy": _GROUPS[1],
    "not-in-graph": _UNKNOWN,
    "no-entity": _NO_THING,
}


@dataclass(frozen=True, order=True)
class Place:
    """Place of a turn on the way of a question.

    ``found`` is None if the entity is wrong, because the evidence is then another's, and where nothing answers.
    """

    holder: str  # what holds the entity in question: graph, no graph, or there is no such thing
    several_steps: bool
    entity_wrong: bool
    found: bool | None

    @property
    def words(self) -> tuple[str, str, str, str]:
        """Holder, steps, entity and evidence as the table has them."""
        return (
            self.holder,
            "two and more" if self.several_steps else "one",
            "wrong" if self.entity_wrong else "right",
            "" if self.found is None else "yes" if self.found else "no",
        )


@dataclass(frozen=True)
class CountedTurn:
    """Outcome of a turn, with what the set knows of it."""

    place: Place
    outcome: str
    entity: str  # the entity in question, or the turn's own id; turns of one entity are resampled together
    groups: tuple[str, ...]  # groups of the first table that it counts in
    right_in_one_prompt: bool


def has_settled_on(record: TurnRecord, names: frozenset[str]) -> bool:
    """Return whether a turn's entity is among the names, or one kept for a question about several."""
    return not names.isdisjoint(
        name for name in (record.entity, *(record.get_note("entities") or ())) if name is not None
    )


def says_answer(texts: Iterable[str], accept: Sequence[str]) -> bool:
    """Return whether one of the texts affirms one of the short answers."""
    forms = [AnswerText(form) for form in accept]
    return any(_says(AnswerText(text), form) for text in texts for form in forms)


def _says(text: AnswerText, form: AnswerText) -> bool:
    if form.quantities and not all(agrees_with_any(each, text.quantities) for each in form.quantities):
        return False
    words = [word for word in form.content if word not in form.figure_words]
    return text.affirms(words) if words else bool(form.quantities)


def find_place(
    record: TurnRecord, names: frozenset[str] | None, facts: Mapping[str, Any], accept: Sequence[str]
) -> Place:
    """Return the place of a turn.

    Args:
        record: The turn's record.
        names: Names of the entity in question in the graph; None if the graph does not hold it.
        facts: The set's facts about the turn (``collect_turn_facts``).
        accept: Its short right answers; none: nothing answers it.
    """
    holder = _NO_THING if facts.get("entity") is None else _UNKNOWN if names is None else _IN_GRAPH
    right = record.entity is None if names is None else has_settled_on(record, names)
    texts = (f"{chunk.title}. {chunk.text}" for chunk in record.evidence)
    return Place(holder, facts["hops"] > 1, not right, says_answer(texts, accept) if right and accept else None)


def list_groups(facts: Mapping[str, Any], accept: Sequence[str]) -> tuple[str, ...]:
    """Return the groups of the first table that a turn counts in."""
    if not accept:
        return (_NOTHING, _ALL)
    group = _GROUP_OF_PHOTO.get(str(facts.get("photo_group")))
    return (_ALL,) if group is None else (group, _ALL)


def count_turns(
    folder: Path, split: Split, cache: Path, right_elsewhere: Collection[_TurnId] = ()
) -> list[CountedTurn]:
    """Count the turns of a run whose question and truth are the set's.

    Args:
        folder: Output folder of the run.
        split: Split of the mini set.
        cache: Folder with the prepared data sets.
        right_elsewhere: Turns that a run in one prompt answers rightly.

    Raises:
        EvaluationError: The run's traces, its table or the set are missing, or the run has no such turn.
    """
    records = read_traces(folder / TRACE, is_required=True)
    outcomes = read_outcomes(folder)
    shown_names = read_shown_names(split)
    counted = []
    for each in PreparedSet(split, cache).turns():
        turn = make_answered_turn(each.session, each.turn, "")
        identifier, record = _identify(turn), records.get(turn.key)
        if record is not None and identifier in outcomes:
            entity = each.facts.get("entity")
            counted.append(
                CountedTurn(
                    find_place(record, shown_names.get(entity or ""), each.facts, each.accept),
                    outcomes[identifier],
                    entity or each.turn.interaction_id,
                    list_groups(each.facts, each.accept),
                    identifier in right_elsewhere,
                )
            )
    refuse_other_questions(folder, split, counted)
    return counted


def read_outcomes(folder: Path) -> dict[_TurnId, str]:
    """Read the outcome of each turn of a run, by its ids, question and truth: right, missing or wrong."""
    return {_identify(judged.turn): _name_outcome(judged) for judged in read_turn_table(folder)}


def _identify(turn: AnsweredTurn) -> _TurnId:
    """Return the identifier of a turn as it was asked."""
    return (*turn.key, turn.query, turn.ground_truth)


def _name_outcome(judged: JudgedTurn) -> str:
    return "right" if judged.correct else "missing" if judged.miss else "wrong"


def score_group(turns: Sequence[CountedTurn]) -> tuple[float, Interval | None]:
    """Compute the truthfulness of some turns, and its 95% interval over entities; None for fewer than two entities."""
    by_entity: dict[str, list[int]] = {}
    for turn in turns:
        by_entity.setdefault(turn.entity, []).append(_POINTS[turn.outcome])
    sums = np.array([(sum(points), len(points)) for points in by_entity.values()], dtype=np.float64)
    score = float(sums[:, 0].sum() / sums[:, 1].sum())
    return score, session_interval(sums, lambda points, total: points / total) if len(sums) > 1 else None


class LossesOptions(BenchmarkOptions):
    """Options of the runs to count."""

    runs: Annotated[tuple[Path, ...], Flag(metavar="DIR")] = Field(description="output folders of runs over the split")
    one_prompt: Annotated[tuple[Path, ...], Flag(metavar="DIR")] = Field(
        (), description="output folders of runs over the same turns without the stage steps"
    )


def _tabulate_groups(turns: Sequence[CountedTurn], split: Split) -> Table:
    rows = []
    for name in _GROUPS:
        group = [turn for turn in turns if name in turn.groups]
        if group:
            counts = Counter(turn.outcome for turn in group)
            score, interval = score_group(group)
            outcomes = (str(counts[each]) for each in _OUTCOMES)
            rows.append((name, str(len(group)), *outcomes, f"{100 * score:.1f}", format_interval(interval)))
    return build_table(f"{split}: truthfulness", ("turns about what is", "turns", *_OUTCOMES, "%", "95%"), rows)


def _tabulate_places(turns: Sequence[CountedTurn], with_prompt: bool) -> Table:
    total: dict[Place, Counter[str]] = {}
    rescued: Counter[Place] = Counter()
    for turn in turns:
        total.setdefault(turn.place, Counter())[turn.outcome] += 1
        rescued[turn.place] += turn.right_in_one_prompt and turn.outcome != "right"
    headings: tuple[str, ...] = ("holder", "steps", "entity", "answer in the evidence", *_OUTCOMES)
    rows: list[tuple[str, ...]] = []
    for place in sorted(total, key=str):
        row = (*place.words, *(str(total[place][outcome]) for outcome in _OUTCOMES))
        rows.append((*row, str(rescued[place])) if with_prompt else row)
    if with_prompt:
        headings += ("right in one prompt",)
    return build_table(f"{len(turns)} turns", headings, rows, left_columns=4)


def _measure(options: LossesOptions) -> int:
    elsewhere = {
        turn for folder in options.one_prompt for turn, outcome in read_outcomes(folder).items() if outcome == "right"
    }
    turns = [turn for folder in options.runs for turn in count_turns(folder, options.split, options.cache, elsewhere)]
    console = make_console()
    console.print(_tabulate_groups(turns, options.split))
    console.print(_tabulate_places(turns, bool(options.one_prompt)))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables.

    Returns:
        0, or 2 if a run cannot be read.
    """
    return run(_measure, LossesOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
