"""What the plan refuses is refused when the agent is built, before anything is loaded."""

from __future__ import annotations

import pytest

from agents import launch, memory_plan
from agents.crag_agent import CragAgent
from agents.memory_plan import MemoryPlanError


def test_an_agent_that_does_not_fit_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_plan, "machine_bytes", lambda: 16_000_000_000)
    with pytest.raises(MemoryPlanError, match=r"the GPU has 16\.00 GB"):
        launch.build_agent("best", "gpu")


def test_an_agent_that_fits_gets_its_share_and_loads_nothing_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_plan, "machine_bytes", lambda: None)
    agent = launch.build_agent("best", "gpu")
    assert isinstance(agent, CragAgent)
    chat = agent.models.specifications["chat"]
    assert 0.5 < chat["gpu_memory_utilization"] <= 0.95 and chat["max_batch"] >= 1 and chat["images"] == 1
