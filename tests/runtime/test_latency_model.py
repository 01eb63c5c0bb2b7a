"""The latency model: figures worked out by hand, calls put together in batches, and a recording of real stages."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agents.asking.prompts import PromptLibrary
from agents.models.architecture import Architecture, Decoder, Vision, architecture_of
from agents.models.base import ModelError
from agents.runtime.model_set import ModelSet
from agents.settings.presets import Settings, load_settings, settings_from
from agents.settings.profiles import PROMPTS, Profile
from agents.settings.run_config import RunConfig
from agents.turn import Turn
from benchmarks.latency.cost import (
    Machine,
    decode_seconds,
    picture_operations,
    prefill_seconds,
    text_parameters,
)
from benchmarks.latency.meter import ModelCall
from benchmarks.latency.recorded_calls import example, read, record, write
from benchmarks.latency.replayed_calls import CONFIGS, Placed, batches, placed_models, seconds_of, turn_seconds
from benchmarks.latency_sim import parts_of
from tests.agent.scripted import ScriptedPipeline, WordOverlapReranker

MACHINE = Machine(
    bandwidth=1000.0,
    rates={"bfloat16": 200.0, "float32": 50.0, "float8": 400.0},
    decode_efficiency=0.5,
    prefill_efficiency=0.5,
    overhead={
        "step": 0.5, "transformers_step": 2.0, "request": 0.0, "call": 1.0, "vector_query": 3.0, "turn": 0.0, "picture": 0.0,
    },
    characters=4.0,
    query_tokens=8,
    published=(1.0,),
)  # fmt: skip
DECODER = Decoder(
    layers=1, kv_heads=1, head_dim=1, hidden=1, intermediate=1, vocabulary=1, context=100
)  # 4 bytes a token
TEXT = Architecture("m", "llama", "bfloat16", 110, 0, 10, DECODER, None)
SEEING = Architecture("v", "mllama", "bfloat16", 130, 20, 10, DECODER, Vision(8, 4, 2, 4, layers=3, readers=0.25))
CHAT = Placed(TEXT, "bfloat16", at_once=2, engine=True)


def chat(items: int, characters: int, reply: int, stage: str = "answer") -> ModelCall:
    return ModelCall(stage, "chat", "chat", items, characters=characters, reply=reply)


def test_prompts_are_bound_by_arithmetic() -> None:
    assert text_parameters(TEXT) == 100 and text_parameters(SEEING) == 100
    # 2 operations x 100 parameters x 7 tokens, at 200 x 0.5 a second
    assert prefill_seconds(TEXT, MACHINE, "bfloat16", tokens=7, pictures=0) == pytest.approx(14.0)
    # 2 x 20 x 4 positions, and attention: 4 x 3 layers x 4^2 positions x 2 wide
    assert picture_operations(SEEING, 2) == 2 * (160 + 384)
    assert prefill_seconds(SEEING, MACHINE, "float32", tokens=0, pictures=1) == pytest.approx(544 / 25)


def test_decoding_reads_weights_and_caches_once_a_step_for_all_requests() -> None:
    # 100 parameters of 2 bytes; 20 prompt tokens and 2 x 10 / 2 of the replies, 4 bytes each; 500 bytes a second
    step = (200 + 30 * 4) / 500
    arithmetic = 2 * 100 * 2 / 100
    assert arithmetic > step
    found = decode_seconds(TEXT, MACHINE, "bfloat16", steps=10, batch=2, tokens=20, pictures=0, overhead=0.5)
    assert found == pytest.approx(10 * (arithmetic + 0.5))
    fast = Machine(**{**MACHINE.__dict__, "rates": {"bfloat16": 1e9}})
    assert decode_seconds(TEXT, fast, "bfloat16", steps=10, batch=2, tokens=20, pictures=0, overhead=0.5) == (
        pytest.approx(10 * (step + 0.5))
    )
    with_picture = (200 + (20 + 10 + 8 * 0.25) * 4) / 500
    assert decode_seconds(SEEING, fast, "bfloat16", steps=10, batch=2, tokens=20, pictures=1, overhead=0.0) == (
        pytest.approx(10 * with_picture)
    )


def test_layers_in_8_bits_are_read_in_half_the_time_and_computed_at_their_own_rate() -> None:
    half = dataclasses.replace(TEXT, eight_bit=50)
    # 50 parameters at 200 x 0.5 operations a second, 50 at 400 x 0.5, 2 operations each for 7 tokens
    assert prefill_seconds(half, MACHINE, "bfloat16", tokens=7, pictures=0) == pytest.approx(7.0 + 3.5)
    fast = dataclasses.replace(MACHINE, rates={"bfloat16": 1e9, "float8": 1e9})
    # 50 parameters of 2 bytes, 50 of 1; 30 tokens of 4 bytes; 500 bytes a second
    step = decode_seconds(half, fast, "bfloat16", steps=10, batch=2, tokens=20, pictures=0, overhead=0.0)
    assert step == pytest.approx(10 * (100 + 50 + 120) / 500)


def test_requests_beyond_those_at_once_wait() -> None:
    one = seconds_of(chat(2, 8, 10), {"chat": CHAT}, MACHINE)
    assert seconds_of(chat(4, 16, 10), {"chat": CHAT}, MACHINE) == pytest.approx(2 * one)


def test_calls_of_small_models_and_searches() -> None:
    reranker = Placed(TEXT, "bfloat16", at_once=4, engine=False)
    pairs = ModelCall("rerank", "reranker", "score", 10, characters=400)
    assert seconds_of(pairs, {"reranker": reranker}, MACHINE) == pytest.approx(2 * 100 * 100 / 100 + 3 * 1.0)
    query = ModelCall("web_search", "search", "search_web", 2, characters=999)
    assert seconds_of(query, {}, MACHINE) == 6.0
    assert seconds_of(query, {"search: web": reranker}, MACHINE) == pytest.approx(2 * 100 * 16 / 100 + 1 + 6)


def test_turns_of_a_batch_share_their_calls_and_a_second_call_of_a_stage_stays_second() -> None:
    records = [
        [chat(1, 8, 5, "objects"), chat(1, 4, 20, "objects"), chat(1, 8, 5)],
        [chat(1, 8, 9, "objects"), chat(1, 8, 5)],
        [],
    ]
    (two, merged), (one, rest) = batches(records, 2, ["objects", "answer"])
    assert (two, one, rest) == (2, 1, [])
    assert [(call.stage, call.items, call.reply) for call in merged] == [
        ("objects", 2, 9),
        ("objects", 1, 20),
        ("answer", 2, 5),
    ]
    times = turn_seconds(records, 2, ["objects", "answer"], {"chat": CHAT}, MACHINE)
    assert times[0] == times[1] == pytest.approx(sum(seconds_of(call, {"chat": CHAT}, MACHINE) for call in merged) / 2)
    assert times[2] == 0.0


def test_the_stand_in_follows_schemas() -> None:
    schema = {
        "type": "object",
        "properties": {
            "names": {"type": "array", "items": {"type": "string"}},
            "need": {"type": "boolean"},
            "entity": {"type": "integer"},
            "verdict": {"enum": ["yes", "no"]},
            "reason": {"type": ["string", "null"]},
        },
    }
    found = example(schema)
    assert isinstance(found["reason"], str)
    assert (
        len(set(found["names"])) == 3 and found["need"] is True and found["entity"] == 1 and found["verdict"] == "yes"
    )


def models() -> ModelSet:
    return ModelSet(Profile(name="p", models={}), Path("unused"), ready={"reranker": WordOverlapReranker()})


def test_real_stages_are_recorded_with_their_prompts(tmp_path: Path) -> None:
    settings = load_settings("vlm_only", "gpu")
    asked = [Turn("What is this?", Image.new("RGB", (64, 48))), Turn("Why?", None)]
    calls = list(record(asked, settings, None, models()))
    assert [[(call.stage, call.method, call.pictures) for call in turn] for turn in calls] == [
        [("answer", "chat", 1)],
        [("answer", "chat", 0)],
    ]
    prompt = PromptLibrary(PROMPTS)[settings.answer.prompt_without_evidence]
    assert calls[0][0].reply == prompt.settings.max_tokens and calls[0][0].characters > 100
    path = tmp_path / "calls.jsonl"
    write(calls, path)
    assert read(path) == calls
    path.write_text('[{"query": "another file"}]\n')
    with pytest.raises(ValueError, match="no calls"):
        read(path)


def test_pictures_of_the_graph_are_counted_as_if_all_were_in_the_cache() -> None:
    pipeline = ScriptedPipeline({(64, 48): ("Tower", {"height": "330 m"})}, {})
    for profile, pictures in (("no overlay", 2), ("gpu", 1)):  # photo and entry; both on one sheet
        made = load_settings("core_mmrag", profile)
        (calls,) = record([Turn("How tall is this?", Image.new("RGB", (64, 48)))], made, pipeline, models())
        assert [call.pictures for call in calls if call.method == "chat"] == [pictures]


class _Unlike(ScriptedPipeline):
    """Finds pictures with the cosines of a network that is not CLIP."""

    def __call__(self, query: Any, k: int = 5) -> list[dict[str, Any]]:
        return [{**hit, "score": 0.4} for hit in super().__call__(query, k)]


@pytest.mark.parametrize("minimum", [0.0, 0.725])
def test_cut_offs_of_the_gpu_leave_no_evidence_out_of_what_is_timed(minimum: float) -> None:
    pipeline = _Unlike({(64, 48): ("Tower", {"height": "330 m"})}, {})
    stages = ("image_search", "evidence", "rerank", "answer")
    settings = settings_from({"stages": stages, "image_search": {"min_score": minimum}})
    (calls,) = record([Turn("How tall is this?", Image.new("RGB", (64, 48)))], settings, pipeline, models())
    assert [call.items for call in calls if call.method == "score"] == [1]


def test_a_stage_that_fails_spoils_no_figures() -> None:
    with pytest.raises(ModelError, match="stage ground"):
        list(
            record([Turn("What?", Image.new("RGB", (64, 48)))], Settings(stages=("objects", "ground")), None, models())
        )


def test_the_figures_of_the_l40s_are_those_of_its_datasheet() -> None:
    machine = Machine.read()
    assert machine.bandwidth == 864e9 and machine.rates["bfloat16"] == 362.05e12
    assert machine.rates["float8"] == 733e12
    assert 0 < machine.decode_efficiency <= 0.6 and 0 < machine.prefill_efficiency <= 0.5
    assert machine.published == (4.15, 4.79, 7.00)


def test_llama_decodes_at_the_pace_that_its_size_allows() -> None:
    """By hand: (10.67 - 0.86 - 0.53) billion parameters of 2 bytes at 864 GB/s x 0.55 take 39 ms a token."""
    found = architecture_of(str(CONFIGS / "meta-llama--Llama-3.2-11B-Vision-Instruct"))
    machine = Machine.read()
    step = decode_seconds(found, machine, "bfloat16", steps=1, batch=1, tokens=0, pictures=0, overhead=0.0)
    assert math.isclose(step, 2 * 9.28e9 / (864e9 * 0.55), rel_tol=0.01)


def test_dialogs_are_told_apart_by_the_turns_of_their_sessions() -> None:
    assert [sum(part) for part in parts_of([1.0, 2.0, 3.0, 4.0], [1, 3])] == [1.0, 9.0]
    with pytest.raises(ValueError, match="4 turns were recorded, the sessions have 3"):
        list(parts_of([1.0, 2.0, 3.0, 4.0], [1, 2]))


def test_models_are_placed_as_the_profile_loads_them() -> None:
    placed = placed_models(RunConfig.read("best", "gpu"))
    assert placed["chat"].engine and 1 <= placed["chat"].at_once <= 16
    assert {"fine_reranker", "search: pictures", "search: web"} <= set(placed)
