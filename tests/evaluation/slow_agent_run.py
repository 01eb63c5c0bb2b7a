"""A run that is killed by test_generate: an agent that reports each batch and then waits to be let on.

Usage: python -m tests.evaluation.slow_agent_run OUTPUT_DIR BATCHES_BEFORE_WAITING
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from agents.base_agent import Message
from evaluation.run.generate import generate
from tests.evaluation.worlds import PLAIN, OneColour, ScriptedAgent, sessions

TURNS = (3, 1, 4, 2, 6, 2, 5)


class WaitingAgent(ScriptedAgent):
    """Agent that says "waiting" and reads a line before the batch after the given number."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.batches = batches

    def batch_generate_response(
        self,
        queries: Sequence[str],
        images: Sequence[Image.Image | None],
        message_histories: Sequence[Sequence[Message]] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        if len(self.calls) == self.batches:
            print("waiting", flush=True)
            sys.stdin.readline()
        return super().batch_generate_response(queries, images, message_histories, **kwargs)


if __name__ == "__main__":
    generate(
        WaitingAgent(int(sys.argv[2])),
        sessions(TURNS),
        OneColour(),
        PLAIN,
        Path(sys.argv[1]),
        progress=False,
        resume=True,
    )
