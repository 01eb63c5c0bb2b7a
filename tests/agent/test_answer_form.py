"""What the form of an answer gives away; the answers are of a 1.5B model on validation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.decision.answer_form import find_misfit
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import ROOT, Profile
from agents.search.hits import Entity
from agents.settings.presets import settings_from
from agents.stages.finalise import Finalise, FinaliseOptions
from agents.turn import IDK, Candidate, Draft
from tests.agent.scripted import context, run, turn


@pytest.mark.parametrize(
    ("question", "answer", "entity"),
    [
        ("Which of these three are hybrids?", "Yes", None),
        ("On which of these two is gravity stronger?", "3.72 m/s²", "Mars"),
        ("Which of these two coins is worth more?", "6.504e-07", "Quarter (United States coin)"),
        ("How long does the animal on the left carry its young before birth?", "The arctic fox.", "Reindeer"),
        ("What is a group of the animal on the left called?", "African bush elephant", "African bush elephant"),
        ("What do you call a female of these?", "European badger", "European badger"),
        ("What does this come to?", "The photo shows a notebook computer.", None),
        ("When is the animal next to this sign fed?", "The animal next to the sign is probably an otter.", "Otter"),
        ("Which fighter jet is that up there?", "The photo probably shows a fighter jet.", None),
        ("Who operates the thing on the right?", "The thing on the right is likely a rain gauge.", "Rain gauge"),
        ("What else is this tool called?", "Billhook", "Billhook"),
        ("Who is on this coin?", "Dime", "Dime (Canadian coin)"),
        ("Who made this?", "1889", None),
        ("Who made this?", "No, it was not.", None),
        ("Which of these three are hybrids?", "Yes they are", None),
        ("Who painted it?", "No.", None),
        ("When was it built?", "The Eiffel Tower", "Eiffel Tower"),
        ("When was it built?", "In Paris", "Eiffel Tower"),
        ("When is the animal on the left fed?", "The one on the left is fed by the keeper.", "Otter"),
        ("When is it fed?", "The animal in the photo is an otter.", "Otter"),
        ("How old is he?", "He was born in the Baltic cities.", None),
        ("How tall is it?", "A tower in the parties' capital.", None),
    ],
)
def test_an_answer_to_something_else_is_a_misfit(question: str, answer: str, entity: str | None) -> None:
    assert find_misfit(question, answer, entity) is not None


@pytest.mark.parametrize(
    ("question", "answer", "entity"),
    [
        ("Is it the left or the right one?", "Yes", None),
        ("Which of these two carries its young longer?", "Donkey", "Donkey"),
        ("What kind of animal is this?", "Giraffe", "Giraffe"),
        ("How many red apples are lying on the table?", "Three", None),
        ("How many space missions did she fly?", "She never flew again.", None),
        ("How long is the one on the right pregnant?", "Around a year and a quarter.", None),
        ("Which family does it belong to?", "Leporidae", "Domestic rabbit"),
        ("In which year was it built?", "1889", "Eiffel Tower"),
        ("On which day do families make this?", "On Stir-up Sunday.", None),
        ("When do they flower?", "In the rainy season", None),
        ("When did it fall into disuse?", "During the reign of Louis XIV.", None),
        ("Which is heavier, the coin or the ball?", "The ball is heavier.", None),
        ("Which of these two is the heavier planet?", "The planet", None),
        ("Who made this?", "Bram Tiller", "Eiffel Tower"),
        ("Could I see one in Australia?", "No", None),
        ("Which temple is on the left card?", "Borobudur", "Borobudur"),
        ("Which company built this tractor?", "Fordson", "Fordson F"),
        ("What is the scientific name of this mushroom?", "Amanita muscaria", "Amanita muscaria"),
        ("When does it open?", "From ten until noon.", None),
        ("When is it ripe?", "When it turns yellow", None),
        ("When will they hatch?", "In three weeks.", None),
        ("How long does it live?", "A few decades", None),
        ("How long does it take?", "A minute", None),
        ("Where is it?", "No. 10 Downing Street", None),
        ("Which Bond film is this from?", "No Time to Die", None),
        ("Which perfume is in the bottle?", "No.5", None),
        ("Who made this?", "3M", None),
        ("Who sings this?", "50 Cent", None),
        ("Who lives there?", "No one", None),
        ("Which country is this coin from?", "Dime (Canadian coin) is from Canada.", "Dime (Canadian coin)"),
        ("Which is taller, this tower or Big Ben?", "The Eiffel Tower is taller.", "Eiffel Tower"),
        ("Which one is older, this or the Empire State Building?", "Eiffel Tower", "Eiffel Tower"),
        ("Which animal is faster, this or a horse?", "The cheetah is faster.", "Cheetah"),
    ],
)
def test_an_answer_that_may_be_right_is_none(question: str, answer: str, entity: str | None) -> None:
    assert find_misfit(question, answer, entity) is None


@pytest.mark.parametrize(
    "question",
    [
        "What is it?", "What animal is it?", "What dog breed is it?", "Who is this?",
        "Who is on this coin?", "Who is shown on the banknote?", "Who is the man on the left?",

        "What's the title of this painting?",
        "Which book is on the table?",
        "What is the tall building on the left?",



    ],
)  # fmt: skip
def test_the_name_answers_what_asks_for_it(question: str) -> None:
    assert find_misfit(question, "Blue Marble", "Blue Marble") is None


@pytest.mark.parametrize(
    "question",
    [
        "What do you call the home of the animal in the middle?", "Which family does the bird on the right belong to?", "Who made this?",
        "Which genus does this animal belong to?", "Where does this animal come from?", "Which foods do people get from this animal?",
        "Who invented the thing on the left?", "Who is this by?", "Who is this building named after?", "Who is this man's wife?",
        "Who is the architect of this building?", "Who is the author of the book on the left?", "What is it made of?", "What is it worth?",
        "Where is this from?", "Where is this tower?", "What is the height of the tower on the left?", "Which metal is in this coin?",
        "What is the tallest mountain on this island?", "What can be seen from the top of this tower?", "What species does this bird eat?",
        "What is the title of the song that this band is known for?", "What is the bird on the left eating?", "What does it represent?",
        "Which company makes the car parked next to the tree?", "Who owns the car parked next to the tree?",
        "What is on the back of this coin?", "What is there to see?",
    ],
)  # fmt: skip
def test_the_name_does_not_answer_what_asks_for_something_else(question: str) -> None:
    assert find_misfit(question, "Blue Marble", "Blue Marble") is not None


@pytest.mark.parametrize(
    ("sees", "with_photo", "given"), [(True, True, True), (False, True, False), (True, False, False)]
)
@pytest.mark.parametrize(
    ("question", "fields"),
    [
        ("What does the sign say?", {"candidate": Candidate("The photo shows the word Stop.", 0.9)}),
        (
            "Which sport is this equipment for?",
            {
                "candidate": Candidate("Cricket", 0.9),
                "entity": Entity("Cricket", {}),
                "draft": Draft((), None, "Cricket"),
            },
        ),
    ],
)
def test_only_a_model_that_saw_the_photo_is_trusted_with_it(
    question: str, fields: dict[str, Any], sees: bool, with_photo: bool, given: bool
) -> None:
    dialog_turn = turn(question, (64, 48) if with_photo else None, **fields)
    parts = context(settings_from({"stages": ("finalise",), "finalise": FinaliseOptions(form=True)}))
    models = ModelSet(Profile(name="scripted", models={}, sees=sees), Path("unused"))
    run(Finalise, [dialog_turn], replace(parts, models=models))
    assert (dialog_turn.answer != IDK) == given


def test_no_right_answer_of_the_labelled_ones_is_a_misfit() -> None:
    lines = (ROOT / "mini_crag_mm" / "labelled_answers.jsonl").read_text(encoding="utf-8").splitlines()
    right = [row for row in map(json.loads, lines) if row["split"] == "validation" and row["label"] == "correct"]
    assert len(right) > 40
    assert not [row["query"] for row in right if find_misfit(row["query"], row["agent_response"])]


@given(st.text(max_size=60), st.text(max_size=60), st.none() | st.text(max_size=20))
def test_any_text_is_judged(question: str, answer: str, entity: str | None) -> None:
    find_misfit(question, answer, entity)


@pytest.mark.parametrize(("form", "answer"), [(True, IDK), (False, "3.72 m/s²")])
def test_the_rule_is_an_option(form: bool, answer: str) -> None:
    dialog_turn = turn("On which of these two is gravity stronger?", None, candidate=Candidate("3.72 m/s²", 0.9))
    options = FinaliseOptions(form=form)
    run(Finalise, [dialog_turn], context(settings_from({"stages": ("finalise",), "finalise": options})))
    assert dialog_turn.answer == answer
