"""Answers that say the same, and replies that are no answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.asking.readers.answers import read_candidate
from agents.english.knowledge_conflict import is_same_answer, prki, says_something
from agents.models.base import ChatReply


def test_answers_are_compared_by_their_words() -> None:
    assert is_same_answer("Italy", "It belongs to Italy.")
    assert is_same_answer("1,250 m", "1250 m")
    assert not is_same_answer("Italy", "The Netherlands")
    assert not is_same_answer("Italy", "not Italy")
    assert not is_same_answer("Italy", "It isn't in Italy.")
    assert not is_same_answer("Italy", "Italy or France")
    assert not is_same_answer("1889", "in 1891 rather than 1889")
    assert is_same_answer("not in Italy", "It is not in Italy.")
    assert not is_same_answer("25", "255")
    assert not says_something("I don’t know.")
    assert not says_something("Not given")
    assert says_something("No")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("No", "No, it is not poisonous."), ("Yes", "Yes it is."), ("Yes, Italy.", "It belongs to Italy."),
        ("No, it is not poisonous.", "It is not poisonous."), ("No. 10", "No. 10 Downing Street"),
        ("No, it is by Koch", "No"), ("Yes, 5 m", "Yes, it is 5 m high."),
        ("three", "3"), ("One", "1"), ("It has twenty-five legs.", "25"), ("ten million", "10 million people"),
        ("Three Gorges Dam", "The Three Gorges Dam of 1994"), ("four", "It has 4 legs."),
        ("July 4, 1776", "4 July 1776"), ("It was signed on July 4th, 1776.", "1776-07-04"), ("1776", "July 4, 1776"),
        ("330", "It is 330 m high."), ("1889", "In 1889, at 300 m."), ("2 to 3", "It lays 2-3 eggs."), ("5%", "about 5 percent"),
        ("213 ft", "65 m"), ("2.4 meters", "It is 2.4 metres high."), ("4 pm", "Last entry 16:00"), ("forty-one cents", "$0.41"),
        ("Peter Hobbs and Bill Russell", "Bill Russell and Peter Hobbs"), ("500 g to 1 kg", "0.5 - 1 kg"),
        ("9th", "He was the ninth Sapa Inca."), ("$14.50", "14,50"), ("Alzheimer disease", "It is Alzheimer's disease."),
        ("−5", "-5 degrees"), ("5 BC", "about 5 BC"), ("2", "2 to the left"),
    ],
)  # fmt: skip
def test_two_spellings_of_one_claim_are_the_same_answer(first: str, second: str) -> None:
    assert is_same_answer(first, second)
    assert is_same_answer(second, first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Yes", "No, it is not poisonous."), ("Yes", "Italy"), ("No, it is in Italy.", "Italy is not in it."),
        ("10", "10 million"), ("in 10", "in 10 thousand years"), ("-5", "5"), ("5", "minus 5 degrees"), ("5", "5%"), ("5", "5 per cent"),
        ("1889", "1889 BC"), ("18", "the 18th century"), ("1990", "the 1990s"), ("1", "the one on the left"), ("20", "twenty-five"),
        ("2", "2 to 3"), ("3", "2-3"), ("1889", "1887–1889"), ("2", "between 2 and 3"), ("3 m", "2 to 3 m"),
        ("14.50 dollars", "14.50 euros"), ("213 ft", "213 m"),
        ("July 4, 1776", "July 5, 1776"), ("4", "July 4, 1776"), ("No, it is by Koch", "No, it is by Bauer"), ("Yes, 5 m", "Yes, 10 m"),
    ],
)  # fmt: skip
def test_claims_that_share_a_word_may_differ(first: str, second: str) -> None:
    assert not is_same_answer(first, second)
    assert not is_same_answer(second, first)


@pytest.mark.parametrize(
    ("question", "first", "second", "agree"),
    [
        ("Is this bigger than a Labrador?", "Yes, it is bigger than a Labrador.", "Yes, a Great Dane is bigger.", True),
        ("Is this older than Big Ben?", "Yes, it is older than Big Ben.", "Yes, it was built before Big Ben.", True),
        ("Is this taller than Big Ben?", "No, it is not taller than Big Ben.", "No, it is shorter than Big Ben.", True),
        ("Is this taller than the Eiffel Tower?", "No, it is only 90 m tall.", "No, the Eiffel Tower is taller.", True),
        ("Was it built before 1889?", "Yes, it was built in 1880.", "Yes, it is from before 1889.", True),
        ("Is it poisonous?", "Yes. It is poisonous.", "Yes. It can kill.", True),
        ("Is it by Rembrandt?", "No, it is by Koch", "No, it is by Bauer", False),
        ("Is it by Koch?", "No, it is by Koch's son Bauer", "No, it is by Adler", False),
        ("Is it taller than 8 m?", "No, 5 m", "No, 6 m", False),
        ("Is it taller than 8 m?", "No, 5 m", "No, it is 5 m high.", True),
        ("Is it older than the Eiffel Tower?", "Yes, it is older than the Eiffel Tower.", "No, it is younger.", False),
        ("Is it taller than 8 m or not?", "Yes, it is taller than 8 m.", "Yes, it is 10 m tall.", True),
        ("Is the tower in Paris or London?", "Yes, it is in Paris.", "Yes, it is in London.", False),
        ("Is the tower in Paris or London?", "Yes, it is in Paris.", "Yes, in Paris.", True),
        ("Was it built in 1889 or 1890?", "Yes, in 1889.", "Yes, in 1890.", False),
        ("Is Messi taller or Ronaldo?", "No, Ronaldo.", "No, Messi.", False),
        ("Is it poisonous to cats or dogs?", "Yes, to both.", "Yes, it is poisonous to cats.", True),
    ],
)  # fmt: skip
def test_what_the_question_says_need_not_agree_after_yes_or_no(
    question: str, first: str, second: str, agree: bool
) -> None:
    assert is_same_answer(first, second, question) is agree
    assert is_same_answer(second, first, question) is agree
    assert prki(first, second, question) is not agree


@given(st.text(max_size=30))
def test_every_answer_agrees_with_itself(answer: str) -> None:
    assert is_same_answer(answer, answer)


@given(st.text(max_size=30), st.text(max_size=30))
def test_every_answer_agrees_with_itself_whatever_the_question(answer: str, question: str) -> None:
    assert is_same_answer(answer, answer, question)


def test_a_reply_torn_by_the_deadline_is_no_answer() -> None:
    assert read_candidate(ChatReply("The tower was never", "abort")) is None
    assert read_candidate(ChatReply("", "error", error="x")) is None
    assert read_candidate(ChatReply("330 m", "stop")) is not None
