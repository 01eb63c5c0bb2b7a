"""Each case of ``tests/pages/reading_cases.toml`` is read as a person would write it, and the reader names what it left out or guessed."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agents.search.pages.page_text import main_content
from agents.search.text_files import read_html_file, read_markdown_file, read_text_file

CASES: list[dict[str, Any]] = tomllib.loads(
    (Path(__file__).parents[1] / "pages" / "reading_cases.toml").read_text(encoding="utf-8")
)["case"]
READERS = {"html": read_html_file, "md": read_markdown_file, "txt": read_text_file}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_document_is_read_whole(case: dict[str, Any]) -> None:
    reading = READERS[case["format"]](case["input"].strip("\n").encode(case.get("encoding", "utf-8")))
    assert reading.text == case["text"].strip("\n")
    assert reading.title == case.get("title", "")
    assert [remark.what for remark in reading.left_out] == case.get("left_out", [])
    assert [remark.what for remark in reading.guessed] == case.get("guessed", [])


FILLER = "".join(f"<p>{'Paragraphus longus de nulla re magna, ' * 4} numero n{number}.</p>" for number in range(6))
SMALL = [
    case
    for case in CASES[: [case["name"] for case in CASES].index("levels of headings")]
    if "<form" not in case["input"] and "<img" not in case["input"]  # which are no main content
]
"""Cases of small elements, forms and formulas, which a page that a search found may have anywhere."""


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\[[ x]\]|[\w.,^/()=+]+", text))


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case["name"])
def test_the_main_content_of_a_found_page_loses_no_small_element(case: dict[str, Any]) -> None:
    lines = main_content(f"<html><body><article>{FILLER}{case['input']}</article></body></html>").splitlines()
    read = "\n".join(line for line in lines if "Paragraphus" not in line)
    assert _words(read) == _words(case["text"])
