"""Infobox markup becomes readable text, and no markup breaks the reader."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.texts.wikitext import flatten, plain


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("{{convert|870|ft|m}}", "870 ft"),
        ("{{convert|1,083|ft|m|0|abbr=on}}", "1,083 ft"),
        ("{{convert|5|to|10|kg}}", "5 to 10 kg"),
        ("{{convert|5|ft|11|in|m}}", "5 ft 11 in"),
        ("[[Paris]], [[French Republic|France]]<ref>a source</ref>", "Paris, France"),
        ("[[Stephen Sauvestre]]<br />[[Maurice Koechlin]]", "Stephen Sauvestre; Maurice Koechlin"),
        ("{{plainlist|\n* one\n* [[two|second]]\n}}", "one; second"),
        ("{{ubl|a|b}}", "a; b"),
        ("{{start date|1889|3|31}}", "31 March 1889"),
        ("{{start date|1889|3}}", "March 1889"),
        ("{{nowrap|{{circa|1880}}}}", "c. 1880"),
        ("{{height|m=1.8}}", "1.8"),
        ("'''bold''' &amp; ''italic''", "bold & italic"),
        ("[[File:x.jpg|thumb]] rest", "rest"),
        ("{{coord|48|51|N|2|17|E|display=inline}}", "48 51 N 2 17 E"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_markup_becomes_plain_text(raw: str, text: str) -> None:
    assert plain(raw) == text


def test_nested_values_are_flattened_and_empty_ones_left_out() -> None:
    value = {"opened": "31 March", "closed": None, "by": ["[[A]]", "", "B"], "deep": {"x_y": 3}}
    assert list(flatten("opening", value)) == [
        ("opening opened", "31 March"),
        ("opening by", "A; B"),
        ("opening deep x y", "3"),
    ]


def test_cyclic_values_end() -> None:
    cyclic: dict[str, object] = {"a": "1"}
    cyclic["self"] = cyclic
    assert ("k a", "1") in list(flatten("k", cyclic))


def test_a_huge_value_costs_little_time() -> None:
    started = time.perf_counter()
    plain("{{convert|" * 1_000_000)
    assert time.perf_counter() - started < 10  # unbounded parsing of 10 MB takes minutes


@given(st.text(alphabet="[]{}|<>/'=&;#*abc 1\n", max_size=200))
def test_no_markup_breaks_the_reader(raw: str) -> None:
    assert "\n" not in plain(raw)
