"""One trial: an agent of a preset with one fault answers two calls; what it promises is checked."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from agents.crag_agent import CragAgent
from agents.model_set import ModelSet
from agents.settings import Profile, Settings, load_settings
from agents.turn import IDK
from benchmarks.faulty.faults import MARK, Fault, Plan
from benchmarks.faulty.parts import ready

TURNS = 3
SECONDS_PER_TURN = 0.2
"""A fiftieth of the challenge's limit; what stages need is scaled alike."""

_SCALE = SECONDS_PER_TURN / 10.0
_MARGIN = 0.2


@dataclass(frozen=True)
class Outcome:
    """What came of a trial.

    Attributes:
        answers: Of both calls.
        overrun_ms: How much longer than its limit the longer call took, in milliseconds; negative where it was in time.
        records: The trace of both calls; None where it went to a full disk.
        broken: Promises that were not kept.
    """

    answers: list[list[str]]
    overrun_ms: float
    records: list[dict[str, Any]] | None
    broken: tuple[str, ...]


def short_settings(preset: str) -> Settings:
    """The preset's main table with the challenge's limits made short."""
    settings = load_settings(preset, "gpu")
    limits = settings.limits.model_copy(
        update={
            "seconds_per_turn": SECONDS_PER_TURN,
            "margin_seconds": _MARGIN,
            "seconds_per_dialog": 3 * SECONDS_PER_TURN,
        }
    )
    return settings.model_copy(update={"limits": limits})


def spoilt_agent(settings: Settings, plan: Plan) -> CragAgent:
    """An agent over scripted parts, with the fault of the plan."""
    models = ModelSet(
        Profile(name="scripted", models={}),
        Path("unused"),
        ready=ready(plan.chat, plan.reranker, plan.sight, plan.reader),
    )
    agent = CragAgent(plan.search, settings=settings, models=models, trace_path=plan.trace)
    for stage in agent._stages:
        for need in ("least_seconds", "wanted_seconds"):
            setattr(stage, need, _SCALE * getattr(stage, need))
        if plan.spoil_stage is not None:
            plan.spoil_stage(stage)
    return agent


def questions(number: int) -> list[str]:
    """The queries of a call; the middle one is the turn that a fault of a single turn hits."""
    return [f"How high is tower {number}-{n}{f' {MARK}' if n == 1 else ''}?" for n in range(TURNS)]


def trial(preset: str, fault: Fault | None = None) -> Outcome:
    """Two calls of an agent with a fault."""
    settings = short_settings(preset)
    plan = Plan(call_seconds=SECONDS_PER_TURN * TURNS)
    with tempfile.TemporaryDirectory() as folder:
        plan.trace = Path(folder) / "trace.jsonl"
        if fault is not None:
            fault(plan)
        agent = spoilt_agent(settings, plan)
        answers: list[list[str]] = []
        longest = 0.0
        images = [Image.new("RGB", (160 + n, 128), "gray") for n in range(TURNS)]
        try:
            for number in range(2):
                started = time.perf_counter()
                answers.append(agent.batch_generate_response(questions(number), images, [[]] * TURNS))
                longest = max(longest, time.perf_counter() - started)
        finally:
            plan.released.set()
        records = None
        if plan.trace.is_file() and plan.trace.parent == Path(folder):
            records = [json.loads(line) for line in plan.trace.read_text("utf-8").splitlines()]
    overrun = 1000.0 * (longest - plan.call_seconds)
    return Outcome(answers, overrun, records, tuple(_broken(answers, records)))


def _broken(answers: Sequence[Sequence[str]], records: Sequence[dict[str, Any]] | None) -> list[str]:
    said: list[str] = []
    said += [
        f"{len(call)} answers: {call!r}"[:200]
        for call in answers
        if len(call) != TURNS or not all(isinstance(answer, str) and answer for answer in call)
    ]
    if records is not None:
        if [(record["batch"], record["turn"]) for record in records] != [
            (b, t) for b in range(2) for t in range(TURNS)
        ]:
            said.append("the trace lacks turns, or has them in another order")
        if [record["query"] for record in records] != [query for number in range(2) for query in questions(number)]:
            said.append("the turns are out of order")
        said += [
            f"turn {record['turn']} abstains without a reason"
            for record in records
            if record["answer"] == IDK and not _explained(record)
        ]
    return said


def _explained(record: dict[str, Any]) -> bool:
    """Whether the trace says why a turn was not answered."""
    return bool(record["error"]) or any(
        stage.get("skipped") or str(stage.get("decision", "")).startswith("abstained") for stage in record["stages"]
    )
