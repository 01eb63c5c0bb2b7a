"""Score tables and dialogs on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evaluation.files.manifest import WITHOUT_PICTURE
from evaluation.files.run_log import DIALOG_LIMIT_SECONDS, TURN_LIMIT_SECONDS, Latency
from evaluation.records import JudgedTurn
from evaluation.scores.metrics import Metric, list_run_metrics
from evaluation.scores.process import PROCESS_METRICS, ProcessGroup
from evaluation.scores.scoring import SPLITS, group_by_session, group_turns

_ROWS = (
    ("accuracy", "accuracy", True),
    ("missing", "missing", True),
    ("hallucination", "hallucination_rate", True),
    ("truthfulness", "truthfulness_score", True),
    ("exact match", "exact_match", True),
    ("mean conversation score", "mean_multi_turn_conversation_score", True),
    ("turns", "total", False),
)
_SMALL_RUN = 30
"""Turns below which the terminal shows one table: slices of so few are in the report, and a percentage of them means little."""
_STYLES = {"correct": "green", "miss": "yellow", "hallucination": "red", "error": "magenta", "unjudged": "cyan"}


def print_scores(console: Console, scores: Mapping[str, Any], title: str = "Scores") -> None:
    """Print a scores dictionary: a sentence, then tables of all turns, by category, by domain, and by ``SPLITS``.

    A run of fewer than ``_SMALL_RUN`` turns has only the sentence and the first table.
    """
    console.print(f"{title}: {_summarise(scores['all'])}", markup=False, highlight=False)
    console.print(_build_overall_table(scores, title))
    if scores["all"]["total"] < _SMALL_RUN:
        return
    for name, key in (("Category", "by_category"), ("Domain", "by_domain")):
        if any(group != "(none)" for group in scores[key]):
            console.print(_build_group_table(name, scores[key]))
    for split in SPLITS:
        if split.key in scores:
            heading = f"{split.heading} ({split.meaning})"
            console.print(
                _build_group_table(split.heading, scores[split.key], scores["intervals_95"][split.key], heading)
            )


def print_origins(console: Console, turns: Sequence[JudgedTurn], origin: Callable[[JudgedTurn], str | None]) -> None:
    """Print the counts of right and wrong answers by origin; nothing without records."""
    groups = group_turns(turns, origin)
    if not groups:
        return
    table = Table(title="By origin of the answer", title_justify="left")
    table.add_column("answer from", no_wrap=True)
    for column in ("answers", "right", "wrong"):
        table.add_column(column, justify="right")
    for name, group in sorted(groups.items()):
        right = sum(judged.correct for judged in group)
        table.add_row(name, str(len(group)), str(right), str(len(group) - right))
    console.print(table)


def print_process(console: Console, groups: Sequence[ProcessGroup]) -> None:
    """Print the searches of turns by the source of their answer; nothing for a small run, or if they are not known."""
    if not groups or groups[-1].turns < _SMALL_RUN:
        return
    table = Table(title="Searches, by the source of the answer", title_justify="left")
    table.add_column("")
    for group in groups:
        table.add_column(group.name, justify="right")
    table.add_row("turns", *(str(group.turns) for group in groups))
    for name, metric in PROCESS_METRICS.items():
        table.add_row(metric.heading, *(group.format(name) for group in groups))
    console.print(table)


def _summarise(values: Mapping[str, Any]) -> str:
    """Say in words how many turns were answered, and how; a refusal that the truth asks for counts as right."""
    right, wrong, total = values["correct"], values["hallucination"], values["total"]
    declined = max(0, total - right - wrong)
    return f'{right} right, {wrong} wrong, {declined} declined ("I don\'t know") of {total} turns'


def _build_overall_table(scores: Mapping[str, Any], title: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    columns = {"all": "all", "ego": "smart glasses"}
    if not scores["ego"]["total"]:  # as in a collection of one's own
        del columns["ego"]
    for heading in columns.values():
        table.add_column(heading, justify="right")
        table.add_column("95%", justify="right", style="dim")
    for label, key, rate in _ROWS:
        cells = []
        for name in columns:
            value = scores[name][key]
            cells += [
                format_percent(value) if rate else str(value),
                _format_interval(scores["intervals_95"][name].get(key)),
            ]
        table.add_row(label, *cells)
    for metric in list_run_metrics():
        if values := scores.get(metric.name):
            cells = [metric.format(values[name], "terminal") for name in columns]
            table.add_row(_name_row(metric), *_add_intervals(cells))
    without = scores["about"].get(WITHOUT_PICTURE) or {"turns": 0}
    counts = {
        "errors": scores.get("errors", {"all": 0}),
        "not judged": scores.get("unjudged", {"all": 0}),
        "without picture": {"all": without["turns"], "ego": without.get("ego_turns", 0)},
    }
    for label, numbers in counts.items():
        if numbers["all"]:
            table.add_row(label, *_add_intervals([str(numbers[name]) for name in columns]), style="red")
    return table


def _add_intervals(cells: Sequence[str]) -> list[str]:
    """Put an empty cell behind each cell, where other rows have its interval."""
    return [each for cell in cells for each in (cell, "")]


def _name_row(metric: Metric) -> str:
    unit = f" ({metric.unit})" if metric.unit not in ("", "%") else ""
    return metric.heading[0].lower() + metric.heading[1:] + unit


def _build_group_table(
    name: str,
    groups: Mapping[str, Mapping[str, float]],
    intervals: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
    heading: str | None = None,
) -> Table:
    table = Table(title=f"By {(heading or name).lower()}", title_justify="left")
    table.add_column(name, no_wrap=intervals is not None)
    for column in ("turns", "accuracy", "missing", "hallucination", "truthfulness"):
        table.add_column(column, justify="right")
    if intervals is not None:
        table.add_column("95%", justify="right", style="dim")
    for group, values in groups.items():
        keys = ("accuracy", "missing", "hallucination_rate", "truthfulness_score")
        cells = [escape(group), str(values["total"]), *(format_percent(values[key]) for key in keys)]
        if intervals is not None:
            cells.append(_format_interval(intervals[group].get("truthfulness_score")))
        table.add_row(*cells)
    return table


def format_percent(rate: float) -> str:
    """Format a rate as a percentage with one decimal."""
    return f"{100 * rate:.1f}%"


def _format_interval(interval: Sequence[float] | None) -> str:
    return f"{format_percent(interval[0])} .. {format_percent(interval[1])}" if interval else ""


def print_latency(console: Console, times: Latency) -> None:
    """Print the time of turns, and how many calls and dialogs exceeded the challenge's limits."""
    console.print(
        f"{times.mean_turn:.2f} s per turn on average, {times.max_turn:.2f} s per turn in the slowest call; "
        f"{times.late_batches} calls over {TURN_LIMIT_SECONDS:.0f} s per turn, "
        f"{times.late_dialogs} dialogs over {DIALOG_LIMIT_SECONDS:.0f} s"
    )
    if times.reply_hits is not None and times.reply_misses is not None:
        measured = (
            f"{times.uncached_mean_turn:.2f} s a turn over the {times.uncached_turns} turns of calls that took none from it"
            if times.uncached_mean_turn is not None
            else "no call was made without it"
        )
        total = times.reply_hits + times.reply_misses
        console.print(f"reply cache: {times.reply_hits} of {total} replies came from it; {measured}")


def print_conversations(console: Console, turns: Sequence[JudgedTurn], number: int) -> None:
    """Print the first ``number`` dialogs with ground truth and verdict."""
    for session_id, dialog in list(group_by_session(turns).items())[: max(number, 0)]:
        console.rule(f"session {escape(session_id)}", align="left")
        for judged in dialog:
            style = _STYLES[judged.verdict]
            console.print(f"[bold]Q[/] {escape(judged.turn.query)}")
            console.print(f"[bold]A[/] {escape(judged.turn.agent_response)}  [{style}]{judged.verdict}[/]")
            console.print(f"[dim]ground truth: {escape(judged.turn.ground_truth)}[/]")
