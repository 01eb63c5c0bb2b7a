"""Batches that mix all that the other tests know of broken input: as many answers, in order, and nobody pays for a neighbour."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.crag_agent import CragAgent
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import PRESETS, Profile, names
from agents.settings.presets import load_settings
from tests.faults.test_hostile_input import HISTORIES, PICTURES, QUERIES, noise
from tests.property.fuzzing import fuzzed, hostile_text
from tests.support.scripted_parts import Search, ready

pytestmark = pytest.mark.hostile("batches of good and broken turns, mixed by Hypothesis")

GOOD = "How high is it?"
DIALOG = [{"role": "user", "content": "What is it?"}, {"role": "assistant", "content": "The Eiffel Tower."}]

messages = st.one_of(
    st.none(),
    hostile_text,
    st.fixed_dictionaries(
        {},
        optional={
            "role": st.sampled_from(["user", "assistant", "system", None, 7]),
            "content": st.one_of(hostile_text, st.none()),
        },
    ),
)
queries = st.one_of(st.sampled_from(list(QUERIES.values())), hostile_text)
pictures = st.sampled_from(list(PICTURES))
histories = st.one_of(st.sampled_from(list(HISTORIES.values())), st.lists(messages, max_size=4))
broken = st.tuples(queries, pictures, histories)
turns = st.lists(st.one_of(st.just("good"), st.just("dialog"), broken), max_size=17)


@cache
def agent(preset: str) -> CragAgent:
    """An agent with scripted models that never lacks time."""
    settings = load_settings(preset, "gpu")
    limits = settings.limits.model_copy(update={"seconds_per_turn": 600.0, "seconds_per_dialog": 1e6})
    models = ModelSet(Profile(name="scripted", models={}), Path("unused"), ready=ready())
    return CragAgent(Search(), settings=settings.model_copy(update={"limits": limits}), models=models)


def given_turn(turn: Any) -> tuple[Any, Any, Any]:
    if turn == "good":
        return GOOD, noise(), []
    if turn == "dialog":
        return GOOD, noise(), DIALOG
    query, picture, history = turn
    return query, PICTURES[picture](), history


def answers(preset: str, batch: list[Any]) -> list[str]:
    columns = [list(column) for column in zip(*map(given_turn, batch), strict=True)] or [[], [], []]
    return agent(preset).batch_generate_response(*columns)


@cache
def alone(preset: str, turn: str) -> str:
    """What a good turn is answered that nothing stands beside."""
    return answers(preset, [turn])[0]


@pytest.mark.parametrize("preset", names(PRESETS))
def test_mixed_batches(preset: str) -> None:
    @fuzzed(6)
    @given(turns)
    def check(batch: list[Any]) -> None:
        got = answers(preset, batch)
        assert len(got) == len(batch)
        for turn, answer in zip(batch, got, strict=True):
            assert isinstance(answer, str) and answer
            answer.encode()
            if isinstance(turn, str):
                assert answer == alone(preset, turn)

    check()


def test_order_is_kept() -> None:
    """Turns whose answers differ, in any order with broken ones between: each gets its own."""
    preset = "vlm_only"
    chat = agent(preset).models.get("chat")
    assert chat.name == "scripted"
    got = answers(preset, ["good", ("", "bomb", None), "dialog", ("x", "truncated JPEG", []), "good"])
    assert [got[0], got[2], got[4]] == [alone(preset, "good"), alone(preset, "dialog"), alone(preset, "good")]
