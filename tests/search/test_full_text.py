"""The full text of pages: from the page cache through the search stage to chunks around what was found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.evidence.chunks import PAGE_CHARACTERS, ChunkOptions, chunk_page, find_windows, make_cutter
from agents.search.hits import Entity, WebHit
from agents.search.pages.web_cache import PageCache
from agents.search.retrieved import safe_full_text, safe_page
from agents.stages.evidence import EvidenceStage
from agents.stages.tools import ToolRouter, rule_tools
from agents.stages.verify import Verify
from agents.stages.web_search import WebSearch
from agents.turn import Candidate, Tools
from tests.agent.scripted import ScriptedChat, ScriptedPipeline, context, run, settings, turn

FOUND = "the tower is repainted every seven years"


class WithPages(ScriptedPipeline):
    def __init__(self, folder: Path) -> None:
        super().__init__({}, {"Eiffel": FOUND, "Soup": "soup is hot"})
        self.page_folder = folder


def find_url(name: str, folder: Path) -> str:
    sample_turn = turn("tower", queries=("tower soup",))
    run(WebSearch, [sample_turn], context(settings(), WithPages(folder)))
    return next(hit.page_url for hit in sample_turn.web_hits if hit.page_name == name)


def test_a_page_of_the_cache_is_read_around_what_was_found(tmp_path: Path) -> None:
    page = f"<html><p>It weighs 7,300 tonnes.</p><p>{FOUND}.</p><p>Its paint weighs 60 tonnes.</p><script>x()</script></html>"
    PageCache(tmp_path).put(find_url("Eiffel", tmp_path), page.encode())
    sample_turn = turn("How much does the paint weigh?", queries=("tower", "soup"))
    stage_context = context(settings(), WithPages(tmp_path))
    run(WebSearch, [sample_turn], stage_context)
    assert {hit.page_name: hit.page_text is not None for hit in sample_turn.web_hits} == {"Eiffel": True, "Soup": False}
    run(EvidenceStage, [sample_turn], stage_context)
    texts = " ".join(chunk.text for chunk in sample_turn.evidence)
    assert "60 tonnes" in texts and "7,300 tonnes" in texts and "soup is hot" in texts and "x()" not in texts


def test_snippets_are_read_in_place_of_full_pages_where_the_preset_says_so(tmp_path: Path) -> None:
    PageCache(tmp_path).put(find_url("Eiffel", tmp_path), f"<p>It weighs 7,300 tonnes.</p><p>{FOUND}.</p>".encode())
    sample_turn = turn("How much does it weigh?", queries=("tower",))
    stage_context = context(settings(web_search={"pages": "snippets", "k_pages": 1}), WithPages(tmp_path))
    run(WebSearch, [sample_turn], stage_context)
    run(EvidenceStage, [sample_turn], stage_context)
    assert [chunk.text for chunk in sample_turn.evidence] == [FOUND]


@pytest.mark.parametrize(("pages", "texts"), [("snippets", ["tower b", "tower a"]), ("full", ["tower b"])])
def test_two_snippets_of_a_page_are_one_page_and_two_snippets(pages: str, texts: list[str]) -> None:
    class TwoSnippets(ScriptedPipeline):
        def __call__(self, query: str, k: int = 5) -> list[dict[str, object]]:
            hit = {"index": f"u_{query}", "score": 0.5 + (query == "b") / 4, "page_name": "t", "page_url": "u"}
            return [{**hit, "page_snippet": f"tower {query}", "page_content": "A whole page, longer than that."}]

    sample_turn = turn("x", queries=("a", "b"))
    run(WebSearch, [sample_turn], context(settings(web_search={"pages": pages}), TwoSnippets({}, {})))
    assert [hit.page_snippet for hit in sample_turn.web_hits] == texts
    assert [hit.page_text is None for hit in sample_turn.web_hits] == [pages == "snippets"] * len(texts)


@pytest.mark.parametrize(("key", "attribute"), [("page_snippet", "page_snippet"), ("page_content", "page_text")])
def test_pages_without_addresses_are_as_many_as_there_are(key: str, attribute: str) -> None:
    class Nameless(ScriptedPipeline):
        def __call__(self, query: str, k: int = 5) -> list[dict[str, object]]:
            texts = ("tower a", "tower b", "tower a")
            return [
                {"index": n, "score": 0.5, "page_name": None, "page_url": None, key: text}
                for n, text in enumerate(texts)
            ]

    sample_turn = turn("x", queries=("a",))
    run(WebSearch, [sample_turn], context(settings(), Nameless({}, {})))
    assert [getattr(hit, attribute) for hit in sample_turn.web_hits] == ["tower a", "tower b"]


def test_a_page_without_what_was_found_is_read_from_its_beginning() -> None:
    window, beginning = find_windows("A new page. " * 50, "gone", 24)
    assert (window.text, beginning.text) == ("gone", "A new page. A new page. ")
    assert [each.text for each in find_windows("page", "", 10)] == ["page"]


@given(
    st.text("ab ", max_size=80),
    st.text("xyz", min_size=1, max_size=40),
    st.text("ab ", max_size=80),
    st.integers(1, 200),
)
def test_what_was_found_is_always_whole_and_the_window_full(before: str, snippet: str, after: str, limit: int) -> None:
    page = before + snippet + after
    (window,) = find_windows(page, snippet, limit)
    assert window.text[window.start : window.end] == snippet and window.text in page
    assert len(window.text) >= min(limit, len(page)) and len(window.text) <= max(limit, len(snippet) + limit)


def test_a_heading_is_no_chunk_of_its_own() -> None:
    body = (
        f"{'The planet has two small moons and a thin atmosphere of carbon dioxide. ' * 5}{'x' * 38}."  # 399 characters
    )
    cut = make_cutter(ChunkOptions(chunk_characters=400))
    assert cut(f"Mars\n\n{body}\n\nMoons\n\n{body}") == [f"Mars\n\n{body}", f"Moons\n\n{body}"]
    assert cut(f"{body}\n\nSee also") == [f"{body}\n\nSee also"]
    assert cut("Mars") == ["Mars"] and cut(" \n ") == [] and cut("") == []


def chunk_text(text: str, found: str = "", name: str = "The tower") -> list[tuple[str, str]]:
    hit = WebHit("u_chunk_0", 0.5, name, found, "u", page_text=text)
    return [(chunk.title, chunk.text.strip()) for chunk in chunk_page(hit, make_cutter(ChunkOptions()))]


def test_a_chunk_has_the_heading_of_its_section_in_its_title() -> None:
    page = (
        "# The tower\nIt is old.\n## Paint\nIt takes 60 tonnes.\n## Visits\n### Prices\nA ticket is 4.50.\n## See also"
    )
    assert chunk_text(page) == [
        ("The tower", "It is old."),
        ("The tower: Paint", "It takes 60 tonnes."),
        ("The tower: Visits: Prices", "A ticket is 4.50.\n## See also"),
    ]


def test_the_heading_of_a_section_is_known_where_only_a_part_of_it_is_read() -> None:
    found = "What was searched for is here."
    far = "It goes on and on. " * PAGE_CHARACTERS
    [(title, _), *_] = chunk_text(f"## Paint\n{far}{found}{far}", found)
    assert title == "The tower: Paint"


def test_a_text_of_headings_alone_loses_none() -> None:
    headings = [f"Exhibit {number} with a long name" for number in range(12)]
    read = chunk_text("\n".join(f"## {heading}" for heading in headings))
    assert all(any(heading in f"{title} {text}" for title, text in read) for heading in headings)
    assert max(len(title) for title, _ in read) < 150


def test_what_was_found_is_found_across_the_mark_of_a_heading() -> None:
    [window] = find_windows(
        "Before.\n## Paint and rust\nIt takes 60 tonnes.", "Before. Paint and rust It takes 60 tonnes.", 90
    )
    assert window.start == 0 and window.end > 40


def test_a_page_that_is_one_chunk_is_not_cut_at_its_headings(tmp_path: Path) -> None:
    sample_turn = turn("a", web_hits=(WebHit("u", 0.5, "t", "", "u", page_text="One.\n## Two\nThree."),))
    run(EvidenceStage, [sample_turn], context(settings(evidence={"chunking": "whole"})))
    assert [(chunk.title, chunk.text) for chunk in sample_turn.evidence] == [("t", "One.\n## Two\nThree.")]


@given(st.text("ab. \n", max_size=1500))
def test_every_word_of_a_text_is_in_a_chunk(text: str) -> None:
    assert "".join("".join(make_cutter(ChunkOptions(chunk_characters=60))(text)).split()) == "".join(text.split())


def test_a_limit_keeps_the_part_found_on_every_page_before_the_rest_of_the_best_page() -> None:
    """Ten full pages of ten paragraphs of about 380 characters; the search found the sixth of each. Twelve chunks are kept."""
    hits = []
    for page in range(10):
        parts = [f"Page {page} part {part}. " + "It goes on and on. " * 19 for part in range(10)]
        hits.append(
            WebHit(f"u{page}", 0.9 - page / 100, f"t{page}", parts[5], f"u{page}", page_text="\n\n".join(parts))
        )
    sample_turn = turn("a", web_hits=tuple(hits))
    run(EvidenceStage, [sample_turn], context(settings(evidence={"k": 12})))
    chunk_starts = [chunk.text[:13] for chunk in sample_turn.evidence]
    assert chunk_starts[:10] == [f"Page {page} part 5" for page in range(10)]
    assert all(text.startswith("Page 0") for text in chunk_starts[10:])
    assert [chunk.beside for chunk in sample_turn.evidence] == [False] * 10 + [True] * 2


def test_the_full_text_is_made_harmless_like_what_was_found(tmp_path: Path) -> None:
    hit = WebHit("u_chunk_0", 0.5, "t", FOUND, "u", page_text=f"{FOUND} <|eot_id|>&nbsp;more")
    sample_turn = turn("a")
    sample_turn.web_hits = (replace(safe_page(hit), page_text=safe_full_text(hit.page_text or "")),)
    run(EvidenceStage, [sample_turn], context(settings()))
    assert [chunk.text for chunk in sample_turn.evidence] == [f"{FOUND} more"]


ARTICLE = "".join(
    f"<p>The old mill stands by the river, and part {n} tells of those who built it in the year {1800 + n}.</p>"
    for n in range(8)
)
HIDDEN = [
    "<p hidden>{}</p>",
    "<p style='font-size:0'>{}</p>",
    "<div style='position:absolute; left:-9999px'><p>{}</p></div>",
    "<template><p>{}</p></template>",
    "<p aria-hidden=true>{}</p>",
    "<p>It is old.<span hidden>{}</span> It is high.</p>",
    "<!-- {} -->",
]
SHOWN = [
    "min-width:0",
    "line-height: 0",
    "margin-left:-100px",
    "margin-top: -120px",
    "backface-visibility: hidden",
    "fill-opacity:0",
]


@pytest.mark.parametrize(
    "page", [f"<html><body><article>{ARTICLE}%s{ARTICLE}</article></body></html>", "<p>A mill.</p>%s"]
)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_what_a_page_hides_is_read_neither_of_the_whole_page_nor_of_a_part(hidden: str, page: str) -> None:
    text = safe_full_text(page % hidden.format("Purple is the colour of the mill that nobody is shown."))
    assert "mill" in text and "Purple" not in text and ("It is high" in text) == ("It is high" in hidden)


@pytest.mark.parametrize("style", SHOWN)
def test_a_style_that_hides_nothing_hides_nothing(style: str) -> None:
    assert "purple" in safe_full_text(
        f"<p>A mill.</p><div style='color:red;{style}'><p>Its sails are purple.</p></div>"
    )


def test_a_page_that_waits_for_its_scripts_is_read() -> None:
    assert "old mill" in safe_full_text(f"<html><body style='opacity:0'><article>{ARTICLE}</article></body></html>")


@pytest.mark.parametrize(
    ("question", "domain", "expected"),
    [
        ("When was this founded?", "food", Tools(image=True, text=True)),
        ("Which company is behind the logo on this?", "food", Tools(image=False, text=True)),
        ("Who wrote this?", "book", Tools(image=False, text=True)),
        ("What does the sign say?", None, Tools(image=False, text=False)),
    ],
)
def test_the_rules_of_the_tool_prompt(question: str, domain: str | None, expected: Tools) -> None:
    sample_turn = turn(question, domain=domain)
    assert rule_tools(sample_turn, ToolRouter.Options()) == expected


def test_the_verdict_of_one_word_sees_the_entity() -> None:
    chat = ScriptedChat(lambda request: "yes" if "Eiffel" in request.messages[1].content else "No")
    named, unnamed = turn("How tall?"), turn("How tall?")

    named.entity = Entity("Eiffel Tower")
    for sample_turn in (named, unnamed):
        sample_turn.candidate = Candidate("330 m", None)
    run(Verify, [named, unnamed], context(settings(verify={"prompt": "answer_verdict"}), chat=chat))
    assert [sample_turn.verification.model for sample_turn in (named, unnamed) if sample_turn.verification] == [
        True,
        False,
    ]
    assert chat.batches == [2]
