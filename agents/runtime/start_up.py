"""Start-up: the models of a preset are loaded, at once where they can be, and every step is timed against the limit.

Run: ``python -m agents.runtime.start_up --preset best --profile embedded``.

Models that load through transformers go one after another: ``from_pretrained`` sets the process' default dtype while it
makes a model (transformers 4.57.6, modeling_utils.py, ``_set_default_dtype``), so that two at once could spoil each other. A
vLLM engine comes last, when the GPU's memory no longer changes: it measures what is left (vllm 0.10.2, worker.py,
``memory_profiling``). Its weights, which take longest, are read from the disk meanwhile.
"""

from __future__ import annotations

import argparse
import logging
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.runtime.exercise import exercise
from agents.runtime.read_ahead import read_ahead, weight_files

if TYPE_CHECKING:
    from agents.crag_agent import CragAgent
    from agents.model_set import ModelSet

LIMIT_SECONDS = 600.0
"""The evaluator gives an agent 10 minutes to be built (CRAG-MM rules)."""

ENGINE = "vllm"
INDEPENDENT = frozenset({"rapidocr", "efficientnet-lite2", "spacy-entities", "openai"})
"""Kinds that load without transformers."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Step:
    """One step of the start-up: ``start`` and ``seconds`` since it began, in seconds; ``error`` where it failed."""

    name: str
    lane: str
    start: float
    seconds: float
    error: str | None = None


@dataclass(frozen=True)
class StartUp:
    """All steps, and the wall time of the whole."""

    steps: tuple[Step, ...]
    seconds: float

    @property
    def in_time(self) -> bool:
        """Whether the limit was kept."""
        return self.seconds <= LIMIT_SECONDS

    @property
    def failures(self) -> tuple[Step, ...]:
        """The steps that failed."""
        return tuple(step for step in self.steps if step.error is not None)


def start_up(agent: CragAgent, *, blank_turn: bool = True) -> StartUp:
    """Load what the agent's preset can ask for, then send a blank turn through its stages unless that is not wanted.

    What fails is noted, not raised: the stage that needs it says so again where a turn is really asked.
    """
    from agents.runtime.roles import roles_of

    began = time.perf_counter()
    steps = load_models(agent.models, roles_of(agent.settings, agent.prompts), began)
    start = time.perf_counter() - began
    for name, seconds in agent.warm_up() if blank_turn else ():
        steps.append(Step(f"blank turn: {name}", "stages", start, seconds))
        start += seconds
    done = StartUp(tuple(steps), time.perf_counter() - began)
    for step in done.failures:
        _log.warning("start-up: %s failed: %s", step.name, step.error)
    _log.info("start-up took %.1f of %.0f s: %s", done.seconds, LIMIT_SECONDS, said(done))
    if not done.in_time:
        _log.error("start-up took %.1f s, more than the %.0f s allowed", done.seconds, LIMIT_SECONDS)
    return done


def said(done: StartUp) -> str:
    """The steps in one line, longest first."""
    return ", ".join(f"{step.name} {step.seconds:.1f} s" for step in sorted(done.steps, key=lambda step: -step.seconds))


def load_models(models: ModelSet, roles: Sequence[str], began: float) -> list[Step]:
    """Load the models of roles in lanes; engines last."""
    specs = models.specifications
    known = [role for role in roles if role in specs]
    engines = [role for role in known if ENGINE in set(_kinds(specs[role]))]
    lanes = lanes_of({role: specs[role] for role in known if role not in engines})
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=len(lanes) + 1) as pool:
        ahead = pool.submit(_ahead, [str(specs[role].get("path", "")) for role in engines], stop, began)
        running = [pool.submit(_lane, models, lane, f"lane {number}", began) for number, lane in enumerate(lanes, 1)]
        steps = [step for future in running for step in future.result()]
        stop.set()
        steps += ahead.result()
    return steps + _lane(models, engines, "engine", began)


def lanes_of(specs: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Roles that may load beside each other: those in one list share a kind, or load through transformers."""
    lanes: list[tuple[set[str], list[str]]] = []
    for role, spec in specs.items():
        marks = {kind if kind in INDEPENDENT else "transformers" for kind in _kinds(spec)}
        meeting = [lane for lane in lanes if lane[0] & marks]
        joined = (marks.union(*(lane[0] for lane in meeting)), [*(r for lane in meeting for r in lane[1]), role])
        lanes = [lane for lane in lanes if lane not in meeting] + [joined]
    return [lane for _, lane in lanes]


def _kinds(spec: Mapping[str, Any]) -> Iterator[str]:
    """The kinds of a specification that load something: those of the models inside it, else its own."""
    inner = [value for value in spec.values() if isinstance(value, Mapping) and "kind" in value]
    for value in inner:
        yield from _kinds(value)
    if not inner:
        yield str(spec.get("kind"))


def _lane(models: ModelSet, roles: Iterable[str], lane: str, began: float) -> list[Step]:
    steps = []
    for role in roles:
        start = time.perf_counter()
        error = None
        try:
            exercise(models.get(role))
        except Exception as fault:  # noqa: BLE001 - a model that cannot be loaded must not cost the agent the others
            error = f"{type(fault).__name__}: {fault}"
        steps.append(Step(f"load {role}", lane, start - began, time.perf_counter() - start, error))
    return steps


def _ahead(paths: Sequence[str], stop: threading.Event, began: float) -> list[Step]:
    start = time.perf_counter()
    files = [file for path in paths for file in weight_files(path)]
    if not files:
        return []
    error = None
    try:
        read = read_ahead(files, stop)
    except OSError as fault:
        read, error = 0, str(fault)
    name = f"read {read / 1e9:.1f} GB of weights ahead"
    return [Step(name, "disk", start - began, time.perf_counter() - start, error)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Start an agent and print how long each step took; 1 where one failed or the limit was missed."""
    from agents.launch import DEFAULT_CACHE, build_agent, build_pipeline, prepare
    from agents.search.hits import SearchError
    from agents.settings import SettingsError

    parser = argparse.ArgumentParser(
        prog="python -m agents.runtime.start_up", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--preset", default="best")
    parser.add_argument("--profile", default="embedded")
    parser.add_argument("--split", default="validation")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    options = parser.parse_args(arguments)
    try:
        prepare(options.cache, options.profile)
        pipeline = build_pipeline(options.profile, split=options.split, cache=options.cache)
        agent: Any = build_agent(options.preset, options.profile, pipeline, cache=options.cache)
    except (SearchError, SettingsError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    done = start_up(agent)
    _print(done, f"{options.preset} under {options.profile}")
    return 0 if done.in_time and not done.failures else 1


def _print(done: StartUp, title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = Table(title=f"start-up of {title}", caption=f"{done.seconds:.1f} of {LIMIT_SECONDS:.0f} s")
    for column, side in (
        ("step", "left"),
        ("lane", "left"),
        ("from, s", "right"),
        ("took, s", "right"),
        ("state", "left"),
    ):
        shown.add_column(column, justify=side)  # type: ignore[arg-type]
    for step in sorted(done.steps, key=lambda step: step.start):
        shown.add_row(step.name, step.lane, f"{step.start:.1f}", f"{step.seconds:.2f}", step.error or "ok")
    Console().print(shown)


if __name__ == "__main__":
    sys.exit(main())
