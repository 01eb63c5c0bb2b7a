"""Where answers are lost, by hand, and the table over a recorded run."""

from __future__ import annotations

import pytest

from agents.record import EvidenceFound, StageRecord, TurnRecord
from lab.benchmarks.losses import Place, find_place, says_answer


@pytest.mark.parametrize(
    ("text", "accept", "says"),
    [
        ("The tower is 330 metres tall.", ["330 m"], True),
        ("The tower is 330 metres tall.", ["324 m"], False),
        ("It was designed by Jan Gehl in Copenhagen.", ["Jan Gehl"], True),
        ("It was not designed by Jan Gehl.", ["Jan Gehl"], False),
        ("The 12 men met.", ["12 o'clock"], False),
        ("Gustave made it.", ["Gustave Eiffel", "Eiffel"], False),
        ("", ["yes"], False),
    ],
)
def test_a_text_says_an_answer_by_its_words_and_figures(text: str, accept: list[str], says: bool) -> None:
    assert says_answer([text], accept) is says


def _record(entity: str | None, kept: list[str], text: str) -> TurnRecord:
    chosen = StageRecord("select_entity", 0.0, "ran", entity=entity, notes={"entities": kept})
    shown = StageRecord("answer", 0.0, "ran", evidence=(EvidenceFound(text),))
    return TurnRecord(query="q", question="q", answer="a", stages=(chosen, shown))


def test_a_turn_stands_by_steps_entity_and_evidence() -> None:
    yak = frozenset({"Yak"})
    facts = {"hops": 1}
    assert find_place(_record("Yak", [], "A yak weighs 500 kg."), yak, facts, ["500 kg"]) == Place(False, False, True)
    assert find_place(_record("Cow", ["Yak"], "Cows moo."), yak, {"hops": 2}, ["500 kg"]) == Place(True, False, False)
    # what the evidence of another thing says is no find
    assert find_place(_record("Cow", [], "A cow weighs 500 kg."), yak, facts, ["500 kg"]) == Place(False, True, None)
    assert find_place(_record(None, [], ""), yak, facts, ["500 kg"]) == Place(False, True, None)
