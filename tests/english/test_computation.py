"""Quantities, dates and calculations of short answers, and what is computed with them."""

from __future__ import annotations

import contextlib
import datetime
from typing import Any, get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agents.english.computation import (
    ComputationError,
    Result,
    calculate,
    compute,
    compute_dates,
    parse_quantity,
    rank_facts,
    select_facts,
)
from agents.english.dates import Day, Span, is_date, measure_span, move, parse_day
from agents.english.step_plans import Condition, Test

dates = st.dates(min_value=datetime.date(1000, 1, 1), max_value=datetime.date(2900, 12, 31))


def as_day(date: Any) -> Day:
    return Day(date.year, date.month, date.day)


@pytest.mark.parametrize(
    ("text", "bound", "value", "unit"),
    [
        ("It weighs 1,480 kg on average.", "middle", 1480, "kg"),
        ("8-13 eggs", "high", 13, "eggs"),
        ("8 to 13 eggs", "low", 8, "eggs"),
        ("61 - 76 cm", "middle", 68.5, "cm"),
        ("about 0.38 g", "middle", 0.38, "g"),
        ("14,50", "middle", 14.5, ""),
        ("$2.75", "middle", 2.75, "$"),
        ("0.25 U.S. dollars", "middle", 0.25, "US dollars"),
        ("300 US gallons", "middle", 300, "US gallons"),
        ("58.65 d.", "middle", 58.65, "d"),
        ("5.000 U.S. dollars", "middle", 5, "US dollars"),
        ("about 11 months (335–340 days)", "middle", 11, "months"),
        ("two hundred years", "middle", 200, "years"),
        ("three hundred and sixty-five days", "middle", 365, "days"),
        ("between two and four weeks", "low", 2, "weeks"),
        ("about one month", "middle", 1, "month"),
        ("one egg", "middle", 1, "egg"),
        ("2.1 million", "middle", 2_100_000, ""),
        ("about 7 to 8 million people", "low", 7_000_000, "people"),
        ("$1.5 billion", "middle", 1.5e9, "$"),
        ("-38.83 °C", "middle", -38.83, "°C"),
        ("\u221265 to \u221220 °C", "low", -65, "°C"),
        ("minus 5 degrees", "middle", -5, "degrees"),
        ("6 ft 4 in", "middle", 76, "inches"),
        ("8 hours and 56 minutes", "middle", 8 + 56 / 60, "hours"),
        ("1 mile, 1.6 km", "middle", 1, "mile"),
        ("An A380 weighs 277,000 kg", "middle", 277_000, "kg"),
        ("A B-52 has 8 engines", "middle", 8, "engines"),
        ("1.2 million square kilometers", "middle", 1_200_000, "square kilometers"),
        ("5 metric tons", "middle", 5, "metric tons"),
        ("10 nautical miles", "middle", 10, "nautical miles"),
        ("20 degrees Celsius", "middle", 20, "degrees Celsius"),
        ("35 km/h (22 mph)", "middle", 35, "km/h"),
        ("11 in", "middle", 11, "inches"),
        ("11 in 2018", "middle", 11, ""),
        ("75 fruits a year", "middle", 75, "fruits"),
        ("a 12-foot-long alligator", "middle", 12, "foot"),
        ("2+ years", "middle", 2, "years"),
        ("3½ m", "middle", 3.5, "m"),
        ("3 3/4 in", "middle", 3.75, "inches"),
        ("1/2 m²", "middle", 0.5, "m2"),
        ("500 g to 1 kg", "high", 1000, "g"),
        ("-10 °C to -4 °C", "low", -10, "°C"),
        ("between 1,000 lb and 1,500 lb", "middle", 1250, "lb"),
    ],
)
def test_quantities_of_short_answers(text: str, bound: Any, value: float, unit: str) -> None:
    quantity = parse_quantity(text, bound)
    assert (quantity.value, quantity.words) == (pytest.approx(value), unit)


@pytest.mark.parametrize(
    "text",
    [
        "5.97×10^24 kg",
        "5.97×1024 kg",
        "1.9e27 kg",
        "3 x 10 cm",
        "24/7",
        "8.1/10",
        "9/10/2020",
        "330 ± 5 m",
        "1 hour and a half",
        "two and a half metres",
        "half a million",
        "two-thirds",
        "eighteen eighty-nine",
        "one of the oldest",
        "no one",
        "a tower",
        "1,000 lb and 1,500 lb",
        "2 pm",
        "8x42 binoculars with 42 mm",
        "44th, of 50",
        "5'11\"",
        "44th",
    ],
)
def test_a_number_that_would_be_read_in_part_is_none(text: str) -> None:
    with pytest.raises(ComputationError):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("operation", "facts", "answer"),
    [
        ("sum", ["64", "62"], "126"),
        ("sum", ["64", "62 chromosomes"], "126 chromosomes"),
        ("sum", ["$1.50", "$2.25"], "$3.75"),
        ("sum", ["1 kg", "500 g"], "1.5 kg"),
        ("sum", ["25 cents", "10 cents"], "35 cents"),
        ("sum", ["$1.50", "25 cents"], "$1.75"),
        ("sum", ["100 calories", "250 kcal"], "350 calories"),
        ("difference", ["5.000 g", "5.67 g"], "0.67 g"),
        ("difference", ["$3", "275 cents"], "$0.25"),
        ("difference", ["3 children", "1 child"], "2 children"),
        ("difference", ["4 metric tons", "2,300 kg"], "1.7 metric tons"),
        ("ratio", ["500 g", "50 g per serving"], "10"),
        ("ratio", ["300", "75 fruits a year"], "4"),
        ("ratio", ["300 pages", "30 pages a day"], "10"),
        ("product", ["50", "0.38"], "19"),
        ("product", ["3", "4/5"], None),
        ("sum", ["I don't know", "3"], None),
        ("sum", ["3 kg", "3 m"], None),
        ("sum", ["£3", "$4"], None),
        ("sum", ["3 dollars", "2 euros"], None),
        ("ratio", ["3", "0"], None),
        ("difference", ["42 eggs", "3 kg"], None),
    ],
)
def test_quantities_of_one_kind_are_computed_with(operation: Any, facts: list[str], answer: str | None) -> None:
    if answer is not None:
        assert str(compute(operation, facts)) == answer
        return
    with pytest.raises(ComputationError):
        compute(operation, facts)


def test_a_sum_at_most_takes_the_high_ends() -> None:
    assert compute("sum", ["8-13 eggs", "2 eggs"], "high") == Result(15, "eggs", exact=True)


@pytest.mark.parametrize(
    ("operation", "facts", "result_text"),
    [
        ("sum", ["12.50", "8.75", "103.99"], "125.24"),
        ("sum", ["9,999.5 m", "0.25 m"], "9,999.75 m"),
        ("sum", ["5 km", "2 miles"], "8.219 km"),
        ("difference", ["7 million", "800,000"], "6,200,000"),
        ("difference", ["-65 °C", "464 °C"], "529 °C"),
        ("product", ["12", "1250.75 kg"], "15,009 kg"),
        ("ratio", ["330 m", "93 m"], "3.548"),
        ("ratio", ["1 m", "384,399 km"], "0.000000002601"),
        ("difference", ["4 metric tons", "2,300 kg"], "1.7 metric tons"),
    ],
)
def test_sums_keep_the_digits_that_are_meant_and_have_no_exponent(
    operation: Any, facts: list[str], result_text: str
) -> None:
    assert str(compute(operation, facts)) == result_text


@pytest.mark.parametrize(
    ("facts", "order"),
    [
        (["11 months", "1 year"], [1, 0]),
        (["about 11 months (335–340 days)", "about 12 months"], [1, 0]),
        (["61 - 76 cm", "30 to 33 cm"], [0, 1]),
        (["58.65 d.", "29.53 days"], [0, 1]),
        (["240 - 300 cm", "167 - 201 cm"], [0, 1]),
        (["6 ft 1 in", "6 ft 4 in"], [1, 0]),
        (["4000 kg", "5 metric tons"], [1, 0]),
        (["200 square kilometres", "100 square miles"], [1, 0]),
        (["15 km", "10 nautical miles"], [1, 0]),
        (["20 degrees Fahrenheit", "10 degrees Celsius"], [1, 0]),
        (["45 cm", "20 in"], [1, 0]),
        (["40 KM", "30 Miles"], [1, 0]),
        (["330 ml", "12 fl oz"], [1, 0]),
        (["890,000", "2.1 million"], [1, 0]),
        (["900,000 people", "1.2 million inhabitants"], [1, 0]),
        (["6 mW", "5 MW"], [1, 0]),
        (["95 Calories", "160 kcal"], [1, 0]),
        (["4 pounds", "3 kg"], [1, 0]),
        (["103 stories", "443 m"], None),
        (["42 eggs", "3 kg"], None),
        (["$5", "3 eggs"], None),
        (["5.000 U.S. dollars", "5.67 g"], None),
        (["$5", "700 yen"], None),
        (["10 km", "10 km/h"], None),
        (["5 ms", "6 m"], None),
        (["tall", "5 m"], None),
        (["5 m", "5 m"], None),
    ],
)
def test_quantities_in_unlike_units_are_converted_or_not_compared(facts: list[str], order: list[int] | None) -> None:
    if order is not None:
        assert rank_facts("larger", facts) == order
        return
    with pytest.raises(ComputationError):
        rank_facts("larger", facts)


def test_the_order_of_several_quantities_and_dates() -> None:
    assert rank_facts("smaller", ["1 kg", "900 g", "2 kg"]) == [1, 0, 2]
    assert rank_facts("smaller", ["29.76 °C", "-38.83 °C"]) == [1, 0]
    assert rank_facts("earlier", ["28 October 1886", "1889", "October 1, 1886"]) == [2, 0, 1]
    assert rank_facts("earlier", ["1981–present", "2002–present"]) == [0, 1]
    assert rank_facts("later", ["300 BC", "1889"]) == [1, 0]
    assert rank_facts("earlier", ["1940", "753 B.C.", "1200 BC", "1940"]) == [2, 1, 0, 3]


@pytest.mark.parametrize("facts", [["1939", "3 September 1939"], ["May 1939", "3 May 1939", "1940"], ["1939", "1939"]])
def test_dates_that_are_alike_as_far_as_they_are_known_have_no_order(facts: list[str]) -> None:
    for operation in ("earlier", "later"):
        with pytest.raises(ComputationError):
            rank_facts(operation, facts if operation == "earlier" else facts[:2])


@given(st.lists(st.text(max_size=40), min_size=2, max_size=5), st.sampled_from(get_args(Test)), st.integers(1000, 2099))
def test_no_more_is_counted_than_there_are_facts(facts: list[str], test: Test, limit: int) -> None:
    try:
        places = select_facts(Condition(test, str(limit)), facts)
    except ComputationError:
        return
    assert places == sorted(set(places)) and set(places) <= set(range(len(facts)))


@given(st.lists(st.integers(1000, 2099), min_size=1, max_size=6), st.integers(1000, 2099))
def test_before_and_since_part_the_facts(years: list[int], limit: int) -> None:
    facts = [f"It opened in {year}." for year in years]
    before, since, until, after = (
        set(select_facts(Condition(test, str(limit)), facts)) for test in ("before", "since", "until", "after")
    )
    assert before | since == set(range(len(facts))) and not before & since
    assert until - before == since - after == {place for place, year in enumerate(years) if year == limit}


@pytest.mark.parametrize(
    ("test", "limit", "facts", "places"),
    [
        ("before", "1990", ["1991", "1985", "1997"], [1]),
        ("before", "1990", ["1985", "in 1991", "12 May 1989"], [0, 2]),
        ("after", "June 1990", ["July 1990", "1991", "May 1990"], [0, 1]),
        ("more than", "10 cents", ["0.25 U.S. dollars", "5 cents", "$1", "10 cents"], [0, 2]),
        ("less than", "1 km", ["870 m", "2 miles"], [0]),
        ("at most", "3 weeks", ["21 days", "28 to 35 days"], [0]),
        ("more than", "4 legs", ["eight legs", "4"], [0]),
        ("more than", "1 million people", ["2.1 million", "522,000", "1,000,001 people"], [0, 2]),
        ("is", "yes", ["Yes.", "no", "Yes, it can"], [0, 2]),
        ("is", "Peru", ["Peru", "Perugia", "in Peru"], [0, 2]),
    ],
)
def test_counts_by_hand(test: Test, limit: str, facts: list[str], places: list[int]) -> None:
    assert select_facts(Condition(test, limit), facts) == places


@pytest.mark.parametrize(
    ("test", "limit", "fact"),
    [
        ("before", "June 1990", "1990"),
        ("before", "1990", "long ago"),
        ("more than", "5 kg", "heavy"),
        ("more than", "5 kg", "3 m"),
        ("more than", "4/5", "8.1/10"),
        ("is", "yes", "Peru"),
    ],
)
def test_an_unclear_fact_is_an_error_instead_of_a_failed_condition(test: Test, limit: str, fact: str) -> None:
    with pytest.raises(ComputationError):
        select_facts(Condition(test, limit), [fact, "1"])


@given(dates, st.integers(-400_000, 400_000).filter(bool), st.sampled_from(["day", "week"]))
def test_a_date_moved_and_moved_back_is_the_date(date: Any, count: int, span: Span) -> None:
    count = count // 7 if span == "week" else count
    try:
        there = move(as_day(date), count, span)
    except ValueError:
        assume(False)
    assert move(there, -count, span) == as_day(date)
    assert measure_span(as_day(date), there, span) == measure_span(there, as_day(date), span) == abs(count)


@given(dates, st.integers(0, 3000), st.sampled_from(["month", "year"]))
def test_months_later_are_as_many_months_between(date: Any, count: int, span: Span) -> None:
    start = as_day(date.replace(day=min(date.day, 28)))
    assert measure_span(start, move(start, count, span), span) == count


@pytest.mark.parametrize(
    ("text", "day", "day_text"),
    [
        ("on the 1st of March", Day(0, 3, 1), "1 March"),
        ("October 28, 1886", Day(1886, 10, 28), "28 October 1886"),
        ("in May 1922", Day(1922, 5), "May 1922"),
        ("Myanmar 1948", Day(1948), "1948"),
        ("1900 March 5", Day(1900, 3, 5), "5 March 1900"),
        ("1940-02-29", Day(1940, 2, 29), "29 February 1940"),
        ("300 BC", Day(-300), "300 BC"),
        ("753 B.C.", Day(-753), "753 BC"),
        ("about 1200 BC.", Day(-1200), "1200 BC"),
        ("1200 to 1150 B.C.E.", Day(-1200), "1200 BC"),
        ("80 A.D., under Titus", Day(80), "80"),
        ("15 March 44 BC", Day(-44, 3, 15), "15 March 44 BC"),
        ("Sept. 3, 1939", Day(1939, 9, 3), "3 September 1939"),
        ("3 Sept 1939", Day(1939, 9, 3), "3 September 1939"),
        ("March of 1920", Day(1920, 3), "March 1920"),
        ("the 5th of May of 1821", Day(1821, 5, 5), "5 May 1821"),
    ],
)
def test_dates_are_read_and_written_as_far_as_they_are_known(text: str, day: Day, day_text: str) -> None:
    assert parse_day(text) == day and str(day) == day_text


@pytest.mark.parametrize("text", ["30 February 1999", "nothing", "12 kg", "the 1930s", "15th century"])
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_day(text)


@pytest.mark.parametrize(
    ("text", "date"),
    [("1889", True), ("in 1889.", True), ("1480 kg", False), ("5,630 in 2018", False), ("12 May", True)],
)
def test_a_number_is_told_from_a_year(text: str, date: bool) -> None:
    assert is_date(text) is date


@given(
    st.text(alphabet="0123456789 -.,/aeymrchJndyksw", max_size=40),
    st.text(alphabet="0123456789 -daysweekmonthr", max_size=30),
)
def test_no_text_breaks_the_arithmetic_of_dates(first: str, second: str) -> None:
    for operation in ("sum", "difference"):
        with contextlib.suppress(ComputationError):
            compute_dates(operation, [first, second])


@pytest.mark.parametrize(
    ("printed", "value"),
    [("12 x 15 + 20 = ?", 200), ("12×15+20", 200), ("2 - 5", -3), ("(2 + 3) * 4", 20), ("7 ÷ 2 =", 3.5), ("-2 + 3", 1)],
)
def test_a_printed_calculation_by_hand(printed: str, value: float) -> None:
    assert calculate(printed).value == value


@pytest.mark.parametrize(
    "hostile",
    [
        "9**9**9",
        "1/0",
        "__import__('os')",
        "((((((((1+1",
        "1 + one",
        "",
        "9" * 400 + "*9",
        "1 // 2",
        "1 +",
        "05+1",
    ],
)
def test_what_is_no_calculation_is_not_worked_out(hostile: str) -> None:
    with pytest.raises(ComputationError):
        calculate(hostile)


@given(st.integers(0, 999), st.integers(0, 999), st.integers(0, 999), st.sampled_from(["x", "*", "×"]))
def test_products_come_before_sums(first: int, second: int, third: int, sign: str) -> None:
    assert calculate(f"{first} {sign} {second} + {third} =").value == first * second + third
