"""Follow-ups of recorded dialogs are made to stand alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.english.references import Pointing, extract_names, points_at_picture, resolve
from agents.turn import IDK
from tests.support.recorded_turns import RecordedTurn, find_turn

RESOLVED = {
    "ani_m002#2": "What is the capital of Tanzania?",  # that country
    "ani_m002#3": "Which city was the capital before Tanzania?",  # it
    "mon_m001#3": "And what nickname does Gustave Eiffel have?",  # that city: no rule knows that the last name is a person's
    "nat_m007#3": "On whose voyage had Johann Reinhold Forster sailed?",  # he
    "nat_m007#4": "How much was Johann Reinhold Forster paid for that journey?",
    "obj_m001#3": "How many instruments is Antonio Stradivari thought to have made?",
    "obj_m003#1": "How old was John F. Kennedy when he was elected president?",
    "obj_m006#1": "What did Rene Laennec use for his very first try?",
}
POINTED = {
    "ani_m001#1": "this animal",  # What animal am I looking at? How fast can it run?
    "ani_m004#1": "these big cats",
    "mon_m001#2": "this tower",  # What did the man it's named after do research on after he retired?
    "mon_m002#1": "the place on the left",
    "mon_m002#5": "the card on the right",  # OK, and the pyramid on the other card, which god is it dedicated to? How many ...?
    "mon_m004#1": "the poster on the left",
    "mon_m004#3": "the poster on the right",  # And the one on the right, how many moons does it have? Who discovered them?
    "nat_m001#3": "this bird",
    "nat_m003#1": "the green apple on the left",  # And where was the other one bred?
    "nat_m005#1": "this tree",
    "obj_m001#1": "the big instrument on the left",
    "obj_m004#2": "the book on the right",  # Who wrote the book on the left? When was the other book published?
    "ani_m002#1": "",  # And the animal on the postcard ...
    "mon_m004#2": "",  # And the one on the right ...
    "nat_m003#2": "",  # Which of the two came first?
    "mon_m003#1": "",  # How far away is this from us on average? Who was the first person to walk on it?
    "obj_m001#3": "",  # not about the picture
}
NEED_NO_PICTURE = (*RESOLVED, "mon_m005#2", "obj_m003#2")


def forget_answers(turn: RecordedTurn) -> list[dict[str, str]]:
    return [
        dict(message) if message["role"] == "user" else {"role": "assistant", "content": IDK}  # type: ignore[misc]
        for message in turn.history
    ]


@pytest.mark.parametrize("name", RESOLVED)
def test_references_are_resolved(name: str) -> None:
    assert find_turn(name).question == RESOLVED[name]


@pytest.mark.parametrize("name", POINTED)
def test_it_is_where_an_earlier_question_pointed(name: str) -> None:
    turn = find_turn(name)
    assert resolve(turn.query, turn.history).pointing == POINTED[name]


@pytest.mark.parametrize("name", sorted({*POINTED, *NEED_NO_PICTURE}))
def test_a_dialog_leaves_the_picture_for_a_name_alone(name: str) -> None:
    turn = find_turn(name)
    assert resolve(turn.query, turn.history).needs_image is (name not in NEED_NO_PICTURE)


@pytest.mark.parametrize("name", ["obj_m003#1", "nat_m007#3", "obj_m006#1"])
def test_a_pronoun_without_antecedent_is_unsure(name: str) -> None:
    turn = find_turn(name)
    resolved = resolve(turn.query, forget_answers(turn))
    assert (resolved.question, resolved.needs_image, resolved.sure) == (turn.query, True, False)


def test_a_person_within_the_question_is_no_pronoun_without_antecedent() -> None:
    turn = find_turn("mon_m001#2")
    assert resolve(turn.query, forget_answers(turn)).sure


@pytest.mark.parametrize("name", ["ani_m001#1", "mon_m004#3", "nat_m003#1", "obj_m004#2"])
def test_refusals_do_not_change_where_a_dialog_points(name: str) -> None:
    turn = find_turn(name)
    assert resolve(turn.query, forget_answers(turn)).pointing == POINTED[name]


def test_a_question_that_begins_a_dialog_stays_as_it_is() -> None:
    turn = find_turn("obj_m004#0")
    resolved = resolve(turn.query, ())
    assert (resolved.question, resolved.pointing, resolved.needs_image) == (turn.query, "", True)


def test_the_other_one_is_at_the_opposite_place() -> None:
    pointing = Pointing("apple", "left").follow("Where was the other one bred?")
    assert (str(pointing), str(pointing.follow("And this tree?"))) == ("the apple on the right", "this tree")
    assert str(Pointing("painting")) == "", "of no known kind"


def test_names_are_found_without_sentence_openers() -> None:
    assert extract_names("It was built by Gustave Eiffel in Paris.") == ["Gustave Eiffel", "Paris"]
    assert extract_names("He is John R. Forster.") == ["John R. Forster"]


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["role", "content"]), st.one_of(st.none(), st.text(max_size=40)), max_size=2),
        max_size=6,
    ),
    st.text(max_size=60),
)
def test_no_history_breaks_it(history: list[dict[str, str]], query: str) -> None:
    assert isinstance(resolve(query, history).question, str)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["ani_q001", "ani_m003#0", "mon_q007", "obj_m005#0", "nat_m005#0"])
def test_some_questions_point_at_a_picture(name: str) -> None:
    assert points_at_picture(find_turn(name).query)


@pytest.mark.parametrize("name", ["mon_m005#0", "obj_m003#0", "mon_m005#2"])
def test_questions_that_pages_can_answer_point_at_none(name: str) -> None:
    assert not points_at_picture(find_turn(name).query)
