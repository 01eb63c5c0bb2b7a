"""The order of a prompt as the vLLM adapter sends it; the engine of these tests keeps what it is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from agents.models.base import ChatMessage, ChatRequest
from agents.models.chat.chat_template import ChatTemplate, load_chat_template
from agents.models.chat.loop_thread import LoopThread
from agents.models.chat.vllm_chat import VllmChat
from tests.models.tiny_checkpoints import save_mllama


class Keeping:
    """Engine that keeps its last prompt, which may hold marks that no reply keeps."""

    context, is_dead = 400, False

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template
        self.prompt = ""

    def sampling(self, request: ChatRequest) -> None:
        return None

    def shutdown(self) -> None:
        return None

    async def generate(self, prompt: Any, sampling: Any, request_id: str) -> AsyncIterator[Any]:
        self.prompt = self._template.tokenizer.decode(prompt["prompt_token_ids"])
        output = SimpleNamespace(text="Yes.", finish_reason="stop", stop_reason=None, token_ids=[], logprobs=None)
        yield SimpleNamespace(outputs=[output])


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> ChatTemplate:
    return load_chat_template(save_mllama(tmp_path_factory.mktemp("mllama")))


def render_prompt(template: ChatTemplate, *, pictures_first: bool, pictures: int = 1) -> str:
    photo = Image.new("RGB", (28, 28), "red")
    messages = (
        ChatMessage("system", "Look."),
        ChatMessage("user", "What?", (photo,) * pictures),
        ChatMessage("assistant", "It."),
    )
    engine: Any = Keeping(template)
    with VllmChat(engine, LoopThread("test"), template, "keeping", pictures_first=pictures_first) as chat:
        [reply] = chat.chat([ChatRequest((*messages, ChatMessage("user", "Sure?")))])
    assert reply.error is None
    return str(engine.prompt).replace(" ", "")


def test_pictures_stand_before_the_instructions_where_a_profile_says_so(template: ChatTemplate) -> None:
    rest = "<|end|><|assistant|>It.<|end|><|user|>Sure?<|end|><|assistant|>"
    assert render_prompt(template, pictures_first=True) == f"<|begin_of_text|><|user|><|image|>Look.\n\nWhat?{rest}"
    assert (
        render_prompt(template, pictures_first=False)
        == f"<|begin_of_text|><|system|>Look.<|end|><|user|><|image|>What?{rest}"
    )


def test_a_prompt_without_pictures_keeps_its_system_message(template: ChatTemplate) -> None:
    assert render_prompt(template, pictures_first=True, pictures=0).startswith(
        "<|begin_of_text|><|system|>Look.<|end|><|user|>What?"
    )
