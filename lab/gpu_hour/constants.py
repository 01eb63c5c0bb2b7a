"""The constants of the latency simulation (``lab/benchmarks/latency/l40s.toml``), measured on this machine."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from PIL import Image

from agents.models.architecture import Architecture
from agents.models.base import ChatMessage, ChatModel, ChatReply, ChatRequest, ModelError
from lab.benchmarks.latency.cost import Machine, estimate_decode, estimate_text_seconds

REPEATS = 3  # of which the fastest counts
SHORT, LONG = 8, 64  # tokens of a reply
FEW_WORDS, MANY_WORDS = 20, 400
PICTURE = (960, 1280)
_WORDS = "the old bridge over a quiet river leads to seven stone houses near green hills ".split()
_COUNTING = "Write the numbers from 1 to 500, separated by commas, and nothing else."
_salts = itertools.count()


@dataclass(frozen=True)
class Constant:
    """A figure of the simulation beside its measured value, or the reason why it has none."""

    name: str
    simulated: float
    measured: float | None
    how: str


def measure_rates(*, has_gpu: bool) -> dict[str, float]:
    """Measure bytes a second of a copy, and operations a second of matrix products by data type.

    A data type that the machine does not multiply is left out.
    """
    import torch

    device, side, numbers = ("cuda", 8192, 1 << 29) if has_gpu else ("cpu", 1024, 1 << 24)

    def measure_seconds(work: Callable[[], object]) -> float:
        def finish() -> None:
            work()
            if has_gpu:
                torch.cuda.synchronize()

        finish()
        return min(_time(finish) for _ in range(REPEATS))

    pair = torch.zeros((2, numbers), dtype=torch.float32, device=device)
    rates = {"bandwidth": 2 * 4 * numbers / measure_seconds(lambda: pair[1].copy_(pair[0]))}
    for name in ("bfloat16", "float32"):
        matrix = torch.zeros((side, side), dtype=getattr(torch, name), device=device)
        rates[name] = 2 * side**3 / measure_seconds(lambda matrix=matrix: matrix @ matrix)  # type: ignore[misc]
    if has_gpu and torch.cuda.get_device_capability() >= (8, 9):
        one = torch.tensor(1.0, device=device)
        left = torch.zeros((side, side), device=device).to(torch.float8_e4m3fn)
        right = left.t()

        def multiply() -> object:
            return torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

        rates["float8"] = 2 * side**3 / measure_seconds(multiply)
    return rates


def measure_chat(chat: ChatModel, at_once: int, count_tokens: Callable[[str], int], *, sees: bool) -> dict[str, float]:
    """Measure the seconds of tokens, prompts, requests and pictures of a chat model.

    Args:
        chat: The model.
        at_once: Requests that it answers at once.
        count_tokens: Number of tokens of a text.
        sees: Whether it is shown pictures.

    Returns:
        ``step`` and ``step_at_once``: seconds of a token of one request, and of ``at_once`` requests together. ``prompt_token``,
        ``request`` and ``picture``: seconds of one more. What cannot be told apart from noise is left out.

    Raises:
        ModelError: The model cannot answer.
    """
    _ask(chat, [_request(FEW_WORDS, SHORT)])
    seconds: dict[str, float] = {}
    for name, number in (("step", 1), ("step_at_once", at_once)):
        short, few = _fastest(chat, number, _COUNTING, SHORT)
        long, many = _fastest(chat, number, _COUNTING, LONG)
        if many > few and long > short:
            seconds[name] = (long - short) / (many - few)
    few_words, _ = _fastest(chat, 1, FEW_WORDS, 1)
    many_words, _ = _fastest(chat, 1, MANY_WORDS, 1)
    tokens = count_tokens(_text(MANY_WORDS)) - count_tokens(_text(FEW_WORDS))
    if many_words > few_words:
        seconds["prompt_token"] = (many_words - few_words) / tokens
    together, _ = _fastest(chat, at_once, FEW_WORDS, 1)
    if at_once > 1 and together > few_words:
        seconds["request"] = (together - few_words) / (at_once - 1)
    if sees:
        with_picture, _ = _fastest(chat, 1, FEW_WORDS, 1, pictures=1)
        if with_picture > few_words:
            seconds["picture"] = with_picture - few_words
    return seconds


def compare_constants(
    machine: Machine,
    rates: Mapping[str, float],
    tiny: Mapping[str, float],
    real: Mapping[str, float],
    model: tuple[Architecture, str] | None,
) -> list[Constant]:
    """Put the constants of the simulation beside what was measured.

    Args:
        machine: The constants.
        rates: What ``measure_rates`` found.
        tiny: What was measured with tiny weights, whose arithmetic takes no time: overheads.
        real: What ``measure_chat`` found with real weights.
        model: Architecture and data type of these.
    """
    constants = [Constant("bandwidth", machine.bandwidth, rates.get("bandwidth"), "copy, bytes a second")]
    how = "matrix product, operations a second"
    constants += [
        Constant(name, machine.rates[name], rates.get(name), how) for name in ("bfloat16", "float32", "float8")
    ]
    step = tiny.get("step", machine.overhead["step"])
    share: dict[str, float] = {}
    if model is not None and real.get("step", 0.0) > step:
        ideal = dataclasses.replace(machine, decode_efficiency=1.0)
        reading = estimate_decode(*_on(model, ideal), steps=1, batch=1, tokens=0, pictures=0, overhead=0)
        share["decode"] = reading / (real["step"] - step)
    if model is not None and "prompt_token" in real:
        ideal = dataclasses.replace(machine, prefill_efficiency=1.0)
        share["prefill"] = estimate_text_seconds(*_on(model, ideal), 1) / real["prompt_token"]
    constants.append(
        Constant("decode", machine.decode_efficiency, share.get("decode"), "share of the bandwidth, real weights")
    )
    constants.append(
        Constant("prefill", machine.prefill_efficiency, share.get("prefill"), "share of the rate, real weights")
    )
    for name, value in machine.overhead.items():
        constants.append(Constant(name, value, tiny.get(name), "seconds, tiny weights"))
    constants.append(
        Constant("characters", machine.characters, real.get("characters"), "characters a token, real weights")
    )
    return constants


def _on(model: tuple[Architecture, str], machine: Machine) -> tuple[Architecture, Machine, str]:
    return model[0], machine, model[1]


def _text(words: int) -> str:
    return " ".join(_WORDS[place % len(_WORDS)] for place in range(words))


def _request(content: int | str, tokens: int, pictures: int = 0) -> ChatRequest:
    """Make a request that begins like no other, so that no prefix cache holds its prompt."""
    salt = next(_salts)
    text = f"{salt} {content if isinstance(content, str) else _text(content)}"
    images = tuple(Image.new("RGB", PICTURE, (salt % 256, salt // 256 % 256, 99)) for _ in range(pictures))
    return ChatRequest((ChatMessage("user", text, images),), max_tokens=tokens, logprobs=True)


def _fastest(chat: ChatModel, number: int, content: int | str, tokens: int, pictures: int = 0) -> tuple[float, int]:
    """Return the seconds of the fastest of a few calls, and the tokens of its longest reply."""
    best = (float("inf"), 0)
    for _ in range(REPEATS):
        requests = [_request(content, tokens, pictures) for _ in range(number)]
        began = time.perf_counter()
        replies = _ask(chat, requests)
        seconds = time.perf_counter() - began
        best = min(best, (seconds, max(len(reply.logprobs or ()) for reply in replies)))
    return best


def _ask(chat: ChatModel, requests: list[ChatRequest]) -> list[ChatReply]:
    replies = chat.chat(requests)
    for reply in replies:
        if reply.error is not None:
            raise ModelError(f"the chat model cannot be timed: {reply.error}")
    return replies


def _time(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
