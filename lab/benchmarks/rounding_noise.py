"""Noise that 8-bit integers bring into a language model's probabilities: the same requests in float32, with the same weights.

    python -m lab.benchmarks.rounding_noise --questions 16

The preset asks its questions of the mini set under ``embedded_batch``; what it asked is asked again in float32. Differences are those of
first tokens (the five likeliest in float32), of P(yes) where both replies begin with yes or no, and, where both replies are equal, of their
mean and least token probabilities, from which ``finalise`` and the gate decide.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from statistics import mean
from typing import Any

from pydantic import Field

from agents.methods.token_probabilities import compute_yes_probability, summarise_probabilities
from agents.models.base import ChatModel, ChatReply, ChatRequest
from agents.models.chat.transformers_chat import TransformersChat
from agents.runner.pipeline import Pipeline
from agents.search.gateway import SearchGateway
from agents.settings.run_config import RunConfig
from agents.texts.replies import yes_or_no
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from evaluation.commands import make_console
from lab.benchmarks.common import BenchmarkOptions, build_table, make_turn, run
from mini_crag_mm.loader import PreparedSet
from tests.support.meter import ModelsBy

PROFILE = "embedded_batch"
_LIKELIEST = 5

Asked = tuple[ChatRequest, ChatReply]


class RecordingChat:
    """Chat model that keeps what it was asked, as the model behind it got it, and its replies."""

    def __init__(self, behind: ChatModel) -> None:
        self.name, self._behind = behind.name, behind
        self.asked: list[Asked] = []

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """Pass the requests on."""
        replies = self._behind.chat(requests, deadline)
        self.asked += [
            (reply.received or request, reply)
            for request, reply in zip(requests, replies, strict=True)
            if reply.first_token_probs
        ]
        return replies


def compare_replies(exact: Sequence[ChatReply], rounded: Sequence[ChatReply]) -> dict[str, list[float]]:
    """Return the absolute differences of each kind of probability between the replies of two models to the same requests."""
    differences: dict[str, list[float]] = {
        "first token": [],
        "P(yes)": [],
        "mean probability": [],
        "least probability": [],
    }
    for one, other in zip(exact, rounded, strict=True):
        first, second = one.first_token_probs or {}, other.first_token_probs or {}
        likeliest = sorted(first, key=first.__getitem__, reverse=True)[:_LIKELIEST]
        differences["first token"] += [abs(first[token] - second.get(token, 0.0)) for token in likeliest]
        if yes_or_no(one.text) is not None and yes_or_no(other.text) is not None:
            yes, also_yes = compute_yes_probability(first), compute_yes_probability(second)
            differences["P(yes)"].append(abs((yes or 0.0) - (also_yes or 0.0)))
        statistics, others = summarise_probabilities(one.logprobs), summarise_probabilities(other.logprobs)
        if one.text == other.text and statistics is not None and others is not None:
            differences["mean probability"].append(abs(statistics.mean - others.mean))
            differences["least probability"].append(abs(statistics.minimum - others.minimum))
    return differences


def build_rows(differences: dict[str, list[float]]) -> Iterable[tuple[str, ...]]:
    """Build a row a kind: how many, their mean, the largest."""
    for kind, values in differences.items():
        yield kind, str(len(values)), *(f"{each:.3f}" for each in ((mean(values), max(values)) if values else ()))


class NoiseOptions(BenchmarkOptions):
    """Options of what is asked."""

    preset: str = Field("best", description="preset")
    questions: int = Field(16, gt=0, description="questions of the split")


def record_requests(options: NoiseOptions) -> tuple[str, list[Asked]]:
    """Return the name of the rounded model, and what it was asked with its replies."""
    config = RunConfig.read(options.preset, PROFILE, cache=options.cache)
    models = config.models()
    recording = RecordingChat(models.chat())

    def give(role: str) -> Any:
        return recording if role == "chat" else models.get(role)

    mini = PreparedSet(options.split, options.cache)
    stages = Pipeline(config.settings, ModelsBy(give), SearchGateway(mini.search()), config.prompts)
    stages.run([make_turn(each) for each in islice(mini.turns(kinds=("single-turn",)), options.questions)])
    return recording.name, recording.asked


def _measure(options: NoiseOptions) -> int:
    name, asked = record_requests(options)
    gc.collect()  # both models at once do not fit into 16 GB
    exact_model = TransformersChat.load(dtype="float32", cache=options.cache)
    exact = [reply for request, _ in asked for reply in exact_model.chat([request])]
    rounded = [reply for _, reply in asked]
    equal = sum(one.text == other.text for one, other in zip(exact, rounded, strict=True))
    console = make_console()
    title = f"{options.preset}, {options.questions} questions, {name}: differences to float32"
    console.print(
        build_table(title, ("probability", "pairs", "mean", "largest"), build_rows(compare_replies(exact, rounded)))
    )
    console.print(f"{equal} of {len(asked)} replies are equal", highlight=False)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table.

    Returns:
        0, or 2 if a model or the mini set is missing.
    """
    return run(_measure, NoiseOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
