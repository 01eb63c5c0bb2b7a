"""Nothing is lost or doubled, wherever a build is killed."""

import errno
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import diskcache
import numpy as np
import pytest
from chromadb.errors import InternalError

from agents.base.files import format_os_error, is_file_error
from agents.models.picture_files import FORMATS
from agents.search import index_builder
from agents.search.build_index import main
from agents.search.embedding_cache import EmbeddingCache
from agents.search.encoders import TextIndexEncoder
from agents.search.hits import SearchError
from agents.search.hub import current_revision, snapshot_path, working_copy
from agents.search.index_builder import IndexBuilder, read_rows
from agents.search.index_sources import ChunkRow
from tests.property.fuzzing import AT_LENGTH
from tests.search.conftest import IMAGE_ID, PAGES, WEB_ID, World, write_sources

ROWS = [ChunkRow(f"u{n}_chunk_0", f"name {n}", "word " * (n % 7), f"u{n}") for n in range(50)]


class Killed(BaseException):
    """As a kill: nothing that catches Exception may swallow it."""


class CountingEncoder:
    """The real encoder, which counts what it embeds and may be killed."""

    def __init__(self, real: TextIndexEncoder, kill_at: int | None = None) -> None:
        self.fingerprint = real.fingerprint
        self._real, self._kill_at = real, kill_at
        self.embedded: list[str] = []

    def embed(self, contents: Any) -> Any:
        if self._kill_at is not None and len(self.embedded) >= self._kill_at:
            raise Killed
        self.embedded.extend(contents)
        return self._real.embed(contents)


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> TextIndexEncoder:
    return TextIndexEncoder.load(str(tiny_bert))


def build(folder: Path, encoder: Any, rows: list[ChunkRow] = ROWS) -> index_builder.BuiltIndex:
    with EmbeddingCache(folder / "embeddings") as cache:
        return IndexBuilder(folder / "hub", cache, batch_size=8, progress=False).chunks(rows, encoder, WEB_ID)


def contents(snapshot: Path, name: str = "web_search_embeddings") -> dict[str, Any]:
    with index_builder.chroma(snapshot) as client:
        return client.get_collection(name).get(include=["metadatas", "embeddings"])  # type: ignore[return-value]


def test_rows_stand_in_order_with_their_metadata(tmp_path: Path, encoder: TextIndexEncoder) -> None:
    built = build(tmp_path, encoder)
    stored = contents(built.path)
    assert stored["ids"] == [row.id for row in ROWS]
    assert stored["metadatas"][3] == {"page_name": "name 3", "page_snippet": "word " * 3, "page_url": "u3"}
    assert (tmp_path / "hub" / f"datasets--{WEB_ID.replace('/', '--')}" / "refs" / "main").read_bytes() == (
        built.manifest.revision.encode()
    )


def test_an_index_holds_no_pages_that_chroma_freed(tmp_path: Path, encoder: TextIndexEncoder) -> None:
    rows = [replace(ROWS[0], id=str(number)) for number in range(1_500)]  # 1,000 wait in Chroma's queue at most
    built = build(tmp_path, encoder, rows)
    with closing(sqlite3.connect(Path(built.path) / "chroma.sqlite3")) as database:
        assert database.execute("PRAGMA freelist_count").fetchone() == (0,)
        assert database.execute("PRAGMA page_size").fetchone() == (8192,)
    assert contents(Path(built.path))["ids"] == [row.id for row in rows]


def test_a_second_run_embeds_and_writes_nothing(tmp_path: Path, encoder: TextIndexEncoder) -> None:
    first, again = build(tmp_path, encoder), build(tmp_path, CountingEncoder(encoder))
    assert (first.fresh, again.fresh) == (True, False)
    assert again.embedded == 0
    assert again.path == first.path


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 1024] = bytes(byte ^ 0xFF for byte in data[middle : middle + 1024])
    file.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a flipped database": lambda folder: _flip(folder / "chroma.sqlite3"),
    "half a database": lambda folder: (folder / "chroma.sqlite3").write_bytes(
        (folder / "chroma.sqlite3").read_bytes()[:9000]
    ),
    "no database": lambda folder: (folder / "chroma.sqlite3").unlink(),
    "flipped vectors": lambda folder: _flip(next(folder.rglob("data_level0.bin"))),
    "no vectors": lambda folder: shutil.rmtree(next(folder.rglob("data_level0.bin")).parent),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_written_again_from_the_kept_vectors(
    tmp_path: Path, encoder: TextIndexEncoder, damage: str
) -> None:
    rows = [
        replace(ROWS[number % len(ROWS)], id=str(number)) for number in range(1_500)
    ]  # vectors in a file of their own
    built = build(tmp_path, encoder, rows)
    DAMAGES[damage](Path(built.path))
    again = build(tmp_path, CountingEncoder(encoder), rows)
    assert (again.fresh, again.embedded) == (True, 0)
    assert contents(Path(again.path))["ids"] == [row.id for row in rows]
    assert not build(tmp_path, encoder, rows).fresh


def test_rows_of_a_damaged_index_are_an_error_that_names_folder_and_cure(
    tmp_path: Path, encoder: TextIndexEncoder
) -> None:
    DAMAGES["half a database"](Path(build(tmp_path, encoder).path))
    with pytest.raises(SearchError, match="crag index COLLECTION") as error:
        read_rows(tmp_path / "hub", WEB_ID)
    assert str(tmp_path / "hub") in str(error.value) and "\n" not in str(error.value)


def test_an_index_that_nobody_may_write_is_read(tmp_path: Path, encoder: TextIndexEncoder) -> None:
    """Chroma writes a row into each database that it opens: the process's copy has to be writable."""
    database = Path(build(tmp_path, encoder).path) / "chroma.sqlite3"
    database.chmod(0o444)
    assert (working_copy(tmp_path / "hub", WEB_ID) / "chroma.sqlite3").stat().st_mode & 0o200


def test_an_index_that_is_up_to_date_counts_as_prepared_again(tmp_path: Path, encoder: TextIndexEncoder) -> None:
    reference = tmp_path / "hub" / f"datasets--{WEB_ID.replace('/', '--')}" / "refs" / "main"
    build(tmp_path, encoder)
    os.utime(reference, (100.0, 100.0))
    assert not build(tmp_path, encoder).fresh
    assert reference.stat().st_mtime > 100.0


def test_two_splits_embed_their_common_pages_once(tmp_path: Path, encoder: TextIndexEncoder) -> None:
    counting = CountingEncoder(encoder)
    with EmbeddingCache(tmp_path / "embeddings") as cache:
        for split, rows in (("a", ROWS[:40]), ("b", ROWS[10:])):
            IndexBuilder(tmp_path / "hub", cache, progress=False).chunks(rows, counting, f"mini/{split}")
    assert len(counting.embedded) == len(ROWS)


@pytest.mark.hostile("index builds killed at any point")
def test_a_build_killed_while_embedding_goes_on_where_it_was(tmp_path: Path, encoder: TextIndexEncoder) -> None:
    killed = CountingEncoder(encoder, kill_at=24)
    with pytest.raises(Killed):
        build(tmp_path, killed)
    assert current_revision(tmp_path / "hub", WEB_ID) is None
    rest = CountingEncoder(encoder)
    built = build(tmp_path, rest)
    assert len(killed.embedded) == 24
    assert sorted(killed.embedded + rest.embedded) == sorted(row.embedded_text for row in ROWS)
    assert contents(built.path)["ids"] == [row.id for row in ROWS]


@pytest.mark.hostile("index builds killed at any point")
@pytest.mark.parametrize("moment", ["writing", "before the rename", "before the reference", "while cleaning up"])
def test_a_build_killed_at_any_later_moment_is_whole_after_the_next(
    tmp_path: Path, encoder: TextIndexEncoder, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    before = build(tmp_path, encoder, ROWS[:5])

    def die(*_: Any, **__: Any) -> Any:
        raise Killed

    with monkeypatch.context() as patch:
        if moment == "writing":
            load, calls = EmbeddingCache.load, []

            def some(self: EmbeddingCache, keys: Any) -> Any:
                calls.append(keys)
                return die() if len(calls) == 4 else load(self, keys)

            patch.setattr(EmbeddingCache, "load", some)
            patch.setattr(index_builder, "_WRITE_BATCH", 10)
        elif moment == "before the rename":
            patch.setattr(index_builder, "publish", die)
        elif moment == "before the reference":
            patch.setattr("agents.search.hub.point", die)
        else:
            patch.setattr(index_builder, "_remove_older", die)
        with pytest.raises(Killed):
            build(tmp_path, encoder)
    # Whoever looks now sees an index that is whole: the old one, or the new one once the reference stands.
    revision = current_revision(tmp_path / "hub", WEB_ID)
    assert revision is not None
    assert moment == "while cleaning up" or revision == before.manifest.revision
    assert len(contents(snapshot_path(tmp_path / "hub", WEB_ID, revision))["ids"]) in (5, len(ROWS))

    built = build(tmp_path, CountingEncoder(encoder, kill_at=0))  # everything is in the cache
    assert current_revision(tmp_path / "hub", WEB_ID) == built.manifest.revision
    assert contents(built.path)["ids"] == [row.id for row in ROWS]


_SLOW = """
import json, pathlib, sys, time
import numpy
from agents.models.picture_files import FORMATS
from agents.search import index_builder
from agents.search.build_index import main
from agents.search.embedding_cache import EmbeddingCache
from agents.search.encoders import ImageIndexEncoder, TextIndexEncoder
class Plain:
    fingerprint = "plain"
    def embed(self, contents):
        return numpy.ones((len(contents), 1), dtype=numpy.float32)
class Saved:
    def __init__(self, fingerprint, vectors):
        self.fingerprint, self.vectors = fingerprint, vectors
    def embed(self, contents):
        return numpy.array([self.vectors[content.strip()] for content in contents], dtype=numpy.float32)
saved = json.loads(pathlib.Path(sys.argv.pop(1)).read_text())
ImageIndexEncoder.load = lambda *_: Plain()
TextIndexEncoder.load = lambda *_: Saved(**saved)
real = EmbeddingCache.store
def store(self, vectors):
    real(self, vectors)
    print("stored", flush=True)
    time.sleep(0.02)
EmbeddingCache.store = store
load = EmbeddingCache.load
def slow_load(self, keys):
    print("load", flush=True)
    return load(self, keys)
EmbeddingCache.load = slow_load
index_builder._WRITE_BATCH = 3
sys.exit(main(sys.argv[1:]))
"""
"""A build with a pause after each step. Vectors come out of a file, for the libraries that embed take longest to import."""


@pytest.mark.hostile("index builds killed at any point")
# While embedding, between (in ``make hostile``), while writing; three lines are of the grey picture that stands in for photos.
@pytest.mark.parametrize("line", [5, 9, 15] if AT_LENGTH else [5, 15])
def test_sigkill_in_a_subprocess(tmp_path: Path, tiny_bert: Path, encoder: TextIndexEncoder, line: int) -> None:
    pages = tmp_path / "pages.jsonl"
    rows = [{"page_url": row.page_url, "page_name": row.page_name, "page_snippet": row.page_snippet} for row in ROWS]
    pages.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    arguments = ["--pages", str(pages), "--web-id", WEB_ID, "--text-model", str(tiny_bert), "--batch-size", "8"]
    arguments += ["--cache", str(tmp_path), "--no-progress"]
    texts = [row.embedded_text.strip() for row in ROWS]
    vectors = encoder.embed(texts)
    saved = {"fingerprint": encoder.fingerprint, "vectors": dict(zip(texts, vectors.tolist(), strict=True))}
    (tmp_path / "saved.json").write_text(json.dumps(saved))
    with subprocess.Popen(
        [sys.executable, "-c", _SLOW, str(tmp_path / "saved.json"), *arguments],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        text=True,
    ) as process:
        assert process.stdout is not None
        for _ in range(line):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert main(arguments) == 0
    revision = current_revision(tmp_path / "hub", WEB_ID)
    assert revision is not None
    stored = contents(snapshot_path(tmp_path / "hub", WEB_ID, revision))
    assert stored["ids"] == [row.id for row in ROWS]
    assert abs(stored["embeddings"] - vectors).max() < 1e-5


@pytest.mark.hostile("index builds killed at any point")
def test_an_index_that_was_half_removed_is_written_anew(
    tmp_path: Path, encoder: TextIndexEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build is killed while it removes the older index, and the sources go back to what that held."""
    old = build(tmp_path, encoder, ROWS[:5])

    def die(folder: Path, **_: Any) -> None:
        if folder.name != ".building":
            (folder / "chroma.sqlite3").unlink()
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", die)
        with pytest.raises(Killed):
            build(tmp_path, encoder)
    again = build(tmp_path, encoder, ROWS[:5])
    assert again.manifest == old.manifest
    assert contents(again.path)["ids"] == [row.id for row in ROWS[:5]]
    assert [path.name for path in again.path.parent.iterdir()] == [again.manifest.revision]


def test_nothing_to_build_is_an_error(tmp_path: Path, encoder: TextIndexEncoder) -> None:
    with pytest.raises(SearchError, match="no rows"):
        build(tmp_path, encoder, [])


def edit(path: Path, change: Callable[[list[Any]], None]) -> None:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    change(rows)
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))


def test_every_bad_line_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = write_sources(tmp_path / "w")

    def spoil(rows: list[Any]) -> None:
        rows[0]["image"] = "gone.png"
        rows[1]["entities"] = "Blue Lake"
        rows[2] = "{not json"
        rows[3] = [1]
        del rows[4]["image_url"]
        rows[5]["entities"] = [{"entity_name": 7}]

    edit(world.kg, spoil)
    assert world.build() == 1
    stderr = capsys.readouterr().err
    assert [f"kg.jsonl:{n}" in stderr for n in range(1, 7)] == [True] * 6
    assert "Traceback" not in stderr


def test_bad_pages_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = write_sources(tmp_path / "w")

    def spoil(rows: list[Any]) -> None:
        rows[0]["page_url"] = ""
        rows[1].update(page_name=" ", page_snippet="")

    edit(world.pages, spoil)
    assert world.build() == 1
    stderr = capsys.readouterr().err
    assert "pages.jsonl:1" in stderr and "pages.jsonl:2" in stderr


def test_broken_images_are_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = write_sources(tmp_path / "w")
    for name in ("photo1.png", "photo4.png"):
        (world.images / name).write_bytes(b"not an image")
    assert world.build() == 0
    output, stderr = capsys.readouterr()
    assert f"{IMAGE_ID} built: 4 rows, 4 newly embedded" in output
    reason = f"image cannot be decoded: it is none of {', '.join(FORMATS)}; save it as JPEG, PNG or WebP"
    assert stderr.splitlines() == [
        f"left out: {world.images / name}: {reason}" for name in ("photo1.png", "photo4.png")
    ]
    for name in ("photo1.png", "photo4.png"):
        (world.images / name).write_bytes((world.images / "photo0.png").read_bytes())
    assert world.build() == 0
    assert f"{IMAGE_ID} built: 6 rows, 0 newly embedded" in capsys.readouterr().out


def test_images_that_are_all_broken_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = write_sources(tmp_path / "w")
    for path in world.images.iterdir():
        path.write_bytes(b"not an image")
    assert world.build() == 1
    assert "no image can be decoded" in capsys.readouterr().err


def test_a_url_that_comes_again_adds_its_new_chunks(tmp_path: Path) -> None:
    world = write_sources(tmp_path / "w")
    url, name, text = PAGES[0]
    more = [{"page_url": url, "page_name": name, "page_snippet": snippet} for snippet in (text, "Something new.")]
    edit(world.pages, lambda rows: rows.extend(more))
    assert world.build() == 0
    revision = current_revision(world.hub, WEB_ID)
    assert revision is not None
    ids = contents(snapshot_path(world.hub, WEB_ID, revision))["ids"]
    assert [i for i in ids if i.startswith(url)] == [f"{url}_chunk_0", f"{url}_chunk_1"]
    assert len(ids) == len(set(ids))


@contextmanager
def limit_files(size: int) -> Iterator[None]:
    """Let no file of this process get longer, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_disk_that_fills_up_under_chroma_is_an_error_of_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = IndexBuilder._write_collection

    def write_to_full_disk(*arguments: Any) -> None:
        with limit_files(50_000):  # Chroma's empty tables take more
            write(*arguments)

    world = write_sources(tmp_path / "w")
    monkeypatch.setattr(IndexBuilder, "_write_collection", write_to_full_disk)
    assert world.build() == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and f"error: writing the index in {world.hub}" in message
    assert "disk I/O error" in message and message.endswith("; the same command goes on where it was\n")
    monkeypatch.undo()
    assert world.build() == 0


def test_a_disk_that_fills_up_while_an_index_is_compacted_is_an_error_of_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def connect_to_full_disk(*arguments: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **named)
        if Path(arguments[0]).name == "chroma.sqlite3":
            connection.execute("PRAGMA cache_size = 1")
            connection.execute("PRAGMA max_page_count = 1")
        return connection

    world = write_sources(tmp_path / "w")
    monkeypatch.setattr(sqlite3, "connect", connect_to_full_disk)
    assert world.build() == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and f"error: writing the index in {world.hub}" in message
    assert "database or disk is full; make room there" in message
    assert message.endswith("; the same command goes on where it was\n")
    monkeypatch.undo()
    assert world.build() == 0


@pytest.mark.parametrize(
    ("fault", "errno_there"),
    [
        ("error returned from database: (code: 13) database or disk is full", errno.ENOSPC),
        ("error returned from database: (code: 778) disk I/O error", errno.EIO),
        ("the vectors\ncannot be persisted", None),
    ],
)
def test_the_codes_in_messages_of_chroma_are_read(
    fault: str, errno_there: int | None, tmp_path: Path, encoder: TextIndexEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise InternalError(fault)

    monkeypatch.setattr(IndexBuilder, "_write_collection", fail)
    with pytest.raises(OSError) as raised:
        build(tmp_path, encoder)
    assert raised.value.errno == errno_there
    assert "\n" not in format_os_error(raised.value) and is_file_error(raised.value)


def test_a_damaged_embedding_cache_is_told(tmp_path: Path, encoder: TextIndexEncoder) -> None:
    with EmbeddingCache(tmp_path) as cache:
        cache.store({bytes([number]): vector for number, vector in enumerate(encoder.embed(["word"] * 100))})
    database = tmp_path / "cache.db"
    whole = database.read_bytes()
    for content in (b"garbage" * 1_000, whole[:4096] + b"\xff" * (len(whole) - 4096)):
        for path in tmp_path.glob("cache.db*"):
            path.unlink()
        database.write_bytes(content)
        with (
            pytest.raises(SearchError, match=r"is damaged \(.*remove it, vectors are computed again"),
            EmbeddingCache(tmp_path) as cache,
        ):
            cache.missing([b"key"])


def lock_cache(cache: EmbeddingCache, other: sqlite3.Connection) -> None:
    cache._timeout = 0.01
    cache.close()  # the next connection waits no longer than that
    other.execute("BEGIN EXCLUSIVE")


def forbid_writing(cache: EmbeddingCache, _: sqlite3.Connection) -> None:
    cache._sql("PRAGMA query_only = ON")  # of this connection; file modes stop no root


def leave_no_room(cache: EmbeddingCache, _: sqlite3.Connection) -> None:
    cache._sql("PRAGMA max_page_count = 1")


def raise_instead(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(EmbeddingCache, "set", fail)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_PROTOCOL, "is used by another process (reason); wait until it has ended"),
        (sqlite3.SQLITE_NOMEM, "cannot be used (reason)"),
        (sqlite3.SQLITE_CONSTRAINT, "cannot be used (reason)"),
        (sqlite3.SQLITE_SCHEMA, "cannot be used (reason)"),
    ],
)
def test_a_fault_of_sqlite_is_told_as_damage_only_if_it_is(
    code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = sqlite3.OperationalError("reason")
    error.sqlite_errorcode = code
    raise_instead(monkeypatch, error)
    with EmbeddingCache(tmp_path) as cache, pytest.raises(SearchError) as raised:
        cache.store({b"key": np.zeros(2, dtype=np.float32)})
    assert str(raised.value) == f"the embedding cache {tmp_path} {words}"


@pytest.mark.parametrize(
    "error",
    [sqlite3.ProgrammingError("Cannot operate on a closed database."), diskcache.Timeout("no time")],
    ids=["closed", "timeout"],
)
def test_a_fault_without_a_code_is_not_told_as_damage(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_instead(monkeypatch, error)
    with EmbeddingCache(tmp_path) as cache, pytest.raises(SearchError) as raised:
        cache.store({b"key": np.zeros(2, dtype=np.float32)})
    assert str(raised.value) == f"the embedding cache {tmp_path} cannot be used ({error})"


@pytest.mark.parametrize(
    ("prevent", "error_class", "words"),
    [
        (lock_cache, SearchError, r"is used by another process \(database is locked\); wait until it has ended$"),
        (forbid_writing, PermissionError, "attempt to write a readonly database"),
        (leave_no_room, OSError, "database or disk is full"),
    ],
)
def test_an_embedding_cache_that_cannot_be_written_is_not_told_as_damaged(
    prevent: Callable[[EmbeddingCache, sqlite3.Connection], None],
    error_class: type[Exception],
    words: str,
    tmp_path: Path,
    encoder: TextIndexEncoder,
) -> None:
    with EmbeddingCache(tmp_path) as cache, closing(sqlite3.connect(tmp_path / "cache.db")) as other:
        prevent(cache, other)
        with pytest.raises(error_class, match=words) as raised:
            cache.store({bytes([number]): encoder.embed(["word"])[0] for number in range(100)})
        assert str(tmp_path) in str(raised.value) and "remove" not in str(raised.value)


def test_an_embedding_cache_that_may_not_be_opened_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = write_sources(tmp_path / "w")
    folder = world.cache / "embeddings"
    (folder / "cache.db").mkdir(parents=True)
    assert world.build() == 1
    message = capsys.readouterr().err
    assert f"{folder}: unable to open database file; name a place that this user may use" in message
    assert "remove" not in message


def test_a_database_of_another_program_is_told_as_damaged(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "cache.db")) as other:
        other.execute("CREATE TABLE Cache (other)")
    with pytest.raises(SearchError, match=r"is damaged \(no such column: key\); remove it"):
        EmbeddingCache(tmp_path)


def test_a_row_of_the_cache_that_is_no_text_is_told_as_damage(tmp_path: Path, encoder: TextIndexEncoder) -> None:
    with EmbeddingCache(tmp_path) as cache:
        cache.store({b"key": encoder.embed(["word"])[0]})
        cache._sql("UPDATE Cache SET filename = CAST(x'ff' AS TEXT)")
        with pytest.raises(SearchError, match=r"is damaged \(Could not decode to UTF-8 .*\); remove it"):
            cache.missing([b"key"])


def test_ctrl_c_ends_with_status_130(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EmbeddingCache, "store", stop)
    assert write_sources(tmp_path / "w").build() == 130
    assert capsys.readouterr().err == "stopped; the same command goes on where it was\n"


def test_an_empty_file_of_pages_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pages.jsonl").write_text("\n")
    place = ["--split", "mine", "--cache", str(tmp_path / "cache"), "--no-progress"]
    assert main(["--pages", str(tmp_path / "pages.jsonl"), *place]) == 1
    assert "web-search-index-mine cannot be built: its sources have no rows" in capsys.readouterr().err


def test_a_wrong_split_is_told_before_anything_is_embedded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TextIndexEncoder, "embed", lambda *_: pytest.fail("embedded"))
    world = write_sources(tmp_path / "w")
    place = ["--split", "my museum", "--cache", str(tmp_path / "cache"), "--no-progress"]
    assert main(["--pages", str(world.pages), *place]) == 1
    assert "index-my museum' is no data set id" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [[], ["--images", "x"], ["--kg", "x"], ["--pages", "x", "--batch-size", "0"]],
)
def test_a_wrong_command_line_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2


def test_wrong_ids_and_models_are_errors_not_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world: World = write_sources(tmp_path / "w")
    assert world.build("--image-id", "no-organisation") == 1
    assert world.build("--text-model", str(tmp_path / "nothing-here")) == 1
    assert world.build("--pages", str(tmp_path / "nothing.jsonl")) == 1
    stderr = capsys.readouterr().err
    assert "no data set id" in stderr and "nothing-here" in stderr and "nothing.jsonl" in stderr
