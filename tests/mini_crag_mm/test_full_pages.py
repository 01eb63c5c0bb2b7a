"""The page cache that `prepare` writes: what is in a page, which pages are missing, and how a search reads them."""

from __future__ import annotations

import hashlib
import html
import re
from pathlib import Path
from typing import Any

import pytest

from agents.evidence.chunks import ChunkOptions, chunk_page, make_cutter
from agents.search import index_sources
from agents.search.hits import WebHit
from agents.search.pages import web_cache
from agents.search.pages.page_text import main_content
from agents.settings.presets import settings_from
from agents.settings.run_config import RunConfig
from agents.stages.evidence import EvidenceStage
from agents.stages.web_search import WebSearch
from mini_crag_mm import full_pages, prepare
from mini_crag_mm.full_pages import PageMaker, is_missing, locate_page, write_pages
from mini_crag_mm.index_contents import list_pages
from mini_crag_mm.loader import SET, SetPaths, WebPage, read_pages
from mini_crag_mm.wikipedia import make_wiki_url
from tests.agent.scripted import context, run, turn

SUMMARIES = {
    "Paris": "Paris is the capital of France.",
    "Wrought iron": "Wrought iron is an alloy.",
    "Eiffel Tower": "The Eiffel Tower is a lattice tower.\nIt stands in Paris, is made of wrought iron & was never in Delft.",
    "Delft": "Delft is a city in the Netherlands.",
    "Netherlands": "The Netherlands is a country.",  # which only the summary of Delft mentions
}
TOWER: WebPage = {
    "split": "validation",
    "page_url": "https://en.wikipedia.org/wiki/Eiffel_Tower",
    "page_name": "Eiffel Tower",
    "page_snippet": SUMMARIES["Eiffel Tower"],
    "kind": "wiki",
}


def maker(**claims: set[Any]) -> PageMaker:
    return PageMaker(SUMMARIES, claims)


def test_a_page_has_its_text_and_the_summaries_that_it_mentions() -> None:
    page = maker().make(TOWER)
    text = main_content(page)
    for title, summary in SUMMARIES.items():
        assert title in text and all(line in text for line in summary.splitlines())
    assert page == maker().make(TOWER)
    assert "Privacy" in page and "Privacy" not in text, "a reader has to tell content from what surrounds it"


def test_every_passage_stands_under_the_title_that_it_belongs_to() -> None:
    page = WebHit("u", 0.5, "Eiffel Tower", "", "u", page_text=main_content(maker().make(TOWER)))
    titles = {chunk.text.strip(): chunk.title for chunk in chunk_page(page, make_cutter(ChunkOptions()))}
    assert titles == {
        summary: "Eiffel Tower" if title == "Eiffel Tower" else f"Eiffel Tower: {title}"
        for title, summary in SUMMARIES.items()
    }


@pytest.mark.parametrize(
    ("split", "holders", "has"),
    [
        ("validation", {"public_test"}, False),
        ("validation", {"validation"}, True),
        ("validation", {"validation", "public_test"}, True),
        (None, {"validation"}, False),  # a page that both splits have
    ],
)
def test_a_page_takes_nothing_that_only_another_split_has(split: Any, holders: set[Any], has: bool) -> None:
    page = maker(Delft=holders).make({**TOWER, "split": split})
    assert (SUMMARIES["Delft"] in page) is has


def test_text_written_as_on_the_web_becomes_a_page() -> None:
    text = (
        "A sentence in front. " * 20
        + "Salt &amp; <b>iron</b>.\n\n<ul><li>one thing</li></ul>\nRight after it.\n\n| drink | mg |\n|---|---|\n| tea | 47 |"
    )
    page = maker().make({**TOWER, "kind": "answer", "page_snippet": text})
    read = main_content(page)
    assert "Salt & iron." in read and "- one thing" in read and "Right after it." in read
    assert "<td>47</td>" in page and "47" in read


def words(text: str) -> str:
    return " ".join(re.findall(r"\w+", re.sub(r"<[^>]+>", " ", html.unescape(text))))


def test_every_page_of_the_set_is_read_whole_from_its_full_page() -> None:
    make = PageMaker.load().make
    lost = [
        page["page_url"] for page in read_pages() if words(page["page_snippet"]) not in words(main_content(make(page)))
    ]
    assert lost == []


def test_the_share_that_is_missing_is_the_same_every_time() -> None:
    for split in ("validation", "public_test"):
        urls = [page["page_url"] for page in list_pages(split, 2000)]
        assert sum(map(is_missing, urls)) / len(urls) == pytest.approx(1 / full_pages.MISSING_ONE_IN, abs=0.03)
        own = [page["page_url"] for page in read_pages(split) if page["kind"] == "answer"]
        assert 0 < sum(map(is_missing, own)) < len(own) / 3
    draw = {title: is_missing(make_wiki_url(title)) for title in ("Abraham Lincoln", "Eiffel Tower", "Horse")}
    assert draw == {"Abraham Lincoln": True, "Eiffel Tower": True, "Horse": False}, "figures of runs rest on this draw"


def test_the_cache_is_brought_up_to_date(tmp_path: Path) -> None:
    pages = [{**TOWER, "page_url": f"https://x.example/{number}"} for number in range(20)]
    missing_url = next(page["page_url"] for page in pages if is_missing(page["page_url"]))
    present_urls = [page["page_url"] for page in pages if not is_missing(page["page_url"])]
    locate_page(tmp_path, missing_url).parent.mkdir()
    locate_page(tmp_path, missing_url).write_text("written when it was not missing yet")
    assert write_pages(pages, tmp_path, lambda page: page["page_url"]) == len(present_urls)  # type: ignore[arg-type]
    names = {hashlib.sha256(url.encode()).hexdigest() for url in present_urls}
    assert {file.name for file in (tmp_path / "page_cache").iterdir()} == names
    first, second, third, *_ = (locate_page(tmp_path, url) for url in present_urls)
    first.unlink()
    second.write_text("cut off")
    before = third.stat().st_mtime_ns
    write_pages(pages, tmp_path, lambda page: page["page_url"])  # type: ignore[arg-type]
    assert (first.read_text(), second.read_text()) == (present_urls[0], present_urls[1])
    assert third.stat().st_mtime_ns == before


@pytest.fixture(scope="module")
def prepared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the indices and pages of a split, without other summaries."""
    cache = tmp_path_factory.mktemp("cache")
    assert prepare.main(["--split", "validation", "--background", "0", "--no-progress", "--cache", str(cache)]) == 0
    return cache


def test_a_run_reads_full_pages_and_falls_back_to_snippets(
    prepared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_cache, "fetch", lambda *_, **__: pytest.fail("a page is fetched over HTTP"))
    pages = read_pages("validation")
    cached = next(page for page in pages if page["kind"] == "answer" and not is_missing(page["page_url"]))
    missing = next(page for page in pages if page["kind"] == "answer" and is_missing(page["page_url"]))
    pipeline = RunConfig.read(profile="embedded", cache=prepared_cache).pipeline(split="validation")
    question_turn = turn("x", queries=(cached["page_name"], missing["page_name"]))
    parts = context(settings_from({"stages": ["finalise"]}), pipeline)
    run(WebSearch, [question_turn], parts)
    texts = {hit.page_url: hit.page_text for hit in question_turn.web_hits}
    assert len(texts[cached["page_url"]] or "") > 2 * len(cached["page_snippet"])
    assert texts[missing["page_url"]] is None
    assert all((text is None) is is_missing(url) for url, text in texts.items())
    run(EvidenceStage, [question_turn], parts)
    chunks = {url: sum(chunk.url == url for chunk in question_turn.evidence) for url in texts}
    assert chunks[cached["page_url"]] > chunks[missing["page_url"]] > 0


def test_the_table_counts_what_is_cached(prepared_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert full_pages.main(["--split", "validation", "--background", "0", "--cache", str(prepared_cache)]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    (_, pages, _, cached, snippet, text), *_ = rows
    assert int(cached) < int(pages) and int(text.strip(" |").replace(",", "")) > 3 * int(snippet)


def test_the_table_says_how_a_cache_is_prepared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert full_pages.main(["--split", "validation", "--background", "0", "--cache", str(tmp_path)]) == 1
    assert "run python -m mini_crag_mm.prepare" in capsys.readouterr().err


def test_short_chunks_make_snippets_that_are_parts_of_their_pages() -> None:
    whole, parts = index_sources.read_pages([SET.own_pages]), index_sources.read_pages([SET.own_pages], 40)
    assert len(parts) > 2 * len(whole)
    assert max(len(row.page_snippet.split()) for row in parts) <= 40


def test_pages_of_a_set_of_ones_own_are_made(built: SetPaths) -> None:
    page = next(page for page in read_pages("validation", built) if page["page_name"] == "The disc")
    assert "Delft" in main_content(PageMaker.load(built).make(page))
