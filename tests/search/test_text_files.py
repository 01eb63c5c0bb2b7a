"""Files of text that few people write, and some programs do: front matter, tags that HTML does not have, hostile nesting, bad bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.search.own_sources import read_documents
from agents.search.reading import Reading
from agents.search.text_files import read_html_file, read_markdown_file, read_text_file
from tests.property.fuzzing import fuzzed, hostile_text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("Run `crag ask <name>` for <collection>.", "Run `crag ask <name>` for <collection>."),
        (
            "| Boat | Price |\n|---|---|\n| Alma | <s>16</s> 14<br>euros | ",
            "| Boat | Price |\n|---|---|\n| Alma | 14 euros | ",
        ),
        ("It holds 10<sup>6</sup> l,\nit is **old**.", "It holds 10^6 l,\nit is **old**."),
        ("| A | B |\n|---|---|\n| 1 | 2 | 3 |", "| A | B |\n|---|---|\n| 1 | 2 | 3 |"),
        ("- one\n  <!-- two -->\n- three", "- one\n\n- three"),
        ("- one\n  - 10<sup>6</sup> l", "- one\n  - 10^6 l"),
        ("[Prices](prices.md) and ![Map](map.png)", "[Prices](prices.md) and ![Map](map.png)"),
        ("<details>\n\n## More\n\nText\n\n</details>", "## More\n\nText"),
        ("AT&amp;T &euro; 5 < 7 > 3", "AT&amp;T &euro; 5 < 7 > 3"),
        ("A\r\n===\r\n\r\nB", "# A\n\nB"),
    ],
)
def test_markdown_keeps_all_but_its_html(source: str, text: str) -> None:
    assert read_markdown_file(source.encode()).text.replace("\n\n\n", "\n\n").strip("\n") == text


def test_front_matter_gives_the_title_and_is_no_text() -> None:
    reading = read_markdown_file(b"---\ntitle: Lending\n---\n# Rules\n")
    assert (reading.title, reading.text) == ("Lending", "# Rules")


@fuzzed(60)
@given(hostile_text, st.binary(max_size=200))
def test_no_file_raises(text: str, data: bytes) -> None:
    for content in (text.encode("utf-8", "surrogatepass"), data, b"<p>" + data + b"<li><table><tr><td>" + data):
        for read in (read_html_file, read_markdown_file, read_text_file):
            assert isinstance(read(content), Reading)


@pytest.mark.parametrize(
    "unit", ["> ", "- ", "<b>", "<!--", "[", "*a ", "`", "<div>", "<ol><li>", "<table><tr><td>", "<math><msqrt>"]
)
def test_hostile_nesting_takes_bounded_time(unit: str) -> None:
    source = (unit * 3_000 + "x").encode()
    for read in (read_html_file, read_markdown_file):
        assert len(read(source).text) < 3_000_000


def test_the_record_of_each_file_is_given_to_the_caller(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<nav>Home</nav><p>It is old.</p><img src=x>")
    (tmp_path / "b.txt").write_bytes("Das Café schließt früh.".encode("cp1252"))
    (tmp_path / "c.txt").write_text("\u200b")
    readings: dict[str, Reading] = {}
    _, left_out = read_documents(tmp_path, on_reading=readings.__setitem__)
    assert left_out == [
        "b.txt: encoding: read as cp1252; save the file as UTF-8 if letters are wrong",
        "c.txt: it has no text but invisible characters: the file has no others",
    ]
    assert (readings["a.html"].words, readings["a.html"].pictures) == (3, 1)
    assert [remark.what for remark in readings["a.html"].left_out] == ["navigation"]
