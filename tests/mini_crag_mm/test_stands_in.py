"""Whether a short answer stands in a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mini_crag_mm.generator.set_rules import is_stated_in, normalise


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
    assert is_stated_in(answer, evidence) is expected


@given(st.text(max_size=80))
def test_any_text_states_itself(text: str) -> None:
    """Normalising twice may change it: "¼00" is the numbers 1 and 400, which then read as one with its separator."""
    assert is_stated_in(text, text) is bool(normalise(text))
