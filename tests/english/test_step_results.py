"""Answers of several steps: computed from the facts of a plan, in words that answer the question."""

from __future__ import annotations

from typing import Any

import pytest

from agents.english.computation import ComputationError
from agents.english.step_plans import AskStep, ComputeStep, Plan, complete_plan, parse_plan
from agents.english.step_results import conclude

WEIGHTS = "1. ask: How heavy is a horse?\n2. ask: How heavy is a donkey?\n3. compute: larger [1] [2]"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Is the horse heavier than the donkey?", "Yes: horse"),
        ("Is the donkey heavier than the horse?", "No: horse"),
        ("Is this heavier than the donkey?", "Yes: horse"),
        ("Is this heavier than the horse?", "No: horse"),
        ("Is this one heavier than the other?", "Yes: horse"),
        ("Which of these two is heavier?", "horse"),
        ("Which of these two is heavier, and by how much?", "horse, by 300 kg"),
    ],
)
def test_a_comparison_ends_in_words_that_answer(question: str, answer: str) -> None:
    assert conclude(question, parse_plan(WEIGHTS), ["500 kg", "200 kg", ""], ["horse", "donkey"]) == answer


def test_which_of_two_is_answered_by_a_name_alone() -> None:
    question, things = "Is the horse or the donkey heavier?", ["horse", "donkey"]
    assert complete_plan(parse_plan(WEIGHTS), question, things) == parse_plan(WEIGHTS)
    assert conclude(question, parse_plan(WEIGHTS), ["500 kg", "200 kg", ""], things) == "horse"


@pytest.mark.parametrize(
    ("question", "plan_text", "facts", "answer"),
    [
        (
            "Are these two together heavier than an Asian elephant?",
            "{asks}\n3. ask: How heavy is an Asian elephant?\n4. compute: sum [1] [2]\n5. compute: larger [4] [3]",
            ["500 kg", "200 kg", "600 kg", "", ""],
            "Yes: 700 kg",
        ),
        (
            "Is a horse more than three times as heavy as a donkey?",
            "{asks}\n3. compute: product 3 [2]\n4. compute: larger [1] [3]",
            ["500 kg", "200 kg", "", ""],
            "No: 600 kg",
        ),
    ],
)
def test_a_ranking_of_what_was_computed_is_kept(question: str, plan_text: str, facts: list[str], answer: str) -> None:
    plan = parse_plan(plan_text.format(asks="1. ask: How heavy is a horse?\n2. ask: How heavy is a donkey?"))
    assert complete_plan(plan, question, ["horse", "donkey"]) == plan
    assert conclude(question, plan, facts, ["horse", "donkey"]) == answer
    with pytest.raises(ComputationError):  # a sum is no thing that "which" asks for
        conclude("Which is heavier?", plan, facts, ["horse", "donkey"])


def test_a_thing_is_found_by_its_name_without_the_qualifier() -> None:
    plan = parse_plan(
        "1. ask: How long is a day on Mercury?\n2. ask: How long is a day on Venus?\n3. compute: larger [1] [2]"
    )
    assert complete_plan(plan, "Which of these two has the longer day?", ["Mercury (planet)", "Venus"]) == plan
    conclusion = conclude("Which has the longer day?", plan, ["59 days", "243 days", ""], ["Mercury (planet)", "Venus"])
    assert conclusion == "Venus"


@pytest.mark.parametrize(
    ("asks", "answer"),
    [
        (("How much does Mosi weigh?", "How much does Bruno weigh?"), "Mosi, by 480 kg"),
        (("What is the weight of Mosi?", "How much does Bruno weigh?"), "What is the weight of Mosi, by 480 kg"),
        (("Weight of Mosi the giraffe?", "Weight of Bruno?"), "Mosi the giraffe, by 480 kg"),
    ],
)
def test_a_thing_outside_the_photo_is_named_by_the_words_that_only_its_question_has(
    asks: tuple[str, str], answer: str
) -> None:
    plan = Plan((*map(AskStep, asks), ComputeStep("larger", ("[1]", "[2]"))))
    assert conclude("By how much is it heavier than Bruno?", plan, ["1,180 kg", "700 kg", ""], ["Zola"]) == answer


BORN = (
    "1. ask: Who designed the Red Tower?\n2. ask: When was [1] born?\n3. ask: When was Frank Lloyd Wright born?\n"
    "4. compute: earlier [2] [3]"
)


PEOPLE = (
    "1. ask: In which city is the Red Tower?\n2. ask: What is the population of [1]?\n3. ask: How many live in London?\n"
    "4. compute: larger [2] [3]"
)


@pytest.mark.parametrize(
    ("question", "plan_text", "facts", "answer"),
    [
        ("Who is older, its architect or Frank Lloyd Wright?", BORN, ["Frank Gehry", "1929", "1867"], "Frank Lloyd Wright"),
        ("Who is older, its architect or Frank Lloyd Wright?", BORN, ["Ada Stone", "1829", "1867"], "Ada Stone"),
        ("Is its architect older than Frank Lloyd Wright?", BORN, ["Ada Stone", "1829", "1867"], "Yes: Ada Stone"),
        ("Is its architect older than Frank Lloyd Wright?", BORN, ["Frank Gehry", "1929", "1867"], "No: Frank Lloyd Wright"),
        ("Which has more people, its city or London?", PEOPLE, ["Tokyo", "14 million", "8.9 million"], "Tokyo"),
        ("Does its city have more people than London?", PEOPLE, ["Red Tower Bay", "14 million", "9 million"], "Yes: Red Tower Bay"),
        (
            "Which had more people when it was built?",
            "1. ask: When was the Red Tower built?\n2. ask: How many lived in Linz in [1]?\n3. ask: How many lived in Graz in [1]?\n"
            "4. compute: larger [2] [3]",
            ["1889", "47,000", "112,000"],
            "Graz",
        ),
        (
            "Are these two together heavier than an Asian elephant?",
            "1. ask: How heavy is a horse?\n2. ask: How heavy is a donkey?\n3. ask: How heavy is an Asian elephant?\n"
            "4. compute: sum [1] [2]\n5. compute: larger [4] [3]",
            ["500 kg", "200 kg", "4000 kg", ""],
            "No: an Asian elephant",
        ),
    ],
)  # fmt: skip
def test_a_thing_that_an_earlier_step_found_is_named_by_its_answer(
    question: str, plan_text: str, facts: list[str], answer: str
) -> None:
    assert conclude(question, parse_plan(plan_text), [*facts, ""], ["Red Tower"]) == answer


@pytest.mark.parametrize("operation", ["earlier", "later"])
@pytest.mark.parametrize(
    ("question", "facts", "answer"),
    [
        ("Was this built before the Colosseum?", ["126 AD", "80 AD"], "No: Colosseum"),
        ("Was this built before the Colosseum?", ["27 BC", "80 AD"], "Yes: Pantheon"),
        ("Was this built after the Colosseum?", ["126 AD", "80 AD"], "Yes: Pantheon"),
        ("Was the Colosseum finished before the Pantheon was?", ["126 AD", "80 AD"], "Yes: Colosseum"),
        ("Was this begun before its architect died?", ["126 AD", "80 AD"], None),
        ("Was this, rebuilt after a fire, built before the Colosseum?", ["126 AD", "80 AD"], None),
    ],
)
def test_the_order_of_events_is_answered_only_if_the_question_names_the_other_thing(
    question: str, operation: str, facts: list[str], answer: str | None
) -> None:
    asks = "1. ask: When was the Pantheon built?\n2. ask: When was the Colosseum built?"
    plan = parse_plan(f"{asks}\n3. compute: {operation} [1] [2]")
    if answer is None:
        with pytest.raises(ComputationError):
            conclude(question, plan, [*facts, ""], ["Pantheon"])
    else:
        assert conclude(question, plan, [*facts, ""], ["Pantheon"]) == answer


def test_things_of_one_name_have_no_order() -> None:
    plan = parse_plan(
        "1. ask: When was the book Dune published?\n2. ask: When was the film Dune shot?\n3. compute: earlier [1] [2]"
    )
    with pytest.raises(ComputationError):
        conclude("Did the film come out before the book?", plan, ["1965", "1984", ""], ["Dune"])


@pytest.mark.parametrize(
    ("question", "facts", "answer"),
    [
        ("Which is older, and by how much?", ["31 March 1889", "28 October 1886"], "fort, by 2 years"),
        ("Which was built first, and by how many days?", ["1 May 2001", "20 May 2001"], "tower, by 19 days"),
        ("Which was built first?", ["1889", "1886"], "fort"),
    ],
)
def test_by_how_much_one_date_is_before_another_is_a_time(question: str, facts: list[str], answer: str) -> None:
    plan = parse_plan(
        "1. ask: When was the tower built?\n2. ask: When was the fort built?\n3. compute: earlier [1] [2]"
    )
    assert conclude(question, plan, [*facts, ""], ["tower", "fort"]) == answer


@pytest.mark.parametrize(
    ("question", "carried", "answer"),
    [
        ("How many of these would I need?", "200 kg", "5"),
        ("How many of these would I need?", "0.9 kg", "1,000"),
        ("How many times as much does a truck carry?", "200 kg", "4.5"),
        ("How many times heavier is that than what it carries?", "200 kg", "4.5"),
    ],
)
def test_as_many_as_are_needed_are_whole_and_a_factor_is_not(question: str, carried: str, answer: str) -> None:
    plan = Plan((AskStep("How much does a camel carry?"), ComputeStep("ratio", ("900", "[1]"))))
    assert conclude(question, plan, [carried, ""], ["camel"]) == answer


@pytest.mark.parametrize(
    ("asks", "facts", "answer"),
    [
        ("What does a 747 weigh?|What does an A380 weigh?", ["A 747 weighs 183,500 kg", "277,000 kg"], "93,500 kg"),
        (
            "What does a 747 weigh?|What does an A380 weigh?",
            ["The 747-400: 183,500 kg", "The A380: 277,000 kg"],
            "93,500 kg",
        ),
        (
            "How much is the 50 yen coin?|How much is the 10 yen coin?",
            ["50 yen", "A 10 yen coin is worth 10 yen"],
            "40 yen",
        ),
        ("How many live in it?|How many lived in it in 2012?", ["5,630 in 2018", "2,012 in 2012"], "3,618"),
    ],
)
def test_a_figure_of_the_subject_is_not_its_fact(asks: str, facts: list[str], answer: str) -> None:
    plan = Plan((*map(AskStep, asks.split("|")), ComputeStep("difference", ("[1]", "[2]"))))
    assert conclude("What is the difference in weight?", plan, [*facts, ""], []) == answer


def test_a_count_names_what_it_counts() -> None:
    asks = "".join(f"ask: When was the {name} built?\n" for name in ("Red Tower", "Blue Bridge", "Old Fort"))
    plan, things = (
        parse_plan(f"{asks}compute: count [1] [2] [3] before 1900"),
        ["Red Tower", "Blue Bridge", "Old Fort (fort)"],
    )
    question = "How many of these three were built before 1900?"
    assert (
        conclude(question, plan, ["1889", "1931", "1672 to 1695", ""], things) == "2 of the 3: Red Tower and Old Fort"
    )
    assert conclude(question, plan, ["1989", "1931", "1972", ""], things) == "0 of the 3"


@pytest.mark.parametrize(
    ("question", "operation", "facts", "answer"),
    [
        ("When do they hatch?", "sum", ["1 March", "21 days"], "22 March"),
        ("When do they hatch?", "sum", ["1 March", "28 to 35 days"], "29 March to 5 April"),
        ("When is it born?", "sum", ["28 February 2024", "two days"], "1 March 2024"),
        ("When does it end?", "sum", ["31 January 2023", "1 month"], "28 February 2023"),
        ("When did she begin?", "difference", ["1 March 1990", "3 weeks"], "8 February 1990"),
        ("When was it rebuilt?", "sum", ["1889", "12 years"], "1901"),
        ("How old was he when he was elected?", "difference", ["29 May 1917", "8 November 1960"], "43 years"),
        ("How many days lie between them?", "difference", ["1 March 2024", "1 February 2024"], "29 days"),
        ("How much older is it?", "difference", ["1889", "1931"], "42 years"),
        ("How long did it take?", "difference", ["1 May 2001", "20 May 2001"], "19 days"),
        ("What is the difference in weight?", "difference", ["1500", "2000"], "500"),
        ("By how many had they grown since 2012?", "difference", ["5,630 in 2018", "4,845 in 2012"], "785"),
    ],
)
def test_dates_by_hand(question: str, operation: Any, facts: list[str], answer: str) -> None:
    plan = Plan((AskStep("A?"), AskStep("B?"), ComputeStep(operation, ("[1]", "[2]"))))
    assert conclude(question, plan, [*facts, ""], []) == answer


@pytest.mark.parametrize(
    ("question", "facts"),
    [
        ("How many days lie between them?", ["1889", "1931"]),
        ("How many years lie between them?", ["100 BC", "AD 100"]),
        ("When?", ["1889", "3 days"]),
        ("When?", ["1 March", "9999999 years"]),
        ("How long?", ["1 March", "5 April"]),
    ],
)
def test_a_date_that_says_too_little_is_an_error(question: str, facts: list[str]) -> None:
    operation: Any = "difference" if "between" in question or "long" in question else "sum"
    plan = Plan((AskStep("A?"), AskStep("B?"), ComputeStep(operation, ("[1]", "[2]"))))
    with pytest.raises(ComputationError):
        conclude(question, plan, [*facts, ""], [])


@pytest.mark.parametrize(
    ("printed", "answer"),
    [
        ("1250.75 + 99.50 =", "1250.75 + 99.50 = 1,350.25"),
        ("12345 / 100 =", "12345 / 100 = 123.45"),
        ("12,50 + 8,75 =", "12,50 + 8,75 = 21.25"),
        ("1,250 + 8 =", "1,250 + 8 = 1,258"),
        ("10 / 3 =", "10 / 3 = 3.333"),
    ],
)
def test_what_is_printed_is_worked_out_to_the_last_digit(printed: str, answer: str) -> None:
    assert conclude("What is the result?", Plan((ComputeStep("value", (printed,)),)), [""], []) == answer
