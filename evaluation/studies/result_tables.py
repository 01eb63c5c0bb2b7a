"""Tables that compare runs: on the terminal, as Markdown, LaTeX and CSV, and as an HTML page with the numbers beside it as JSON."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agents.base.files import one_line, write_whole
from agents.settings.shared_options import print_json
from evaluation.files.manifest import list_models, write_json
from evaluation.report.html_report import write_html
from evaluation.report.run_card import make_card
from evaluation.scores.metrics import Metric, list_run_metrics
from evaluation.scores.scoring import Interval
from evaluation.studies.figures import Figures, Result, describe_failing, mark_failing
from evaluation.studies.paired_tests import Paired

_INTERVAL = re.compile(r"\[-?[\d.]+, -?[\d.]+\]")
_SIGNED = re.compile(r"^[+<-][\d.]+")

_LEAST_P = 0.0005
"""p below this would round to 0, which no permutation test can show."""


@dataclass(frozen=True)
class Column:
    """Column of a table.

    Attributes:
        heading: Its heading.
        short: A shorter heading for terminals.
        cell: Returns its text for a result.
    """

    heading: str
    short: str
    cell: Callable[[Result], str]


@dataclass(frozen=True)
class ResultTable:
    """A table of finished text.

    Attributes:
        words: Whether its cells are words, not figures.
        short: Other headings for a terminal.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    words: bool = False
    short: Sequence[str] = ()

    def show(self, console: Console) -> None:
        """Print the table."""
        table = Table(title=escape(self.title), title_justify="left")
        for position, heading in enumerate(self.short or self.headings):
            side: Literal["left", "right"] = "left" if position == 0 or self.words else "right"
            table.add_column(escape(heading), justify=side, overflow="fold")
        for row in self.rows:
            table.add_row(*map(escape, row))
        console.print(table)
        for note in self.notes:
            console.print(note, style="dim", markup=False, highlight=False)

    def latex(self) -> str:
        """Return the table as a ``tabular`` with the rules of booktabs.

        Numbers and intervals are formulas; title and notes are comments.
        """
        styled = pd.DataFrame(self.rows, columns=list(self.headings)).style.hide(axis="index")
        styled.format(_format_formulas, escape="latex").format_index(_format_formulas, axis=1, escape="latex")
        side = "l" if self.words else "r"
        tabular = styled.to_latex(hrules=True, column_format="l" + side * (len(self.headings) - 1))
        return "".join(f"% {one_line(text)}\n" for text in (self.title, *self.notes)) + tabular

    def markdown(self) -> str:
        """Return the table in Markdown, under a heading."""
        side = "---|" if self.words else "---:|"
        lines = [f"### {self.title}", "", _format_line(self.headings), "|---|" + side * (len(self.headings) - 1)]
        notes = ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join([*lines, *map(_format_line, self.rows), *notes]) + "\n"


def write_tables(place: Path, tables: Sequence[ResultTable], results: Sequence[Result]) -> list[Path]:
    """Write the tables as PLACE.md, those of figures as PLACE.tex, and ``build_figure_rows`` as PLACE.csv.

    Returns:
        The files.
    """
    texts = {
        ".md": "\n".join(table.markdown() for table in tables),
        ".tex": "\n".join(table.latex() for table in tables if not table.words),
        ".csv": pd.DataFrame(build_figure_rows(results)).to_csv(index=False),
    }
    for suffix, text in texts.items():
        write_whole(place.with_suffix(suffix), text)
    return [place.with_suffix(suffix) for suffix in texts]


def publish(
    place: Path,
    content: Mapping[str, Any],
    title: str,
    tables: Sequence[ResultTable],
    console: Console,
    files: Sequence[Path] = (),
) -> None:
    """Write PLACE.json and PLACE.html, and print their names and those of ``files``.

    PNG files among ``files`` are above the tables in the page.
    """
    json_path = place.with_suffix(".json")
    write_json(json_path, content)
    pictures = [base64.b64encode(file.read_bytes()).decode() for file in files if file.suffix == ".png"]
    page = write_html(place.with_suffix(".html"), "study.html.j2", title=title, tables=tables, pictures=pictures)
    console.print(f"written: {name_files(page, json_path, *files)}", markup=False, soft_wrap=True)


def show_and_publish(
    place: Path | None,
    content: Mapping[str, Any],
    title: str,
    tables: Sequence[ResultTable],
    console: Console,
    *,
    cards: Mapping[str, Mapping[str, str]],
    as_json: bool,
) -> None:
    """Print the tables of a study, and its content if ``as_json``; ``publish`` both with its cards.

    Nothing is published if ``place`` is None.
    """
    for table in tables:
        table.show(console)
    if as_json:
        print_json(content)
    if place is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        publish(place, content, title, [*tables, build_card_table(cards)], console)


def name_files(*files: Path) -> str:
    """Return files of one name in short: the first with its folder, the others by their suffix."""
    return f"{files[0]} ({', '.join(file.suffix for file in files[1:])})"


def build_card_table(cards: Mapping[str, Mapping[str, str]]) -> ResultTable:
    """Build the table of the cards of runs by their labels (``run_card.make_card``)."""
    fields = list(dict.fromkeys(name for each in cards.values() for name in each))
    rows = [(label, *(each.get(name, "") for name in fields)) for label, each in cards.items()]
    return ResultTable("What was run", ("Run", *fields), rows, words=True)


def make_result_cards(results: Sequence[Result]) -> dict[str, dict[str, str]]:
    """Make the card of each variant, over all of its data sets."""
    results_by_label: dict[str, list[Result]] = {}
    for result in results:
        results_by_label.setdefault(result.variant.label, []).append(result)
    return {
        mark_failing(label, [reason for each in group for reason in each.figures.failing]): make_card(
            [each.about for each in group], sum(len(each.turns) for each in group)
        )
        for label, group in results_by_label.items()
    }


def build_paired_tables(first: str, results: Sequence[Result]) -> list[ResultTable]:
    """Build a table of comparisons for each base of the results of one data set.

    See ``figures.compare_with_bases``.
    """
    tables = []
    labels = {result.variant.label: result.label for result in results}
    for base in dict.fromkeys(result.base for result in results if result.base):
        rows = [
            (label, format_change(comparison), format_p(comparison), str(comparison.turns))
            for label, comparison in (
                (each.label, each.against) for each in results if each.base == base and each.against is not None
            )
        ]
        heads = (first, "change (%) [95%]", "p", "turns of both")
        tables.append(
            ResultTable(f"{results[0].task}, truthfulness against {labels.get(base, base)}", heads, rows, (P_NOTE,))
        )
    return tables


P_NOTE = (
    "p: two-sided paired permutation test that swaps whole sessions, adjusted for the number of rows with the same base "
    "(Benjamini-Hochberg)"
)


def format_change(paired: Paired) -> str:
    """Format the change of the truthfulness with its interval, or a dash if no turn is in both."""
    return "-" if paired.change is None else format_with_interval(paired.change, paired.interval, signed=True)


def format_p(paired: Paired | None) -> str:
    """Format the adjusted p, or a dash."""
    if paired is None or paired.adjusted_p is None:
        return "-"
    return "<0.001" if paired.adjusted_p < _LEAST_P else f"{paired.adjusted_p:.3f}"


def build_table(title: str, first: str, columns: Sequence[Column], results: Sequence[Result]) -> ResultTable:
    """Build a table with a row for each result; ``first`` heads the column of labels."""
    return ResultTable(
        title,
        (first, *(column.heading for column in columns)),
        [(result.label, *(column.cell(result) for column in columns)) for result in results],
        describe_runs(results),
        short=(first, *(column.short for column in columns)),
    )


def describe_runs(results: Sequence[Result]) -> tuple[str, ...]:
    """Return notes on settings and seconds of the runs of a table.

    Values on which all runs agree are named once.
    """
    chats = [list_models(result.about).get("chat") for result in results]
    card = make_card(
        [{**each.about, "models": {"chat model": chat or ""}} for each, chat in zip(results, chats, strict=True)], 0
    )
    facts = [
        f"{name} {card[name]}" for name in ("date", "commit", "profile", "dataset", "judge", "rules") if name in card
    ]
    facts += [card["models"]] if any(chats) else []
    notes = ["; ".join(facts)] if facts else []
    cached_figures = [result.figures for result in results if result.figures.reply_hits is not None]
    if cached_figures:
        hits = sum(figures.reply_hits or 0 for figures in cached_figures)
        total = hits + sum(figures.reply_misses or 0 for figures in cached_figures)
        notes.append(
            f"reply cache used: {hits} of {total} replies came from it; seconds a turn are those of calls that took none from it, "
            "with their number of turns in brackets where it is not all of them"
        )
    else:
        notes.append("no reply cache used")
    return (*notes, *describe_failures(results))


def describe_failures(results: Sequence[Result]) -> list[str]:
    """Return notes on the failures in the runs of a table: stages that never ran, errors, judgements."""
    failing = [note for each in results for note in describe_failing(each.variant.label, each.figures.failing)]
    if any(result.figures.errors for result in results):
        failing.append(
            "errors: turns without an answer because something failed; the rates count them by their text, as missing"
        )
    if any(result.figures.unjudged for result in results):
        failing.append(
            "unjudged: the judge gave no usable reply; they count as wrong, as in the organiser's evaluation"
        )
    return failing


_INTERVALS = {
    "accuracy": "accuracy",
    "missing": "missing",
    "hallucination": "hallucination_rate",
    "truthfulness": "truthfulness_score",
    "conversation": "mean_multi_turn_conversation_score",
}
"""Names of the intervals by figure."""


def make_figure_column(heading: str, short: str, figure: str, *, intervals: bool = False) -> Column:
    """Make the column of a rate in ``Figures``, with its interval if asked to."""

    def cell(result: Result) -> str:
        interval = result.figures.intervals.get(_INTERVALS[figure]) if intervals else None
        return format_with_interval(getattr(result.figures, figure), interval)

    return Column(heading, short, cell)


def make_metric_columns() -> list[Column]:
    """Make a column of each registered metric that runs have."""

    def column(metric: Metric) -> Column:
        remark = f", {metric.remark}" if metric.remark else ""
        heading = f"{metric.full_heading}{remark}"
        return Column(heading, metric.heading.lower(), lambda result: _format_metric(metric, result.figures))

    return [column(metric) for metric in list_run_metrics()]


def _format_metric(metric: Metric, figures: Figures) -> str:
    value = figures.metrics.get(metric.name)
    return "-" if value is None else metric.format(value)


TURNS = Column("Turns", "turns", lambda result: str(result.figures.turns))


def make_turn_columns(results: Sequence[Result]) -> list[Column]:
    """Make the column of turns, and those of errors and unjudged answers if there are any."""
    columns = [TURNS]
    if any(result.figures.errors for result in results):
        columns.append(Column("Errors", "errors", lambda result: str(result.figures.errors)))
    if any(result.figures.unjudged for result in results):
        columns.append(Column("Not judged", "unjudged", lambda result: str(result.figures.unjudged)))
    return columns


def make_time_columns(results: Sequence[Result]) -> list[Column]:
    """Make the columns of turns and seconds a turn, and of seconds with a reply cache if one was used."""
    columns = [
        *make_turn_columns(results),
        Column("Seconds a turn", "s/turn", lambda result: _format_seconds(result.figures)),
    ]
    if any(result.figures.seconds_cached is not None for result in results):
        heading = "Seconds a turn, with reply cache"
        columns.append(Column(heading, "s/turn cached", lambda result: _format_number(result.figures.seconds_cached)))
    return columns


def format_rate(value: float) -> str:
    """Format a rate in percent, without the sign, as the papers print it."""
    return f"{100 * value:.2f}"


def format_interval(interval: Interval | None) -> str:
    """Format an interval of a rate in percent; "" if there is none."""
    return "" if interval is None else f"[{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"


def format_with_interval(value: float, interval: Interval | None, *, signed: bool = False) -> str:
    """Format a rate and its interval in percent."""
    text = f"{100 * value:+.2f}" if signed else format_rate(value)
    return text if interval is None else f"{text} {format_interval(interval)}"


def _format_seconds(figures: Figures) -> str:
    """Format the seconds a turn without a reply cache, or a dash.

    Brackets say over how many turns, and how many turns were cut short by the deadline.
    """
    text = _format_number(figures.seconds)
    if figures.seconds is not None and 0 < figures.timed_turns < figures.turns:
        text = f"{text} ({figures.timed_turns})"
    return f"{text} ({figures.cut_short} cut short)" if figures.cut_short else text


def build_figure_rows(results: Sequence[Result]) -> list[dict[str, object]]:
    """Return a row for each result, with all figures and intervals as fractions, and its paired test."""
    rows = []
    for result in results:
        figures = result.figures
        row: dict[str, object] = {
            "label": result.variant.label,
            "task": result.task,
            "preset": result.variant.preset_name,
            "without": ", ".join(result.variant.without),
            "set": ", ".join(result.variant.settings),
            **{name: value for name, value in vars(figures).items() if name not in ("intervals", "metrics")},
            **figures.metrics,
            "failing": "; ".join(figures.failing),
        }
        for name, (low, high) in figures.intervals.items():
            row |= {f"{name}_low": low, f"{name}_high": high}
        test = asdict(result.against) if result.against is not None else {}
        ends = test.get("interval") or (None, None)
        row |= {"against": result.base, "change": test.get("change"), "change_low": ends[0], "change_high": ends[1]}
        row |= {"p": test.get("p"), "adjusted_p": test.get("adjusted_p"), "turns_of_both": test.get("turns")}
        rows.append(row)
    return rows


def shorten(text: str, longest: int | None) -> str:
    """Cut a text to a number of characters; None: no limit."""
    return text if longest is None or len(text) <= longest else text[: longest - 1] + "…"


def _format_formulas(cell: object) -> str:
    """Format a LaTeX cell, with intervals and signed numbers as formulas.

    Braces protect a first character that an end of line would take for its option.
    """
    text = _SIGNED.sub(r"$\g<0>$", _INTERVAL.sub(r"$\g<0>$", str(cell)))
    return f"{{{text[0]}}}{text[1:]}" if text[:1] in ("[", "*") else text


def _format_number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _format_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
