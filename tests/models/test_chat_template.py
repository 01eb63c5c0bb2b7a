"""Every prompt of every preset through a template with the rules of Llama-3.2-Vision's, with an image and without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
from PIL import Image

from agents.models.base import ChatMessage, ChatReply, ChatRequest, ModelError
from agents.models.chat.chat_template import ChatTemplate
from agents.profiles.profile import PRESETS, names
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from tests.models.tiny_checkpoints import TEMPLATE, tokenizer
from tests.support.fault_plan import Plan
from tests.support.fault_trial import spoilt_agent
from tests.support.fault_variants import full_settings
from tests.support.scripted_parts import Chat

HAS_IMAGE = (
    "{% set seen = namespace(image=false) %}{% for m in messages %}{% if m['content'] is not string %}{% for part in m['content'] %}"
    "{% if part['type'] == 'image' %}{% set seen.image = true %}{% endif %}{% endfor %}{% endif %}{% endfor %}"
)
SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}"
    "{% if seen.image %}{% set system = messages[0]['content'][0]['text'] | trim %}"
    "{% else %}{% set system = messages[0]['content'] | trim %}{% endif %}"
    "{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}"
)
LLAMA_RULES = HAS_IMAGE + SYSTEM + "{{ '<|system|>' + system + '<|end|>' }}" + TEMPLATE
LLAMA_FIRST_RULES = (  # of the first publication: no system message beside an image
    HAS_IMAGE
    + "{% if seen.image and messages[0]['role'] == 'system' %}{{ raise_exception('no system message with images') }}{% endif %}"
    "{% if not seen.image and messages[0]['role'] == 'system' %}{{ '<|system|>' + (messages[0]['content'] | trim) + '<|end|>' }}"
    "{% set messages = messages[1:] %}{% endif %}" + TEMPLATE
)
PARTS_ALONE = (  # iterates over parts, as some templates do: of a string nothing would be left
    "{% for m in messages %}{% for part in m['content'] %}{% if part['type'] == 'image' %}{{ '<|image|>' }}{% endif %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
)
STRING_SYSTEM = (  # a string for the system message, parts for the others
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ m['content'] | trim }}{% else %}{% for part in m['content'] %}"
    "{{ part['text'] if part['type'] == 'text' else '<|image|>' }}{% endfor %}{% endif %}{% endfor %}"
)
RULES = {"Llama": LLAMA_RULES, "Llama, first": LLAMA_FIRST_RULES, "parts": PARTS_ALONE}


def seeing(template: str) -> ChatTemplate:
    words = tokenizer(template)
    return ChatTemplate(words, words)


class Listening(Chat):
    """Keeps the requests that it is asked."""

    def __init__(self) -> None:
        self.asked: list[ChatRequest] = []

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        self.asked.extend(requests)
        return super().chat(requests, deadline)


def make_requests(preset: str) -> list[ChatRequest]:
    chat = Listening()
    agent = spoilt_agent(full_settings(preset), Plan(call_seconds=100.0, chat=chat))
    images = [Image.new("RGB", (160, 128), "gray"), Image.new("RGB", (161, 128), "gray")]
    history = [{"role": "user", "content": "What is this?"}, {"role": "assistant", "content": "I don't know"}]
    agent.batch_generate_response(["How high is it?", "How much does it cost now?"], images, [[], history])
    return chat.asked


@pytest.mark.parametrize("preset", names(PRESETS))
def test_every_prompt_in_both_forms(preset: str) -> None:
    requests = make_requests(preset)
    assert requests
    for rules in RULES.values():
        template = seeing(rules)
        for request in requests:
            blind = tuple(replace(message, images=()) for message in request.messages)
            for messages in (request.messages, blind):
                text = template.render(messages)
                assert "'type':" not in text
                assert text.count("<|image|>") == sum(len(message.images) for message in messages)
                for message in messages:
                    assert message.content.strip() in text


def test_a_system_message_as_a_string_beside_parts() -> None:
    picture = Image.new("RGB", (8, 8))
    messages = [ChatMessage("system", "Be brief."), ChatMessage("user", "What is it?", (picture,))]
    assert seeing(STRING_SYSTEM).render(messages) == "Be brief.<|image|>What is it?"


def test_a_template_that_refuses_every_form_says_why() -> None:
    with pytest.raises(ModelError, match="never"):
        seeing("{{ raise_exception('never') }}").render([ChatMessage("user", "What is it?")])


def test_a_template_that_adds_texts_to_lists_refuses_pictures() -> None:
    adding = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] }}{% endfor %}"
    words = tokenizer(adding)
    template = ChatTemplate(words, SimpleNamespace(chat_template=adding, apply_chat_template=words.apply_chat_template))
    assert template.render([ChatMessage("user", "Hi")]) == "user: Hi"
    with pytest.raises(ModelError, match="refuses these messages"):
        template.render([ChatMessage("user", "Hi", (Image.new("RGB", (8, 8)),))])
