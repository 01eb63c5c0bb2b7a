"""``crag report FILE``: the report of what ``--trace FILE`` recorded."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field
from rich.console import Console

from agents.base.command_options import Flag, Options
from agents.base.files import one_line
from agents.record import RecordError, TurnRecord, read_record
from evaluation.commands import make_console, run_to_exit_status
from evaluation.records import EvaluationError
from evaluation.report.served_report import format_time, write_served_report


class ReportOptions(Options):
    """Write a report of served turns, by their traces."""

    traces: Annotated[tuple[Path, ...], Flag(positional=True, metavar="FILE")] = Field(
        description="files written by --trace, the oldest first if it was rotated; a server may still write to the last"
    )
    out: Annotated[Path | None, Flag(metavar="FILE")] = Field(
        None, description="the report; not given: the last trace with .html in place of its suffix"
    )
    last: Annotated[int, Flag(metavar="N")] = Field(1_000, ge=1, description="show the latest N turns")


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Write the report and print its path; return the exit status."""
    options = ReportOptions.parse(arguments)
    console = console or make_console()
    return run_to_exit_status(lambda: _write(options, console), console)


def _write(options: ReportOptions, console: Console) -> None:
    lines, total = read_lines(options.traces, options.last)
    records, faults = parse_lines(lines)
    last = options.traces[-1]
    if not records:
        reason = f"no line can be read; of the first: {faults[0]}" if faults else "it has no turn yet"
        raise EvaluationError(f"{last} has nothing to show: {reason}")
    if faults:
        console.print(
            f"{len(faults)} lines are left out; of the first: {one_line(faults[0])}",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )
    about = {
        "trace": ", ".join(path.name for path in options.traces),
        "from": format_time(records[0].began),
        "to": format_time(records[-1].began),
        "turns": f"{len(records)} of {total}" if len(lines) < total else "",
    }
    path = options.out or last.with_suffix(".html")
    if path.exists() and any(path.samefile(trace) for trace in options.traces):
        raise EvaluationError(f"the report would replace the trace {path}: name another file with --out")
    write_served_report(path, records, last.parent, about)
    console.print(f"report: {path}", markup=False, soft_wrap=True)


def read_lines(paths: Sequence[Path], last: int) -> tuple[list[bytes], int]:
    """Read the latest lines of traces, and count all of them.

    Raises:
        EvaluationError: There is no such file.
    """
    lines: deque[bytes] = deque(maxlen=last)
    total = 0
    for path in paths:
        if path.is_dir():
            raise EvaluationError(f"{path} is a folder: name the file that --trace wrote, such as {path}/trace.jsonl")
        if not path.is_file():
            raise EvaluationError(f"there is no file {path}; crag serve --trace FILE writes one with its first answer")
        with path.open("rb") as file:
            for line in file:
                if line.strip():
                    lines.append(line)
                    total += 1
    return list(lines), total


def parse_lines(lines: Sequence[bytes]) -> tuple[list[TurnRecord], list[str]]:
    """Parse lines of traces, in the order in which they were asked.

    Returns:
        The records, and the fault of each unreadable line. A last line without its end is still being written: it is neither.
    """
    records, faults = [], []
    for place, line in enumerate(lines):
        try:
            records.append(read_record(line.decode("utf-8", errors="replace")))
        except RecordError as error:
            if place < len(lines) - 1 or line.endswith(b"\n"):
                faults.append(str(error))
    return sorted(records, key=lambda record: record.began), faults


if __name__ == "__main__":
    sys.exit(main())
