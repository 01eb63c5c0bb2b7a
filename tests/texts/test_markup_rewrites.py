"""Powers, footnote marks and tables of a page mean the same in plain text as on the page."""

from __future__ import annotations

import pytest

from agents.search.pages.page_text import main_content, read_page
from agents.search.retrieved import safe_text
from agents.texts.text import visible_text

SENTENCE = "<p>The pool was built for the whole town, and its swimmers come in every weather, says the keeper of the baths.</p>"
NOTE = "<ol><li><sup>3</sup>Archive of the town</li></ol>"


def read(markup: str) -> list[str]:
    """Return the lines of a page's main content that come from a piece of its markup."""
    page = f"<html><body><article>{SENTENCE * 2}{markup}{SENTENCE * 2}</article></body></html>"
    return [line for line in main_content(page).splitlines() if line and not line.startswith("The pool")]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("It holds 10<sup>6</sup> litres.", "It holds 10^6 litres."),
        ("It is 10<sup>-6</sup> m, 10<sup>−6</sup> m, 2<sup>10</sup> bytes.", "It is 10^-6 m, 10^−6 m, 2^10 bytes."),
        ("It weighs 1.99x<b>10</b><sup>30</sup> kg.", "It weighs 1.99x10^30 kg."),
        ("It holds 10<span style='vertical-align: super'>6</span> litres.", "It holds 10^6 litres."),
        ("It holds <math><msup><mn>10</mn><mn>6</mn></msup></math> litres.", "It holds 10^6 litres."),
        ("It is 3<sup>1</sup>/<sub>2</sub> m long.", "It is 3 1/2 m long."),
        ("It is <sup>1</sup>/<sub>2</sub> m long.", "It is 1/2 m long."),
        ("It was the 1<sup>st</sup> bath of 5 km<sup>2</sup>.", "It was the 1st bath of 5 km2."),
        ("H<sub>2</sub>O, the <sup>14</sup>C method, 101<sub>2</sub>", "H2O, the 14C method, 101_2"),
        ("Built in 1862<sup><a href='#n3'>3</a></sup> by Per.<sup><a href='#n4'>4</a></sup>", "Built in 1862 by Per."),
        ("Built in 1862<a href='#n3'><sup>3</sup></a> by Per.", "Built in 1862 by Per."),
        ("Built in 1862<sup class='reference'>[3]</sup> by Per.", "Built in 1862 by Per."),
        ("Built in 1862<a href='#n3'>[3]</a> by Per.<a href='#n4'>[4]</a>", "Built in 1862 by Per."),
        ("Built by Per.<sup>3</sup>", "Built by Per."),
        ("The pond is 30 feet<sup>2</sup>.", "The pond is 30 feet^2."),
    ],
)
def test_a_figure_never_melts_into_the_one_before(markup: str, text: str) -> None:

    assert read(f"<p>{markup}</p>") == [text]
    assert visible_text(f"<p>{markup}</p>").strip() == text
    assert safe_text(f"<p>{markup}</p>").strip() == text


def test_marks_of_the_notes_on_a_page_are_no_powers() -> None:
    page = (
        "<p>Built in 1862<sup>3</sup> by Anders<sup>3</sup>, with 10<sup>3</sup> stones on 3 km<sup>3</sup>.</p>" + NOTE
    )
    assert read(page) == ["Built in 1862 by Anders, with 10^3 stones on 3 km3.", "- 3 Archive of the town"]


TICKETS = (
    "<table><tr><th>Place</th><th>Visitor</th><th>Price</th></tr>"
    "<tr><td rowspan='2'>Museum</td><td>Adult</td><td>9 euros</td></tr><tr><td>Child</td><td>5 euros</td></tr>{}</table>"
)


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ("", []),
        ("<tr><td>Tower</td><td colspan=2>closed</td></tr>", ["| Tower | closed | closed |"]),
        ("<tr><td>Mill</td><td>a|b <b>c|</b> |</td><td>2</td></tr>", ["| Mill | a/b c/ / | 2 |"]),
        ("<tr><td colspan=3>Winter</td></tr>", ["| Winter |  |  |"]),
        ("<tr><td>Mill</td><td></td><td>2</td></tr><tr><td><img src=a.png></td><td>&nbsp;</td><td>3</td></tr>",
         ["| Mill | – | 2 |", "| – | – | 3 |"]),
        ("<tr><td rowspan=0>Mill</td><td>Adult</td><td>2</td></tr><tr><td>Child</td><td>1</td></tr>",
         ["| Mill | Adult | 2 |", "| Mill | Child | 1 |"]),
        ("<tr><td>Boat</td><td><ul><li>Adult</li><li>Child</li></ul></td><td><p>4</p><p>euros</p></td></tr>",
         ["| Boat | Adult; Child | 4 euros |"]),
        ("<tr><td>Boat</td><td>Old<br>people</td><td><table><tr><td>4</td><td>5</td></tr></table></td></tr>",
         ["| Boat | Old people | 4 5 |"]),
    ],
)  # fmt: skip
def test_each_value_stays_in_its_row_and_column(rows: str, lines: list[str]) -> None:
    museum = ["| Museum | Adult | 9 euros |", "| Museum | Child | 5 euros |"]
    assert read(TICKETS.format(rows)) == ["| Place | Visitor | Price |", "|---|---|---|", *museum, *lines]


def test_a_short_page_keeps_the_rows_of_its_table() -> None:
    text = main_content(f"<html><body>{TICKETS.format('')}</body></html>")
    assert [line for line in text.splitlines() if line] == [
        "| Place | Visitor | Price |",
        "|---|---|---|",
        "| Museum | Adult | 9 euros |",
        "| Museum | Child | 5 euros |",
    ]


def test_a_header_of_two_rows_becomes_one() -> None:
    header = "<tr><th rowspan=2>Place</th><th colspan=2>Price</th></tr><tr><th>Adult</th><th>Child</th></tr>"
    rows = read(f"<table>{header}<tr><td>Tower</td><td>9</td><td>5</td></tr></table>")
    assert rows == ["| Place | Price Adult | Price Child |", "|---|---|---|", "| Tower | 9 | 5 |"]


@pytest.mark.parametrize(
    "page",
    [
        "<sup>" * 20_000 + "1",
        "<p>" + "10<sup>6</sup>" * 20_000,
        ("<i>" * 1_500 + "1<sup>2</sup>" + "</i>" * 1_500) * 20,
        "<table><tr><td>a<td>b<tr><td>c<td>" * 5_000,
        "<table>" + ("<tr>" + "<td colspan=1000 rowspan=1000>x" * 5) * 500,
        "<math>" * 20_000 + "<msup>1 2",
        ("<a " + "#" * 2_000) * 2_000,
    ],
    ids=["nested", "many", "deep", "tables", "spans", "formulas", "links"],
)
def test_hostile_markup_grows_by_a_bounded_number_of_cells(page: str) -> None:
    assert len(read_page(page).text) < len(page) * 3 + 50_000 * len("| x ") * 2


def test_control_characters_stop_no_rewrite() -> None:
    cell = "<td>a\x08<p>b\x0c|</p>\x08</td>"
    rows = f"<tr><th rowspan=2>P\x08</th><th>Q\x0b</th></tr><tr><th>R\x08</th></tr><tr>{cell}{cell}</tr>"
    page = f"<math>\x081</math>\x08 10<sup>\x086</sup>\x08<table>{rows}</table>"
    assert "10^6" in "".join(character for character in visible_text(page) if character.isprintable())
    assert "| a b / | a b / |" in read_page(page).text
