"""A table of the tests marked ``hostile("kind of input")``: how many were tried and held, and the longest. Loaded by ``make hostile``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import pytest


@dataclass
class Row:
    """What became of one kind of input; ``seconds`` is the longest trial's."""

    tried: int = 0
    held: int = 0
    seconds: float = 0.0


ROWS: dict[str, Row] = defaultdict(Row)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Write the kind on each test's report, which comes from another process under xdist."""
    for item in items:
        marker = item.get_closest_marker("hostile")
        if marker is not None:
            item.user_properties.append(("hostile", marker.args[0]))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count a test once: when it ran, or when it could not be set up."""
    kind = dict(report.user_properties).get("hostile")
    if not isinstance(kind, str) or report.skipped or not (report.when == "call" or report.failed):
        return
    row = ROWS[kind]
    row.tried += 1
    row.held += report.passed
    row.seconds = max(row.seconds, report.duration)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table, as Markdown."""
    terminalreporter.section("hostile input")
    terminalreporter.write_line("| kind of input | tried | held | longest, s |")
    terminalreporter.write_line("|---|---|---|---|")
    for kind, row in sorted(ROWS.items()):
        terminalreporter.write_line(f"| {kind} | {row.tried} | {row.held} | {row.seconds:.1f} |")
    num_tried, num_held = sum(row.tried for row in ROWS.values()), sum(row.held for row in ROWS.values())
    terminalreporter.write_line(
        f"| all | {num_tried} | {num_held} | {max((row.seconds for row in ROWS.values()), default=0.0):.1f} |"
    )
