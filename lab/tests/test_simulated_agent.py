"""The guard on the simulated clock of an L40S: what a small batch cannot afford is reduced, a large one runs whole, none is late."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from PIL import Image

from agents.models.base import ChatMessage, ChatRequest
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Profile
from agents.settings.run_config import RunConfig, preset_names
from agents.time_limits.deadline import Deadline
from evaluation.records import QuestionTurn, Session
from lab.benchmarks.latency.call_seconds import estimate_seconds, place_models
from lab.benchmarks.latency.cost import Machine
from lab.benchmarks.latency.simulated_agent import AgentCall, SimulatedAgent, SimulatedTime, TimedChat
from mini_crag_mm.loader import AskedTurn
from tests.support.meter import ModelCall
from tests.support.scripted_parts import Search, ready

MACHINE = Machine.read()


def question(number: int, earlier: int = 0) -> AskedTurn:
    turn = QuestionTurn(f"{number}-{earlier}", earlier, f"How high is tower {number}-{earlier}?", "330 m")
    history = ({"role": "user", "content": f"How high is tower {number}-0?"}, {"role": "assistant", "content": "330 m"})
    image = Image.new("RGB", (160 + number, 128), "gray")
    return AskedTurn(Session(str(number), (turn,), 0), turn, image, history if earlier else (), (), {})


@cache
def cost(preset: str) -> Callable[[ModelCall], float]:
    models = place_models(RunConfig.read(preset, "gpu"))
    return lambda call: estimate_seconds(call, models, MACHINE, 0.5)


def build_agent(preset: str) -> SimulatedAgent:
    models = ModelSet(Profile(name="p", models={}), Path("unused"), ready=ready())
    time = SimulatedTime(cost(preset))
    return SimulatedAgent(RunConfig.read(preset, "gpu"), Search(), models, time, MACHINE.overhead["turn"])


def calls(preset: str, size: int, number: int = 6) -> list[AgentCall]:
    agent = build_agent(preset)
    return [agent.call([question(size * call + place) for place in range(size)]) for call in range(number)]


def ways(call: AgentCall) -> dict[str, str]:
    return {record.stage: record.status for record in call.stages}


def test_a_call_is_cut_at_its_deadline_and_takes_no_longer() -> None:
    time = SimulatedTime(lambda _: 4.0)
    chat = TimedChat("chat", time)
    request = ChatRequest((ChatMessage("user", "Why?"),))
    [whole] = chat.chat([request])
    [cut] = chat.chat([request], Deadline(1.0, time))
    assert time() == 5.0 and chat.cut == 1
    assert (whole.finish_reason, cut.finish_reason) == ("stop", "abort")
    assert cut.text == whole.text[: len(whole.text) // 4]


def test_a_turn_alone_is_reduced_and_sixteen_together_run_whole() -> None:
    alone, together = calls("qa_dragon", 1, 12), calls("qa_dragon", 16, 2)
    assert not any(call.late for call in (*alone, *together))
    assert not any(call.whole for call in alone) and all(call.whole for call in together)
    for call in alone:  # what it costs is not the answer, nor its verification
        assert {"answer": "skipped", "verify": "skipped"}.items().isdisjoint(ways(call).items())
        assert "reduced" in ways(call).values()


def test_the_default_agent_runs_whole_for_a_turn_alone_once_it_knows_its_times() -> None:
    """Terminal, page and server ask one turn at a time."""
    first, *later = calls("best", 1, 12)
    assert not first.late and all(call.whole and not call.late for call in later)


def test_no_dialog_takes_more_than_its_limit() -> None:
    agent = build_agent("qa_dragon")
    spent = sum(agent.call([question(0, earlier)]).seconds for earlier in range(6))
    assert spent <= 30.0


@pytest.mark.parametrize("preset", [name for name in preset_names() if name != "qa_dragon"])
def test_no_preset_is_late_in_its_first_calls(preset: str) -> None:
    assert not any(call.late for size in (1, 8) for call in calls(preset, size, 2))
