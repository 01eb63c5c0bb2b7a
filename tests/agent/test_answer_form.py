"""What the form of an answer gives away."""

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
from tests.support.recorded_turns import RecordedTurn, find_turn, load_turns

MISFITS = {
    "ani_q106": "California sea lion",  # How fast can the one on the left swim?
    "ani_q129": "Tamworth pig",  # How many pigs are there in this meadow?
    "ani_m107#0": "lamb",  # How long does it carry its young?
    "mon_q044": "Queen Victoria",  # When was the woman this building honours made Empress of India?
    "nat_m102#2": "Guatemala",  # When did the money of that name come in over Guatemala?
    "obj_m106#0": "4 g",  # Which of these coins has the bigger hole?
    "nat_q106": "Iris",  # Which goddess gave this flower its name?
    "nat_q108": "Kiwifruit",  # Who brought the first seeds of this fruit to New Zealand?
    "ani_m102#0": "A gorilla.",  # What do you call a grown-up male of these?
    "obj_q111": "Räuchermann",  # Which village is regarded as the home of the little cones ...?
    "obj_q024": "The photo shows a United States Postal Service collection box.",  # What does this come to?
    "mon_m011#1": "The photo probably shows a tower.",  # Why does it look like a tower?
    "obj_q134": "The photo probably shows a pedal for the big drum in this set.",  # Who made the first practical pedal ...?
}
"""Answers of models to something else than the recorded question."""


def find_recorded_misfit(recorded: RecordedTurn, answer: str) -> str | None:
    return find_misfit(recorded.question, answer, recorded.entity and recorded.entity.name)


@pytest.mark.parametrize("name", MISFITS)
def test_an_answer_to_something_else_is_a_misfit(name: str) -> None:
    recorded = find_turn(name)
    assert MISFITS[name] in recorded.answers
    assert find_recorded_misfit(recorded, MISFITS[name]) is not None


def test_no_reference_answer_is_a_misfit_but_one() -> None:
    """The rule errs on "What guitar is the black one on the left?": its name is the answer."""
    references = [(each, each.answers[0]) for each in load_turns() if each.answers[0] != IDK]
    assert [each.id for each, answer in references if find_recorded_misfit(each, answer)] == ["obj_m102#0"]


@pytest.mark.parametrize(
    ("question", "answer", "entity", "fits"),
    [
        ("Which of these three are hybrids?", "Yes they are", None, False),
        ("On which of these two is gravity stronger?", "3.72 m/s²", "Mars", False),
        ("When was it built?", "In Paris", "Eiffel Tower", False),
        ("Is it the left or the right one?", "Yes", None, True),
        ("Which of these two carries its young longer?", "Donkey", "Donkey", True),
        ("How many space missions did she fly?", "She never flew again.", None, True),
        ("How long is the one on the right pregnant?", "Around a year and a quarter.", None, True),
        ("When did it fall into disuse?", "During the reign of Louis XIV.", None, True),
        ("When is it ripe?", "When it turns yellow", None, True),
        ("Where is it?", "No. 10 Downing Street", None, True),
        ("Which Bond film is this from?", "No Time to Die", None, True),
        ("Who made this?", "3M", None, True),
        ("Who sings this?", "50 Cent", None, True),
        ("Who lives there?", "No one", None, True),
        ("Which country is this coin from?", "Dime (Canadian coin) is from Canada.", "Dime (Canadian coin)", True),
        ("Which is taller, this tower or Big Ben?", "The Eiffel Tower is taller.", "Eiffel Tower", True),
        ("Which one is older, this or the Empire State Building?", "Eiffel Tower", "Eiffel Tower", True),
        ("Who is on this coin?", "Dime", "Dime (Canadian coin)", False),
        ("Who is on this coin?", "Blue Marble", "Blue Marble", True),
        ("What's the title of this painting?", "Blue Marble", "Blue Marble", True),
        ("Which book is on the table?", "Blue Marble", "Blue Marble", True),
        ("Who is this building named after?", "Blue Marble", "Blue Marble", False),
        ("What is it made of?", "Blue Marble", "Blue Marble", False),
        ("What is the bird on the left eating?", "Blue Marble", "Blue Marble", False),
        ("Who owns the car parked next to the tree?", "Blue Marble", "Blue Marble", False),
    ],
)
def test_an_answer_fits_its_question(question: str, answer: str, entity: str | None, fits: bool) -> None:
    assert (find_misfit(question, answer, entity) is None) is fits


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


@pytest.mark.parametrize(
    ("question", "answer", "fits"),
    [
        ("What's its name?", "Old Mill", True),
        ("Which exhibit does this photo show?", 'The photo shows the "Old Mill".', True),
        ("Which exhibit does this photo show?", "The photo shows a pond.", False),
        ("How many are there?", "Old Mill", False),
        ("Who is on this mill?", "Old Mill", False),
    ],
)
@pytest.mark.parametrize("sure", [True, False])
def test_the_name_of_what_is_surely_recognised_is_an_answer(question: str, answer: str, fits: bool, sure: bool) -> None:
    """An owner's visitors ask for it in more ways than the rule knows."""
    mill = Entity("Old Mill", {})
    dialog_turn = turn(question, candidate=Candidate(answer, 0.9), entity=mill)
    dialog_turn.sure_entities = (mill,) if sure else ()
    settings = settings_from({"stages": ("finalise",), "finalise": {"form": True}})
    models = ModelSet(Profile(name="scripted", models={}, sees=False), Path("unused"))
    run(Finalise, [dialog_turn], replace(context(settings), models=models))
    assert (dialog_turn.answer != IDK) == (fits and sure)


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
