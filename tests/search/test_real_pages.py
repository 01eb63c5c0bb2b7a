"""Whole pages: the article becomes evidence, what stands around it does not, however long the page's styles are."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.evidence.chunks import find_windows
from agents.search import gateway
from agents.search.gateway import SearchGateway
from agents.search.hits import PageText
from agents.search.pages.page_reader import PageReader
from agents.search.pages.page_text import main_content
from agents.search.retrieved import safe_full_text
from agents.stages import web_search
from agents.stages.evidence import EvidenceStage
from agents.stages.web_search import WebSearch
from tests.agent.scripted import ScriptedPipeline, context, run, run_stages, settings, turn
from tests.property.fuzzing import fuzzed, hostile_text
from tests.search.test_full_text import FOUND, WithPages, find_url
from tests.support.process_functions import ready_worker


@pytest.fixture(autouse=True)
def _a_busy_machine_has_time_for_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    ready_worker()
    for module in (gateway, web_search):
        monkeypatch.setattr(module, "READING_SECONDS", 60.0)


PAGES = Path(__file__).parents[1] / "pages"
ARTICLE = "".join(
    f"<p>The bridge of Arling was opened in {1900 + n}, and it carries {n} trains a day.</p>" for n in range(12)
)
MENU = "<nav><ul>" + "".join(f'<li><a href="/{n}">Section {n} of the shop</a></li>' for n in range(60)) + "</ul></nav>"
STYLES = "<style>" + ".a1 > li { margin: 0 auto; color: #123456 }\n" * 10_000 + "</style>"  # 432 KB
NEWS = (
    f"<!doctype html><html><head><title>Arling</title>{STYLES}</head><body>{MENU}<article><h1>The bridge</h1>{ARTICLE}"
    "<table><tr><th>Length</th><td>412 m</td></tr><tr><th>Engineer</th><td>Ada Example</td></tr></table></article>"
    "<footer>All rights reserved. Cookies.</footer></body></html>"
)
APP = (
    "<html><head><title>App</title></head><body><div id='root'></div><script>"
    + "var a = 'no text';" * 900
    + "</script></body></html>"
)


def test_a_page_whose_styles_come_first_gives_its_article() -> None:
    assert len(STYLES) > 432_000
    text = main_content(NEWS)
    assert "opened in 1911" in text
    assert "Ada Example" in text
    assert "margin" not in text and "Section 7" not in text


@pytest.mark.parametrize(
    ("name", "article_text", "menu_text"),
    [
        ("python_faq_gui", "keyboard focus", "Previous topic"),
        ("python_faq_general", "object-oriented programming language", "Report a Bug"),
    ],
)
def test_real_pages_give_their_article_and_no_menu(name: str, article_text: str, menu_text: str) -> None:
    page = (PAGES / f"{name}.html").read_text(encoding="utf-8")
    assert menu_text in page
    text = main_content(page)
    assert article_text in text
    assert menu_text not in text


def test_headings_are_marked() -> None:
    text = "This is what the section says, at some length, so that it is taken for content. " * 4
    page = f"<article><h1>Tower</h1><p>{text}</p><h2 class='a'>\n <a href='/x'>Paint</a></h2><p>{text}</p><h3></h3><p>End.</p></article>"
    lines = main_content(f"<html><body>{page}</body></html>").split("\n")
    assert [line for line in lines if line.startswith("#")] == ["# Tower", "## Paint"]


def test_a_page_of_scripts_has_no_text_and_a_short_page_has_its_own() -> None:
    assert main_content(APP) == ""
    assert main_content("<p>It weighs 60 tonnes.</p>") == "It weighs 60 tonnes."
    assert main_content("no markup at all") == "no markup at all"
    assert safe_full_text(APP) == ""


@fuzzed(60)
@given(hostile_text)
def test_no_page_raises(page: str) -> None:
    assert isinstance(main_content(page), str)
    assert isinstance(main_content(f"<html><body><article><p>{page}</p></article></body></html>"), str)


def test_the_organisers_page_cache_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAG_WEBSEARCH_CACHE_DIR", str(tmp_path / "organiser"))
    url = find_url("Eiffel", tmp_path)
    stored = tmp_path / "organiser" / hashlib.sha256(url.encode()).hexdigest()
    stored.parent.mkdir()
    stored.write_text(f"<html><body><p>{FOUND}. Its paint weighs 60 tonnes.</p></body></html>", encoding="utf-8")
    reader = PageReader(ready_worker(), safe=True)
    text = SearchGateway(WithPages(tmp_path), read_pages=reader).page_texts([url])[url].text
    assert text is not None and "60 tonnes" in text and "<" not in text


def test_without_the_variable_it_lies_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CRAG_WEBSEARCH_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    stored = tmp_path / ".cache/crag/web_search_results" / hashlib.sha256(b"u").hexdigest()
    stored.parent.mkdir(parents=True)
    stored.write_text("a text", encoding="utf-8")
    assert SearchGateway(WithPages(tmp_path)).page_texts(["u"]) == {"u": PageText("a text")}


class WithContent(ScriptedPipeline):
    """Results that bring their page, as the starter kit's do."""

    def __call__(self, query: object, k: int = 5) -> list[dict[str, object]]:
        pages = {"Eiffel": NEWS, "Soup": APP}
        return [{**hit, "page_content": pages[str(hit["page_name"])]} for hit in super().__call__(query, k)]


def test_a_results_own_page_is_read() -> None:
    sample_turn = turn("Who engineered it?", queries=("tower soup",))
    given_context = context(settings(), WithContent({}, {"Eiffel": FOUND, "Soup": "soup is hot"}))
    run_stages([sample_turn], given_context, WebSearch, EvidenceStage)
    assert "Ada Example" in " ".join(chunk.text for chunk in sample_turn.evidence)
    assert not any("margin" in chunk.text or "no text" in chunk.text for chunk in sample_turn.evidence)


def test_pages_without_text_are_counted(tmp_path: Path) -> None:
    for name, page in (("Eiffel", NEWS), ("Soup", APP)):
        (tmp_path / hashlib.sha256(find_url(name, tmp_path).encode()).hexdigest()).write_text(page, encoding="utf-8")
    sample_turn = turn("Who engineered it?", queries=("tower soup",))
    run(WebSearch, [sample_turn], context(settings(), WithPages(tmp_path)))
    sample_turn.close_stage("web_search", 0.0)
    notes = sample_turn.records[0].notes
    assert (notes["full_texts"], notes["without_text"]) == (1, 1)


def test_no_time_for_pages_leaves_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_search, "READING_SECONDS", 0.0)
    (tmp_path / hashlib.sha256(find_url("Eiffel", tmp_path).encode()).hexdigest()).write_text(NEWS, encoding="utf-8")
    sample_turn = turn("Who engineered it?", queries=("tower soup",))
    run(WebSearch, [sample_turn], context(settings(), WithPages(tmp_path), seconds=9.0))
    assert [hit.page_text for hit in sample_turn.web_hits] == [None, None]


def test_what_was_found_is_found_however_its_lines_break() -> None:
    page = "Before. " * 30 + "The tower is\n  repainted every\tseven years." + " After." * 30
    [window] = [each.text for each in find_windows(page, "The tower is repainted every seven years.", 120)]
    assert "seven years" in window and "Before." in window


@given(st.text(max_size=60), st.text(max_size=200), st.integers(1, 50))
def test_no_text_breaks_the_search_for_a_place(snippet: str, page: str, limit: int) -> None:
    assert all(0 <= each.start <= each.end <= len(each.text) for each in find_windows(page, snippet, limit))
