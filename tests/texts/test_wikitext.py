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
        ("{{circa|1503|1506}}", "c. 1503–1506"),
        ("{{circa|lk=no|1503}}", "c. 1503"),
        ("{{height|m=1.8}}", "1.8 m"),
        ("{{height|ft=6|in=2}}", "6 ft 2 in"),
        ("{{height|cm=188|precision=0}}", "188 cm"),
        ("{{val|384399|u=km}}", "384399 km"),
        ("{{val|5.97237|e=24|u=kg}}", "5.97237×10^24 kg"),
        ("{{val|9.8|ul=m|up=s2}}", "9.8 m/s2"),
        ("{{val|5.1|0.2|u=km}}", "5.1 km"),
        ("{{val|42}}", "42"),
        ("5.97237{{e|24}} kg", "5.97237×10^24 kg"),
        ("{{10^|-3}} m", "10^-3 m"),
        ("10<sup>24</sup> kg", "10^24 kg"),
        ("10<sup>−6</sup> m", "10^−6 m"),
        ("10{{sup|24}} kg", "10^24 kg"),
        ("330 m<sup>2</sup>, the 18<sup>th</sup>, H<sub>2</sub>O", "330 m2, the 18th, H2O"),
        ("3{{frac|1|2}} in", "3 1/2 in"),
        ("{{frac|3|1|2}} in", "3 1/2 in"),
        ("{{frac|4}}", "1/4"),
        ("5.1{{±|0.2}} km", "5.1 ± 0.2 km"),
        ("1990{{ndash}}1995", "1990–1995"),
        ("1990{{snd}}1995", "1990 – 1995"),
        ("May{{spaced ndash}}June", "May – June"),
        ("5{{times}}10{{nbsp}}m", "5×10 m"),
        ("{{formatnum:1234567}} people", "1234567 people"),
        ("Paris{{br}}France", "Paris; France"),
        ("{{native name|fr|Tour Eiffel}}", "Tour Eiffel"),
        ("{{native name|fr|Tour Eiffel|paren=omit}}", "Tour Eiffel"),
        ("{{gaps|384|399}} km", "384399 km"),
        ("'''bold''' &amp; ''italic''", "bold & italic"),
        ("[[File:x.jpg|thumb]] rest", "rest"),
        ("{{coord|48|51|N|2|17|E|display=inline}}", "48 51 N 2 17 E"),
        ("{{convert|3|x|4|x|5|m}}", "3 x 4 x 5 m"),
        ("{{cvt|8.5|by|11|in|mm|0}}", "8.5 by 11 in"),
        ("{{start date|2010|²}}", "2010"),
        ("330 m{{update inline|date=May 2020|reason=old}}", "330 m"),
        ("330 m {{when|date=May 2020}}", "330 m"),
        ("5{{rp|23}} m{{sfnp|Smith|2010|p=3}}{{efn-ua|A note.}}", "5 m"),
        ("{{vgrelease|NA=2001|JP=2002}}", "2001; 2002"),
        ("{{Plainlist|1=\n* one\n* two\n}}", "one; two"),
        ("{{collapsible list|title=All|1=A|2=B}}", "A; B"),
        ("{{sortname|John|Smith}}, {{sort|1889|March 1889}}", "John Smith, March 1889"),
        ("{{dts|2010|5|4}}", "4 May 2010"),
        ("{{duration|m=3|s=5}}", "3:05"),
        ("{{duration|3:45}}", "3:45"),
        ("{{age|1950|1|1}}", ""),
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
