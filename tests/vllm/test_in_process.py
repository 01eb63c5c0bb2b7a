"""The adapter on an engine in this process' charge."""

import dataclasses
import json
import multiprocessing
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agents.models.base import ChatMessage, ChatModel, ChatRequest, ModelError
from agents.models.chat.transformers_chat import TransformersChat
from agents.models.chat.vllm_chat import VllmChat
from agents.models.chat.vllm_compat import VllmEngine
from agents.time_limits.deadline import Deadline
from tests.vllm.asking import SCHEMA, ask, enough_for, picture
from tests.vllm.conftest import engine
from tests.vllm.tiny import CONTEXT

SLACK = 2.0  # seconds, for a busy machine
SECONDS_TO_END = 30


def test_a_batch_says_what_transformers_says(llama: VllmChat, llama_folder: Path) -> None:
    requests = [
        ask("Which castle is this?", max_tokens=20, logprobs=True),
        ask("Who?", max_tokens=3, logprobs=True),
        ChatRequest((ChatMessage("system", "Be brief."), ChatMessage("user", "Why?")), max_tokens=9, logprobs=True),
    ]
    expected = TransformersChat.load(llama_folder, dtype="float32").chat(requests)
    replies = llama.chat(requests)
    assert [reply.text for reply in replies] == [reply.text for reply in expected]
    assert [reply.finish_reason for reply in replies] == ["length"] * 3
    for one, other in zip(replies, expected, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-3)


def test_pictures_are_seen_as_transformers_sees_them(qwen: VllmChat, qwen_folder: Path) -> None:
    requests = [
        ask("What is this?", picture(1), max_tokens=12, logprobs=True),
        ask("What is this?", picture(2), max_tokens=12, logprobs=True),
        ask("What is this?", picture(3, (56, 112)), max_tokens=12, logprobs=True),
        ask("What is this?", max_tokens=12, logprobs=True),
    ]
    expected = TransformersChat.load(qwen_folder, dtype="float32").chat(requests)
    replies = qwen.chat(requests)
    assert len({reply.text for reply in replies}) == 4
    assert [reply.text for reply in replies] == [reply.text for reply in expected]
    for one, other in zip(replies, expected, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-2)


def test_the_stages_of_a_turn_share_their_photo_in_the_prefix_cache(
    qwen_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Look, answer and verdict: the verdict goes on from the answer's prompt; answer and look have the photo alone in common."""
    photos = [picture(seed) for seed in range(8)]  # of 18 tokens each: more than a block of the cache, 128 on a CPU
    look = ask_with("You look at a photo before anything is searched.", "What is it?", photos)
    answer = ask_with("You answer from the information given.", "Information: it is a bridge. What is it?", photos)
    verdict = ChatRequest(
        (*answer.messages, ChatMessage("assistant", "A bridge."), ChatMessage("user", "Is it correct?"))
    )
    counts_by_order = {}
    for pictures_first in (False, True):
        with engine(qwen_folder, images=8, pictures_first=pictures_first) as model, monkeypatch.context() as patched:
            cached_counts = count_known_tokens(patched)
            for request in (look, answer, verdict):
                assert model.chat([dataclasses.replace(request, max_tokens=1)])[0].error is None
            counts_by_order[pictures_first] = list(cached_counts)
    assert counts_by_order[False][:2] == [0, 0]  # the instructions come first and differ
    assert counts_by_order[True][0] == 0 < counts_by_order[True][1]
    assert min(counts_by_order[False][2], counts_by_order[True][2]) > 0


def ask_with(instructions: str, text: str, photos: list[Image.Image]) -> ChatRequest:
    return ChatRequest((ChatMessage("system", instructions), ChatMessage("user", text, tuple(photos))))


def count_known_tokens(patched: pytest.MonkeyPatch) -> list[int]:
    """Collect, of each request, the tokens of its prompt that the engine did not read again."""
    generate, cached_counts = VllmEngine.generate, []

    async def watched(self: VllmEngine, *arguments: Any) -> AsyncIterator[Any]:
        last = None
        async for last in generate(self, *arguments):
            yield last
        cached_counts.append(last.num_cached_tokens or 0)

    patched.setattr(VllmEngine, "generate", watched)
    return cached_counts


def test_each_request_has_its_own_seed(llama: VllmChat) -> None:
    replies = llama.chat([ask("Go on", temperature=1.5, seed=seed, max_tokens=20) for seed in (1, 2, 1)])
    assert replies[0].text == replies[2].text != replies[1].text
    alone = llama.chat([ask("Go on", temperature=1.5, seed=1, max_tokens=20)])
    assert alone[0].text == replies[0].text
    without = [llama.chat([ask("Go on", temperature=1.5, max_tokens=20)])[0].text for _ in range(2)]
    assert without[0] == without[1]


@pytest.mark.parametrize("name", ["llama", "qwen"])
def test_a_schema_is_followed_beside_a_free_reply(name: str, request: pytest.FixtureRequest) -> None:
    model: ChatModel = request.getfixturevalue(name)
    bound, free = model.chat([ask("What?", max_tokens=60, schema=SCHEMA, logprobs=True), ask("What?", max_tokens=60)])
    assert bound.finish_reason == "stop"
    fields = json.loads(bound.text)
    assert set(fields) == {"seen", "kind"}
    assert fields["kind"] in ("castle", "bridge")
    assert bound.logprobs
    assert free.finish_reason == "length"


def test_a_schema_that_is_none_costs_its_request_alone(llama: VllmChat) -> None:
    bad, good = llama.chat([ask("What?", schema={"type": "no such type"}), ask("What?", max_tokens=4)])
    assert bad.finish_reason == "error"
    assert bad.error
    assert good.finish_reason == "length"


def test_log_probabilities_only_where_asked(llama: VllmChat) -> None:
    with_them, without = llama.chat([ask("What?", max_tokens=6, logprobs=True), ask("What?", max_tokens=6)])
    assert with_them.logprobs is not None
    assert len(with_them.logprobs) == 6
    assert all(value <= 0 for value in with_them.logprobs)
    assert without.logprobs is None
    assert without.text == with_them.text


def test_a_stop_string_ends_a_reply(llama: VllmChat) -> None:
    whole = llama.chat([ask("What?", max_tokens=20)])[0].text
    stop = whole[8:11]
    reply = llama.chat([ask("What?", max_tokens=20, stop=(stop,))])[0]
    assert reply.finish_reason == "stop"
    assert reply.text == whole[: whole.index(stop)].strip()


@pytest.mark.parametrize("name", ["llama", "qwen"])
def test_at_the_deadline_the_text_that_has_come_is_kept(name: str, request: pytest.FixtureRequest) -> None:
    model: ChatModel = request.getfixturevalue(name)
    long = ask("Go on", max_tokens=CONTEXT - 100, logprobs=True)
    deadline = enough_for(model, ask("What?", max_tokens=2))
    short, *cut = model.chat([ask("What?", max_tokens=2), long, long], deadline)
    assert deadline.left() > -SLACK
    assert short.finish_reason == "length"
    for reply in cut:
        assert reply.finish_reason == "abort"
        assert len(reply.text) > 10
        assert reply.logprobs is not None
        assert 5 < len(reply.logprobs) < CONTEXT - 100
    again = model.chat([ask("What?", max_tokens=2)])  # the engine goes on, without the aborted requests
    assert again[0] == short


def test_after_the_deadline_nothing_is_asked(llama: VllmChat) -> None:
    replies = llama.chat([ask("What?"), ask("Who?")], Deadline(0.0))
    assert [(reply.text, reply.finish_reason) for reply in replies] == [("", "abort")] * 2


@pytest.mark.parametrize("name", ["llama", "qwen"])
def test_an_over_long_prompt_is_cut_in_the_middle(name: str, request: pytest.FixtureRequest) -> None:
    model: ChatModel = request.getfixturevalue(name)
    images = (picture(),) if name == "qwen" else ()
    long, short = model.chat([ask("tower " * 3 * CONTEXT, *images, max_tokens=5), ask("What?", max_tokens=5)])
    assert long.finish_reason == "length"
    assert long.prompt_cut > CONTEXT
    assert short.prompt_cut == 0


def test_what_cannot_be_asked_costs_no_neighbour(llama: VllmChat) -> None:
    requests = [ask("What?", picture()), ask("?", max_tokens=0), ChatRequest(()), ask("tower", max_tokens=CONTEXT)]
    *bad, good = llama.chat([*requests, ask("What?", max_tokens=4)])
    assert [reply.finish_reason for reply in bad] == ["error"] * 4
    assert ["vision" in (bad[0].error or ""), "max_tokens" in (bad[1].error or "")] == [True, True]
    assert ["no message" in (bad[2].error or ""), "too long" in (bad[3].error or "")] == [True, True]
    assert good.finish_reason == "length"


def test_pictures_the_engine_does_not_take_cost_no_neighbour(qwen: VllmChat) -> None:
    requests = [
        ask("Both?", picture(1), picture(2)),  # one image a prompt is allowed
        ask("Thin?", Image.new("RGB", (1000, 1))),
        ask("What?", picture(1).convert("P"), max_tokens=4),
    ]
    two, thin, good = qwen.chat(requests)
    assert two.finish_reason == "error"
    assert "image" in (two.error or "")
    assert thin.finish_reason == "error"
    assert good.finish_reason == "length"


def test_threads_share_the_engine(llama: VllmChat) -> None:
    expected = llama.chat([ask(f"Number {n}?", max_tokens=10) for n in range(4)])
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda n: llama.chat([ask(f"Number {n}?", max_tokens=10)])[0], range(4)))
    assert replies == expected


def test_an_engine_that_dies_in_mid_request_says_so(llama_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(multiprocessing.active_children())
    with engine(llama_folder) as model:
        ours = set(multiprocessing.active_children()) - before
        whole = model._engine.generate

        async def killed_after_a_while(*arguments: Any) -> AsyncIterator[Any]:
            async for output in whole(*arguments):
                yield output
                if len(output.outputs[0].token_ids) > 20:
                    for process in ours:
                        process.kill()

        monkeypatch.setattr(model._engine, "generate", killed_after_a_while)
        reply, lost = model.chat([ask("What?", max_tokens=2), ask("Go on", max_tokens=CONTEXT - 100)])
        assert reply.finish_reason == "length"
        assert reply.text
        assert lost.finish_reason == "error"
        assert "died" in (lost.error or "")
        back = model.chat([ask("What?", max_tokens=2)])  # loaded again
        assert back == [reply]
        ours = set(multiprocessing.active_children()) - before
    with pytest.raises(ModelError, match="closed"):
        model.chat([ask("Still there?")])
    for process in ours:
        process.join(SECONDS_TO_END)  # the system takes a moment to end one that was killed
    assert not [process for process in ours if process.is_alive()]


def test_a_missing_part_is_reported_before_anything_loads(llama_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"Cannot load the tokenizer of .*nowhere"):
        engine(tmp_path / "nowhere")
    with pytest.raises(ModelError, match="no engine argument warp_speed"):
        engine(llama_folder, extra={"warp_speed": 9})


def test_the_opening_is_that_of_transformers(llama: VllmChat, llama_folder: Path) -> None:
    request = ask("Which castle is this?", max_tokens=3, logprobs=True)
    expected = TransformersChat.load(llama_folder, dtype="float32").chat([request])[0].first_token_probs
    reply, without = llama.chat([request, ask("Who?", max_tokens=3)])
    assert expected is not None
    assert reply.first_token_probs is not None
    assert sum(reply.first_token_probs.values()) == pytest.approx(
        sum(expected.values()), abs=1e-3
    )  # bytes may be named otherwise
    assert without.first_token_probs is None
