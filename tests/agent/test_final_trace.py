"""What the last stage leaves in the record, so that thresholds can be fitted."""

from __future__ import annotations

from dataclasses import replace
from math import log
from pathlib import Path

import pytest

from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Profile
from agents.record import CANDIDATE, Decision, Exchange, Signal, StageRecord
from agents.search.hits import Entity
from agents.settings.presets import settings_from
from agents.stages.finalise import Finalise, FinaliseOptions
from agents.turn import IDK, Candidate, Evidence
from tests.agent.scripted import context, run, turn


def finalise(settings: FinaliseOptions, **fields: object) -> tuple[str, Decision, StageRecord]:
    dialog_turn = turn("Who?")
    for name, value in fields.items():
        setattr(dialog_turn, name, value)
    run(Finalise, [dialog_turn], context(settings_from({"stages": ("finalise",), "finalise": settings})))
    dialog_turn.close_stage("finalise", 0.0)
    [record] = dialog_turn.records
    assert record.decision is not None
    return dialog_turn.answer, record.decision, record


HELD = Candidate("Gustave Eiffel", 0.75, (log(0.5), log(1.0)), idk=0.3)
WALL = Entity("Great Wall of China")
RANKED = (Evidence("a", "web", "t", score=0.4), Evidence("b", "web", "t", score=0.6))


def test_a_candidate_that_is_held_back_stands_in_the_trace_with_its_signals() -> None:
    answer, decision, record = finalise(FinaliseOptions(max_idk=0.2), candidate=HELD, evidence=RANKED)
    assert answer == IDK
    assert decision.candidate == record.answers[CANDIDATE] == "Gustave Eiffel"
    assert {name: signal.value for name, signal in record.signals.items()} == {
        "p_idk": 0.3, "min_probability": 0.5, "mean_probability": 0.75, "evidence_score": 0.6, "no_evidence": 0.0, "no_entity": 1.0,
        "provided_evidence": 0.0,
    }  # fmt: skip
    assert record.signals["p_idk"] == Signal(0.3, negative=True) and not record.signals["mean_probability"].negative
    assert decision.probability is None and "gate" not in record.checks  # there is no gate
    assert decision.ruled_out is None  # doubt held it back, no rule
    assert not decision.given and str(decision).startswith("abstained: the reply would have been")


def test_rules_are_told_apart_from_doubt() -> None:
    answer, decision, _ = finalise(FinaliseOptions(abstain_real_time=True, max_idk=0.1), candidate=HELD, real_time=True)
    assert (answer, decision.ruled_out) == (IDK, "the question is about the present moment")
    answer, decision, record = finalise(FinaliseOptions(), candidate=None)
    assert (answer, decision.candidate, decision.ruled_out) == (IDK, None, "no evidence was found")
    assert CANDIDATE not in record.answers


def test_an_answer_that_is_given_is_its_candidate() -> None:
    answer, decision, _ = finalise(FinaliseOptions(), candidate=replace(HELD, drafted=True), route="direct")
    assert answer == decision.candidate == "Gustave Eiffel"
    assert decision.direct is True
    assert decision.given and str(decision) == "answered"


@pytest.mark.parametrize(
    ("question", "fields", "is_given"),
    [
        ("Who made this?", {}, False),
        ("Who made this?", {"entity": Entity("Old Mill", {})}, True),
        (
            "Who made this?",
            {"records": [StageRecord("answer", exchanges=(Exchange("answer", "text", "m", read=("made by Ann",)),))]},
            True,
        ),
        ("Who made this?", {"shown": (Evidence("Ann makes mills.", "web", "Makers"),)}, False),
        ("Who made this?", {"image": None}, True),
        ("How much is a ticket?", {}, True),
    ],
)
def test_pages_do_not_answer_what_points_at_a_photo_of_nothing_known(
    question: str, fields: dict[str, object], is_given: bool
) -> None:
    settings = settings_from({"stages": ("finalise",), "finalise": {"abstain_unrecognised": True}})
    answers = []
    for sees in (False, True):
        models = ModelSet(Profile(name="scripted", models={}, sees=sees), Path("unused"))
        dialog_turn = turn(question, question=question, candidate=HELD)
        for name, value in fields.items():
            setattr(dialog_turn, name, value)
        run(Finalise, [dialog_turn], replace(context(settings), models=models))
        answers.append(dialog_turn.answer)
    assert answers == [HELD.text if is_given else IDK, HELD.text]


@pytest.mark.parametrize(
    ("answer", "fields", "is_given"),
    [
        ("It is the Great Wall of China.", {}, False),
        ("It is the Great Wall of China.", {"sure_entities": (WALL,)}, True),
        ("It is the Great Wall of China.", {"entity": None}, True),  # a page says so
        ("The Great Wall of China, first.", {"entities": (WALL, Entity("Petra"))}, True),  # of two things the one
        ("It is a wall from 1420.", {}, True),
        ("The Great Wall of China stands on mountains.", {}, True),  # so it would without the name
        ("A wall that is called the Great Wall of China.", {}, False),
        ("The photo probably shows an otter.", {"entity": Entity("Otter")}, False),
    ],
)
def test_a_name_that_picture_search_is_unsure_of_is_no_answer(
    answer: str, fields: dict[str, object], is_given: bool
) -> None:
    """Photos of what the graph lacks were given the name of what they are most like."""
    settings = settings_from({"stages": ("finalise",), "finalise": {"abstain_unsure_name": True}})
    answers = []
    for sees in (False, True):
        models = ModelSet(Profile(name="scripted", models={}, sees=sees), Path("unused"))
        dialog_turn = turn("What is this?", candidate=Candidate(answer, None), entity=WALL)
        for name, value in fields.items():
            setattr(dialog_turn, name, value)
        run(Finalise, [dialog_turn], replace(context(settings), models=models))
        answers.append(dialog_turn.answer)
    assert answers == [answer if is_given else IDK, answer]


@pytest.mark.parametrize("query", ["", " ", "?", "...!", "\n", "\N{DOG FACE}"])
@pytest.mark.parametrize("candidate", [HELD, None])
def test_a_query_that_asks_nothing_is_not_answered(query: str, candidate: Candidate | None) -> None:
    answer, decision, _ = finalise(FinaliseOptions(), query=query, question="Who is this?", candidate=candidate)
    assert (answer, decision.reason, decision.ruled_out) == (IDK, "the question is empty", "the question is empty")


@pytest.mark.parametrize("query", ["7", "Who", "\u8c01?", "\u0643\u0645\u061f"])
def test_a_query_of_any_script_is_answered(query: str) -> None:
    assert finalise(FinaliseOptions(), query=query, question=query, candidate=HELD)[0] == HELD.text
