"""Pictures of the index: from the folder, over a real HTTP server where that is allowed, and unavailable ones."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image
from pytest_httpserver import HTTPServer
from werkzeug import Response

from agents.search.gateway import SearchGateway
from agents.search.pages.web_cache import MAX_PICTURE_BYTES, PictureCache, cache_name
from agents.time_limits.deadline import Deadline

ANY = lambda _: True  # noqa: E731 - the test's own server is on this machine


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)


def png(mode: str = "RGB", colour: object = "red") -> bytes:
    data = io.BytesIO()
    Image.new(mode, (8, 6), colour).save(data, format="PNG")  # type: ignore[arg-type]
    return data.getvalue()


def test_names_are_those_of_the_other_image_caches() -> None:
    from evaluation.data.dataset_images import cache_name as evaluation_name

    for url in ("https://i.example/a.webp", "https://i.example/b.JPG?x=1#y", "https://i.example/c"):
        assert cache_name(url) == evaluation_name(url)


def test_cached_pictures_are_found_and_missing_or_broken_ones_left_out(tmp_path: Path) -> None:
    there, broken, missing = (f"https://i.example/{name}.png" for name in ("there", "broken", "missing"))
    (tmp_path / cache_name(there)).write_bytes(png("RGBA", (255, 0, 0, 0)))
    (tmp_path / cache_name(broken)).write_bytes(b"no picture")
    pictures = PictureCache(tmp_path).get_all([there, broken, missing, there, "", "not a url", "http://[bad"])
    assert list(pictures) == [there]
    assert pictures[there].mode == "RGB"
    assert PictureCache(tmp_path / "nowhere").get_all([there]) == {}


def test_nothing_is_fetched_unless_asked_for(httpserver: HTTPServer, tmp_path: Path) -> None:
    httpserver.expect_request("/a.png").respond_with_data(png(), content_type="image/png")
    url = httpserver.url_for("/a.png")
    assert PictureCache(tmp_path / "new", allowed=ANY).get_all([url]) == {}
    assert httpserver.log == []
    assert PictureCache(tmp_path / "new", http=True, allowed=ANY).get_all([url])[url].size == (8, 6)
    assert PictureCache(tmp_path / "new").get_all([url])[url].size == (8, 6)  # kept
    assert len(httpserver.log) == 1


@pytest.mark.parametrize(
    "answer", [Response("gone", 404), Response("text"), Response(b"\x89PNG" + bytes(MAX_PICTURE_BYTES))]
)
def test_a_failed_fetch_costs_that_picture_alone(httpserver: HTTPServer, tmp_path: Path, answer: Response) -> None:
    httpserver.expect_request("/bad.png").respond_with_response(answer)
    httpserver.expect_request("/good.png").respond_with_data(png())
    bad, good = httpserver.url_for("/bad.png"), httpserver.url_for("/good.png")
    pictures = PictureCache(tmp_path, http=True, timeout=20, allowed=ANY).get_all(
        [bad, good, "http://127.0.0.1:1/x.png", "ftp://x/y.png"]
    )
    assert list(pictures) == [good]
    assert [path.name for path in tmp_path.iterdir()] == [cache_name(good)]


def test_after_the_deadline_nothing_is_fetched(httpserver: HTTPServer, tmp_path: Path) -> None:
    url = httpserver.url_for("/a.png")
    assert PictureCache(tmp_path, http=True).get_all([url], Deadline(-1.0)) == {}
    assert httpserver.log == []


def test_the_gateway_looks_where_the_pipeline_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "https://i.example/a.png"
    (tmp_path / cache_name(url)).write_bytes(png())
    assert url in SearchGateway(SimpleNamespace(picture_folder=tmp_path)).pictures([url])
    (tmp_path / "image_cache").mkdir()
    (tmp_path / "image_cache" / cache_name(url)).write_bytes(png())
    monkeypatch.setenv("CRAG_CACHE", str(tmp_path))
    assert url in SearchGateway(None).pictures([url])
