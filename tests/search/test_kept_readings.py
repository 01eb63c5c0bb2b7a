"""``crag index`` reads the files that changed; of the others the reading is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.search import kept_readings, own_sources
from agents.search.kept_readings import KeptReadings
from agents.search.own_sources import read_documents
from agents.search.reading import Reading
from tests.support.pdf_files import make_pdf, show


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "a.html").write_text("<nav>Home</nav><h1>Mill</h1><p>Built in 1874.</p>")
    (folder / "b.pdf").write_bytes(make_pdf(show(20, 100, "The pond has 9 ducks."), ""))
    (folder / "c.txt").write_bytes("Größe: 12 m".encode("cp1252"))
    return folder


def read(folder: Path, tmp_path: Path, base_url: str = "m/") -> tuple[list[str], list[str], dict[str, Reading], int]:
    """Texts, messages and records of a folder, and how many of its files were read."""
    kept, readings = KeptReadings(tmp_path / "kept"), dict[str, Reading]()
    chunks, left_out = read_documents(folder, base_url, kept=kept, on_reading=readings.__setitem__)
    return [chunk.page_snippet for chunk in chunks], left_out, readings, kept.num_read


def test_only_files_that_changed_are_read_again(folder: Path, tmp_path: Path) -> None:
    first = read(folder, tmp_path)
    second = read(folder, tmp_path)
    assert first[3] == 3 and second == (*first[:3], 0)
    assert second[1] and second[2]["a.html"].left_out, "messages and records are kept too"

    (folder / "a.html").write_text("<p>Built in 1875.</p>")
    (folder / "d.md").write_text("# New")
    (folder / "c.txt").unlink()
    texts, *_, num_read = read(folder, tmp_path)
    assert num_read == 2 and any("1875" in text for text in texts) and not any("1874" in text for text in texts)
    assert len([*(tmp_path / "kept").iterdir()]) == 3, "readings of files that went are removed"


def test_a_moved_file_another_address_and_other_readers_are_read_anew(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(folder, tmp_path)
    (folder / "a.html").rename(folder / "z.html")
    assert read(folder, tmp_path)[3] == 1
    assert read(folder, tmp_path, "n/")[3] == 3
    monkeypatch.setattr(kept_readings, "_hash_readers", lambda: "another version")
    assert read(folder, tmp_path, "n/")[3] == 3


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'[[{"x": 1}], "", {}]', b'[[], "", null]', b"\xff", json.dumps([[], "", {"text": 1}]).encode()],
)
def test_a_broken_reading_is_made_again(folder: Path, tmp_path: Path, content: bytes) -> None:
    first = read(folder, tmp_path)
    for path in (tmp_path / "kept").iterdir():
        path.write_bytes(content)
    assert read(folder, tmp_path) == first


def test_what_could_not_be_read_is_tried_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> dict[str, Reading]:
        raise own_sources.UnreadableError("it takes more than 100 s to read")

    with monkeypatch.context() as patch:
        patch.setattr(own_sources, "read_pdf_apart", fail)
        assert "b.pdf: it takes more than 100 s to read" in read(folder, tmp_path)[1]
    texts, *_, num_read = read(folder, tmp_path)
    assert num_read == 1 and any("9 ducks" in text for text in texts)
