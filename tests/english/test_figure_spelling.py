"""Fractions and raised figures keep their values when texts are compared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.english.figure_spelling import spell_figures
from evaluation.judge.rule_judge import RuleJudge
from evaluation.records import JudgeItem


@pytest.mark.parametrize(
    ("text", "spelt"),
    [
        ("2½ m", "2.5 m"),
        ("2 ½ cups", "2.5 cups"),
        ("½ m", "0.5 m"),
        ("¾-inch", "0.75-inch"),
        ("⅓", "0.3333"),
        ("2 1/2 m", "2.5 m"),
        ("5 1⁄2", "5.5"),
        ("1⁄4", "0.25"),
        ("1/2/2020", "1/2/2020"),
        ("9/11", "9/11"),
        ("24/7", "24/7"),
        ("on 7 9/2", "on 7 9/2"),
        ("opened in 1862³", "opened in 1862"),
        ("Paris²", "Paris"),
        ("20 m², 3 km³", "20 m2, 3 km3"),
        ("10⁶ people", "1000000 people"),
        ("10⁻³ g", "0.001 g"),
        ("5.97×10²⁴ kg", "5.97×10^24 kg"),
        ("1.10²", "1.10"),
        ("²³½ €", "0.5 €"),
    ],
)
def test_figures_are_spelt_as_decimals(text: str, spelt: str) -> None:
    assert spell_figures(text) == spelt


@given(st.text("0123456789½⅓¼¹²³⁰⁵⁹⁻⁺⁄/., am-", max_size=30))
def test_no_text_breaks_it(text: str) -> None:
    spell_figures(text)


@pytest.mark.parametrize(
    ("truth", "response", "right"),
    [
        ("2 m", "½ m", False),
        ("21 m", "2½ m", False),
        ("2.5 m", "It is 2½ m long.", True),
        ("2.5 m", "It is 2 1/2 m long.", True),
        ("0.5 m", "½ m", True),
        ("0.5 m", "It is 1/2 m long.", True),
        ("26 m", "1/26 m", False),
        ("2 m", "1/2 m", False),
        ("1862", "It opened in 1862³.", True),
        ("20 m²", "20 square metres", True),
    ],
)
def test_the_rule_judge_compares_fractions_by_value(truth: str, response: str, right: bool) -> None:
    assert RuleJudge().judge(JudgeItem("How much is it?", truth, response, (truth,))).correct is right
