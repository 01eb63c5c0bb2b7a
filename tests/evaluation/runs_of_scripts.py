"""Runs of a scripted agent from the command line, for tests of what lies in their folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from agents.base_agent import Message
from evaluation.run import command
from tests.evaluation.worlds import ScriptedAgent, picture, row, use_agent, write_dataset

TURNS = (3, 2, 2)


def answer(query: str, history: Sequence[Message]) -> str:
    """Answer right, arguably or not at all, by the number of the question."""
    return {"What is number 0?": "number 0.", "What is number 1?": "It is number 1"}.get(query, "I don't know")


@contextmanager
def scripted_world(folder: Path) -> Iterator[Path]:
    """Write a data set into a folder, and put the scripted agent in place of CragAgent."""
    rows = [row(name, turns, "v0.1.2", picture(), None) for name, turns in zip("abc", TURNS, strict=True)]
    write_dataset(folder, rows, "v0.1.2")
    with pytest.MonkeyPatch.context() as patch:
        use_agent(patch, lambda *_, **__: ScriptedAgent(answer, batch_size=2))
        yield folder


def run_it(world: Path, output: Path, *arguments: str, console: Console | None = None) -> int:
    """Run ``local_evaluation.py`` over the data set of a world; return its exit status."""
    places = ["--dataset", str(world), "--cache", str(world / "cache"), "--output-dir", str(output)]
    always = ["--dataset-type", "multi-turn", "--eval-model", "rule", "--no_progress"]
    return command.main([*always, *places, *arguments], console=console)
