"""Print the table of the strong model's answers: python -m lab.strong_model."""

from __future__ import annotations

import sys

from evaluation.commands import make_console
from lab.benchmarks.common import build_table
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
    answers, console = read_answers(), make_console()
    title = "A large multimodal model, its replies written by hand"
    console.print(build_table(title, _COLUMNS, build_rows(answers), left_columns=2))
    title = "Answers of best by what they come from, by eye"
    rows = build_origin_rows([each for each in answers if each.preset == "best"])
    console.print(build_table(title, ("answer from", "right", "wrong"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
