"""Printed text becomes rows and entries."""

import pytest

from agents.models.base import Box, TextLine
from agents.texts.printed import entry, rows


def line(text: str, left: float, top: float, right: float, bottom: float) -> TextLine:
    return TextLine(text, Box(left, top, right, bottom), 0.9)


def test_pieces_side_by_side_make_a_row() -> None:
    lines = [
        line("4.80", 200, 52, 260, 78),
        line("RECEIPT", 60, 0, 200, 30),
        line("TOTAL", 20, 50, 120, 80),
        line("thanks", 20, 100, 120, 120),
    ]
    assert rows(lines) == ["RECEIPT", "TOTAL 4.80", "thanks"]


@pytest.mark.parametrize(
    ("row", "pair"),
    [
        ("TOTAL 4.80", ("total", "4.80")),
        ("Adults: 14.50 EUR", ("adults", "14.50 EUR")),
        ("SAT 10:00-14:00", ("sat", "10:00-14:00")),
        ("PRIDE AND PREJUDICE", None),
        ("Net weight 85 g", ("net weight", "85 g")),
        ("", None),
    ],
)
def test_entries(row: str, pair: tuple[str, str] | None) -> None:
    assert entry(row) == pair
