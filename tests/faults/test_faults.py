"""Whatever fails, on every preset: all answers, in order and in time; only the turns concerned abstain; the trace says why.

On a scripted clock with the challenge's own limits, so that neither hangs nor a busy machine cost time; two trials are on the real clock.
"""

from __future__ import annotations

import dataclasses

import pytest

from agents.profiles import PRESETS, names
from agents.turn import IDK
from tests.support.fault_plan import Fault, Plan
from tests.support.fault_trial import Outcome, trial
from tests.support.fault_variants import full_settings
from tests.support.model_faults import MODEL_FAULTS
from tests.support.search_faults import SEARCH_FAULTS
from tests.support.stage_faults import STAGE_FAULTS, in_stage

ALL = names(PRESETS)
FAULTS: dict[str, Fault] = {**MODEL_FAULTS, **SEARCH_FAULTS}
STAGES = [(variant, stage) for variant in ALL for stage in full_settings(variant).stages]


def held(outcome: Outcome) -> None:
    assert outcome.broken == ()
    assert outcome.overrun_ms <= 0.0


@pytest.mark.parametrize("variant", ALL)
def test_without_a_fault_every_turn_is_answered(variant: str) -> None:
    outcome = trial(variant, scripted=True)
    held(outcome)
    assert len({answer for call in outcome.answers for answer in call} - {IDK}) == 6


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("variant", ALL)
def test_models_searches_caches_and_disk(variant: str, kind: str) -> None:
    held(trial(variant, FAULTS[kind], scripted=True))


@pytest.mark.parametrize("kind", STAGE_FAULTS)
@pytest.mark.parametrize(("variant", "stage"), STAGES)
def test_stages(variant: str, stage: str, kind: str) -> None:
    held(trial(variant, in_stage(stage, kind), scripted=True))


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


def _too_slow(plan: Plan) -> None:
    FAULTS["engine hangs"].spoil(plan)
    plan.hang = lambda: bool(plan.pause(2 * plan.call_seconds))  # type: ignore[method-assign,func-returns-value]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (dataclasses.replace(FAULTS["engine dead"], one_turn=True), "answered otherwise"),
        (dataclasses.replace(FAULTS["engine dead"], says="no such reason"), "is not in its trace"),
        (dataclasses.replace(FAULTS["reply empty"], harmless=True), "answered otherwise"),
    ],
    ids=["costs all turns", "other reason", "not harmless"],
)
def test_a_promise_that_is_not_kept_is_seen(fault: Fault, said: str) -> None:
    outcome = trial("direct_rag", fault, scripted=True)
    assert not outcome.held
    assert said in outcome.broken[0]


def test_a_call_that_takes_too_long_is_seen() -> None:
    outcome = trial("vlm_only", Fault(_too_slow), scripted=True)
    assert outcome.overrun_ms > 0.0
    assert not outcome.held
