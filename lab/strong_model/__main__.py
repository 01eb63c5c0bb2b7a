"""Print the table of the strong model's answers: python -m lab.strong_model."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from lab.strong_model.answers import build_origin_rows, build_rows, read_answers

_COLUMNS = (
    "questions",
    "preset",
    "turns (answerable)",
    "by eye: right, missing, wrong",
    "by the rule judge",
    "calls a turn",
)


def main() -> int:
    """Print both tables."""
    answers, console = read_answers(), Console()
    table = Table(title="A large multimodal model, its replies written by hand", title_justify="left")
    for name in _COLUMNS:
        table.add_column(name)
    for row in build_rows(answers):
        table.add_row(*row)
    console.print(table)
    origins = Table(title="Answers of best by what they come from, by eye", title_justify="left")
    for name in ("answer from", "right", "wrong"):
        origins.add_column(name)
    for row in build_origin_rows([each for each in answers if each.preset == "best"]):
        origins.add_row(*row)
    console.print(origins)
    return 0


if __name__ == "__main__":
    sys.exit(main())
