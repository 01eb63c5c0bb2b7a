"""The handbook stays short: words a page and in all, words a sentence, no commit hashes, and every page is in the README's list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agents.profiles.profile import ROOT
from agents.stages.__main__ import PAGE as STAGES

HANDBOOK = sorted(set((ROOT / "docs").glob("*.md")) - {STAGES})
"""The pages of docs/ that people write; the table of stages is generated."""
NOTES = sorted((ROOT / "lab" / "notes").glob("*.md"))
MAX_WORDS = {
    **dict.fromkeys(HANDBOOK, 1_200),
    ROOT / "README.md": 1_300,
    ROOT / "CONTRIBUTING.md": 1_200,
    ROOT / "SECURITY.md": 1_200,
    ROOT / "examples" / "README.md": 1_200,
    ROOT / "mini_crag_mm" / "README.md": 1_700,
}
MAX_HANDBOOK_WORDS = 16_000
MAX_SENTENCE_WORDS = 25

_WORD = re.compile(r"\S*\w\S*")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE_BLOCK = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_CODE_SPAN = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
_LINK = re.compile(r"!?\[([^]]*)\]\([^)]*\)")
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
_ITEM = re.compile(r"^\s*(?:[-*>]|\d+\.) +", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?:])[*\")]*\s+")
_HASH = re.compile(r"(?<![\w./-])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}(?![\w./-])")


def count_words(text: str) -> int:
    """Count the words of a page, code and table cells included; a bar between cells is no word."""
    return len(_WORD.findall(_COMMENT.sub("", text)))


def split_sentences(text: str) -> list[str]:
    """Split prose into sentences: items of lists and cells of tables by themselves, a code span as one word, code blocks left out."""
    text = _CODE_BLOCK.sub("\n\n", _COMMENT.sub("", text))
    text = _CODE_SPAN.sub("code", _LINK.sub(r"\1", text))
    text = re.sub(r"^\|.*$", lambda row: row[0].replace("|", "\n\n"), text, flags=re.MULTILINE)
    text = _ITEM.sub("\n\n", _HEADING.sub(r"\n\n\1\n\n", text))
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    return [sentence for paragraph in paragraphs for sentence in _SENTENCE_END.split(paragraph) if sentence]


def name_page(page: Path) -> str:
    """Return a page's path from the root, as the name of its test."""
    return str(page.relative_to(ROOT))


def test_words_are_counted_without_markup() -> None:
    assert count_words("| a | `b c` |\n|---|---:|\n<!-- no words -->\nTwo words - here.\n") == 6
    text = "# Head\nOne `a b c` [two words](x.md#y). Three:\n- item\n- other\n  line\n\n| cell one | cell two |\n```\nno sentence\n```\n"
    assert split_sentences(text) == [
        "Head",
        "One code two words.",
        "Three:",
        "item",
        "other line",
        "cell one",
        "cell two",
    ]


@pytest.mark.parametrize("page", MAX_WORDS, ids=name_page)
def test_pages_are_short(page: Path) -> None:
    words = count_words(page.read_text(encoding="utf-8"))
    assert words <= MAX_WORDS[page], f"{words} words; move what is a measurement to lab/notes"


def test_the_handbook_is_short() -> None:
    words = {page.name: count_words(page.read_text(encoding="utf-8")) for page in HANDBOOK}
    assert sum(words.values()) <= MAX_HANDBOOK_WORDS, words


@pytest.mark.parametrize("page", [*HANDBOOK, ROOT / "README.md"], ids=name_page)
def test_sentences_are_short(page: Path) -> None:
    sentences = split_sentences(page.read_text(encoding="utf-8"))
    assert not [sentence for sentence in sentences if count_words(sentence) > MAX_SENTENCE_WORDS]


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
    assert len(lines) <= 70
    assert [line for line in lines if len(line) > 200 or not re.match(r"- [^:]+: |### |\[|$", line)] == []
