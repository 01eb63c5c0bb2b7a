"""Tables that compare runs: on the terminal, as Markdown and as CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evaluation.figures import Figures, Interval
from evaluation.runs import Result


@dataclass(frozen=True)
class Column:
    """A heading, how it is shortened on a terminal, and what stands under it for a result."""

    heading: str
    short: str
    cell: Callable[[Result], str]


@dataclass(frozen=True)
class ResultTable:
    """A table of finished text."""

    title: str
    headings: tuple[str, ...]
    short: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def show(self, console: Console) -> None:
        """Print it."""
        table = Table(title=escape(self.title), title_justify="left")
        for position, heading in enumerate(self.short):
            table.add_column(escape(heading), justify="left" if position == 0 else "right")
        for row in self.rows:
            table.add_row(*map(escape, row))
        console.print(table)

    def markdown(self) -> str:
        """The table in Markdown, under a heading."""
        lines = [f"### {self.title}", "", _line(self.headings), "|---|" + "---:|" * (len(self.headings) - 1)]
        return "\n".join([*lines, *map(_line, self.rows)]) + "\n"


def build_table(title: str, first: str, columns: Sequence[Column], results: Sequence[Result]) -> ResultTable:
    """A row a result; ``first`` heads the column of labels."""
    return ResultTable(
        title,
        (first, *(column.heading for column in columns)),
        (first, *(column.short for column in columns)),
        tuple((result.variant.label, *(column.cell(result) for column in columns)) for result in results),
    )


def rate(value: float) -> str:
    """A rate in percent, without the sign, as the papers print it."""
    return f"{100 * value:.2f}"


def with_interval(value: float, interval: Interval | None, *, signed: bool = False) -> str:
    """A rate and its interval in percent."""
    said = f"{100 * value:+.2f}" if signed else rate(value)
    return said if interval is None else f"{said} [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"


def seconds(figures: Figures) -> str:
    """Seconds a turn, or a dash; with it how many turns were cut short by the deadline."""
    said = "-" if figures.seconds is None else f"{figures.seconds:.2f}"
    return f"{said} ({figures.cut_short} cut short)" if figures.cut_short else said


def write_csv(path: Path, results: Sequence[Result]) -> None:
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
    pd.DataFrame(rows).to_csv(path, index=False)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
