"""Metrics of finished runs, for comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agents.record import TurnRecord
from evaluation.files.outputs import read_about, read_turn_table
from evaluation.files.run_log import read_run_log, select_costs, summarise_latency
from evaluation.files.traces import find_failing_stages, read_all_traces
from evaluation.records import AnsweredTurn, EvaluationError, JudgedTurn, Key
from evaluation.rules import OURS, RULES
from evaluation.scores.metrics import list_run_metrics
from evaluation.scores.scoring import Interval, bootstrap_intervals, count_errors, count_unjudged, score, select_counted
from evaluation.studies.paired_tests import Paired, compare_all
from evaluation.studies.variants import Variant

FAILING = "(!)"
"""Mark of a run of which a stage failed on every turn."""


def mark_failing(label: str, failing: Sequence[str]) -> str:
    """Mark the label of a run if stages of it failed on every turn."""
    return f"{label} {FAILING}" if failing else label


def describe_failing(label: str, failing: Iterable[str]) -> list[str]:
    """Return a note for each stage of a run that failed on every turn."""
    return [f"{label} {FAILING} a stage failed on every turn: {reason}" for reason in failing]


def list_failing_stages(turns: Iterable[AnsweredTurn], traces: Mapping[Key, TurnRecord]) -> tuple[str, ...]:
    """List the stages that failed on every one of these turns, each with its message."""
    reasons = find_failing_stages(traces[turn.key] for turn in turns if turn.key in traces)
    return tuple(f"{stage}: {reason}" for stage, reason in reasons.items())


@dataclass(frozen=True)
class Figures:
    """Rates of one run over one data set, 0 to 1 (truthfulness -1 to 1).

    Attributes:
        metrics: Registered metrics by name (``scores.metrics``).
        seconds: Mean wall time a turn over the calls that took no reply from a cache; None without such a call or a run log.
        timed_turns: Turns of those calls.
        seconds_cached: Mean wall time a turn over all calls, if some took replies from a cache; None otherwise.
        reply_hits: Replies that came from a cache; None if the run had none.
        reply_misses: Replies that the cache did not have.
        errors: Turns without an answer because of a failure; the rates count them by their text, as missing.
        unjudged: Turns whose judge gave no usable reply; the rates count them as wrong.
        failing: Stages that failed on every turn, each with its message.
        cut_short: Turns that went without some of their stages because the time was up.
        intervals: 95% bootstrap intervals by the names in ``scoring.bootstrap_intervals``.
        conversation: Mean conversation score, with the early stop of dialogs.
    """

    turns: int
    accuracy: float
    missing: float
    hallucination: float
    truthfulness: float
    conversation: float
    seconds: float | None = None
    timed_turns: int = 0
    seconds_cached: float | None = None
    reply_hits: int | None = None
    reply_misses: int | None = None
    errors: int = 0
    unjudged: int = 0
    failing: tuple[str, ...] = ()
    cut_short: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """Result of a variant on one data set.

    Attributes:
        about: Settings and versions of its run.
        base: Label of the result of the same data set that it was compared with, "" for none.
        against: Its difference from that result.
    """

    variant: Variant
    task: str
    figures: Figures
    turns: Sequence[JudgedTurn]
    about: Mapping[str, Any] = field(default_factory=dict)
    base: str = ""
    against: Paired | None = None

    @property
    def label(self) -> str:
        """Label in a table: marked if a stage failed on every turn."""
        return mark_failing(self.variant.label, self.figures.failing)


def compare_with_bases(results: Sequence[Result], base_of: Callable[[Variant], str]) -> list[Result]:
    """Compare each result with its base, the result of its data set whose label ``base_of`` returns.

    A result without a base, or that is its own base, is not compared. p is adjusted for the number of results with the same base.
    """
    placed = {(result.task, result.variant.label): place for place, result in enumerate(results)}
    compared: dict[int, list[int]] = {}
    for place, result in enumerate(results):
        base = placed.get((result.task, base_of(result.variant)), place)
        if base != place:
            compared.setdefault(base, []).append(place)
    new_results = [*results]
    for base, places in compared.items():
        comparisons = compare_all(results[base].turns, [results[place].turns for place in places])
        for place, against in zip(places, comparisons, strict=True):
            new_results[place] = replace(results[place], base=results[base].variant.label, against=against)
    return new_results


def check_base(label: str, labels: Sequence[str]) -> str:
    """Return the label that ``--against`` names.

    Raises:
        EvaluationError: It is none of ``labels``.
    """
    if label not in labels:
        raise EvaluationError(f"--against takes one of {', '.join(labels)}, not {label!r}")
    return label


def compute_figures(turns: Sequence[JudgedTurn], folders: Sequence[Path] = ()) -> Figures:
    """Compute the figures of judged turns, with the costs of answering if a folder has a run log of them."""
    answered = [judged.turn for judged in turns]
    costs = {key: line for folder in folders for key, line in read_run_log(folder).items()}
    times, scores, traces = summarise_latency(select_costs(answered, costs)), score(turns), read_all_traces(folders)
    spent: dict[str, Any] = {}
    if times is not None:
        spent = {
            "seconds": times.uncached_mean_turn,
            "timed_turns": times.uncached_turns,
            "seconds_cached": times.mean_turn if times.reply_hits else None,
            "reply_hits": times.reply_hits,
            "reply_misses": times.reply_misses,
        }
    return Figures(
        turns=scores.total,
        accuracy=scores.accuracy,
        metrics={each.name: each.average(turns) for each in list_run_metrics()},
        missing=scores.missing,
        hallucination=scores.hallucination_rate,
        truthfulness=scores.truthfulness_score,
        conversation=scores.mean_multi_turn_conversation_score,
        errors=count_errors(turns),
        unjudged=count_unjudged(turns),
        failing=list_failing_stages(answered, traces),
        cut_short=sum(traces[turn.key].was_cut_short for turn in answered if turn.key in traces),
        intervals=bootstrap_intervals(turns),
        **spent,
    )


def read_figures(run: Path) -> tuple[Figures, list[JudgedTurn]]:
    """Compute the figures of the run in a folder by its own rules, and return them with its turns.

    Raises:
        EvaluationError: The folder has no judged run.
    """
    turns = select_counted(read_turn_table(run), RULES.get(str(read_about(run).get("rules")), OURS))
    return compute_figures(turns, [run]), turns
