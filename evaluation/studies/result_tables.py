"""Tables that compare runs: on the terminal, as Markdown, as CSV, and as an HTML page with the numbers beside it as JSON."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agents.runtime.files import write_whole
from evaluation.files.manifest import write_json
from evaluation.report.html_report import write_html
from evaluation.scores.scoring import Interval
from evaluation.studies.figures import Figures, Result


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, a shorter one for terminals, and its text for a result."""

    heading: str
    short: str
    cell: Callable[[Result], str]


@dataclass(frozen=True)
class ResultTable:
    """A table of finished text; ``words``: of words, not of figures; ``short``: other headings for a terminal."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    words: bool = False
    short: Sequence[str] = ()

    def show(self, console: Console) -> None:
        """Print it."""
        table = Table(title=escape(self.title), title_justify="left")
        for position, heading in enumerate(self.short or self.headings):
            side: Literal["left", "right"] = "left" if position == 0 or self.words else "right"
            table.add_column(escape(heading), justify=side, overflow="fold")
        for row in self.rows:
            table.add_row(*map(escape, row))
        console.print(table)
        for note in self.notes:
            console.print(note, style="dim", markup=False, highlight=False)

    def markdown(self) -> str:
        """The table in Markdown, under a heading."""
        lines = [f"### {self.title}", "", _line(self.headings), "|---|" + "---:|" * (len(self.headings) - 1)]
        notes = ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join([*lines, *map(_line, self.rows), *notes]) + "\n"


def publish(
    place: Path,
    content: Mapping[str, Any],
    title: str,
    tables: Sequence[ResultTable],
    console: Console,
    plots: Sequence[Path] = (),
) -> None:
    """Write PLACE.json and PLACE.html, with plots (PNG files) above the tables, and say so."""
    write_json(place.with_suffix(".json"), content)
    pictures = [base64.b64encode(plot.read_bytes()).decode() for plot in plots]
    page = write_html(place.with_suffix(".html"), "study.html.j2", title=title, tables=tables, pictures=pictures)
    console.print(f"written: {page} and .json", markup=False, soft_wrap=True)


def build_table(title: str, first: str, columns: Sequence[Column], results: Sequence[Result]) -> ResultTable:
    """A row a result; ``first`` heads the column of labels."""
    return ResultTable(
        title,
        (first, *(column.heading for column in columns)),
        [(result.variant.label, *(column.cell(result) for column in columns)) for result in results],
        notes_on(results),
        short=(first, *(column.short for column in columns)),
    )


def notes_on(results: Sequence[Result]) -> tuple[str, ...]:
    """What the runs of a table were made with, and what their seconds are; one value of each kind where all agree."""
    made = []
    for name in ("dataset", "profile", "judge", "rules", "commit"):
        values = dict.fromkeys(str(result.about[name]) for result in results if result.about.get(name))
        made += [f"{name} {', '.join(values)}"] * bool(values)
    models = [result.about.get("models") or {} for result in results]
    chats = dict.fromkeys(str(names["chat"]) for names in models if "chat" in names)
    made += [f"chat model {'; '.join(chats)}"] * bool(chats)
    notes = ["; ".join(made)] if made else []
    asked = [result.figures for result in results if result.figures.reply_hits is not None]
    if asked:
        hits = sum(figures.reply_hits or 0 for figures in asked)
        total = hits + sum(figures.reply_misses or 0 for figures in asked)
        notes.append(
            f"reply cache used: {hits} of {total} replies came from it; seconds a turn are those of calls that took none from it, "
            "with their number of turns in brackets where it is not all of them"
        )
    else:
        notes.append("no reply cache used")
    return tuple(notes)


_INTERVALS = {
    "accuracy": "accuracy",
    "missing": "missing",
    "hallucination": "hallucination_rate",
    "truthfulness": "truthfulness_score",
    "conversation": "mean_multi_turn_conversation_score",
}
"""Figures by name, and the names of their intervals."""


def figure_column(heading: str, short: str, figure: str, *, intervals: bool = False) -> Column:
    """A rate of ``Figures`` by its name, with its interval where asked for."""

    def cell(result: Result) -> str:
        interval = result.figures.intervals.get(_INTERVALS[figure]) if intervals else None
        return with_interval(getattr(result.figures, figure), interval)

    return Column(heading, short, cell)


TURNS = Column("Turns", "turns", lambda result: str(result.figures.turns))


def time_columns(results: Sequence[Result]) -> list[Column]:
    """Number of turns and seconds a turn; with a reply cache too, where replies came from one."""
    columns = [TURNS, Column("Seconds a turn", "s/turn", lambda result: _seconds(result.figures))]
    if any(result.figures.seconds_cached is not None for result in results):
        heading = "Seconds a turn, with reply cache"
        columns.append(Column(heading, "s/turn cached", lambda result: _number(result.figures.seconds_cached)))
    return columns


def rate(value: float) -> str:
    """A rate in percent, without the sign, as the papers print it."""
    return f"{100 * value:.2f}"


def with_interval(value: float, interval: Interval | None, *, signed: bool = False) -> str:
    """A rate and its interval in percent."""
    said = f"{100 * value:+.2f}" if signed else rate(value)
    return said if interval is None else f"{said} [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"


def _seconds(figures: Figures) -> str:
    """Seconds a turn without a reply cache, or a dash; over how many turns, and how many were cut short by the deadline."""
    said = _number(figures.seconds)
    if figures.seconds is not None and 0 < figures.timed_turns < figures.turns:
        said = f"{said} ({figures.timed_turns})"
    return f"{said} ({figures.cut_short} cut short)" if figures.cut_short else said


def figure_rows(results: Sequence[Result]) -> list[dict[str, object]]:
    """One row a result with every figure and interval, in fractions of one."""
    rows = []
    for result in results:
        figures = result.figures
        row: dict[str, object] = {
            "label": result.variant.label,
            "task": result.task,
            "preset": result.variant.preset,
            "without": ", ".join(result.variant.without),
            "set": ", ".join(result.variant.settings),
            **{name: value for name, value in vars(figures).items() if name != "intervals"},
        }
        for name, (low, high) in figures.intervals.items():
            row |= {f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    return rows


def write_csv(path: Path, results: Sequence[Result]) -> None:
    """The rows of ``figure_rows``."""
    write_whole(path, pd.DataFrame(figure_rows(results)).to_csv(index=False))


def cut(text: str, longest: int | None) -> str:
    """A text of at most so many characters; the whole text for None."""
    return text if longest is None or len(text) <= longest else text[: longest - 1] + "…"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
