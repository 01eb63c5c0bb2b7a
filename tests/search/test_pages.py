import hashlib
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from agents.search.pages.web_cache import MAX_PAGE_BYTES, PageCache

ANY = lambda _: True  # noqa: E731 - the test's own server is on this machine
URL = "https://x.example/a?b=ü"


def got(pages: PageCache, url: str) -> str | None:
    return pages.get_all([url]).get(url)


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)


def test_a_page_that_was_put_is_got(tmp_path: Path) -> None:
    pages = PageCache(tmp_path / "new")
    pages.put(URL, "<p>Zürich</p>".encode())
    assert got(pages, URL) == "<p>Zürich</p>"
    assert pages.path(URL).name == hashlib.sha256(URL.encode()).hexdigest() + ".html"
    assert got(PageCache(tmp_path / "new"), URL) == "<p>Zürich</p>"


@pytest.mark.parametrize("suffix", ["", ".html", ".txt"])
def test_files_of_others_are_read(tmp_path: Path, suffix: str) -> None:
    (tmp_path / (hashlib.sha256(URL.encode()).hexdigest() + suffix)).write_text("text", encoding="utf-8")
    assert got(PageCache(tmp_path), URL) == "text"


@pytest.mark.parametrize("content", [b"", b"  \n", b"\xff\xfe\x00broken", b"a\0b"])
def test_a_broken_file_is_a_miss_with_a_note(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    pages = PageCache(tmp_path)
    pages.path(URL).write_bytes(content)
    assert got(pages, URL) is None
    assert URL in caplog.text


def test_a_folder_in_the_place_of_a_file_is_a_miss(tmp_path: Path) -> None:
    pages = PageCache(tmp_path)
    pages.path(URL).mkdir()
    assert got(pages, URL) is None
    pages.put(URL, b"text")  # noted, not raised
    assert got(pages, URL) is None


def test_no_http_unless_allowed(tmp_path: Path, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/a").respond_with_data("page", content_type="text/html")
    assert got(PageCache(tmp_path), httpserver.url_for("/a")) is None
    assert len(httpserver.log) == 0


def test_http_fills_the_cache(tmp_path: Path, httpserver: HTTPServer) -> None:
    httpserver.expect_oneshot_request("/a").respond_with_data(
        "Zürich".encode("latin-1"), content_type="text/html; charset=iso-8859-1"
    )
    url = httpserver.url_for("/a")
    pages = PageCache(tmp_path, http=True, allowed=ANY)
    assert got(pages, url) == "Zürich"
    assert got(pages, url) == "Zürich"
    assert len(httpserver.log) == 1


def test_what_cannot_be_fetched_is_a_miss(tmp_path: Path, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/gone").respond_with_data("gone", status=404)
    httpserver.expect_request("/image").respond_with_data(b"\x89PNG", content_type="image/png")
    httpserver.expect_request("/long").respond_with_data("x" * (MAX_PAGE_BYTES + 1), content_type="text/plain")
    pages = PageCache(tmp_path, http=True, allowed=ANY)
    assert [got(pages, httpserver.url_for(path)) for path in ("/gone", "/image", "/long")] == [None] * 3


@pytest.mark.parametrize("content_type", ["text/html", "text/html; charset=utf-8"])
def test_a_page_is_read_as_it_declares_where_it_is_no_utf8(
    tmp_path: Path, httpserver: HTTPServer, content_type: str
) -> None:
    page = '<meta charset="windows-1251"><p>Старая мельница</p>'
    httpserver.expect_request("/page").respond_with_data(page.encode("cp1251"), content_type=content_type)
    url = httpserver.url_for("/page")
    assert got(PageCache(tmp_path, http=True, allowed=ANY), url) == page


def test_offline_nothing_is_fetched(tmp_path: Path, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert got(PageCache(tmp_path, http=True, allowed=ANY), httpserver.url_for("/a")) is None
    assert httpserver.log == []


def test_a_cache_that_cannot_be_written_whole_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = PageCache(tmp_path)
    pages.put(URL, b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    pages.put(URL, b"new")
    assert got(pages, URL) == "old"
    assert len(list(tmp_path.iterdir())) == 1  # nothing half-written beside it
