"""Where a run loses its answers: truthfulness by what the graph holds, and lost turns by the reason.

    python -m lab.benchmarks.losses --split public_test --runs results/public_best/best/single-turn
    python -m lab.benchmarks.losses --cache .cache/large --runs results/large

The first table has the numbers to steer by, each with its interval (whole entities are resampled, because questions on one entity share its
photograph). The second counts the turns that were lost by the reasons of the report and of ``crag test``. Verdicts are those of the run's
own judge; withheld candidates count as missing. So a run without a gate tells how the model answers, and one with a gate what the user
reads.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from agents.base.command_options import Flag
from evaluation.commands import make_console
from evaluation.files.outputs import read_turn_table
from evaluation.files.traces import TRACE, read_traces
from evaluation.records import AnsweredTurn, EvaluationError, JudgedTurn, make_answered_turn
from evaluation.scores.losses import LOSSES, Loss, explain_loss
from evaluation.scores.slices import summarise_group
from evaluation.studies.result_tables import ResultTable, format_interval
from lab.benchmarks.common import BenchmarkOptions, run
from mini_crag_mm.content_models import Split
from mini_crag_mm.loader import PreparedSet

_ALL = "all"
_NOTHING = "nothing answers"
_GROUP_OF_PHOTO = {
    "other-photo": "in the graph, another photograph",
    "altered-copy": "in the graph, altered copy",
    "not-in-graph": "not in the graph",
    "no-entity": "about no thing",
}
GROUPS = (*_GROUP_OF_PHOTO.values(), _NOTHING, _ALL)


@dataclass(frozen=True)
class CountedTurn:
    """A judged turn, whose session is the entity in question, with its groups and the reason why it was lost."""

    judged: JudgedTurn
    groups: tuple[str, ...]
    loss: Loss | None


def list_groups(facts: Mapping[str, Any], accept: Sequence[str]) -> tuple[str, ...]:
    """Return the groups that a turn counts in."""
    if not accept:
        return (_NOTHING, _ALL)
    group = _GROUP_OF_PHOTO.get(str(facts.get("photo_group")))
    return (_ALL,) if group is None else (group, _ALL)


def count_turns(folder: Path, split: Split, cache: Path) -> list[CountedTurn]:
    """Count the turns of a run whose question and truth are the set's.

    Raises:
        EvaluationError: The run's traces, its table or the set are missing, or the run has no such turn.
    """
    records = read_traces(folder / TRACE, is_required=True)
    judged_turns = {_identify(judged.turn): judged for judged in read_turn_table(folder)}
    counted = []
    for each in PreparedSet(split, cache).turns():
        turn = make_answered_turn(each.session, each.turn, "")
        judged, record = judged_turns.get(_identify(turn)), records.get(turn.key)
        if judged is not None and record is not None:
            explained = explain_loss(judged, record, each.accept, answerable=bool(each.accept))
            entity = each.facts.get("entity") or each.turn.interaction_id
            counted.append(
                CountedTurn(
                    replace(judged, turn=replace(judged.turn, session_id=entity)),
                    list_groups(each.facts, each.accept),
                    explained.loss if explained is not None else None,
                )
            )
    if not counted:
        raise EvaluationError(
            f"{folder} answers no question of {split} as it is now; name the set that the run answered with --split and --cache"
        )
    return counted


def _identify(turn: AnsweredTurn) -> tuple[str, ...]:
    """Return ids, question and truth: a question of the set that is reworded keeps its ids."""
    return (*turn.key, turn.query, turn.ground_truth)


def build_tables(turns: Sequence[CountedTurn], split: Split) -> list[ResultTable]:
    """Build the tables of truthfulness by group, and of lost turns by reason and group."""
    groups = {name: [turn for turn in turns if name in turn.groups] for name in GROUPS}
    groups = {name: group for name, group in groups.items() if group}
    rows = []
    for name, group in groups.items():
        judged = [turn.judged for turn in group]
        summary = summarise_group(judged)
        right, missing = sum(each.correct for each in judged), sum(each.miss for each in judged)
        outcomes = map(str, (len(group), right, missing, len(group) - right - missing))
        rows.append((name, *outcomes, f"{100 * summary.truthfulness:.1f}", format_interval(summary.interval_95)))
    counts = {name: Counter(turn.loss for turn in group) for name, group in groups.items()}
    lost = [(LOSSES[loss], *(str(counts[name][loss]) for name in groups)) for loss in Loss if counts[_ALL][loss] > 0]
    headings = ("turns about what is", "turns", "right", "missing", "wrong", "%", "95%")
    return [
        ResultTable(f"{split}: truthfulness", headings, rows),
        ResultTable(f"{len(turns)} turns: why they were lost", ("why", *groups), lost),
    ]


class LossesOptions(BenchmarkOptions):
    """Options of the runs to count."""

    runs: Annotated[tuple[Path, ...], Flag(metavar="DIR")] = Field(description="output folders of runs over the split")


def _measure(options: LossesOptions) -> int:
    turns = [turn for folder in options.runs for turn in count_turns(folder, options.split, options.cache)]
    for table in build_tables(turns, options.split):
        table.show(make_console())
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables.

    Returns:
        0, or 2 if a run cannot be read.
    """
    return run(_measure, LossesOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
