"""What Llama-3.2-Vision reads off a picture: as transformers does, whoever else is in the batch."""

from pathlib import Path
from typing import Any

import pytest
from vllm.model_executor.models import mllama

from agents.models.base import ChatMessage, ChatReply, ChatRequest
from agents.models.chat.transformers_chat import TransformersChat
from agents.models.chat.vllm_chat import VllmChat
from tests.vllm.asking import picture

SYSTEM = ChatMessage("system", "Be brief.")
TILES = {"one tile": (50, 40), "two tiles": (50, 112), "four tiles": (112, 112)}  # a tile has 56 x 56 pixels
REQUESTS = {
    name: ChatRequest(
        (SYSTEM, ChatMessage("user", "What is this?", (picture(seed, size),))), max_tokens=8, logprobs=True
    )
    for seed, (name, size) in enumerate(TILES.items())
} | {
    "text": ChatRequest((SYSTEM, ChatMessage("user", "Who was it?")), max_tokens=8, logprobs=True),
    "no system": ChatRequest((ChatMessage("user", "Where?", (picture(9, (56, 56)),)),), max_tokens=8, logprobs=True),
}
COMPANIES = [
    ["text"],
    ["four tiles"],
    ["four tiles", "text"],
    ["text", "four tiles"],
    ["no system", "two tiles", "text", "one tile"],
]
EXACT = 1e-3  # sums in another order move a log-probability by up to 1e-4
FAULTY = {
    "the picture encoder's mask": (mllama.MllamaVisionSdpaAttention, "forward"),
    "rows of text-only prompts": (mllama, "convert_sparse_cross_attention_mask_to_dense"),
    "rows before the picture": (mllama.MllamaForCausalLM, "forward"),
}
ORIGINALS = {name: getattr(owner, function) for name, (owner, function) in FAULTY.items()}  # no engine runs yet


def differ(one: ChatReply, other: ChatReply) -> float:
    """The largest difference of two replies' log-probabilities; 1 where they have other tokens."""
    assert one.logprobs is not None and other.logprobs is not None
    if one.text != other.text:
        return 1.0
    return max(abs(x - y) for x, y in zip(one.logprobs, other.logprobs, strict=True))


def differences_in_company(model: VllmChat) -> dict[str, float]:
    """How far each request's reply moves in each company, in front of it and behind it."""
    alone = {name: model.chat([request])[0] for name, request in REQUESTS.items()}
    differences = {}
    for name, request in REQUESTS.items():
        for company in COMPANIES:
            others = [REQUESTS[each] for each in company]
            first, *_ = model.chat([request, *others])
            *_, last = model.chat([*others, request])
            differences[f"{name}, then {company}"] = differ(alone[name], first)
            differences[f"{company}, then {name}"] = differ(alone[name], last)
    return differences


def test_a_reply_does_not_depend_on_who_else_is_in_the_batch(model: VllmChat) -> None:
    differences = differences_in_company(model)
    assert {name: moved for name, moved in differences.items() if moved > EXACT} == {}


def test_as_transformers_with_the_layers_in_their_order(model: VllmChat, folder: Path) -> None:
    requests = list(REQUESTS.values())
    expected = TransformersChat.load(folder, dtype="float32").chat(requests)
    replies = model.chat(requests)
    assert len({reply.text for reply in replies}) == len(requests)
    for name, one, other in zip(REQUESTS, replies, expected, strict=True):
        assert differ(one, other) < EXACT, name


@pytest.mark.parametrize("fault", list(FAULTY))
def test_each_fault_is_seen_where_its_correction_is_taken_back(
    fault: str, model: VllmChat, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = list(REQUESTS.values())
    corrected = [model.chat([request])[0] for request in requests]
    owner, function = FAULTY[fault]
    assert getattr(owner, function) is not ORIGINALS[fault]
    monkeypatch.setattr(owner, function, ORIGINALS[fault])
    if fault == "rows of text-only prompts":
        moved = max(differences_in_company(model).values())
    else:
        alone = [model.chat([request])[0] for request in requests]
        moved = max(differ(one, other) for one, other in zip(alone, corrected, strict=True))
    assert moved > 10 * EXACT


def test_what_the_photo_shows_is_in_the_first_token(model: VllmChat) -> None:
    picture_lists: list[tuple[Any, ...]] = [(picture(1),), (picture(2),), (picture(1),), ()]
    replies = model.chat(
        [ChatRequest((ChatMessage("user", "What?", each),), max_tokens=1, logprobs=True) for each in picture_lists]
    )
    one, other, again, blind = (reply.first_token_probs for reply in replies)
    assert one is not None and again == pytest.approx(one, abs=EXACT)
    assert other != pytest.approx(one, abs=10 * EXACT) and blind != pytest.approx(one, abs=10 * EXACT)
