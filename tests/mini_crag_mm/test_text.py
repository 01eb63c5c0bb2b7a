"""Plain text of infobox values, and whether a short answer stands in it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mini_crag_mm.generator.text import normal, plain_attribute, plain_markup, stands_in


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("[[Stephen Sauvestre|Sauvestre]]<br />[[Maurice Koechlin]]", "Sauvestre Maurice Koechlin"),
        ("{{convert|330|m|ft|0}}", "330 m"),
        ("{{convert|50|-|65|cm|in|abbr=on}}", "50 - 65 cm"),
        ("{{nowrap|40–50 years}}", "40–50 years"),
        ("{{circa|1880}}<ref>A book, p. 3</ref>", "circa 1880"),
        ("{{plainlist|{{convert|3|kg|lb}}}}", "3 kg"),
        ("''Ara macao'' &amp; '''others'''", "Ara macao & others"),
        ('1889<ref name="x" />', "1889"),
    ],
)
def test_markup_becomes_what_a_reader_sees(raw: str, plain: str) -> None:
    assert plain_markup(raw) == plain


@pytest.mark.parametrize(
    ("value", "plain"),
    [(None, ""), ({}, ""), (1889, "1889"), (["a", None], "a; "), ({"to_public": "[[May]] 15"}, "to public May 15")],
)
def test_every_kind_of_value_has_text(value: Any, plain: str) -> None:
    assert plain_attribute(value) == plain


@pytest.mark.parametrize(
    ("answer", "evidence", "expected"),
    [
        ("330 metres", "height 330 m", True),
        ("1,083 ft", "It is 1083 feet tall", True),
        ("33 m", "330 m", False),
        ("Café", "the CAFE opened", True),
        ("Paris, France", "in France: Paris", True),
        ("London", "in France: Paris", False),
        ("300 gallons", "300 USgal", True),
        ("", "anything", False),
    ],
)
def test_answers_are_found_by_words_and_numbers(answer: str, evidence: str, expected: bool) -> None:
    assert stands_in(answer, evidence) is expected


@given(st.text(max_size=80))
def test_any_text_is_taken(text: str) -> None:
    plain_markup(text)
    assert normal(normal(text)) == normal(text)
