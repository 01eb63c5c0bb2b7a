"""The figures of a finished run that a comparison shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.files.outputs import SCORES
from evaluation.files.run_log import costs_of, latency, read_run_log
from evaluation.files.traces import TRACE, match_traces, read_traces
from evaluation.files.turn_table import read_turn_table
from evaluation.scores.overlap import mean_overlap
from evaluation.scores.scoring import (
    INTERVAL,
    RESAMPLES,
    JudgedTurn,
    bootstrap_intervals,
    by_session,
    score,
    truthfulness_points,
)

Interval = tuple[float, float]


@dataclass(frozen=True)
class Figures:
    """Rates of one run over one data set, 0 to 1 (truthfulness -1 to 1).

    Attributes:
        overlap: See ``overlap.overlap``.
        seconds: Mean wall time a turn over the calls that took no reply from a cache; None where there is no such call, or no run log.
        timed_turns: Turns of those calls.
        seconds_cached: Mean wall time a turn over all calls where some took replies from a cache; None otherwise.
        reply_hits: Replies that came from a cache; None where the run had none.
        reply_misses: Replies that the model was asked for beside a cache.
        cut_short: Turns that went without some of their stages because the time was up.
        intervals: 95% bootstrap intervals by the names in ``scores.bootstrap_intervals``.
        conversation: Mean conversation score, with the early stop of dialogs.
    """

    turns: int
    accuracy: float
    overlap: float
    missing: float
    hallucination: float
    truthfulness: float
    conversation: float
    seconds: float | None = None
    timed_turns: int = 0
    seconds_cached: float | None = None
    reply_hits: int | None = None
    reply_misses: int | None = None
    cut_short: int = 0
    intervals: Mapping[str, Interval] = field(default_factory=dict)


def figures_of(turns: Sequence[JudgedTurn], seconds: float | None = None, cut_short: int = 0) -> Figures:
    """The figures of judged turns; what answering cost comes from outside."""
    scores = score(turns)
    return Figures(
        turns=scores.total,
        accuracy=scores.accuracy,
        overlap=mean_overlap(judged.turn for judged in turns),
        missing=scores.missing,
        hallucination=scores.hallucination_rate,
        truthfulness=scores.truthfulness_score,
        conversation=scores.mean_multi_turn_conversation_score,
        seconds=seconds,
        cut_short=cut_short,
        intervals=bootstrap_intervals(turns),
    )


def read_figures(run: Path) -> tuple[Figures, list[JudgedTurn]]:
    """The figures of the run in a folder, and the turns they are of.

    Raises:
        EvaluationError: The folder holds no judged run.
    """
    turns = read_turn_table(run)
    answered, costs = [judged.turn for judged in turns], read_run_log(run)
    times = latency(costs_of(answered, costs))
    traces = match_traces(answered, read_traces(run / TRACE), costs).values()
    cut_short = sum(trace.cut_short for trace in traces)
    figures = figures_of(turns, times.uncached_mean_turn if times is not None else None, cut_short)
    if times is not None:
        figures = replace(
            figures,
            timed_turns=times.uncached_turns,
            seconds_cached=times.mean_turn if times.reply_hits else None,
            reply_hits=times.reply_hits,
            reply_misses=times.reply_misses,
        )
    return figures, turns


def read_about(run: Path) -> dict[str, Any]:
    """What the run in a folder was made and judged with; empty where that is not known."""
    try:
        about = json.loads((run / SCORES).read_text(encoding="utf-8"))["about"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return about if isinstance(about, dict) else {}


def truthfulness_change(
    before: Sequence[JudgedTurn], after: Sequence[JudgedTurn], resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, Interval | None]:
    """How much truthfulness changes between two runs over the same sessions, with its 95% interval.

    The runs are compared session by session, and whole sessions are resampled: what is hard for both cancels out, so
    that the interval is narrower than those of the two runs suggest. Sessions that only one run has are left out.

    Returns:
        The change, and its interval where there are at least two sessions.
    """
    old, new = by_session(before), by_session(after)
    shared = [session for session in old if session in new]
    if not shared:
        return 0.0, None
    # (sessions, 4): points and number of turns of each run
    sums = np.array(
        [
            (
                sum(map(truthfulness_points, old[session])),
                len(old[session]),
                sum(map(truthfulness_points, new[session])),
                len(new[session]),
            )
            for session in shared
        ],
        dtype=np.float64,
    )
    total = sums.sum(axis=0)
    change = float(total[2] / total[3] - total[0] / total[1])
    if len(shared) < 2:
        return change, None
    picks = np.random.default_rng(seed).integers(0, len(shared), size=(resamples, len(shared)))
    drawn = sums[picks].sum(axis=1)
    low, high = np.percentile(drawn[:, 2] / drawn[:, 3] - drawn[:, 0] / drawn[:, 1], INTERVAL)
    return change, (float(low), float(high))
