"""Whatever fails, on every preset: all answers, in order and in time; only the turns concerned abstain; the trace says why.

On a scripted clock with the challenge's own limits, so that neither hangs nor a busy machine cost time; two trials are on the real clock.
``best`` meets every fault, every other preset each fourth, others than its neighbours do; in ``make hostile`` all meet all.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from agents.profiles.profile import PRESETS, names
from agents.turn import IDK
from tests.property.fuzzing import AT_LENGTH
from tests.support.fault_plan import Fault, Plan
from tests.support.fault_trial import CALLS, Outcome, trial
from tests.support.fault_variants import full_settings
from tests.support.model_faults import MODEL_FAULTS
from tests.support.search_faults import SEARCH_FAULTS
from tests.support.stage_faults import STAGE_FAULTS, in_stage

ALL = names(PRESETS)
FAULTS: dict[str, Fault] = {**MODEL_FAULTS, **SEARCH_FAULTS}
STAGES = [(variant, stage) for variant in ALL for stage in full_settings(variant).stages]
_ONE_OF = 1 if AT_LENGTH else 4

KINDS = {
    "panic|cancelled|SystemExit": "engines: panics, SystemExit, cancelled loops",
    "hangs$": "engines and searches that hang (scripted clock)",
    "^page|^a page": "pages: hostile, or a broken cache",
    "picture": "pictures of the index: hostile, or a broken cache",
    "^search|hit": "searches that fail, hits that break the contract",
    "entity|attributes": "entities with broken and hostile attributes",
    "disk": "full disk",
    "": "models that fail or talk nonsense",
}
"""Pattern of a fault's name to its row in the table of ``make hostile``; the first that fits counts."""


def is_tried(variant: str, number: int) -> bool:
    """Whether a preset meets the fault of this number."""
    return variant == "best" or (ALL.index(variant) + number) % _ONE_OF == 0


def trials(faults: Iterable[str]) -> Iterator[Any]:
    """Presets with faults as parameters, marked with the rows of these."""
    for number, name in enumerate(faults):
        row = next(row for pattern, row in KINDS.items() if re.search(pattern, name))
        yield from (
            pytest.param(variant, name, marks=pytest.mark.hostile(row)) for variant in ALL if is_tried(variant, number)
        )


def check_outcome(outcome: Outcome) -> None:
    assert outcome.broken == ()
    assert outcome.overrun_ms <= 0.0


@pytest.mark.parametrize("variant", ALL)
def test_without_a_fault_every_turn_is_answered(variant: str) -> None:
    outcome = trial(variant, scripted=True)
    check_outcome(outcome)
    assert len({answer for call in outcome.answers for answer in call} - {IDK}) == 6


@pytest.mark.parametrize(("variant", "kind"), trials(FAULTS))
def test_models_searches_caches_and_disk(variant: str, kind: str) -> None:
    check_outcome(trial(variant, FAULTS[kind], scripted=True))


@pytest.mark.hostile("stages that hang, raise or are slow (scripted clock)")
@pytest.mark.parametrize(
    ("variant", "stage", "kind"),
    [
        (variant, stage, kind)
        for number, ((variant, stage), kind) in enumerate(itertools.product(STAGES, STAGE_FAULTS))
        if is_tried(variant, number + number // len(STAGE_FAULTS))
    ],
)
def test_stages(variant: str, stage: str, kind: str) -> None:
    check_outcome(trial(variant, in_stage(stage, kind), scripted=True))


def test_what_hung_in_one_call_does_not_spoil_the_next() -> None:
    outcome = trial("best", in_stage("rerank", "hangs"), scripted=True)
    assert outcome.answers[1] == trial("best", scripted=True).answers[1]


@pytest.mark.parametrize(
    ("variant", "fault"),
    [("best", in_stage("image_search", "hangs")), ("direct_rag", FAULTS["search raises"])],
    ids=["hang", "raise"],
)
def test_on_the_real_clock(variant: str, fault: Fault) -> None:
    assert trial(variant, fault).broken == ()


REAL_CLOCK: dict[str, Fault] = {
    "engine hangs": FAULTS["engine hangs"],
    "search hangs": FAULTS["search hangs"],
    "answering is slow": in_stage("answer", "slow"),
    "the last stage hangs": in_stage("finalise", "hangs"),
    "a page of 7 MB": FAULTS["a page of 7 MB with the hits of one turn"],
    "engine raises a Rust panic": FAULTS["engine raises a Rust panic"],
}


@pytest.mark.skipif(not AT_LENGTH, reason="two minutes: make hostile")
@pytest.mark.hostile(f"deadlines on the real clock, {CALLS} calls each")
@pytest.mark.parametrize("kind", REAL_CLOCK)
@pytest.mark.parametrize("variant", ALL)
def test_no_call_is_late_on_the_real_clock(variant: str, kind: str) -> None:
    check_outcome(trial(variant, REAL_CLOCK[kind]))


def _too_slow(plan: Plan) -> None:
    FAULTS["engine hangs"].spoil(plan)
    plan.hang = lambda: bool(plan.pause(2 * plan.call_seconds))  # type: ignore[method-assign,func-returns-value]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (dataclasses.replace(FAULTS["engine dead"], one_turn=True), "answered otherwise"),
        (dataclasses.replace(FAULTS["engine dead"], says="no such reason"), "is not in its trace"),
        (dataclasses.replace(FAULTS["reply empty"], harmless=True), "answered otherwise"),
    ],
    ids=["costs all turns", "other reason", "not harmless"],
)
def test_a_promise_that_is_not_kept_is_seen(fault: Fault, message: str) -> None:
    outcome = trial("direct_rag", fault, scripted=True)
    assert not outcome.held
    assert message in outcome.broken[0]


def test_a_call_that_takes_too_long_is_seen() -> None:
    outcome = trial("vlm_only", Fault(_too_slow), scripted=True)
    assert outcome.overrun_ms > 0.0
    assert not outcome.held
