"""Questions that take steps, and what stands printed in a photo."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.english.computation import ComputationError, calculate
from agents.english.printed_text import attach_labels
from agents.english.step_plans import parse_plan
from agents.english.step_results import conclude
from agents.english.step_rules import mentions_printed_text, needs_steps, plan_calculation
from agents.models.base import Box, TextLine


def line(text: str, left: float, top: float, width: float = 80) -> TextLine:
    return TextLine(text, Box(left, top, left + width, top + 20), 0.9)


@pytest.mark.parametrize(
    ("turn_id", "question", "is_printed"),
    [
        ("ani_q016", "Which river city is the capital of the country that has this as its national animal?", False),
        ("ani_q018", "Is the animal on the left usually heavier than the one on the right?", False),
        ("ani_q019", "How many chromosomes do these two have if you add them up?", False),
        ("ani_m003#2", "By how many had they grown since 2012?", False),
        ("mon_q013", "In which town was the man who designed this statue born?", False),
        ("mon_q021", "How many of these three sights were already on the World Heritage list before 1990?", False),
        ("nat_q020", "If both of these birds lay a full clutch, how many eggs is that at most?", False),
        ("nat_q022", "If she starts sitting on her eggs on the 1st of March, on which date should they hatch?", False),
        ("nat_q023", "How many of these trees would I need at the very least to harvest 300 fruits a year?", False),
        ("nat_q024", "What do I pay for one avocado and one broccoli together?", True),
        (
            "obj_q021",
            "Are these two coins enough for the coffee on the sign, and if so, how much change do I get?",
            True,
        ),
        ("obj_q023", "With the numbers on this label, what is the exit pupil of the binoculars?", True),
        ("obj_m003#1", "How old was he when he was elected president?", False),
    ],
)
def test_questions_of_several_facts_take_steps(turn_id: str, question: str, is_printed: bool) -> None:
    assert needs_steps(question), turn_id
    assert mentions_printed_text(question) is is_printed, turn_id


@pytest.mark.parametrize(
    ("turn_id", "question", "is_printed"),
    [
        ("ani_q001", "How tall can this animal get?", False),
        ("mon_q024", "What does a ticket cost according to the sign?", True),
        ("obj_q024", "What does this come to?", True),
    ],
)
def test_a_question_of_one_fact_takes_no_steps(turn_id: str, question: str, is_printed: bool) -> None:
    assert not needs_steps(question), turn_id
    assert mentions_printed_text(question) is is_printed, turn_id


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (["12 x 15 + 20 = ?"], "12 x 15 + 20 = 200"),
        (["7 - 5 =", "24/7"], "7 - 5 = 2"),
        (["(2+3)x4="], "(2+3)x4 = 20"),
        (["12 x 15 = 180"], None),
        (["COLA", "6 x 330"], None),
        (["1 + 1 =", "2 + 2 ="], None),
        (["Call 555-1234", "24/7"], None),
        ([], None),
    ],
)
def test_the_single_calculation_without_a_result_is_worked_out(lines: list[str], answer: str | None) -> None:
    plan = plan_calculation(lines)
    assert (plan and conclude("How much is this?", plan, [""], [])) == answer


@given(st.text(max_size=80))
def test_any_text_of_a_photo_can_be_read(text: str) -> None:
    with contextlib.suppress(ComputationError):
        calculate(text)
    plan = plan_calculation([text])
    assert plan is None or parse_plan(str(plan)) == plan


def test_a_figure_stands_behind_its_label() -> None:
    stall = [line("AVOCADO", 0, 0), line("GINGER", 200, 0), line("$1.50 EACH", 0, 40), line("$0.80 EACH", 200, 40)]
    assert attach_labels(stall) == ["AVOCADO $1.50 EACH", "GINGER $0.80 EACH"]
    receipt = [line("MARKET", 50, 0), line("TOTAL", 0, 40), line("4.80", 200, 42)]
    assert attach_labels(receipt) == ["MARKET", "TOTAL 4.80"]
    assert attach_labels([line("12", 0, 0), line("15", 0, 40)]) == ["12", "15"]
