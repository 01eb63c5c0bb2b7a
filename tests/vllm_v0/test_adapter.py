"""The whole adapter on the engine of the GPU image."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from PIL import Image

from agents.models.base import ChatMessage, ChatRequest
from agents.models.chat.vllm_chat import VllmChat
from agents.time_limits.deadline import Deadline
from tests.vllm.asking import SCHEMA, ask, enough_for, picture
from tests.vllm_v0.conftest import CONTEXT

SLACK = 2.0  # seconds, for a busy machine


def test_it_is_the_engine_of_the_gpu_image(model: VllmChat) -> None:
    import vllm
    from vllm.engine.async_llm_engine import AsyncLLMEngine

    assert vllm.__version__ == "0.10.2"
    assert type(model._engine._engine) is AsyncLLMEngine


def test_each_request_has_its_own_seed(model: VllmChat) -> None:
    replies = model.chat([ask("Go on", picture(), temperature=1.5, seed=seed, max_tokens=20) for seed in (1, 2, 1)])
    assert replies[0].text == replies[2].text != replies[1].text
    without = [model.chat([ask("Go on", temperature=1.5, max_tokens=20)])[0].text for _ in range(2)]
    assert without[0] == without[1]


@pytest.mark.parametrize("images", [(), (picture(),)])
def test_a_schema_is_followed_beside_a_free_reply(images: tuple[Any, ...], model: VllmChat) -> None:
    bound, free = model.chat(
        [ask("What?", *images, max_tokens=60, schema=SCHEMA, logprobs=True), ask("What?", *images, max_tokens=60)]
    )
    assert bound.finish_reason == "stop"
    fields = json.loads(bound.text)
    assert set(fields) == {"seen", "kind"}
    assert fields["kind"] in ("castle", "bridge")
    assert bound.logprobs
    assert free.finish_reason == "length"


def test_a_stop_string_ends_a_reply(model: VllmChat) -> None:
    whole = model.chat([ask("What?", picture(), max_tokens=20)])[0].text
    stop = whole[8:11]
    reply = model.chat([ask("What?", picture(), max_tokens=20, stop=(stop,))])[0]
    assert reply.finish_reason == "stop"
    assert reply.text == whole[: whole.index(stop)].strip()


@pytest.mark.parametrize("images", [(), (picture(),)])
def test_at_the_deadline_the_text_that_has_come_is_kept(images: tuple[Any, ...], model: VllmChat) -> None:
    long = ask("Go on", *images, max_tokens=CONTEXT - 100, logprobs=True)
    deadline = enough_for(model, ask("What?", *images, max_tokens=2))
    short, *cut = model.chat([ask("What?", *images, max_tokens=2), long, long], deadline)
    assert deadline.left() > -SLACK
    assert short.finish_reason == "length"
    for reply in cut:
        assert reply.finish_reason == "abort"
        assert reply.logprobs is not None
        assert 2 < len(reply.logprobs) < CONTEXT - 100
    blocks = model._engine._engine.engine.scheduler[0].block_manager
    model.chat([ask("What?", max_tokens=2)])  # the engine goes on, and has freed what the aborted requests held
    assert blocks.get_num_free_gpu_blocks() == blocks.num_total_gpu_blocks


def test_after_the_deadline_nothing_is_asked(model: VllmChat) -> None:
    replies = model.chat([ask("What?"), ask("Who?", picture())], Deadline(0.0))
    assert [(reply.text, reply.finish_reason) for reply in replies] == [("", "abort")] * 2


@pytest.mark.parametrize("images", [(), (picture(),)])
def test_an_over_long_prompt_is_cut_in_the_middle(images: tuple[Any, ...], model: VllmChat) -> None:
    long, short = model.chat([ask("tower " * 3 * CONTEXT, *images, max_tokens=5), ask("What?", max_tokens=5)])
    assert long.finish_reason == "length"
    assert long.prompt_cut > CONTEXT
    assert short.prompt_cut == 0


def test_what_cannot_be_asked_costs_no_neighbour(model: VllmChat) -> None:
    requests = [
        ask("Both?", picture(1), picture(2)),  # one image a prompt is allowed
        ask("?", max_tokens=0),
        ChatRequest(()),
        ask("tower", max_tokens=CONTEXT),
        ask("What?", schema={"type": "no such type"}),
    ]
    *bad, thin, palette, text = model.chat(
        [
            *requests,
            ask("Thin?", Image.new("RGB", (1000, 1)), max_tokens=4),
            ask("What?", picture(1).convert("P"), max_tokens=4),
            ask("What?", max_tokens=4),
        ]
    )
    assert [reply.finish_reason for reply in bad] == ["error"] * len(requests)
    assert [reply.finish_reason for reply in (thin, palette, text)] == ["length"] * 3


def test_the_token_of_a_picture_in_a_text_costs_its_request_alone(model: VllmChat) -> None:
    """The engine would die of it: it looks for a picture that is not there."""
    alone, beside, good, text = model.chat(
        [
            ask("What is <|image|>?", max_tokens=4),
            ask("What is <|image|>?", picture(), max_tokens=4),
            ask("What?", picture(), max_tokens=4),
            ask("What?", max_tokens=4),
        ]
    )
    assert "the prompt holds it 1 times, its pictures account for 0" in (alone.error or "")
    assert "the prompt holds it 2 times, its pictures account for 1" in (beside.error or "")
    assert [reply.finish_reason for reply in (good, text)] == ["length"] * 2
    assert model.chat([ask("What?", max_tokens=4)]) == [text]


def test_more_requests_than_places_are_all_answered(model: VllmChat) -> None:
    requests = [ask(f"Number {n}?", *((picture(n),) if n % 3 else ()), max_tokens=4) for n in range(19)]
    assert [reply.finish_reason for reply in model.chat(requests)] == ["length"] * 19


def test_threads_share_the_engine(model: VllmChat) -> None:
    requests = [ask(f"Number {n}?", *((picture(n),) if n % 2 else ()), max_tokens=10) for n in range(4)]
    expected = model.chat(requests)
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda request: model.chat([request])[0], requests))
    assert replies == expected


def test_the_system_message_comes_before_the_picture(model: VllmChat) -> None:
    rules = ChatMessage("system", "Be brief."), ChatMessage("system", "Be long and tell everything.")
    requests = [ChatRequest((rule, *ask("What?", picture()).messages), max_tokens=8) for rule in rules]
    brief, long = model.chat(requests)
    assert brief.text != long.text
