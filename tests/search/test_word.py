"""Documents of Word are read as people see them, and everything that is not read is named."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from agents.search.documents.errors import UnreadableError
from agents.search.documents.word import read_word
from agents.search.documents.word_numbers import to_letters, to_roman
from tests.support.office_documents import paragraph, write_word
from tests.support.word_cases import WORD_CASES


@pytest.mark.parametrize("name", WORD_CASES)
def test_a_document_is_read_as_a_person_reads_it(tmp_path: Path, name: str) -> None:
    case = WORD_CASES[name]
    write_word(tmp_path / "a.docx", case.body, case.parts)
    reading = read_word(tmp_path / "a.docx")
    assert [line for line in reading.text.splitlines() if line] == case.shown.splitlines()
    assert tuple(remark.what for remark in reading.left_out) == case.left_out


def test_a_strict_document_is_read(tmp_path: Path) -> None:
    """ISO's strict form of the format has other namespaces."""
    write_word(tmp_path / "a.docx", paragraph("Prices", "Heading1") + paragraph("Adults pay 9 euros."))
    with zipfile.ZipFile(tmp_path / "a.docx") as loose, zipfile.ZipFile(tmp_path / "b.docx", "w") as strict:
        for name in loose.namelist():
            data = loose.read(name).replace(
                b"http://schemas.openxmlformats.org/wordprocessingml/2006/main",
                b"http://purl.oclc.org/ooxml/wordprocessingml/main",
            )
            strict.writestr(name, data)
    reading = read_word(tmp_path / "b.docx")
    assert (reading.title, reading.text) == ("Prices", "# Prices\n\nAdults pay 9 euros.")


@pytest.mark.parametrize("part", ["word/document.xml", "word/styles.xml", "_rels/.rels"])
@pytest.mark.parametrize("keep", [0, 100])
def test_a_broken_part_is_a_clear_error(tmp_path: Path, part: str, keep: int) -> None:
    write_word(tmp_path / "a.docx", paragraph("Adults pay 9 euros."), {"styles": "<w:style/>"})
    with zipfile.ZipFile(tmp_path / "a.docx") as good, zipfile.ZipFile(tmp_path / "b.docx", "w") as bad:
        for name in good.namelist():
            bad.writestr(name, good.read(name)[:keep] if name == part else good.read(name))
    with pytest.raises(UnreadableError, match=f"its part {part} is broken"):
        read_word(tmp_path / "b.docx")


def test_boxes_in_boxes_end(tmp_path: Path) -> None:
    box = paragraph("It has 96 steps.")
    for _ in range(200):
        box = f"<w:tbl><w:tr><w:tc>{box}</w:tc></w:tr></w:tbl>"
    write_word(tmp_path / "a.docx", paragraph("The lighthouse.") + box)
    assert read_word(tmp_path / "a.docx").text.startswith("The lighthouse.")


def test_numbers_in_letters() -> None:
    assert [to_letters(number) for number in (1, 26, 27, 53)] == ["a", "z", "aa", "aaa"]
    assert [to_roman(number) for number in (1, 4, 9, 14, 40, 1990, 2026)] == "i iv ix xiv xl mcmxc mmxxvi".split()
