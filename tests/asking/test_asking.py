"""Asking a model: one call to each role, what a reply says in its form, and the exchange that is kept."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from agents.asking.ask import Ask, Question, ReplyForm, put, read
from agents.asking.prompts import PromptLibrary
from agents.asking.readers.lines import SENTENCE
from agents.models.base import ChatModel, ChatReply, ChatRequest, ModelError
from agents.models.chat.composed_vision import ComposedVisionChat
from agents.models.reply_cache import CachedReplies, ReplyStore
from agents.record import Exchange, SentMessage
from tests.agent.scripted import ScriptedChat, ScriptedOcr
from tests.support.read_replies import list_forms

FORMS = tuple(list_forms())
NUMBER = ReplyForm("number", lambda reply: int(reply.text) if reply.text.isdigit() else None)


class Keeper:
    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def keep(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)


@pytest.fixture
def prompts(tmp_path: Path) -> PromptLibrary:
    (tmp_path / "plain.j2").write_text("=== system\nCount.\n=== user\n{{ what }}\n")
    (tmp_path / "small.j2").write_text("---\nmodel: small\nmax_tokens: 7\nlogprobs: true\n---\n=== user\n{{ what }}\n")
    return PromptLibrary(tmp_path)


def only(chat: ChatModel) -> Callable[[str], ChatModel]:
    return lambda _: chat


def test_each_prompt_is_asked_of_its_own_role_in_one_call_and_answers_keep_their_order(prompts: PromptLibrary) -> None:
    models = {name: ScriptedChat(lambda request: request.messages[-1].content, name) for name in ("chat", "small")}
    asks = [Ask("plain", NUMBER), Ask("small", NUMBER)]
    questions = [Question(asks[place % 2], {"what": str(place)}) for place in range(5)]
    answers = put(questions, prompts, models.__getitem__)
    assert [answer.value for answer in answers] == [0, 1, 2, 3, 4]
    assert {name: model.batches for name, model in models.items()} == {"chat": [3], "small": [2]}
    assert put([], prompts, models.__getitem__) == []


def test_a_reply_that_cannot_be_read_is_a_value_with_its_text(prompts: PromptLibrary) -> None:
    [answer] = put([Question(Ask("plain", NUMBER), {"what": "?"})], prompts, only(ScriptedChat(lambda _: "many")))
    assert (answer.value, answer.text, answer.readable, answer.failed) == (None, "many", False, False)


def test_a_request_that_failed_is_an_answer_and_a_model_that_failed_an_error(prompts: PromptLibrary) -> None:
    question = Question(Ask("plain", SENTENCE), {"what": "?"})
    [answer] = put([question], prompts, only(ScriptedChat(lambda _: ChatReply("", "error", error="too long"))))
    assert (answer.failed, answer.readable, answer.error) == (True, False, "too long")

    def broken(_: ChatRequest) -> str:
        raise ModelError("no engine")

    with pytest.raises(ModelError, match="no engine"):
        put([question], prompts, only(ScriptedChat(broken)))


def test_sampling_and_a_reduced_limit_reach_the_model(prompts: PromptLibrary) -> None:
    chat = ScriptedChat(lambda _: "1")
    put(
        [Question(Ask("small", NUMBER), {"what": "?"}, sampling={"temperature": 0.7, "seed": 3})],
        prompts, only(chat), shorten=lambda tokens: tokens // 2,
    )  # fmt: skip
    [request] = chat.requests
    assert (request.temperature, request.seed, request.max_tokens) == (0.7, 3, 3)


def test_the_exchange_holds_what_was_said_and_how_sure_the_model_was(prompts: PromptLibrary) -> None:
    reply = ChatReply("4", "length", (log(0.5), log(1.0)), prompt_cut=9, first_token_probs={"4": 0.5})
    keeper = Keeper()
    put(
        [Question(Ask("small", NUMBER), {"what": "How many?"}, (keeper, keeper))],
        prompts,
        only(ScriptedChat(lambda _: reply)),
    )
    one, same = keeper.exchanges
    assert one is same
    assert (one.prompt, one.form, one.model, one.reply, one.readable) == ("small", "number", "scripted", "4", True)
    assert (one.finish_reason, one.tokens, one.prompt_cut, one.max_tokens) == ("length", 2, 9, 7)
    assert (one.mean_probability, one.min_probability) == (pytest.approx(0.75), pytest.approx(0.5))
    assert one.messages == (SentMessage("user", "How many?"),) and one.first_token_probs == {"4": 0.5}


def test_the_exchange_holds_the_request_as_the_language_model_received_it(prompts: PromptLibrary) -> None:
    class Recogniser:
        name = "labels"

        def recognise(self, images: list[Image.Image], k: int) -> list[list[object]]:
            return [[] for _ in images]

    text = ScriptedChat(lambda _: "1")
    seeing = ComposedVisionChat(text, Recogniser(), ScriptedOcr([]), lambda *_: "A red tower.")  # type: ignore[arg-type]
    keeper = Keeper()
    values = {"what": "How many?", "image": Image.new("RGB", (2, 2))}
    put([Question(Ask("plain", NUMBER), values, (keeper,))], prompts, only(seeing))
    [exchange] = keeper.exchanges
    assert exchange.messages == (SentMessage("system", "Count."), SentMessage("user", "A red tower.\n\nHow many?"))


def test_the_exchange_says_that_the_cache_had_the_reply(prompts: PromptLibrary, tmp_path: Path) -> None:
    keeper = Keeper()
    for _ in range(2):
        chat = CachedReplies(ScriptedChat(lambda _: "1"), ReplyStore(tmp_path / "replies"))
        put([Question(Ask("plain", NUMBER), {"what": "?"}, (keeper,))], prompts, only(chat))
    assert [exchange.cached for exchange in keeper.exchanges] == [False, True]


@given(st.text(max_size=300), st.sampled_from(["stop", "length", "abort", "error"]), st.sampled_from(FORMS))
def test_no_reader_raises_whatever_a_model_says(text: str, finish: str, form: ReplyForm[Any]) -> None:
    answer = read(form, ChatReply(text, finish))  # type: ignore[arg-type]
    assert answer.readable in (True, False)
    assert not (answer.readable and finish == "error")
