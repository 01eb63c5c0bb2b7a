"""What the form of an answer gives away."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.decision.answer_form import adds_only_name, find_misfit
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import ROOT, Profile
from agents.search.hits import Entity
from agents.settings.presets import settings_from
from agents.stages.finalise import Finalise, FinaliseOptions
from agents.turn import IDK, Candidate
from tests.agent.scripted import context, run, turn
from tests.support.recorded_turns import RecordedTurn, find_turn, load_turns

MISFITS = {
    "ani_q106": "California sea lion",  # How fast can the one on the left swim?
    "ani_q129": "Tamworth pig",  # How many pigs are there in this meadow?
    "ani_m107#0": "lamb",  # How long does it carry its young?
    "mon_q044": "Queen Victoria",  # When was the woman this building honours made Empress of India?
    "nat_m102#2": "Guatemala",  # When did the money of that name come in over Guatemala?
    "obj_m106#0": "4 g",  # Which of these coins has the bigger hole?
}
"""Answers of models to something else than the recorded question."""


def find_recorded_misfit(recorded: RecordedTurn, answer: str) -> str | None:
    return find_misfit(recorded.question, answer)


@pytest.mark.parametrize("name", MISFITS)
def test_an_answer_to_something_else_is_a_misfit(name: str) -> None:
    recorded = find_turn(name)
    assert MISFITS[name] in recorded.answers
    assert find_recorded_misfit(recorded, MISFITS[name]) is not None


def test_no_reference_answer_is_a_misfit() -> None:
    references = [(each, each.answers[0]) for each in load_turns() if each.answers[0] != IDK]
    assert not [each.id for each, answer in references if find_recorded_misfit(each, answer)]


@pytest.mark.parametrize(
    ("question", "answer", "fits"),
    [
        ("Which of these three are hybrids?", "Yes they are", False),
        ("On which of these two is gravity stronger?", "3.72 m/s²", False),
        ("When was it built?", "In Paris", False),
        ("Is it the left or the right one?", "Yes", True),
        ("Which of these two carries its young longer?", "Donkey", True),
        ("How many space missions did she fly?", "She never flew again.", True),
        ("How long is the one on the right pregnant?", "Around a year and a quarter.", True),
        ("When did it fall into disuse?", "During the reign of Louis XIV.", True),
        ("When is it ripe?", "When it turns yellow", True),
        ("Where is it?", "No. 10 Downing Street", True),
        ("Which Bond film is this from?", "No Time to Die", True),
        ("Who made this?", "3M", True),
        ("Who sings this?", "50 Cent", True),
        ("Who lives there?", "No one", True),
        ("Which country is this coin from?", "Dime (Canadian coin) is from Canada.", True),
        ("Which is taller, this tower or Big Ben?", "The Eiffel Tower is taller.", True),
        ("Which one is older, this or the Empire State Building?", "Eiffel Tower", True),
    ],
)
def test_an_answer_fits_its_question(question: str, answer: str, fits: bool) -> None:
    assert (find_misfit(question, answer) is None) is fits


@pytest.mark.parametrize(
    ("sees", "with_photo", "given"), [(True, True, True), (False, True, False), (True, False, False)]
)
def test_only_a_model_that_saw_the_photo_is_trusted_with_it(sees: bool, with_photo: bool, given: bool) -> None:
    photo = (64, 48) if with_photo else None
    dialog_turn = turn("How many balls are there?", photo, candidate=Candidate("Cricket", 0.9))
    parts = context(settings_from({"stages": ("finalise",), "finalise": FinaliseOptions(form=True)}))
    models = ModelSet(Profile(name="scripted", models={}, sees=sees), Path("unused"))
    run(Finalise, [dialog_turn], replace(parts, models=models))
    assert (dialog_turn.answer != IDK) == given


@pytest.mark.parametrize(
    ("question", "answer", "fits"),
    [
        ("What's its name?", "Old Mill", True),
        ("Which exhibit does this photo show?", 'The photo shows the "Old Mill".', True),
        ("How many are there?", "Old Mill", False),
    ],
)
@pytest.mark.parametrize("sure", [True, False])
def test_the_name_of_what_is_surely_recognised_is_an_answer(question: str, answer: str, fits: bool, sure: bool) -> None:
    """People ask for it in more ways than a rule can know."""
    mill = Entity("Old Mill", {})
    dialog_turn = turn(question, candidate=Candidate(answer, 0.9), entity=mill)
    dialog_turn.sure_entities = (mill,) if sure else ()
    settings = settings_from({"stages": ("finalise",), "finalise": {"form": True, "abstain_unsure_name": True}})
    models = ModelSet(Profile(name="scripted", models={}, sees=False), Path("unused"))
    run(Finalise, [dialog_turn], replace(context(settings), models=models))
    assert (dialog_turn.answer != IDK) == (fits and sure)


def test_no_right_answer_of_the_labelled_ones_is_a_misfit() -> None:
    lines = (ROOT / "mini_crag_mm" / "labelled_answers.jsonl").read_text(encoding="utf-8").splitlines()
    right = [row for row in map(json.loads, lines) if row["split"] == "validation" and row["label"] == "correct"]
    assert len(right) > 40
    assert not [row["query"] for row in right if find_misfit(row["query"], row["agent_response"])]


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=20))
def test_any_text_is_judged(question: str, answer: str, entity: str) -> None:
    find_misfit(question, answer)
    adds_only_name(question, answer, entity)


@pytest.mark.parametrize(("form", "answer"), [(True, IDK), (False, "3.72 m/s²")])
def test_the_rule_is_an_option(form: bool, answer: str) -> None:
    dialog_turn = turn("On which of these two is gravity stronger?", None, candidate=Candidate("3.72 m/s²", 0.9))
    options = FinaliseOptions(form=form)
    run(Finalise, [dialog_turn], context(settings_from({"stages": ("finalise",), "finalise": options})))
    assert dialog_turn.answer == answer
