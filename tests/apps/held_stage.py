"""An agent whose second stage waits for the test."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from agents.crag_agent import CragAgent
from agents.profiles.profile import Limits
from agents.stage import Context, Stage
from agents.turn import Turn
from tests.apps.conftest import crag_agent


class Held(Stage):
    """Waits until it is let go, or its deadline is over."""

    name = "held"
    doing = "waiting for the test"

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.go = threading.Event(), threading.Event()

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        self.entered.set()
        while not self.go.wait(0.01) and not context.deadline.passed():
            pass


def held(limits: Limits | None = None) -> tuple[CragAgent, Held]:
    agent, stage = crag_agent(limits=limits), Held()
    agent.pipeline.stages.insert(1, stage)
    return agent, stage
