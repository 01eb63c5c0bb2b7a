"""Documents of strangers that are made to take their parsers any time or memory: each costs itself, in bounded time, and is named."""

from __future__ import annotations

import json
import os
import re
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.search import document_process
from agents.search.document_process import UnreadableError, read_workbook_apart
from agents.search.index_sources import SourceError
from agents.search.own_sources import read_documents, read_table
from agents.time_limits.subprocess_worker import SubprocessWorker
from tests.support.office_documents import paragraph, write_sheets, write_word
from tests.support.pdf_files import make_pdf, show
from tests.support.process_functions import dying

HOSTILE = "documents made to take long: 5 MB of Word in 8 KB, merged cells, a PDF that unpacks without end"
TOO_LONG = r"it takes more than \d+ s to read"
TEXT = "The mill was built in 1862."


@pytest.fixture
def short_limit(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit a file to some times what a small one takes in a new process; the hostile ones take a minute and more."""
    path = tmp_path_factory.mktemp("first") / "a.pdf"
    path.write_bytes(make_pdf(show(60, 100, TEXT)))
    began = time.monotonic()
    SubprocessWorker().run("agents.search.document_process:read_bytes", json.dumps(["pdf", str(path)]).encode(), 60.0)
    monkeypatch.setattr(document_process, "SECONDS", 0.5 + 3 * (time.monotonic() - began))


def write_merged(path: Path, *ranges: str) -> None:
    """Write a workbook with merged cells, as openpyxl would not."""
    workbook = write_sheets(path, Sheet=[["a"]])
    workbook["Sheet"]["ALL1000"] = "b"
    workbook.save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    [sheet] = [name for name in parts if name.startswith("xl/worksheets/")]
    cells = "".join(f'<mergeCell ref="{each}"/>' for each in ranges)
    parts[sheet] = parts[sheet].replace(b"</sheetData>", f"</sheetData><mergeCells>{cells}</mergeCells>".encode())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def empty_paragraphs(path: Path) -> None:
    """5 MB of them: mammoth takes 56 s and 831 MB."""
    write_word(path, "<w:p/>" * 830_000)


def test_a_merged_range_beyond_the_cells_with_content_takes_no_time(tmp_path: Path) -> None:
    write_merged(tmp_path / "a.xlsx", "A2:XFD1048576")
    assert len(read_workbook_apart(tmp_path / "a.xlsx")) == 2


def overlapping_ranges(path: Path) -> None:
    """Each has a million cells, as many as the sheet."""
    write_merged(path, *(f"A1:ALL{1_000 + number}" for number in range(1_500)))


SLOW = [
    ("slow.docx", empty_paragraphs),
    ("slow.xlsx", overlapping_ranges),
]


@pytest.mark.hostile(HOSTILE)
@pytest.mark.usefixtures("short_limit")
@pytest.mark.parametrize(("name", "write"), SLOW, ids=["paragraphs", "ranges"])
def test_a_document_that_takes_long_is_named_and_the_others_are_read(
    tmp_path: Path, name: str, write: Callable[[Path], None]
) -> None:
    write(tmp_path / name)
    assert (tmp_path / name).stat().st_size < 20_000
    (tmp_path / "after.pdf").write_bytes(make_pdf(show(60, 100, TEXT)))
    (tmp_path / "tail.txt").write_text(TEXT)
    (tmp_path / "zz.pdf").write_bytes(make_pdf(show(60, 100, TEXT)))
    rows, left_out = read_documents(tmp_path)
    assert [row.page_url for row in rows] == ["after.pdf#page=1", "tail.txt", "zz.pdf#page=1"]
    (problem,) = left_out
    assert re.fullmatch(rf"{name}: {TOO_LONG}; divide it", problem)


@pytest.mark.hostile(HOSTILE)
@pytest.mark.usefixtures("short_limit")
def test_a_table_of_photos_that_takes_long_is_an_error(tmp_path: Path) -> None:
    overlapping_ranges(tmp_path / "photos.xlsx")
    with pytest.raises(SourceError, match=rf"cannot read .*photos\.xlsx: {TOO_LONG}"):
        read_table(tmp_path / "photos.xlsx", tmp_path)


@pytest.mark.hostile(HOSTILE)
def test_a_page_of_a_pdf_that_unpacks_without_end_is_named(tmp_path: Path) -> None:
    """3 GB of blanks: each block of the stream stands alone, so that one is packed and repeated."""
    packer = zlib.compressobj(9)
    head = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b" " * 2**20) + packer.flush(zlib.Z_FULL_FLUSH)
    stream = (head + block * 3_000).decode("latin-1")
    data = make_pdf(stream, show(60, 100, TEXT)).replace(
        f"/Length {len(stream)}".encode(), f"/Length {len(stream)} /Filter /FlateDecode".encode(), 1
    )
    (tmp_path / "bomb.pdf").write_bytes(data)
    (tmp_path / "zz.pdf").write_bytes(make_pdf(show(60, 100, TEXT)))
    rows, left_out = read_documents(tmp_path)
    assert [row.page_url for row in rows] == ["bomb.pdf#page=2", "zz.pdf#page=1"]
    assert left_out == ["bomb.pdf: page 1: not read: it takes too much memory"]


@pytest.mark.hostile(HOSTILE)
def test_a_sheet_of_one_long_text_in_all_cells_is_named(tmp_path: Path) -> None:
    workbook = write_sheets(tmp_path / "a.xlsx", Sheet=[["x" * 30_000]])
    workbook["Sheet"].merge_cells("A1:J5000")
    workbook["Sheet"]["J5001"] = "end"
    workbook.save(tmp_path / "a.xlsx")
    with pytest.raises(UnreadableError, match="bytes of text, at most 100,000,000 are read; divide it"):
        read_workbook_apart(tmp_path / "a.xlsx")


def test_one_process_reads_all_documents(tmp_path: Path) -> None:
    write_word(tmp_path / "a.docx", paragraph(TEXT))
    write_sheets(tmp_path / "b.xlsx", Sheet=[["a"]])
    read_documents(tmp_path)
    worker = document_process.get_worker()
    first = worker.run("tests.support.process_functions:process", b"", 60.0)
    read_documents(tmp_path)
    assert worker.run("tests.support.process_functions:process", b"", 60.0) == first != str(os.getpid()).encode()


def test_a_process_that_ends_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dying(SubprocessWorker):
        def run(self, function: str, data: bytes, seconds: float) -> bytes:
            del function
            return super().run(f"{dying.__module__}:{dying.__name__}", data, seconds)

    monkeypatch.setattr(document_process, "get_worker", Dying)
    write_word(tmp_path / "a.docx", paragraph(TEXT))
    (tmp_path / "b.txt").write_text(TEXT)
    rows, left_out = read_documents(tmp_path)
    assert len(rows) == 1 and left_out == ["a.docx: the process that reads it failed: the process ended"]
