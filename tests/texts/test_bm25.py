"""Passages are scored by the words that they share with a question."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.texts.bm25 import score_words, split_words


def test_scores_are_those_of_the_formula() -> None:
    # Four words each, so that the length does not count. "mill" is in one of two passages: ln(1 + 1.5 / 1.5) = ln 2; "the" in both:
    # ln(1 + 0.5 / 2.5) = ln 1.2. Twice "mill": 2 * 2.2 / (2 + 1.2) = 1.375.
    scores = score_words(["the mill, old mill", "the house is red"], ["the mill"])
    assert scores == pytest.approx([1.375 * math.log(2) + math.log(1.2), math.log(1.2)])


def test_of_equal_passages_the_shorter_one_is_better() -> None:
    short, long = score_words(["a mill", "a mill and much else that nobody asked about"], ["mill"])
    assert short > long > 0


def test_the_best_of_several_questions_counts() -> None:
    passages = ["Quibblewing eats pears", "the gate opens at nine"]
    both = score_words(passages, ["Quibblewing", "gate"])
    assert both == [score_words(passages, ["Quibblewing"])[0], score_words(passages, ["gate"])[1]]


def test_endings_and_scripts_without_blanks_do_not_matter() -> None:
    assert split_words("Besichtigungen der Führungen") == ["besich", "der", "führun"]
    assert split_words("東京タワー 333 m") == [
        "東京",
        "京タ",
        "タワ",
        "ワー",
        "333",
        "m",
    ]
    tower, other = score_words(["東京タワーの高さ", "大阪城"], ["東京タワー"])
    assert tower > other == 0


@given(st.lists(st.text(max_size=40), max_size=6), st.lists(st.text(max_size=20), max_size=3))
def test_any_text_has_a_finite_score(passages: list[str], questions: list[str]) -> None:
    scores = score_words(passages, questions)
    assert len(scores) == len(passages) and all(0 <= score < math.inf for score in scores)
