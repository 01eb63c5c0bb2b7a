"""Replies of the chain of verification and of the four steps, whole, sloppy and cut."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.asking.readers.answers import read_candidate
from agents.asking.readers.entry_replies import FourSteps, entry_letter, parse_four_steps, whole_lines
from agents.asking.readers.verdicts import parse_chain
from agents.english.knowledge_conflict import (
    choose_jointly,
    find_best,
    is_same_answer,
    prki,
    says_something,
    split_words,
    vtki,
)
from agents.models.base import ChatReply
from agents.turn import SubFinding

CHAIN = (
    "CONFIDENCE: 0.95\nREASONING: The evidence gives the height.\n"
    "SUB-QUESTIONS: Q1: Which tower is it?, Finding: Supported, Q2: [How high is it], Finding: Unsupported"
)


def test_a_whole_chain_is_read() -> None:
    chain = parse_chain(CHAIN)
    assert chain.confidence == 0.95
    assert chain.reasoning == "The evidence gives the height."
    assert chain.findings == (SubFinding("Which tower is it?", True), SubFinding("How high is it", False))


@given(st.integers(0, len(CHAIN)))
def test_a_cut_chain_never_gains_confidence(length: int) -> None:
    chain = parse_chain(CHAIN[:length])
    assert chain.confidence is None or chain.confidence <= 0.95
    assert set(chain.findings) <= set(parse_chain(CHAIN).findings)


@pytest.mark.parametrize(
    ("reply", "confidence"),
    [
        ("CONFIDENCE: 0.9", 0.9),
        ("**CONFIDENCE:** [1.0]\n", 1.0),
        ("Confidence Score: 0.25\nReasoning: no", 0.25),
        ("- confidence: 90%\n", 0.9),
        ("CONFIDENCE: 0.9/1.0", 0.9),
        ("0.7\nREASONING: perhaps", 0.7),
        ("CONFIDENCE: 9 out of 10", None),
        ("CONFIDENCE: 150%", None),
        ("CONFIDENCE: high", None),
        ("CONFIDENCE:", None),
        ("The answer was given in 1.0 seconds.", None),
        ("", None),
    ],
)
def test_the_confidence_of_sloppy_chains(reply: str, confidence: float | None) -> None:
    assert parse_chain(reply).confidence == confidence


def test_findings_may_stand_on_lines_of_their_own() -> None:
    reply = "CONFIDENCE: 0.9\nSUB-QUESTIONS:\nQ1: Is it red?\nFinding: Not supported\nQ2: torn"
    assert parse_chain(reply).findings == (SubFinding("Is it red?", False),)


@given(st.text(max_size=300))
def test_no_reply_breaks_a_parser(reply: str) -> None:
    parse_chain(reply)
    parse_four_steps(reply, 5)


@pytest.mark.parametrize(
    ("reply", "steps"),
    [
        (
            "Own answer: [February 9, 1970]\nReference: C\nReference answer: August 29, 1970\nFinal answer: August 29, 1970",
            FourSteps("February 9, 1970", 2, "August 29, 1970", "August 29, 1970"),
        ),
        ("Step 1: Own answer: [Italy]\n**Reference:** Reference B\n", FourSteps("Italy", 1, None, None)),
        ("Step 1: [1300]\nStep 2: Reference C\nStep 3: 255\nStep 4: 255", FourSteps("1300", 2, "255", "255")),
        ("Own answer: [x]\nReference: none\nReference answer: y\nFinal answer: x", FourSteps("x", None, "y", "x")),
        ("[Italy]", FourSteps("Italy", None, None, "Italy")),  # figure 5: brackets mark parametric knowledge
        ('"2.8 km"', FourSteps(None, None, None, "2.8 km")),  # appendix A.1
        ("", FourSteps()),
    ],
)
def test_the_four_steps_are_read(reply: str, steps: FourSteps) -> None:
    assert parse_four_steps(reply, 5) == steps


def test_a_cut_reply_loses_its_torn_line() -> None:
    assert whole_lines("Own answer: [x]\nReference: A\nReference ans") == "Own answer: [x]\nReference: A\n"
    assert whole_lines("The") == ""


@pytest.mark.parametrize(
    ("text", "place"),
    [("B", 1), ("Reference D.", 3), ("[Reference C]", 2), ("A", 0), ("(e)", 4), ("The best one is C", 2), ("F", None),
     ("It is a plane", None), ("none", None), ("A plane, so Reference C", 2), ("", None), ("b", 1), ("(b)", 1), ("a.", 0),
     ("B - a tower", 1), ("A: a lighthouse", 0), ("A is the most relevant", 0), ("Reference A is the most relevant", 0), ("I think C", 2),
     ("A\nB shows another bridge.", 0), ("A\nBecause it shows the tower.", 0), ("A and B both match", 0), ("[A] Eiffel Tower", 0),
    ("**A**: it", 0), ("A (the Eiffel Tower)", 0), ("A because it matches", 0), ("A — the same", 0),
    ("A lighthouse stands there", None), ("A-frame house", None), ("The reference a tower", None), ("e.g. the tower", None),
     ("D'Artagnan", None)],
)  # fmt: skip
def test_an_entry_is_named_by_its_letter(text: str, place: int | None) -> None:
    assert entry_letter(text, 5) == place


def test_answers_are_compared_by_their_words() -> None:
    assert split_words("The Château, 1,250 m") == ("chateau", "1250", "m")
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


@pytest.mark.parametrize(
    ("own", "retrieved", "differ"),
    [
        # figure 1, figure 2 and figure 5 of CoRe-MMRAG
        ("December 20, 1957", "August 29, 1970", True),
        ("February 9, 1970", "August 29, 1970", True),
        ("Italy", "The Netherlands", True),
        ("de Havilland Canada", "Viking Air", True),
        ("1300", "255", True),
        ("Scotland", "South Lanarkshire", True),
        ("Italy", "Italy", False),
        ("I don't know", "255", None),
        (None, "255", None),
        ("255", None, None),
    ],
)
def test_prki(own: str | None, retrieved: str | None, differ: bool | None) -> None:
    assert prki(own, retrieved) is differ


def test_vtki_by_hand() -> None:
    # figure 4: by picture B, by text A
    titles = ["Colonial Williamsburg", "Oldest buildings in South Carolina", "Cherokee Phoenix"]
    assert vtki(titles, [0.71, 0.75, 0.6], [0.9, 0.2, 0.1]) is True
    assert vtki(titles, [0.75, 0.71, 0.6], [0.9, 0.2, 0.1]) is False
    assert vtki(["Spitfire", "Spitfire", "RAF Leuchars"], [0.8, 0.7, 0.6], [0.3, 0.9, 0.1]) is False  # one entity
    assert vtki(["Spitfire"], [0.8], [0.3]) is None
    assert vtki([], [], []) is None


def test_the_joint_choice_by_hand() -> None:
    # 0.71 + 0.9 = 1.61, 0.75 + 0.2 = 0.95, 0.6 + 0.1 = 0.7
    assert choose_jointly([0.71, 0.75, 0.6], [0.9, 0.2, 0.1]) == 0
    assert choose_jointly([0.71, 0.75, 0.6], [0.2, 0.2, 0.1]) == 1
    assert choose_jointly([], []) is None
    assert find_best([math.nan, 0.2, 0.2]) == 1


def test_a_reply_torn_by_the_deadline_is_no_answer() -> None:
    assert read_candidate(ChatReply("The tower was never", "abort")) is None
    assert read_candidate(ChatReply("", "error", error="x")) is None
    assert read_candidate(ChatReply("330 m", "stop")) is not None
