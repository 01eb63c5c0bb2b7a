"""One batched call a stage: a batch of many turns takes no more model calls than one turn alone, on every preset."""

from __future__ import annotations

from collections import Counter

import pytest
from PIL import Image

from agents.profiles.profile import PRESETS, names
from tests.support.fault_plan import Plan
from tests.support.fault_trial import spoilt_agent
from tests.support.fault_variants import full_settings
from tests.support.meter import CallLog, Metered
from tests.support.scripted_parts import Chat, Encoder, Reranker, Search, Sight


def calls(preset: str, turns: int) -> Counter[tuple[str, str]]:
    """How often each part was called for one batch."""
    log = CallLog()
    parts = {"chat": Chat(), "reranker": Reranker(), "encoder": Encoder(), "sight": Sight()}
    metered = {role: Metered(part, role, log) for role, part in parts.items()}
    agent = spoilt_agent(full_settings(preset), Plan(call_seconds=10.0 * turns, search=Search(), **metered))
    for stage in agent.pipeline.stages:
        stage.min_seconds = stage.wanted_seconds = 0.0  # a call for one turn runs all of them whole, too
    log.take()
    images = [Image.new("RGB", (160 + n, 128), "gray") for n in range(turns)]
    queries = [f"How high is tower 0-{n}?" for n in range(turns)]
    answers = agent.batch_generate_response(queries, images, [[] for _ in queries])
    assert len(answers) == turns
    return Counter((call.role, call.method) for call in log.take())


@pytest.mark.parametrize("preset", names(PRESETS))
def test_calls_do_not_grow_with_the_batch(preset: str) -> None:
    alone = calls(preset, 1)
    assert alone.total() > 0
    assert calls(preset, 5) == alone
