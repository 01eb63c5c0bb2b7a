"""The handbook reads as its field writes: rates of six habits, no commit hashes, and every page is in the README's list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agents.profiles.profile import ROOT
from agents.stages.__main__ import PAGE as STAGES

HANDBOOK = sorted(set((ROOT / "docs").glob("*.md")) - {STAGES})
"""The pages of docs/ that people write; the table of stages is generated."""
NOTES = sorted((ROOT / "lab" / "notes").glob("*.md"))
PAGES = [*HANDBOOK, ROOT / "README.md"]

MARKERS = {
    "what is, what it": (re.compile(r"\b[Ww]hat (?:is|are|it|they|a|an|the|was|has|does)\b"), 0.7),
    "stands, lies, holds": (re.compile(r"\b(?:stands?|lies|lie|holds?)\b"), 0.3),
    "alone, by itself": (re.compile(r"\b(?:alone|by itself|by themselves)\b"), 0.2),
    "told, tells, says": (re.compile(r"\b(?:told|tells?|says|said)\b"), 0.6),
    "a turn, a call for per": (
        re.compile(r"\b(?:once|times|seconds?|s|ms|tokens?|calls?|chunks?) an? (?:turn|call|page|question|dialog)\b"),
        0.3,
    ),
    "else": (re.compile(r"\belse\b"), 0.3),
}
"""Habits that make an engineer read a sentence twice, with the highest rate per 1,000 words over all pages.

Five peers (inspect_ai, paper-qa, smolagents, lm-evaluation-harness, dspy) have 0 to 0.7 of each. A limit may only be lowered.
"""

_WORD = re.compile(r"\S*\w\S*")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE_BLOCK = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_CODE_SPAN = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
_LINK = re.compile(r"!?\[([^]]*)\]\([^)]*\)")
_HASH = re.compile(r"(?<![\w./-])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}(?![\w./-])")


def read_prose(page: Path) -> str:
    """Return the text of a page without code blocks, code spans and addresses of links."""
    text = _CODE_BLOCK.sub(" ", _COMMENT.sub("", page.read_text(encoding="utf-8")))
    return _CODE_SPAN.sub(" ", _LINK.sub(r"\1", text))


def name_page(page: Path) -> str:
    """Return a page's path from the root, as the name of its test."""
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("marker", MARKERS)
def test_habits_that_readers_stumble_over_get_no_more_frequent(marker: str) -> None:
    pattern, limit = MARKERS[marker]
    prose = "\n".join(map(read_prose, PAGES))
    rate = 1000 * len(pattern.findall(prose)) / len(_WORD.findall(prose))
    assert rate <= limit, f"{rate:.2f} per 1,000 words: say who does what to what, and why"


@pytest.mark.parametrize("page", HANDBOOK, ids=name_page)
def test_no_commit_is_named(page: Path) -> None:
    assert not _HASH.findall(page.read_text(encoding="utf-8")), "figures of one commit belong to lab/notes"


def test_hashes_are_seen() -> None:
    assert _HASH.findall("at 80fd33c0, commit `4618a132`; not 1000000, facade, 2.8.0 or file-80fd33c0.txt") == [
        "80fd33c0",
        "4618a132",
    ]


def test_the_readme_lists_every_page_and_every_note() -> None:
    """The list is under "Documentation"; the notes may be listed by their own README."""
    listed = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Documentation")[2]
    missing = [page.name for page in [*HANDBOOK, STAGES] if f"](docs/{page.name})" not in listed]
    assert not missing
    notes = (ROOT / "lab" / "notes" / "README.md").read_text(encoding="utf-8")
    assert "](lab/notes/README.md)" in listed
    assert not [note.name for note in NOTES if note.name != "README.md" and f"]({note.name})" not in notes]


def test_the_change_log_is_one_sentence_a_change() -> None:
    """Readers look for their own fault: a list of phrases, or a paragraph a change, hides it."""
    section = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("\n## ")[2].partition("\n## ")[0]
    lines = section.splitlines()
    assert [line for line in lines if len(line) > 200 or not re.match(r"- [^:]+: |### |\[|$", line)] == []
