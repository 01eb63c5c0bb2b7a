"""One trial: an agent of a preset with one fault answers two calls; what it promises is checked.

Where something hung, it is let go of afterwards, and a third call has to be answered as if nothing had been.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image

from agents.crag_agent import CragAgent
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Profile
from agents.settings.presets import Settings
from agents.turn import IDK
from tests.support.fault_plan import MARK, Fault, Plan
from tests.support.fault_variants import full_settings, short_settings
from tests.support.scripted_clock import ScriptedClock, ScriptedWorker
from tests.support.scripted_parts import numbers_in, ready

TURNS = 3
CALLS = 2
_CHALLENGE_SECONDS = 10.0  # a turn
_JOIN_SECONDS = 10.0

Answers = list[list[str]]
Records = list[dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """What came of a trial.

    Attributes:
        answers: Of both calls.
        overrun_ms: How much longer than its limit the longer call took, in milliseconds; negative where it was in time.
        records: The trace of both calls; None where it went to a full disk.
        broken: Promises that were not kept, but for the limit.
    """

    answers: Answers
    overrun_ms: float
    records: Records | None
    broken: tuple[str, ...]

    @property
    def held(self) -> bool:
        """Whether everything that is promised was kept."""
        return not self.broken and self.overrun_ms <= 0.0


def spoilt_agent(settings: Settings, plan: Plan) -> CragAgent:
    """An agent over scripted parts, with the fault of the plan."""
    models = ModelSet(
        Profile(name="scripted", models={}),
        Path("unused"),
        ready=ready(plan.chat, plan.reranker, plan.sight, plan.encoder),
    )
    clock = plan.clock or time.monotonic
    agent = CragAgent(plan.search, settings=settings, models=models, trace_path=plan.trace, clock=clock)
    if plan.clock is not None:
        agent.pipeline.worker = ScriptedWorker(plan.clock)
    scale = settings.limits.seconds_per_turn / _CHALLENGE_SECONDS
    for stage in agent.pipeline.stages:
        for need in ("min_seconds", "wanted_seconds"):
            setattr(stage, need, scale * getattr(stage, need))
        if plan.spoil_stage is not None:
            plan.spoil_stage(stage)
    return agent


def questions(number: int) -> list[str]:
    """The queries of a call; the middle one is the turn that a fault of a single turn hits."""
    return [f"How high is tower {number}-{n}{f' {MARK}' if n == 1 else ''}?" for n in range(TURNS)]


def trial(variant: str, fault: Fault | None = None, *, scripted: bool = False) -> Outcome:
    """Two calls of an agent with a fault.

    Args:
        variant: A preset (see ``tests.support.fault_variants``).
        fault: None for none.
        scripted: With the challenge's limits on a scripted clock, instead of short ones on the real one.
    """
    whole = None if fault is None else sound_answers(variant, scripted=scripted)
    settings = full_settings(variant) if scripted else short_settings(variant)
    clock = ScriptedClock() if scripted else None
    plan = Plan(call_seconds=settings.limits.seconds_per_turn * TURNS, clock=clock)
    now = clock or time.perf_counter
    with tempfile.TemporaryDirectory() as folder:
        plan.folder = Path(folder)
        plan.trace = plan.folder / "trace.jsonl"
        if fault is not None:
            fault.spoil(plan)
        agent = spoilt_agent(settings, plan)
        answers: Answers = []
        longest = 0.0
        images = [Image.new("RGB", (160 + n, 128), "gray") for n in range(TURNS)]
        try:
            for number in range(CALLS):
                started = now()
                answers.append(agent.batch_generate_response(questions(number), images, [[]] * TURNS))
                longest = max(longest, now() - started)
        finally:
            plan.released.set()
        records = None
        if plan.trace.is_file():
            records = [json.loads(line) for line in plan.trace.read_text("utf-8").splitlines()]
        hung = [thread for threads in agent.pipeline.hung.values() for thread in threads]
        for thread in hung:
            thread.join(_JOIN_SECONDS)
        recovered = agent.batch_generate_response(questions(0), images, [[]] * TURNS) if hung else None
    broken = [*_miscounted(answers), *_swapped(answers), *_mixed_up(records)]
    if whole is not None and recovered is not None and recovered != whole[0]:
        broken.append(f"once nothing hangs any more it still answers otherwise: {recovered!r}"[:200])
    if not broken and fault is not None and whole is not None:
        broken += [*_spoilt_besides(answers, whole, fault), *_unexplained(answers, whole, records, fault)]
    return Outcome(answers, 1000.0 * (longest - plan.call_seconds), records, tuple(broken))


@cache
def sound_answers(variant: str, *, scripted: bool) -> Answers:
    """What an agent says with which nothing is wrong."""
    return trial(variant, scripted=scripted).answers


def _miscounted(answers: Answers) -> list[str]:
    return [
        f"{len(call)} answers: {call!r}"[:200]
        for call in answers
        if len(call) != TURNS or not all(isinstance(answer, str) and answer for answer in call)
    ]


def _swapped(answers: Answers) -> list[str]:
    """Answers that stand where another was asked for."""
    return [
        f"turn {turn} of call {number} is answered with {answer!r}"[:200]
        for number, call in enumerate(answers)
        for turn, answer in enumerate(call)
        if any(named != f"{number}-{turn}" for named in numbers_in(answer))
    ]


def _mixed_up(records: Records | None) -> list[str]:
    if records is None:
        return []
    problems: list[str] = []
    if [(record["batch"], record["turn"]) for record in records] != [
        (b, t) for b in range(CALLS) for t in range(TURNS)
    ]:
        problems.append("the trace lacks turns, or has them in another order")
    if [record["query"] for record in records] != [query for number in range(CALLS) for query in questions(number)]:
        problems.append("the turns are out of order")
    problems += [f"turn {record['turn']} abstains without a reason" for record in records if _silent(record)]
    return problems


def _silent(record: dict[str, Any]) -> bool:
    """Whether a turn was not answered, and its trace does not say why."""
    return record["answer"] == IDK and not (
        record["error"]
        or any(
            stage["status"] not in ("ran", "reduced") or (stage.get("decision") or {}).get("given") is False
            for stage in record["stages"]
        )
    )


def _spoilt_besides(answers: Answers, whole: Answers, fault: Fault) -> list[str]:
    """Turns that the fault does not concern and that are not answered as ever."""
    return [
        f"turn {turn} of call {number} is answered otherwise: {got!r}"[:200]
        for number, (call, expected) in enumerate(zip(answers, whole, strict=True))
        for turn, (got, sound) in enumerate(zip(call, expected, strict=True))
        if got != sound and (fault.harmless or (fault.one_turn and MARK not in questions(number)[turn]))
    ]


def _unexplained(answers: Answers, whole: Answers, records: Sequence[Any] | None, fault: Fault) -> list[str]:
    """Turns that the fault made abstain, and whose trace does not name it."""
    if fault.says is None or records is None:
        return []
    texts = iter([json.dumps({"error": record["error"], "stages": record["stages"]}) for record in records])
    return [
        f"turn {turn} of call {number} abstains, and {fault.says!r} is not in its trace"
        for number, (call, expected) in enumerate(zip(answers, whole, strict=True))
        for turn, (got, sound, text) in enumerate(zip(call, expected, texts, strict=False))
        if got == IDK != sound and not re.search(fault.says, text)
    ]
