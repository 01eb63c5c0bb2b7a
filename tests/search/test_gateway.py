"""The gateway gives what the organiser's one-at-a-time calls give, whatever is asked and whatever stands behind it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from agents.evidence.chunks import chunk_page
from agents.search.gateway import SearchGateway
from agents.search.hits import MAX_NAME, MAX_SNIPPET, ImageHit, Results, WebHit, image_results, web_results
from agents.search.retrieved import safe_page, safe_picture
from tests.search.conftest import PAGES, World, draw

QUERIES = [
    "How tall is the Red Tower?",
    "How deep is the Blue Lake, and why is the water blue?",
    "sheep",
    "most",
    "What? " * 400,  # beyond 512 tokens
    "http://127.0.0.1:9/never-fetched.png",
    "日本の塔",
]
MANY = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])


def as_dicts(results: Results[Any]) -> list[dict[str, Any]]:
    assert results.error is None
    assert results.notes == ()
    return [
        {
            "index": hit.index,
            "score": hit.score,
            "url": hit.url,
            "entities": [{"entity_name": e.name, "entity_attributes": e.attributes} for e in hit.entities],
        }
        if isinstance(hit, ImageHit)
        else {name: value for name, value in vars(hit).items() if name != "page_text"}
        for hit in results.hits
    ]


def same(hits: Sequence[dict[str, Any]], expected: Sequence[dict[str, Any]]) -> None:
    assert [{**hit, "score": None} for hit in hits] == [{**hit, "score": None} for hit in expected]
    np.testing.assert_allclose([h["score"] for h in hits], [h["score"] for h in expected], atol=1e-5)


@pytest.fixture(params=["pipeline", "clip_pipeline"])
def either(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@MANY
@given(numbers=st.lists(st.integers(0, 5), min_size=1, max_size=5), k=st.integers(1, 9), batch=st.integers(1, 4))
def test_images_equal_one_at_a_time_calls(either: Any, numbers: list[int], k: int, batch: int) -> None:
    images = [draw(number) for number in numbers]
    with patch("agents.search.searchers.IMAGE_BATCH", batch):
        all_results = SearchGateway(either).search_images(images, k)
    alone = {number: either(draw(number), k=k) for number in set(numbers)}
    for number, results in zip(numbers, all_results, strict=True):
        same(as_dicts(results), alone[number])


def test_a_record_that_several_queries_find_is_made_safe_once_and_keeps_each_score(pipeline: Any) -> None:
    urls: list[str] = []

    def each(hit: ImageHit) -> ImageHit:
        urls.append(hit.url)
        return replace(hit, url=f"safe {hit.url}")

    images = [draw(number) for number in range(3)]
    all_results = SearchGateway(pipeline, each_picture=each).search_images(images, 6)
    plain = SearchGateway(pipeline).search_images(images, 6)
    assert len(urls) == len(set(urls)) == 6
    for results, raw in zip(all_results, plain, strict=True):
        assert results.hits == tuple(replace(hit, url=f"safe {hit.url}") for hit in raw.hits)


@MANY
@given(
    queries=st.lists(st.sampled_from(QUERIES[:5]), min_size=1, max_size=6),
    k=st.integers(1, 12),
    batch=st.integers(1, 4),
)
def test_web_equals_one_at_a_time_calls(either: Any, queries: list[str], k: int, batch: int) -> None:
    with patch("agents.search.searchers.TEXT_BATCH", batch):
        all_results = SearchGateway(either).search_web(queries, k)
    alone = {query: either(query, k=k) for query in set(queries)}
    for query, results in zip(queries, all_results, strict=True):
        same(as_dicts(results), alone[query])


def test_one_embedding_pass_and_one_vector_query_a_batch_duplicates_once(
    pipeline: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_sizes: list[int] = []
    query = pipeline.image_collection.query
    monkeypatch.setattr(
        pipeline.image_collection, "query", lambda **kw: batch_sizes.append(len(kw["query_embeddings"])) or query(**kw)
    )
    red = draw(0)
    all_results = SearchGateway(pipeline).search_images([red, draw(1), red, draw(0)], 2)
    assert batch_sizes == [2]
    assert all_results[0] == all_results[2] == all_results[3] != all_results[1]


def test_a_picture_is_searched_once_for_all_turns_of_a_dialog_and_again_after_a_failure() -> None:
    k_values: list[int] = []

    def pipeline(image: Image.Image, k: int) -> list[dict[str, Any]]:
        k_values.append(k)
        if len(k_values) == 1:
            raise RuntimeError("down")
        return [{"index": 1, "score": 0.5, "url": "u", "entities": [{"entity_name": "n", "entity_attributes": {}}]}]

    gateway, photo = SearchGateway(pipeline), draw(0)
    assert gateway.search_images([photo], 2)[0].error is not None
    [results] = gateway.search_images([photo], 2)
    assert results.error is None and len(results.hits) == 1
    assert gateway.search_images([draw(0)], 2) == [results]  # decoded anew, the same pixels
    assert k_values == [2, 2]  # the try that failed, and the one that found it
    gateway.search_images([photo], 3)
    assert k_values[2:] == [3]


def test_pictures_that_differ_in_a_few_pixels_are_searched_apart() -> None:
    colours: list[tuple[int, int, int]] = []

    def pipeline(image: Image.Image, k: int) -> list[dict[str, Any]]:
        colours.append(image.getpixel((1, 0)))
        return []

    plain, other = Image.new("RGB", (640, 480)), Image.new("RGB", (640, 480))
    other.putpixel((1, 0), (9, 9, 9))
    SearchGateway(pipeline).search_images([plain, other, plain.copy(), other.copy()], 2)
    assert colours == [(0, 0, 0), (9, 9, 9)]


def test_chunks_of_a_page_are_merged(pipeline: Any) -> None:
    gateway = SearchGateway(pipeline)
    query = "Water is blue. Water is blue. Water is blue."
    (plain,), (more,) = gateway.search_web([query], 3), gateway.search_web([query], 9)
    assert len(plain.hits) < 3  # several of the three chunks are the lake's
    assert len(more.hits) >= 3
    assert more.hits[: len(plain.hits)] == plain.hits


def test_task_1_has_no_web_search(offline_web: Any) -> None:
    gateway = SearchGateway(offline_web)
    assert gateway.image_enabled
    assert not gateway.web_enabled
    assert [results.error for results in gateway.search_web(["a", "b"], 3)] == ["web search is off"] * 2
    assert gateway.search_images([draw(0)], 1)[0].hits[0].index == 0


def test_no_pipeline_no_search() -> None:
    gateway = SearchGateway(None)
    assert not gateway.image_enabled
    assert not gateway.web_enabled
    assert gateway.search_images([draw(0)], 1) == [Results(error="image search is off")]
    assert gateway.search_web(["a"], 1) == [Results(error="web search is off")]


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_is_refused(pipeline: Any, k: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        SearchGateway(pipeline).search_web(["a"], k)
    with pytest.raises(ValueError, match="at least 1"):
        SearchGateway(pipeline).search_images([draw(0)], k)


def test_a_bad_image_fails_alone(clip_pipeline: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file is truncated, one picture upsets the processor; the pictures beside them are found."""
    whole, cut = tmp_path / "whole.png", tmp_path / "cut.png"
    draw(4).save(whole)
    cut.write_bytes(whole.read_bytes()[:2000])
    process = clip_pipeline.image_processor

    def upset(images: Any, **options: Any) -> Any:
        if any(image.size == (50, 50) for image in images):
            raise ValueError("mean must have 1 elements")
        return process(images=images, **options)

    images = [draw(0), Image.new("RGB", (50, 50)), Image.open(cut), draw(3)]
    with monkeypatch.context() as patch:
        patch.setattr(clip_pipeline, "image_processor", upset)
        all_results = SearchGateway(clip_pipeline).search_images(images, 2)
    assert [results.error is None for results in all_results] == [True, False, False, True]
    same(as_dicts(all_results[0]), clip_pipeline(images[0], k=2))
    assert all_results[1].error == "ValueError: mean must have 1 elements"
    assert all_results[2].error is not None and "cannot be decoded" in all_results[2].error


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (500, 3), (3, 500), (1, 90)])
def test_sides_that_look_like_colour_channels_spoil_nothing(clip_pipeline: Any, size: tuple[int, int]) -> None:
    """CLIP's processor raises for 1x1 (up to transformers 4) and guesses the axes of a batch from its first image."""
    if size == (1, 1) and transformers.__version__.startswith("4."):
        with pytest.raises(ValueError, match="mean must have"):
            clip_pipeline(Image.new("RGB", size), k=1)
    all_results = SearchGateway(clip_pipeline).search_images([Image.new("RGB", size), draw(1)], 2)
    assert len(all_results[0].hits) == 2
    same(as_dicts(all_results[1]), clip_pipeline(draw(1), k=2))


@pytest.mark.parametrize("mode", ["P", "I;16"])
def test_images_of_any_mode_are_searched(either: Any, mode: str) -> None:
    all_results = SearchGateway(either).search_images([Image.new(mode, (30, 40)), draw(1)], 3)
    assert [len(results.hits) for results in all_results] == [3, 3]


def test_a_bad_query_fails_alone(pipeline: Any) -> None:
    queries: list[Any] = ["sheep", "", "  \n", None, "\ud800", "most"]
    all_results = SearchGateway(pipeline).search_web(queries, 2)
    assert [results.error is None for results in all_results] == [True, False, False, False, False, True]
    same(as_dicts(all_results[0]), pipeline("sheep", k=2))
    same(as_dicts(all_results[5]), pipeline("most", k=2))


def test_an_entity_that_the_graph_lacks_has_no_attributes(pipeline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(pipeline.crag_image_kg.kg, "Blue Lake")
    with pytest.raises(KeyError):
        pipeline(draw(1), k=1)  # what the organiser's code does
    (entity,) = SearchGateway(pipeline).search_images([draw(1)], 1)[0].hits[0].entities
    assert (entity.name, entity.attributes) == ("Blue Lake", {})


def test_broken_metadata_costs_one_hit(
    pipeline: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    data = list(pipeline.crag_image_kg.id2_data)
    data[1] = {**data[1], "entities": "{not json"}
    monkeypatch.setattr(pipeline.crag_image_kg, "id2_data", data)
    monkeypatch.delitem(pipeline.text_web.index_to_metadata, "https://x.example/hill_chunk_0")
    gateway = SearchGateway(pipeline)
    (results,) = gateway.search_images([draw(1)], 6)
    assert len(results.hits) == 5
    assert len(results.notes) == 1
    (pages,) = gateway.search_web(["sheep on the hill"], 9)
    assert len(pages.hits) == len(PAGES) - 1
    assert len(pages.notes) == 1
    assert caplog.text.count("1 search results break the contract") == 2


@pytest.mark.parametrize("query", ["http://127.0.0.1:9/a.png", "https://x.example/", __file__])
def test_urls_and_paths_are_text(pipeline: Any, query: str) -> None:
    (results,) = SearchGateway(pipeline).search_web([query], 3)
    assert results.error is None
    assert results.hits


def test_private_page_content(pipeline: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The private pipeline looks pages up in LMDB shards, written here as its reader expects them."""
    import json

    import lmdb
    from cragmm_search.utils import hash_key, shard_id

    for number in range(2):
        env = lmdb.open(str(tmp_path / f"shard_{number}.mdb"), subdir=False, map_size=1 << 20)
        with env.begin(write=True) as txn:
            for url, name, _ in PAGES:
                key = hash_key(url)
                if shard_id(key, 2) == number:
                    value = {"page_name": name, "page_snippet": f"private {name}", "page_url": url}
                    txn.put(key.encode(), json.dumps(value).encode())
        env.close()
    monkeypatch.setattr(pipeline, "is_private", True)
    monkeypatch.setattr(pipeline, "web_content_private", str(tmp_path), raising=False)
    (results,) = SearchGateway(pipeline).search_web(["sheep"], 3)
    same(as_dicts(results), pipeline("sheep", k=3))
    assert all(hit.page_snippet.startswith("private ") for hit in results.hits)


class Foreign:
    """A pipeline of which only the calling contract is known."""

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline
        self.asked: list[Any] = []

    def __call__(self, query: Any, k: int = 5) -> Any:
        self.asked.append(query)
        return self._pipeline(query, k=k)


def test_an_unknown_pipeline_is_called_one_at_a_time(pipeline: Any) -> None:
    foreign = Foreign(pipeline)
    gateway = SearchGateway(foreign)
    assert gateway.image_enabled and gateway.web_enabled
    image = draw(2)
    all_results = gateway.search_images([image, image], 3)
    same(as_dicts(all_results[1]), pipeline(image, k=3))
    pages = gateway.search_web(["sheep", "most", "sheep"], 2)
    same(as_dicts(pages[1]), pipeline("most", k=2))
    assert len(foreign.asked) == 3


@pytest.mark.parametrize("query", ["http://127.0.0.1:9/a.png", " HTTPS://x.example/", __file__, f" {__file__} "])
def test_an_unknown_pipeline_never_sees_a_url_or_a_path(pipeline: Any, query: str) -> None:
    foreign = Foreign(pipeline)
    (results,) = SearchGateway(foreign).search_web([query], 2)
    assert results.hits
    (received_query,) = foreign.asked
    assert received_query == f'"{query.strip()}"'


def test_a_query_that_names_a_file_even_in_quotes_is_refused(
    pipeline: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").touch()
    (tmp_path / '"a"').touch()
    foreign = Foreign(pipeline)
    assert SearchGateway(foreign).search_web(["a"], 2)[0].error is not None
    assert foreign.asked == []


def test_an_error_or_odd_result_of_an_unknown_pipeline_costs_one_query() -> None:
    good = {"index": "u_chunk_0", "score": 0.5, "page_name": "n", "page_snippet": "s", "page_url": "u"}
    replies: dict[str, Any] = {
        "raises": RuntimeError("down"),
        "none": None,
        "text": "oops",
        "mixed": [
            good,
            {**good, "score": "high"},
            {"index": 1},
            7,
            {**good, "page_snippet": None},
            {**good, "score": "0.25"},
        ],
        "nan": [{**good, "score": float("nan")}],
        "too many": [good] * 9,
    }

    def pipeline(query: str, k: int) -> Any:
        if isinstance(replies[query], Exception):
            raise replies[query]
        return replies[query]

    results_by_query = dict(zip(replies, SearchGateway(pipeline).search_web(list(replies), 3), strict=True))
    assert results_by_query["raises"].error == "RuntimeError: down"
    assert results_by_query["none"].error and results_by_query["text"].error
    assert [hit.score for hit in results_by_query["mixed"].hits] == [0.5, 0.25]
    assert len(results_by_query["mixed"].notes) == 4
    assert results_by_query["nan"].hits == () and len(results_by_query["nan"].notes) == 1
    assert len(results_by_query["too many"].hits) == 3


@pytest.mark.parametrize(
    "broken",
    [
        {"index": float("inf")},
        {"score": 10**400},
        {"score": float("nan")},
        {"entities": 3},
        {"entities": [None]},
        {"url": 7},
    ],
    ids=str,
)
def test_a_hit_that_cannot_be_read_costs_itself(broken: dict[str, Any]) -> None:
    good = {"index": 1, "score": 0.5, "url": "u", "entities": [{"entity_name": "Tower"}]}
    results = image_results([{**good, **broken}, good])
    assert [hit.index for hit in results.hits][-1:] == [1]
    assert len(results.hits) + len(results.notes) == 2


def test_a_hit_that_cannot_be_cleaned_costs_itself() -> None:
    pages = [
        {"index": f"{n}_chunk_0", "score": 0.5, "page_name": n, "page_snippet": n, "page_url": n}
        for n in ("bad", "good")
    ]

    def cleaned(hit: WebHit) -> WebHit:
        if hit.page_name == "bad":
            raise RecursionError("too deep")
        return hit

    [results] = SearchGateway(lambda query, k: pages, each_page=cleaned).search_web(["a"], 5)
    assert [hit.page_name for hit in results.hits] == ["good"]
    assert "RecursionError" in results.notes[0]


@pytest.mark.parametrize(
    "nothing", [{"page_name": None}, {"page_url": None}, {"page_name": None, "page_url": None}, {}]
)
def test_a_page_without_name_or_address_is_still_read(nothing: dict[str, Any]) -> None:
    page = {"index": "u_chunk_0", "score": 0.5, "page_name": "n", "page_snippet": "s", "page_url": "u", **nothing}
    [hit] = web_results([page]).hits
    assert (hit.page_name, hit.page_url) == (page["page_name"] or "", page["page_url"] or "")
    without = {key: value for key, value in page.items() if key not in nothing}
    assert web_results([without]).hits == (hit,)


@pytest.mark.parametrize("nothing", [{}, {"page_snippet": None}, {"page_snippet": ""}], ids=str)
def test_a_page_without_a_snippet_is_read_from_its_whole_text(nothing: dict[str, Any]) -> None:
    text = "The tower is repainted every seven years."
    page = {"index": "u_chunk_0", "score": 0.5, "page_name": "n", "page_url": "u", "page_content": text, **nothing}
    [results] = SearchGateway(lambda query, k: [page], each_page=safe_page).search_web(["a"], 3)
    [hit] = results.hits
    assert (hit.page_snippet, hit.page_text, results.notes) == ("", text, ())
    assert [chunk.text for chunk in chunk_page(hit, lambda text: [text])] == [text]


def test_a_page_of_which_nothing_can_be_read_is_dropped() -> None:
    page = {"index": "u_chunk_0", "score": 0.5, "page_name": "n", "page_url": "u", "page_content": " "}
    for broken in (page, {**page, "page_snippet": 7, "page_content": "text"}):
        assert (web_results([broken]).hits, len(web_results([broken]).notes)) == ((), 1)


def test_results_that_number_their_own_hits_are_not_mixed_up() -> None:
    def pipeline(query: Any, k: int) -> Any:
        if isinstance(query, str):
            hit = {"page_name": "n", "page_snippet": "s", "page_url": query}
        else:
            entity = {"entity_name": "Ford Focus", "entity_attributes": {"width": f"{query.width} px"}}
            hit = {"url": None, "entities": [entity]}
        return [{"index": 0, "score": 0.5, **hit}]

    gateway = SearchGateway(pipeline, each_picture=safe_picture, each_page=safe_page)
    assert [one.hits[0].page_url for one in gateway.search_web(["a", "b"], 3)] == ["a", "b"]
    cars = gateway.search_images([Image.new("RGB", (width, 9)) for width in (8, 16)], 3)
    assert [one.hits[0].entities[0].attributes["width"] for one in cars] == ["8 px", "16 px"]


def test_names_and_snippets_of_any_length_are_cut() -> None:
    page = {"index": "u_chunk_0", "score": 0.5, "page_name": "n" * 10**6, "page_snippet": "s" * 10**7, "page_url": "u"}
    [hit] = web_results([page]).hits
    assert (len(hit.page_name), len(hit.page_snippet)) == (MAX_NAME, MAX_SNIPPET)


def test_a_pipeline_with_image_parts_alone_searches_only_images(pipeline: Any) -> None:
    """Only the image parts are there: images in batches, text not at all, since it says that it has no web search."""
    half = SimpleNamespace(
        image_model=pipeline.image_model,
        image_processor=pipeline.image_processor,
        image_collection=pipeline.image_collection,
        crag_image_kg=pipeline.crag_image_kg,
        web_search=False,
    )
    gateway = SearchGateway(half)
    same(as_dicts(gateway.search_images([draw(1)], 2)[0]), pipeline(draw(1), k=2))
    assert gateway.search_web(["a"], 2)[0].error == "web search is off"


def test_threads_may_search_at_once(clip_pipeline: Any, world: World) -> None:
    """Fast tokenizers raise "Already borrowed" when two threads use one without a lock."""
    from concurrent.futures import ThreadPoolExecutor

    gateway = SearchGateway(clip_pipeline)
    expected = gateway.search_web(QUERIES, 4)
    with ThreadPoolExecutor(4) as pool:
        pages = [pool.submit(gateway.search_web, QUERIES, 4) for _ in range(20)]
        images = [pool.submit(gateway.search_images, world.photos(), 2) for _ in range(4)]
        assert all(future.result() == expected for future in pages)
        assert all(future.result() == images[0].result() for future in images)
