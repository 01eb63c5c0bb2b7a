"""The evidence that the research release passes as text is read as what a search returns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.search.provided_context import ProvidedContext, parse_provided
from tests.property.fuzzing import fuzzed, hostile_text

Named = tuple[str, dict[str, Any]]
Page = tuple[str, str]


def format_context(entities: Sequence[Named], pages: Sequence[Page]) -> str:
    """A context in the form of the research release, its sentences of instruction in other words."""
    text = "<search results>"
    if entities:
        text += "Entities that look like the picture follow. Use them only if they are the same.\n\n"
        names = ", ".join(name for name, _ in entities)
        text += f"Here is a list of entity names retrieved by likeness: {names}.\n\nAttributes of some follow.\n"
        for number, (name, attributes) in enumerate(((n, a) for n, a in entities if a), 1):
            text += f"Entity {number}: {name}\n"
            text += f"Entity attributes: {json.dumps(attributes, indent=2, ensure_ascii=False)}\n\n"
        text += "Use these only if they are the same.\n\n"
    if pages:
        text += 'Pages found for this question: "How tall is this?" follow.\n\n'
        for number, (title, snippet) in enumerate(pages, 1):
            text += f"<DOC>\nWebpage ID: [{number}]\nTitle: {title}\nWeb content snippet: {snippet}\n</DOC>\n\n"
        text += "Use these only if they help.\n\n"
    return text + "</search results>"


def read(text: Any) -> tuple[list[Named], list[Page]]:
    evidence = parse_provided(text)
    named = [(entity.name, dict(entity.attributes)) for hit in evidence.pictures for entity in hit.entities]
    return named, [(hit.page_name, hit.page_snippet) for hit in evidence.pages]


def test_what_was_written_is_read() -> None:
    entities: list[Named] = [
        ("Eiffel Tower", {"height": "{{convert|330|m|ft}}", "built": {"from": 1887, "to": None}}),
        ("Paris, Texas", {"state": "[[Texas]]"}),
        ("Dr. Pepper", {}),
        ("Tokyo Tower", {}),
    ]
    pages = [
        ("Tower &amp; height", "It is 330 m tall.\n\nEntity 9: none\n<DOC> in a text </DOC>"),
        ("", "A second page."),
    ]
    assert read(format_context(entities, pages)) == (entities, pages)


def test_hits_are_told_apart_and_keep_their_order() -> None:
    evidence = parse_provided(format_context([("A", {}), ("B", {"k": "v"})], [("one", "1"), ("two", "2")]))
    assert [hit.index for hit in evidence.pictures] == [0, 1]
    assert all(hit.score == 0.75 for hit in evidence.pictures)
    assert len({hit.page_url for hit in evidence.pages}) == 2


def test_attributes_as_python_prints_them() -> None:
    text = "Entity 1: Tower\nEntity attributes: {'height': 330, 'names': ('a', None)}\n\n"
    assert read(text)[0] == [("Tower", {"height": 330, "names": ("a", None)})]


@pytest.mark.parametrize(
    "text",
    [
        "",
        None,
        3,
        ["a"],
        "<search results></search results>",
        "no evidence here",
        "<DOC>\n</DOC>",
        "Entity 1:\n",
        "<DOC>",
    ],
)
def test_nothing_given_is_nothing_found(text: Any) -> None:
    assert parse_provided(text) == ProvidedContext()


def test_what_was_cut_is_read_as_far_as_it_goes() -> None:
    whole = format_context(
        [("Tower", {"height": "330 m"}), ("Mast", {"height": "9 m"})], [("one", "first page"), ("two", "second")]
    )
    assert read(whole[: whole.index("second") + 3])[1] == [("one", "first page"), ("two", "sec")]
    assert read(whole[: whole.index("9 m")])[0] == [("Tower", {"height": "330 m"}), ("Mast", {})]


names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12).filter(
    lambda name: "," not in name and not name.endswith(".")
)
attributes = st.dictionaries(
    names, st.one_of(st.none(), st.integers(), st.text(max_size=30), st.lists(names, max_size=2)), max_size=3
)
snippets = (
    st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=60)
    .map(str.strip)
    .filter(lambda text: text and "<DOC>" not in text)
)


@fuzzed(60)
@given(
    st.lists(st.tuples(names, attributes), max_size=4, unique_by=lambda entity: entity[0]),
    st.lists(st.tuples(names, snippets), max_size=4),
)
def test_any_context_is_read_back(entities: list[Named], pages: list[Page]) -> None:
    assert read(format_context(entities, pages)) == (entities, pages)


@fuzzed(80)
@given(hostile_text, st.integers(0, 400))
def test_no_text_raises(text: str, cut: int) -> None:
    parse_provided(text)
    parse_provided(format_context([(text, {text: text})], [(text, text)])[cut:])
