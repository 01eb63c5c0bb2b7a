"""The latency model: figures worked out by hand, and what stands in for models and search."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable
from typing import Any

import pytest
from PIL import Image

from agents.models.base import ChatMessage, ChatRequest
from agents.settings.run_config import RunConfig
from apps.preflight.architecture import Architecture, Decoder, Vision, read_architecture
from lab.benchmarks.latency.call_seconds import PlacedModel, estimate_seconds, place_models
from lab.benchmarks.latency.cost import (
    Machine,
    count_picture_operations,
    count_text_parameters,
    estimate_decode,
    estimate_prefill,
)
from lab.benchmarks.latency.prefix_cache import KnownPrefix, PrefixCache, make_prefix_caches
from lab.benchmarks.latency.stand_ins import PicturedSearch, make_example
from tests.agent.scripted import ScriptedPipeline
from tests.support.local_configs import CONFIGS
from tests.support.meter import ModelCall

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
SEEING = Architecture(
    "v", "mllama", "bfloat16", 130, 20, 10, DECODER, Vision(8, 4, 2, 4, layers=3, readers=0.25, masked=True)
)
CHAT = PlacedModel(TEXT, "bfloat16", at_once=2, engine=True)


def chat(items: int, characters: int, reply: int, stage: str = "answer") -> ModelCall:
    return ModelCall(stage, "chat", "chat", items, characters=characters, reply=reply)


def test_prompts_are_bound_by_arithmetic() -> None:
    assert count_text_parameters(TEXT) == 100 and count_text_parameters(SEEING) == 100
    # 2 operations x 100 parameters x 7 tokens, at 200 x 0.5 a second
    assert estimate_prefill(TEXT, MACHINE, "bfloat16", tokens=7, pictures=0) == pytest.approx(14.0)
    # 2 x 20 x 4 positions, and attention: 4 x 3 layers x 4^2 positions x 2 wide
    assert count_picture_operations(SEEING, 2) == 2 * (160 + 384)
    assert estimate_prefill(SEEING, MACHINE, "float32", tokens=0, pictures=1) == pytest.approx(544 / 25)


def test_a_picture_within_the_prompt_is_read_as_tokens_too() -> None:
    within = dataclasses.replace(SEEING, vision=dataclasses.replace(SEEING.vision, masked=False))  # type: ignore[type-var]
    beside = estimate_prefill(SEEING, MACHINE, "bfloat16", tokens=7, pictures=2)
    # 2 pictures of 8 tokens: 2 operations x 100 parameters each, at 200 x 0.5 a second
    seconds = estimate_prefill(within, MACHINE, "bfloat16", tokens=7, pictures=2)
    assert seconds == pytest.approx(beside + 32.0)
    # The prefix cache holds one of them and 3 tokens; the encoder has seen both
    overlap = {"known_tokens": 3, "known_pictures": 1, "encoded_pictures": 2}
    assert estimate_prefill(within, MACHINE, "bfloat16", tokens=7, pictures=2, **overlap) == pytest.approx(
        2 * 100 * 12 / 100
    )


def test_decoding_reads_weights_and_caches_once_a_step_for_all_requests() -> None:
    # 100 parameters of 2 bytes; 20 prompt tokens and 2 x 10 / 2 of the replies, 4 bytes each; 500 bytes a second
    step = (200 + 30 * 4) / 500
    arithmetic = 2 * 100 * 2 / 100
    assert arithmetic > step
    seconds = estimate_decode(TEXT, MACHINE, "bfloat16", steps=10, batch=2, tokens=20, pictures=0, overhead=0.5)
    assert seconds == pytest.approx(10 * (arithmetic + 0.5))
    fast = Machine(**{**MACHINE.__dict__, "rates": {"bfloat16": 1e9}})
    assert estimate_decode(TEXT, fast, "bfloat16", steps=10, batch=2, tokens=20, pictures=0, overhead=0.5) == (
        pytest.approx(10 * (step + 0.5))
    )
    with_picture = (200 + (20 + 10 + 8 * 0.25) * 4) / 500
    assert estimate_decode(SEEING, fast, "bfloat16", steps=10, batch=2, tokens=20, pictures=1, overhead=0.0) == (
        pytest.approx(10 * with_picture)
    )


def test_layers_in_8_bits_are_read_in_half_the_time_and_computed_at_their_own_rate() -> None:
    half = dataclasses.replace(TEXT, eight_bit=50)
    # 50 parameters at 200 x 0.5 operations a second, 50 at 400 x 0.5, 2 operations each for 7 tokens
    assert estimate_prefill(half, MACHINE, "bfloat16", tokens=7, pictures=0) == pytest.approx(7.0 + 3.5)
    fast = dataclasses.replace(MACHINE, rates={"bfloat16": 1e9, "float8": 1e9})
    # 50 parameters of 2 bytes, 50 of 1; 30 tokens of 4 bytes; 500 bytes a second
    step = estimate_decode(half, fast, "bfloat16", steps=10, batch=2, tokens=20, pictures=0, overhead=0.0)
    assert step == pytest.approx(10 * (100 + 50 + 120) / 500)


def test_requests_beyond_those_at_once_wait() -> None:
    one = estimate_seconds(chat(2, 8, 10), {"chat": CHAT}, MACHINE)
    assert estimate_seconds(chat(4, 16, 10), {"chat": CHAT}, MACHINE) == pytest.approx(2 * one)


def test_calls_of_small_models_and_searches() -> None:
    reranker = PlacedModel(TEXT, "bfloat16", at_once=4, engine=False)
    pairs = ModelCall("rerank", "reranker", "score", 10, characters=400)
    assert estimate_seconds(pairs, {"reranker": reranker}, MACHINE) == pytest.approx(2 * 100 * 100 / 100 + 3 * 1.0)
    query = ModelCall("web_search", "search", "search_web", 2, characters=999)
    assert estimate_seconds(query, {}, MACHINE) == 6.0
    assert estimate_seconds(query, {"search: web": reranker}, MACHINE) == pytest.approx(2 * 100 * 16 / 100 + 1 + 6)


def prompt(system: str, text: str, *pictures: Image.Image) -> ChatRequest:
    return ChatRequest((ChatMessage("system", system), ChatMessage("user", text, pictures)))


def test_the_prefix_cache_knows_the_longest_beginning_that_was_read() -> None:
    photo, other = Image.new("RGB", (8, 8), "red"), Image.new("RGB", (8, 8), "blue")
    cache = PrefixCache(prompts=3)
    assert cache.read(prompt("Look.", "What is it?", photo)) == KnownPrefix(0, 0, 0)
    again = cache.read(prompt("Look.", "What is there?", photo))
    assert again == KnownPrefix(len("system\nLook.\nuser\nWhat is "), 1, 1)
    assert cache.read(prompt("Look.", "What is it?", other)) == KnownPrefix(len("system\nLook.\nuser\n"), 0, 0)
    assert cache.read(prompt("Answer.", "Who?", photo)) == KnownPrefix(len("system\n"), 0, 1)
    # The first prompt has gone, the second has not
    assert cache.read(prompt("Look.", "What is it?", photo)).characters == len("system\nLook.\nuser\nWhat is ")


def test_pictures_before_the_instructions_are_shared_by_all_stages() -> None:
    photo = Image.new("RGB", (8, 8), "red")
    cache = PrefixCache(prompts=3, pictures_first=True)
    cache.read(prompt("Look.", "What is it?", photo))
    assert cache.read(prompt("Answer.", "Who?", photo)) == KnownPrefix(len("user\n"), 1, 1)
    assert cache.read(prompt("Look.", "Who?")).characters == 0  # no picture: the instructions stay in front


def test_roles_with_one_table_share_an_engines_prefixes() -> None:
    config = RunConfig.read("best", "gpu_current")
    caches = make_prefix_caches(config, {"chat": 4, "small_chat": 4})
    assert caches["chat"] is caches["small_chat"]
    assert (
        place_models(config)["chat"].keeps_prefixes
        and not place_models(RunConfig.read("best", "gpu"))["chat"].keeps_prefixes
    )


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
    example = make_example(schema)
    assert isinstance(example["reason"], str)
    assert (
        len(set(example["names"])) == 3
        and example["need"] is True
        and example["entity"] == 1
        and example["verdict"] == "yes"
    )


def test_what_was_found_once_is_not_searched_for_again() -> None:
    pipeline = ScriptedPipeline({(64, 48): ("Tower", {"height": "330 m"})}, {"page": "The tower is 330 m high."})
    photo = Image.new("RGB", (64, 48))
    known_answers: dict[Hashable, Any] = {}
    first = PicturedSearch(pipeline, known_answers)
    results = [first.search_images([photo], 3), first.search_web(["tower", "height"], 3)]
    num_queries = len(pipeline.queries)
    again = PicturedSearch(pipeline, known_answers)
    assert [again.search_images([photo], 3), again.search_web(["tower", "height"], 3)] == results
    assert len(pipeline.queries) == num_queries


def test_pictures_are_found_with_cosines_that_pass_every_cut_off() -> None:
    class Unlike(ScriptedPipeline):
        def __call__(self, query: Any, k: int = 5) -> list[dict[str, Any]]:
            return [{**hit, "score": 0.4} for hit in super().__call__(query, k)]

    search = PicturedSearch(Unlike({(64, 48): ("Tower", {"height": "330 m"})}, {}))
    [result] = search.search_images([Image.new("RGB", (64, 48))], 3)
    assert [hit.score for hit in result.hits] == [pytest.approx(0.88)]
    assert list(search.pictures([result.hits[0].url])) == [result.hits[0].url]


def test_the_figures_of_the_l40s_are_those_of_its_datasheet() -> None:
    machine = Machine.read()
    assert machine.bandwidth == 864e9 and machine.rates["bfloat16"] == 362.05e12
    assert machine.rates["float8"] == 733e12
    assert 0 < machine.decode_efficiency <= 0.8 and 0 < machine.prefill_efficiency <= 0.5
    assert machine.published == (4.15, 4.79, 7.00)


def test_llama_decodes_at_the_pace_that_its_size_allows() -> None:
    """By hand: (10.67 - 0.86 - 0.53) billion parameters of 2 bytes at 864 GB/s x 0.75 take 29 ms a token."""
    architecture = read_architecture(str(CONFIGS / "meta-llama--Llama-3.2-11B-Vision-Instruct"))
    machine = Machine.read()
    step = estimate_decode(architecture, machine, "bfloat16", steps=1, batch=1, tokens=0, pictures=0, overhead=0.0)
    assert math.isclose(step, 2 * 9.28e9 / (864e9 * 0.75), rel_tol=0.01)


def test_models_are_placed_as_the_profile_loads_them() -> None:
    placed = place_models(RunConfig.read("best", "gpu"))
    assert placed["chat"].engine and 1 <= placed["chat"].at_once <= 16
    assert {"fine_reranker", "search: pictures", "search: web"} <= set(placed)
