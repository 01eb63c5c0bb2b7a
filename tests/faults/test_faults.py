"""Whatever fails, on every preset: all answers, in order and in time; only the turns concerned abstain; the trace says why."""

from __future__ import annotations

import pytest

from agents.settings import PRESETS, names
from agents.turn import IDK
from benchmarks.faulty.faults import FAULTS, STAGE_FAULTS, in_stage
from benchmarks.faulty.trial import short_settings, trial

PRESETS_AND_STAGES = [(preset, stage) for preset in names(PRESETS) for stage in short_settings(preset).stages]
JITTER_MS = 400.0  # a shared machine may hold any thread back for so long

MARKED = ["engine fails in one row", "engine raises for one row", "search raises for one query"]


@pytest.mark.parametrize("preset", names(PRESETS))
def test_without_a_fault_it_keeps_its_promises(preset: str) -> None:
    outcome = trial(preset)
    assert outcome.broken == ()
    assert outcome.overrun_ms < 0.0 + JITTER_MS


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("preset", names(PRESETS))
def test_models_searches_and_disk(preset: str, kind: str) -> None:
    outcome = trial(preset, FAULTS[kind])
    assert outcome.broken == ()
    assert outcome.overrun_ms < JITTER_MS


@pytest.mark.parametrize("kind", STAGE_FAULTS)
@pytest.mark.parametrize(("preset", "stage"), PRESETS_AND_STAGES)
def test_stages(preset: str, stage: str, kind: str) -> None:
    outcome = trial(preset, in_stage(stage, kind))
    assert outcome.broken == ()
    assert outcome.overrun_ms < JITTER_MS


@pytest.mark.parametrize("kind", MARKED)
@pytest.mark.parametrize("preset", names(PRESETS))
def test_only_the_turn_concerned_abstains(preset: str, kind: str) -> None:
    whole, spoilt = trial(preset), trial(preset, FAULTS[kind])
    for expected, got in zip(whole.answers, spoilt.answers, strict=True):
        assert [got[0], got[2]] == [expected[0], expected[2]]


@pytest.mark.parametrize(("preset", "stage"), PRESETS_AND_STAGES)
def test_a_stage_that_fails_for_one_turn_costs_that_turn_alone(preset: str, stage: str) -> None:
    whole, spoilt = trial(preset), trial(preset, in_stage(stage, "raises for one turn"))
    for expected, got in zip(whole.answers, spoilt.answers, strict=True):
        assert [got[0], got[2]] == [expected[0], expected[2]]


def test_what_hung_in_one_call_does_not_spoil_the_next() -> None:
    outcome = trial("best", in_stage("rerank", "hangs"))
    assert outcome.answers[1] == trial("best").answers[1]
    assert all(answer != IDK for answer in outcome.answers[1])
