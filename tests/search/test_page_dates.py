"""The date that a document states for itself."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from agents.search.own_sources import read_documents
from agents.search.page_dates import find_date

CORE = (
    '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
    'xmlns:dcterms="http://purl.org/dc/terms/"><dcterms:created>2013-12-23T23:15:00Z</dcterms:created>'
    "<dcterms:modified>{}</dcterms:modified></cp:coreProperties>"
)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.md", "---\ndate: 2026-04-01\n---\nFree.", "2026-04-01"),
        ("a.md", "---\ndate: 2025-01-01\nupdated: 2026-04-01 10:00:00\n---\nFree.", "2026-04-01"),
        ("a.md", "---\ndate: in spring\n---\nFree.", ""),
        ("a.md", "---\n: [\n---\nOpened on 2020-01-01.", ""),
        ("a.html", '<html><head><meta name="date" content="2026-04-01"></head><p>Free.</p></html>', "2026-04-01"),
        ("a.html", "<html><p>Free.</p></html>", ""),
        ("a.txt", "date: 2026-04-01", ""),
        ("a.docx", "no archive", ""),
    ],
)
def test_the_date_is_what_the_document_states(tmp_path: Path, name: str, text: str, found: str) -> None:
    (tmp_path / name).write_text(text)
    assert find_date(tmp_path / name) == found


@pytest.mark.parametrize(
    ("modified", "found"),
    [("2026-04-01T08:00:00Z", "2026-04-01"), ("2013-12-23T23:15:00Z", ""), ("soon", ""), ("", "")],
)
def test_a_word_document_has_the_date_on_which_somebody_saved_it(tmp_path: Path, modified: str, found: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.docx", "w") as archive:
        archive.writestr("docProps/core.xml", CORE.format(modified))
    assert find_date(tmp_path / "a.docx") == found


def test_the_date_is_beside_the_title(tmp_path: Path) -> None:
    """Of an old and a new list of prices the old one was read."""
    (tmp_path / "old.md").write_text("---\ntitle: Prices\ndate: 2023-04-01\n---\nA ticket costs 8 euros.")
    (tmp_path / "new.md").write_text("# Prices 2026\nA ticket costs 9 euros.")
    chunks, _ = read_documents(tmp_path)
    assert [chunk.page_name for chunk in chunks] == ["Prices 2026", "Prices (2023-04-01)"]
