"""What the last stage leaves in the trace, so that thresholds can be fitted."""

from __future__ import annotations

from math import log

from agents.settings import settings_from
from agents.stages.finalise import Finalise, FinaliseOptions
from agents.turn import IDK, Candidate, Evidence
from tests.agent.scripted import context, run, turn


def finalise(settings: FinaliseOptions, **fields: object) -> tuple[str, dict[str, object]]:
    asked = turn("Who?")
    for name, value in fields.items():
        setattr(asked, name, value)
    run(Finalise, [asked], context(settings_from({"stages": ("finalise",), "finalise": settings})))
    asked.close_stage("finalise", 0.0)
    return asked.answer, asked.trace[0]


CANDIDATE = Candidate("Gustave Eiffel", 0.75, (log(0.5), log(1.0)), idk=0.3)
RANKED = (Evidence("a", "web", "t", score=0.4), Evidence("b", "web", "t", score=0.6))


def test_a_candidate_that_is_held_back_stands_in_the_trace_with_its_signals() -> None:
    answer, noted = finalise(FinaliseOptions(most_idk=0.2), candidate=CANDIDATE, ranked=RANKED)
    assert answer == IDK
    assert noted["candidate"] == "Gustave Eiffel"
    assert noted["signals"] == {
        "p_idk": 0.3, "least_probability": 0.5, "mean_probability": 0.75, "evidence_score": 0.6, "no_evidence": 0.0, "no_entity": 1.0,
        "provided_evidence": 0.0,
    }  # fmt: skip
    assert noted["probability"] is None  # there is no gate
    assert noted["ruled_out"] is None  # doubt held it back, no rule
    assert str(noted["decision"]).startswith("abstained: the reply would have been")


def test_rules_are_told_apart_from_doubt() -> None:
    answer, noted = finalise(FinaliseOptions(abstain_real_time=True, most_idk=0.1), candidate=CANDIDATE, real_time=True)
    assert (answer, noted["ruled_out"]) == (IDK, "the question is about the present moment")
    answer, noted = finalise(FinaliseOptions(), candidate=None)
    assert (answer, noted["candidate"], noted["ruled_out"]) == (IDK, None, "no answer was found")


def test_an_answer_that_is_given_is_its_candidate() -> None:
    answer, noted = finalise(FinaliseOptions(), candidate=CANDIDATE, route="direct")
    assert answer == noted["candidate"] == "Gustave Eiffel"
    assert noted["direct"] is True
    assert noted["decision"] == "answered"
