"""What the last stage leaves in the trace, so that thresholds can be fitted."""

from __future__ import annotations

from math import log

from agents.settings import Finalise, Settings
from agents.stages.finalise import Finalise as FinaliseStage
from agents.turn import IDK, Candidate, Evidence
from tests.agent.scripted import context, turn


def finalise(settings: Finalise, **fields: object) -> tuple[str, dict[str, object]]:
    asked = turn("Who?")
    for name, value in fields.items():
        setattr(asked, name, value)
    FinaliseStage().run([asked], context(Settings(stages=("finalise",), finalise=settings)))
    asked.close_stage("finalise", 0.0)
    return asked.answer, asked.trace[0]


CANDIDATE = Candidate("Gustave Eiffel", 0.75, (log(0.5), log(1.0)))
RANKED = (Evidence("a", "web", "t", score=0.4), Evidence("b", "web", "t", score=0.6))


def test_a_candidate_that_is_held_back_stands_in_the_trace() -> None:
    answer, noted = finalise(Finalise(min_confidence=0.8), candidate=CANDIDATE, ranked=RANKED)
    assert answer == IDK
    assert noted["candidate"] == "Gustave Eiffel"
    assert noted["confidence"] == 0.75
    assert noted["evidence_score"] == 0.6
    assert round(float(str(noted["least_probability"])), 6) == 0.5
    assert round(float(str(noted["mean_probability"])), 6) == 0.75
    assert noted["ruled_out"] is None  # a threshold held it back, no rule
    assert str(noted["decision"]).startswith("abstained: the answer's confidence is 0.750")


def test_rules_without_a_threshold_are_told_apart() -> None:
    settings = Finalise(abstain_real_time=True, min_confidence=0.1)
    answer, noted = finalise(settings, candidate=CANDIDATE, real_time=True)
    assert (answer, noted["ruled_out"]) == (IDK, "the question is about the present moment")
    answer, noted = finalise(settings, candidate=None)
    assert (answer, noted["candidate"], noted["confidence"]) == (IDK, None, None)


def test_an_answer_that_is_given_is_its_candidate() -> None:
    answer, noted = finalise(Finalise(), candidate=CANDIDATE, route="direct")
    assert answer == noted["candidate"] == "Gustave Eiffel"
    assert noted["direct"] is True
    assert noted["decision"] == "answered"
