"""Files that were edited after ``crag index``: named in one line, and only then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents.search.changed_files import IndexedFiles, describe_changes, list_changes, read_states, remember_files
from agents.search.collection import Collection


@pytest.fixture
def museum(tmp_path: Path) -> Collection:
    folder = tmp_path / "museum"
    for name in (
        "photos/mill.jpg",
        "photos.csv",
        "pages/visit.html",
        "pages/deep/rules.md",
        "pages/.hidden",
        "questions.csv",
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return Collection.open(folder)


def test_an_unchanged_collection_has_nothing_to_tell(museum: Collection, tmp_path: Path) -> None:
    remember_files(museum, read_states(museum), tmp_path / "cache")
    assert describe_changes(museum, tmp_path / "cache") == ""


def test_files_that_changed_came_or_went_are_named(museum: Collection, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    remember_files(museum, read_states(museum), cache)
    (museum.folder / "pages" / "visit.html").write_text("24 euros")
    (museum.folder / "photos" / "barn.jpg").write_text("new")
    (museum.folder / "pages" / "deep" / "rules.md").unlink()
    assert list_changes(museum, cache) == ["pages/deep/rules.md", "pages/visit.html", "photos/barn.jpg"]
    assert describe_changes(museum, cache) == (
        "3 of 5 files changed since crag index: pages/deep/rules.md, pages/visit.html, photos/barn.jpg; "
        f"run: crag index {museum.folder}"
    )


def test_a_file_of_the_same_size_changes_by_its_time(museum: Collection, tmp_path: Path) -> None:
    cache, page = tmp_path / "cache", museum.folder / "pages" / "visit.html"
    remember_files(museum, read_states(museum), cache)
    before = page.stat()
    os.utime(page, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert list_changes(museum, cache) == ["pages/visit.html"]


def test_questions_and_hidden_files_are_no_part_of_the_index(museum: Collection, tmp_path: Path) -> None:
    remember_files(museum, read_states(museum), tmp_path / "cache")
    (museum.folder / "questions.csv").write_text("other")
    (museum.folder / "pages" / ".hidden").write_text("other")
    assert list_changes(museum, tmp_path / "cache") == []


@pytest.mark.parametrize("content", [None, b"", b"[1]", b"{", b"\xff"])
def test_without_a_record_or_with_a_broken_one_nothing_is_claimed(
    museum: Collection, tmp_path: Path, content: bytes | None
) -> None:
    cache = tmp_path / "cache"
    if content is not None:
        (cache / "collections").mkdir(parents=True)
        (cache / "collections" / f"{museum.split}.json").write_bytes(content)
    assert describe_changes(museum, cache) == ""


def test_sources_whose_files_changed_are_known_by_their_urls(museum: Collection, tmp_path: Path) -> None:
    cache, split = tmp_path / "cache", museum.split
    urls = {
        "page": "museum/visit.html",
        "part": "museum/visit.html#page=3",
        "rules": "museum/deep/rules.md",
        "photo": f"{split}/mill.jpg",
        "row with a URL": f"https://example.org/mill#{split}/mill.jpg",
        "elsewhere": "https://example.org/mill",
    }
    remember_files(museum, read_states(museum), cache)
    indexed = IndexedFiles.read(museum, cache)

    def list_changed() -> list[str]:
        return [name for name, url in urls.items() if indexed.has_changed(url)]

    assert list_changed() == []
    (museum.folder / "pages" / "visit.html").write_text("24 euros")
    assert list_changed() == ["page", "part"]
    (museum.folder / "pages" / "deep" / "rules.md").unlink()
    (museum.folder / "photos.csv").write_text("file,entity\n")
    assert list_changed() == ["page", "part", "rules", "photo", "row with a URL"]
    remember_files(museum, read_states(museum), cache)
    assert list_changed() != [], "the index that was opened is the older one"
    indexed = IndexedFiles.read(museum, cache)
    assert list_changed() == []
    (museum.folder / "photos" / "mill.txt").write_text("Old Mill")
    assert list_changed() == ["photo", "row with a URL"]
