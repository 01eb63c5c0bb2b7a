"""The report of turns that nobody judged: those that a server, a page or a terminal answered, by their traces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from agents.record import REQUEST_IMAGES, TurnRecord
from agents.unanswered import WORDS, explain_error, name_outcome, why_unanswered
from evaluation.files.traces import find_failing_stages
from evaluation.records import Key, RunLogLine
from evaluation.report.html_report import SessionView, TracedView, show_session, write_html
from evaluation.report.run_plots import average_stage_times

_OUTCOMES = {"answered": "answered", "declined": "declined", "error": "errors"}
"""Outcomes in the order of their keys, and their names."""

_NOT_KEPT = "(not kept)"
_NAME = re.compile(r"[0-9a-f]+")  # of a picture, by its pixels; nothing else is opened


@dataclass(frozen=True)
class ServedView(TracedView):
    """A turn as the template shows it; ``size`` is the number of turns in its call."""

    trace: TurnRecord
    size: int = 1

    note = truth = None
    judge = ""

    @property
    def verdict(self) -> str:
        """Outcome: ``answered``, ``declined`` or ``error``."""
        return name_outcome(why_unanswered(self.trace))

    @property
    def cause(self) -> str:
        """Words for why there is no answer; "" for an answered turn."""
        cause = why_unanswered(self.trace)
        return "" if cause is None else WORDS[cause]

    @property
    def query(self) -> str:
        """Question as it was asked."""
        return self.trace.query or _NOT_KEPT

    @property
    def answer(self) -> str:
        """Answer as it was given."""
        return self.trace.answer or _NOT_KEPT

    @property
    def seconds(self) -> float:
        """Seconds of its call, which whoever asked waited for."""
        return self.trace.seconds

    @property
    def error(self) -> str | None:
        """Failure of the turn; None if nothing failed."""
        return explain_error(self.trace) or self.trace.error

    @property
    def labels(self) -> list[str]:
        """Labels: why there is no answer, how sure the gate is, and the turns that shared the call."""
        sure = "" if self.trace.decision is None else self.trace.decision.sure
        shared = f"{self.size} turns in its call" if self.size > 1 else ""
        pulled = "" if self.trace.decision is None else self.trace.decision.pulled
        return [label for label in (self.cause, sure, pulled, shared) if label]


def write_served_report(path: Path, records: Sequence[TurnRecord], folder: Path, about: Mapping[str, Any]) -> Path:
    """Write the report of served turns; return ``path``.

    Args:
        path: The file.
        records: The turns, in the order in which they were asked.
        folder: Folder of the traces, which has the pictures that they name.
        about: Lines under the title, by name.
    """
    calls = Counter(map(_name_call, records))
    views = [ServedView(record, calls[_name_call(record)]) for record in records]
    seconds = [record.seconds for record in {_name_call(record): record for record in records}.values()]
    times, costs = _pair_with_costs(views)
    causes = Counter(view.cause for view in views if view.cause)
    values = {"outcome": list(_OUTCOMES), "cause": sorted(causes)}
    return write_html(
        path,
        "served.html.j2",
        title="Served turns",
        made={name: value for name, value in {**about, "models": _list_models(records)}.items() if value},
        about={},
        parts=[("turns", [_show_dialog(dialog, folder) for dialog in _group_dialogs(views)])],
        outcomes={name: sum(view.verdict == name for view in views) for name in _OUTCOMES},
        causes=dict(causes.most_common()),
        median=float(np.median(seconds)),
        slow=float(np.quantile(seconds, 0.95)),
        failing=find_failing_stages(records),
        times=average_stage_times(times, costs),
        filters={name: choices for name, choices in values.items() if choices},
        filter_values=lambda view: {"outcome": view.verdict, "cause": view.cause},
        main_filter="outcome",
        chosen=_OUTCOMES,
        words={},
        no_photo="no photo kept",
        total=len(views),
    )


def _name_call(record: TurnRecord) -> tuple[float, int]:
    """Return a key for the turns of one call; the number alone is not unique, because servers count from their start."""
    return record.began, record.batch


def _pair_with_costs(views: Sequence[ServedView]) -> tuple[dict[Key, TurnRecord], dict[Key, RunLogLine]]:
    """Return records and costs of the turns by keys of their own, because served turns have no ids."""
    records, costs = {}, {}
    for number, view in enumerate(views):
        key = str(number), ""
        share = max(0.0, view.seconds) / view.size
        records[key] = view.trace
        costs[key] = RunLogLine(
            *key, view.trace.batch, view.trace.turn, view.size, share, max(0.0, view.seconds), None, None
        )
    return records, costs


def _list_models(records: Sequence[TurnRecord]) -> str:
    names = [exchange.model for record in records for exchange in record.exchanges]
    return ", ".join(dict.fromkeys(filter(None, names)))


def _group_dialogs(views: Sequence[ServedView]) -> list[list[ServedView]]:
    """Group the turns of an evaluation by session; every other turn is a dialog of its own."""
    dialogs: dict[str, list[ServedView]] = {}
    for number, view in enumerate(views):
        dialogs.setdefault(view.trace.session_id or f"#{number}", []).append(view)
    return list(dialogs.values())


def _show_dialog(dialog: Sequence[ServedView], folder: Path) -> SessionView:
    first = dialog[0].trace
    name = " · ".join(filter(None, (first.session_id, format_time(first.began), f"call {first.batch}")))
    return show_session(name, _open_photo(first, folder), dialog)


def format_time(began: float) -> str:
    """Format a Unix time; "" for 0 and for an impossible time."""
    try:
        return f"{datetime.fromtimestamp(began, UTC):%Y-%m-%d %H:%M:%S} UTC" if began else ""
    except (OverflowError, ValueError, OSError):  # no time of a clock
        return ""


def _open_photo(record: TurnRecord, folder: Path) -> Image.Image | None:
    if record.photo is None or _NAME.fullmatch(record.photo) is None:
        return None
    path = folder / REQUEST_IMAGES / f"{record.photo}.png"
    if not path.is_file():
        return None
    with Image.open(path) as photo:
        return photo.convert("RGB")
