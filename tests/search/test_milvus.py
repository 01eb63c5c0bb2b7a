"""Search in a Milvus database, on its engine for one machine: what is written, what is found, what a dead server costs."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pymilvus", reason="make test-vectordb")
pytest.importorskip("milvus_lite", reason="make test-vectordb")

from agents.models.base import FloatArray
from agents.profiles.profile import SearchModels
from agents.search.build_index import IMAGE_ID as IMAGES
from agents.search.build_index import WEB_ID as PAGES_ID
from agents.search.build_index import IndexOptions, build, main
from agents.search.embedding_cache import EmbeddingCache, cache_key
from agents.search.encoders import ImageIndexEncoder, TextIndexEncoder
from agents.search.gateway import SearchGateway
from agents.search.hits import SearchError
from agents.search.index_builder import IMAGE_COLLECTION, WEB_COLLECTION, IndexBuilder, Row, chroma
from agents.search.kinds import open_search
from agents.search.milvus import METADATA, Collection, StoredCollection, connect, failures, format_alias
from agents.search.milvus_target import MilvusTarget
from agents.time_limits.deadline import Deadline
from mini_crag_mm.loader import SET
from tests.search.conftest import IMAGE_ID, WEB_ID, World, write_sources

K = 10
MODEL = "0123456789abcdef"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database in this process."""
    return str(tmp_path_factory.mktemp("milvus") / "test.db")


class Contents:
    """An encoder of words and of mean colours, so that no model is loaded; texts that share words are alike."""

    def __init__(self, what: str) -> None:
        self.what, self.fingerprint = what, f"{what}0123456789"

    def embed(self, contents: Sequence[Any]) -> FloatArray:
        return np.stack([self._embed(content) for content in contents])

    def _embed(self, content: Any) -> FloatArray:
        vector = np.full(64, 1e-3, dtype=np.float32)
        if isinstance(content, str):
            for word in re.findall(r"\w+", content.lower()):
                vector[zlib.crc32(word.encode()) % 64] += 1.0
        else:
            vector[:3] += np.asarray(content, dtype=np.float32).mean(axis=(0, 1))
        unit: FloatArray = vector / np.linalg.norm(vector)
        return unit


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Photos and pages, embedded without a model in this module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ImageIndexEncoder, "load", lambda *_: Contents("image"))
        patch.setattr(TextIndexEncoder, "load", lambda *_: Contents("text"))
        yield write_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def database(sources: World, url: str) -> str:
    """The database with their indices."""
    assert sources.build("--to", url) == 0
    return url


def open_milvus(url: str, sources: World, **options: Any) -> Any:
    search = SearchModels(kind="milvus", **{"url": url, "image_index": IMAGE_ID, "web_index": WEB_ID, **options})
    return open_search(search, split="validation", cache=sources.cache)


def ids(gateway: SearchGateway, queries: Sequence[str], k: int = K) -> list[list[str]]:
    return [[hit.index for hit in results.hits] for results in gateway.search_web(queries, k)]


QUERIES = ["How tall is the Red Tower?", "How deep is the lake?", "Gdzie jest most?", "sheep", "name"]


def test_a_batch_is_one_request(sources: World, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    search = open_milvus(database, sources)
    client = search.web._searcher._client
    batches: list[int] = []
    real = client.search
    monkeypatch.setattr(client, "search", lambda *a, **k: (batches.append(len(k["data"])), real(*a, **k))[1])
    assert all(ids(SearchGateway(search), QUERIES))
    assert batches == [len(QUERIES)]


def test_a_filter_leaves_hits_out(sources: World, database: str) -> None:
    gateway = SearchGateway(open_milvus(database, sources, web_filter='page_url like "https://x.example/l%"'))
    (indices,) = ids(gateway, ["How tall is the Red Tower?"])
    assert indices and all(index.startswith("https://x.example/lake") for index in indices)


def test_a_second_build_writes_what_changed(
    sources: World, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [json.loads(line) for line in sources.pages.read_text(encoding="utf-8").splitlines()]
    upserted: list[int] = []
    write = MilvusTarget._write
    monkeypatch.setattr(
        MilvusTarget,
        "_write",
        lambda self, client, name, rows, cache: (upserted.append(len(rows)), write(self, client, name, rows, cache))[1],
    )

    def build_pages(rows: list[dict[str, str]]) -> str:
        (tmp_path / "pages.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        places = ["--cache", str(sources.cache), "--web-id", "mini/changing", "--no-progress", "--to", url]
        assert main(["--pages", str(tmp_path / "pages.jsonl"), *places]) == 0
        return capsys.readouterr().out

    assert "mini/changing built: 8 rows" in build_pages(pages)
    assert "mini/changing is up to date: 8 rows" in build_pages(pages)
    changed = [{**pages[0], "page_snippet": "The Red Tower fell."}, *pages[2:]]
    assert "mini/changing built: 4 rows, 1 newly embedded" in build_pages(changed)
    assert upserted == [8, 0, 1]
    gateway = SearchGateway(open_milvus(url, sources, web_index="mini/changing"))
    (results,) = gateway.search_web(["How tall is the Red Tower?"], K)
    assert results.hits[0].page_snippet == "The Red Tower fell." and len(results.hits) == 4


def test_a_killed_build_goes_on(sources: World, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The alias moves at the end: until then nobody searches what is not whole."""
    monkeypatch.setattr("agents.search.milvus_target._WRITE_BATCH", 3)
    client = connect(url)
    counts: list[int] = []
    upsert = client.upsert

    def dies(name: str, data: Any, **more: Any) -> Any:
        if len(counts) == 1:
            raise KeyboardInterrupt
        counts.append(len(data))
        return upsert(name, data, **more)

    monkeypatch.setattr("agents.search.milvus_target.connect", lambda _: client)
    options = {
        "pages": (sources.pages,),
        "cache": sources.cache,
        "web_id": "mini/killed",
        "to": url,
        "no_progress": True,
    }
    monkeypatch.setattr(client, "upsert", dies)
    with pytest.raises(KeyboardInterrupt):
        build(IndexOptions(**options))
    assert not client.has_collection(format_alias("mini/killed"))
    monkeypatch.setattr(
        client, "upsert", lambda name, data, **more: (counts.append(len(data)), upsert(name, data, **more))[1]
    )
    build(IndexOptions(**options))
    assert (
        counts == [3, 3, 2]
        and len(ids(SearchGateway(open_milvus(url, sources, web_index="mini/killed")), ["x"])[0]) == 5
    )


def test_another_index_takes_the_place_of_the_first(sources: World, url: str) -> None:
    for index in ("HNSW", "HNSW_SQ"):
        places = ["--cache", str(sources.cache), "--web-id", "mini/stored", "--no-progress", "--to", url]
        assert main(["--pages", str(sources.pages), *places, "--to-index", index]) == 0
        stored = [StoredCollection.read(name) for name in connect(url).list_collections()]
        assert [each.storage for each in stored if each and each.alias == "mini_stored"] == [f"{index.lower()}_1"]
    gateway = SearchGateway(open_milvus(url, sources, web_index="mini/stored"))
    assert ids(gateway, ["How tall is the Red Tower?"], 1) == [["https://x.example/tower_chunk_0"]]


def test_what_is_missing_is_told(sources: World, database: str) -> None:
    with pytest.raises(
        SearchError, match=r"there is no web index mini_other in .*it has .*mini_web_search_index"
    ) as error:
        open_milvus(database, sources, web_index="mini/other")
    assert f"crag index --documents FOLDER --split NAME --to {database}" in str(error.value)


def test_an_index_of_another_encoder_is_refused(sources: World, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Contents("image")
    other.fingerprint = "other"
    monkeypatch.setattr(ImageIndexEncoder, "load", lambda *_: other)
    with pytest.raises(
        SearchError, match=r"was embedded by another encoder .*build the index again with --image-model"
    ):
        open_milvus(database, sources)


def test_effort_is_a_positive_number(sources: World, database: str) -> None:
    with pytest.raises(SearchError, match="effort has to be at least 1, not 0"):
        open_milvus(database, sources, effort=0)


def test_a_text_that_is_too_long_is_cut_or_named(sources: World, url: str) -> None:
    with EmbeddingCache(sources.folder / "long") as cache:
        cache.store({b"k": np.array([1.0, 0.0], dtype=np.float32)})
        texts = {"page_name": "", "page_snippet": "é" * 50_000, "page_url": "u"}
        target = MilvusTarget(url, progress=False)
        target.publish([Row("u_chunk_0", texts, b"k")], cache, WEB_COLLECTION, MODEL, "mini/long")
        (row,) = connect(url).get("mini_long", ids=["u_chunk_0"], output_fields=["page_snippet"])
        assert row["page_snippet"] == "é" * 32_767
        graph = {"image_url": "", "entities": "[]", "info": "x" * 65_536}
        with pytest.raises(
            SearchError, match="row 7: info has 65536 bytes, and Milvus takes 65535 at most; shorten it"
        ):
            target.publish([Row("7", graph, b"k")], cache, IMAGE_COLLECTION, MODEL, "mini/long-image")


class Ready:
    """An encoder of what is embedded already."""

    fingerprint = MODEL

    def embed(self, contents: Sequence[FloatArray]) -> FloatArray:
        return np.stack(contents)


def make_rows(vectors: FloatArray, cache: EmbeddingCache, modality: str) -> list[Row]:
    keys = [cache_key(MODEL, f"{modality}{number}".encode()) for number in range(len(vectors))]
    cache.store(dict(zip(keys, vectors, strict=True)))
    names = METADATA[modality]
    return [Row(str(number), dict.fromkeys(names, str(number)), key) for number, key in enumerate(keys)]


@pytest.mark.parametrize(
    ("modality", "kind", "index", "recall"),
    [
        ("image", "images", "HNSW", 0.99),
        ("web", "texts", "HNSW", 0.99),
        ("web", "texts", "HNSW_SQ", 0.95),
        ("web", "texts", "IVF_SQ8", 0.95),
    ],
)
def test_recall_on_the_vectors_of_the_mini_set(
    modality: str, kind: str, index: str, recall: float, url: str, tmp_path: Path
) -> None:
    """Against exact search and against Chroma; queries are every tenth vector, turned a little."""
    with np.load(SET.embeddings) as arrays:
        vectors = arrays[kind].astype(np.float32)
    noise = np.random.default_rng(0).normal(size=vectors[::10].shape).astype(np.float32)
    queries = vectors[::10] + 0.5 * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    exact = np.argsort(-(queries @ vectors.T), axis=1)[:, :K]
    collection = IMAGE_COLLECTION if modality == "image" else WEB_COLLECTION
    with EmbeddingCache(tmp_path / "embeddings") as cache:
        rows = make_rows(vectors, cache, modality)
        MilvusTarget(url, index, progress=False).publish(rows, cache, collection, MODEL, f"mini/{kind}")
        of_chroma = IndexBuilder(tmp_path / "hub", cache, progress=False)._publish(rows, collection, MODEL, "mini/x", 0)
    searcher: Collection[Any, Any] = Collection(
        connect(url), url, f"mini_{kind}", Ready(), METADATA[modality], "", 128, lambda rows: rows
    )
    mine = [[int(row[0]) for row in hits] for hits in searcher.search_vectors(queries, K)]
    assert measure_recall(mine, exact) >= recall
    with chroma(Path(of_chroma.path)) as client:
        theirs = client.get_collection(collection).query(query_embeddings=queries, n_results=K)["ids"]
    assert measure_recall(mine, exact) >= measure_recall([[*map(int, hits)] for hits in theirs], exact) - 0.05


def measure_recall(results: Sequence[Sequence[int]], exact: Any) -> float:
    """Recall: the share of the nearest that was found."""
    return float(np.mean([len({*mine} & {*best}) / K for mine, best in zip(results, exact.tolist(), strict=True)]))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[[], tuple[str, subprocess.Popen[bytes]]]]:
    """Starts a database in a process of its own, each time on the same port and folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running: list[subprocess.Popen[bytes]] = []

    def start() -> tuple[str, subprocess.Popen[bytes]]:
        module = [sys.executable, "-m", "milvus_lite", "server", "--data-dir", str(tmp_path / "data")]
        running.append(subprocess.Popen([*module, "--port", str(port)]))
        while running[-1].poll() is None:
            try:
                with failures(f"http://127.0.0.1:{port}"):
                    connect(f"http://127.0.0.1:{port}").list_collections(timeout=5)
            except SearchError:
                continue
            return f"http://127.0.0.1:{port}", running[-1]
        raise RuntimeError("the server did not start")

    yield start
    for each in running:
        each.kill()
        each.wait()


def test_a_dead_server_is_an_error_with_a_cure(sources: World, server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    url, process = server()
    assert sources.build("--to", url) == 0
    gateway = SearchGateway(open_milvus(url, sources))
    assert all(ids(gateway, QUERIES))
    process.kill()
    process.wait()
    all_results = gateway.search_web(QUERIES, K)
    assert {one.error for one in all_results} == {all_results[0].error}
    assert f"the vector database {url} cannot be reached: start it, or name another one" in str(all_results[0].error)
    with pytest.raises(SearchError, match="cannot be reached: start it"):
        open_milvus(url, sources)
    capsys.readouterr()
    assert sources.build("--to", url) == 1  # before anything is embedded
    assert f"error: the vector database {url} cannot be reached" in capsys.readouterr().err
    server()
    assert all(ids(SearchGateway(open_milvus(url, sources)), QUERIES)), "what was written is there after a restart"
    assert all(ids(gateway, QUERIES)), "a server that is back is asked again"


def test_a_server_that_hangs_is_waited_for_until_the_deadline(sources: World, server: Any) -> None:
    import signal

    url, process = server()
    assert sources.build("--to", url) == 0
    gateway = SearchGateway(open_milvus(url, sources))
    gateway.search_web(["warm"], 1)
    process.send_signal(signal.SIGSTOP)
    deadline = Deadline(1.0)
    (results,) = gateway.search_web(["x"], 1, deadline=deadline)
    assert "did not answer in time" in str(results.error) and deadline.elapsed() < 10.0
    (results,) = gateway.search_web(["y"], 1, deadline=deadline)
    assert "no time is left to search" in str(results.error)


def test_a_split_has_the_ids_of_its_indices() -> None:
    assert format_alias(IMAGES.format(tag="my-museum")) == "crag_mm_2025_image_search_index_my_museum"
    assert StoredCollection.read(
        StoredCollection(format_alias(PAGES_ID.format(tag="a--b")), MODEL, "hnsw_1").name
    ) == StoredCollection(format_alias(PAGES_ID.format(tag="a--b")), MODEL, "hnsw_1")
    aliases = [
        format_alias(PAGES_ID.format(tag=tag)) for tag in ("a-b", "a--b", "a.b", "a_b", "a-b_", "Ärzte", "Örzte")
    ]
    assert aliases[0] == "crag_mm_2025_web_search_index_a_b" and len({*aliases}) == len(aliases)
    assert all(re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", alias) for alias in aliases)
    assert StoredCollection.read("somebody_elses") is None
