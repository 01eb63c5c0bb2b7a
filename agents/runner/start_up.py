"""Start-up: the models of a preset are loaded one after another, each step timed against the limit.

A vLLM engine comes last, when the GPU's memory no longer changes: it measures the rest (vllm 0.10.2, worker.py,
``memory_profiling``).
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PIL import Image

from agents.base.files import one_line
from agents.models.base import ModelError, MultimodalPair

if TYPE_CHECKING:
    from agents.profiles.model_set import ModelSet

LIMIT_SECONDS = 600.0  # the evaluator gives an agent 10 minutes to be built (CRAG-MM rules)

_ENGINE = "vllm"
_TEXT = "The Eiffel Tower is 330 metres tall."
_QUESTION = "How tall is the Eiffel Tower?"
_SIZE = (960, 1280)  # pictures as the evaluator passes them
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Step:
    """One step of the start-up and how long it took, in seconds; ``error`` if it failed."""

    name: str
    seconds: float
    error: str | None = None
    role: str | None = None  # of the model that it loads


@dataclass(frozen=True)
class StartUp:
    """All steps, and the wall time of the whole in seconds."""

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

    def require(self, roles: Iterable[str]) -> None:
        """Raise ModelError if the model of one of these roles cannot be used.

        An agent as it is submitted has no use without its chat models: each question would be answered by "I don't know", and the
        submission be scored all the same.
        """
        role_set = frozenset(roles)
        missing = StartUp(tuple(step for step in self.failures if step.role in role_set), self.seconds).fault
        if missing is not None:
            raise ModelError(
                f'The agent cannot be submitted without its chat model ({missing}). Every answer would be "I don\'t know". '
                "Correct what the message names, then run `python -m apps.preflight`; docs/submission.md lists what fails most."
            )

    @property
    def fault(self) -> str | None:
        """Failed steps and why, in one line, equal failures together; None if nothing failed."""
        steps: dict[str, list[str]] = {}
        for step in self.failures:
            steps.setdefault(one_line(step.error), []).append(step.name)
        return "; ".join(f"{', '.join(names)}: {error}" for error, names in steps.items()) or None

    def __str__(self) -> str:
        steps = sorted(self.steps, key=lambda step: -step.seconds)
        durations = ", ".join(f"{step.name} {step.seconds:.1f} s" for step in steps)
        return f"start-up took {self.seconds:.1f} of {LIMIT_SECONDS:.0f} s: {durations}"


def start_up(
    models: ModelSet, roles: Iterable[str], blank_turn: Callable[[], list[tuple[str, float]]] | None = None
) -> StartUp:
    """Load the models of known roles, engines last, and send a blank turn through the stages; failures are noted and logged, not raised."""
    began = time.perf_counter()
    known_roles = [role for role in roles if role in models.specifications]
    known_roles.sort(key=lambda role: models.specifications[role].get("kind") == _ENGINE)
    steps = []
    for number, role in enumerate(known_roles, 1):
        steps.append(_load(models, role))
        _log.info("%d of %d: %s, %.1f s", number, len(known_roles), steps[-1].name, steps[-1].seconds)
    steps += [Step(f"blank turn: {name}", seconds) for name, seconds in (blank_turn() if blank_turn else ())]
    result = StartUp(tuple(steps), time.perf_counter() - began)
    for step in result.failures:
        _log.warning("start-up: %s failed: %s", step.name, step.error)
    _log.log(logging.INFO if result.in_time else logging.ERROR, "%s", result)
    return result


def _load(models: ModelSet, role: str) -> Step:
    start, error = time.perf_counter(), None
    try:
        _call_once(models.get(role))
    except KeyboardInterrupt:
        raise
    except BaseException as fault:  # noqa: BLE001 - one model's failure is reported and does not stop the others; a Rust panic is no Exception
        error = str(fault) if isinstance(fault, ModelError) else f"{type(fault).__name__}: {fault}"
    return Step(f"load {role}", time.perf_counter() - start, error, role)


def _call_once(model: Any) -> None:
    """Let a model work on a small input of its kind: most adapters load their weights only then; chat models may have ``warm_up``."""
    picture = Image.new("RGB", _SIZE, "gray")
    calls: Sequence[tuple[str, Callable[[Any], object]]] = (
        ("score", lambda method: method([(_QUESTION, _TEXT)])),
        ("score_multimodal", lambda method: method([MultimodalPair(_QUESTION, picture, _TEXT)])),
        ("detect", lambda method: method([picture], [["tower"]])),
        ("classify", lambda method: method([picture], [_QUESTION])),
        ("recognise", lambda method: method([picture])),
        ("find", lambda method: method([_TEXT])),
        ("read", lambda method: method([picture])),
        ("encode", lambda method: method([picture if "images" in inspect.signature(method).parameters else _TEXT])),
        ("features", lambda method: method([picture], [_QUESTION])),
        ("warm_up", lambda method: method()),
    )  # the methods of the protocols in ``agents/models/base.py``
    for name, call in calls:
        if callable(method := getattr(model, name, None)):
            call(method)
            return
