"""Sampled replies, what each is worth, and what is made of them: preference pairs, and the stages of a curriculum."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agents.models.base import ChatModel
from agents.turn import IDK
from evaluation.judge.judging import Judge, judge_turns
from training.chat_examples import Example, Verdict, read_rows, write_rows
from training.collect import ANSWERING, answer_in, answered_by

REWARDS: Mapping[str, float] = {"correct": 1.0, "miss": 0.0, "hallucination": -1.0}
"""The challenge's own scale, which Dianping (arXiv 2508.10337) took for the reward."""


@dataclass(frozen=True)
class Sampled:
    """Replies to one question with their verdicts, in the order of sampling."""

    session_id: str
    interaction_id: str
    stage: str
    replies: tuple[str, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def key(self) -> tuple[str, str, str]:
        """By which its example is found."""
        return self.session_id, self.interaction_id, self.stage


def key_of(example: Example) -> tuple[str, str, str]:
    """By which an example's samples are found."""
    return example.session_id, example.interaction_id, example.stage


def questions(examples: Iterable[Example]) -> list[Example]:
    """The examples whose reply is an answer."""
    return [example for example in examples if example.stage in ANSWERING]


def judged_replies(examples: Sequence[Example], replies: Sequence[str], judge: Judge) -> list[Verdict]:
    """The verdict on each reply to the example beside it."""
    turns = [answered_by(example, answer_in(reply)) for example, reply in zip(examples, replies, strict=True)]
    accept = {example.interaction_id: example.accept for example in examples}
    return [turn.verdict for turn in judge_turns(turns, judge, accept=accept)]  # type: ignore[misc]


def sample_replies(
    model: ChatModel, examples: Sequence[Example], judge: Judge, *, samples: int, temperature: float, seed: int = 0
) -> list[Sampled]:
    """Several replies to each question, in one batched call, judged."""
    asked = questions(examples)
    requests = [row.request(temperature, seed + number) for row in asked for number in range(samples)]
    said = [reply.text for reply in model.chat(requests)]
    verdicts = judged_replies([row for row in asked for _ in range(samples)], said, judge)
    return [
        Sampled(*key_of(row), tuple(said[start : start + samples]), tuple(verdicts[start : start + samples]))
        for row, start in zip(asked, range(0, len(said), samples), strict=True)
    ]


def write_samples(path: Path, samples: Iterable[Sampled]) -> None:
    """Write one question a line."""
    write_rows(path, map(asdict, samples))


def read_samples(path: Path) -> list[Sampled]:
    """Read what ``write_samples`` wrote.

    Raises:
        TrainingDataError: The file is missing or malformed.
    """

    def made(row: dict[str, Any]) -> Sampled:
        return Sampled(**{**row, "replies": tuple(row["replies"]), "verdicts": tuple(row["verdicts"])})

    return read_rows(path, made, "sampled replies")


@dataclass(frozen=True)
class Pair:
    """A reply that is better than another."""

    example: Example
    chosen: str
    rejected: str


def pairs_of(example: Example, sampled: Sampled) -> list[Pair]:
    """Right over refusal over wrong: the commonest right and the commonest wrong reply, and "I don't know" between them."""
    right, wrong = (_commonest(sampled, verdict) for verdict in ("correct", "hallucination"))
    ladder = [reply for reply in (right, IDK, wrong) if reply is not None]
    return [
        Pair(example, better, worse)
        for place, better in enumerate(ladder)
        for worse in ladder[place + 1 :]
        if better != worse
    ]


def _commonest(sampled: Sampled, verdict: str) -> str | None:
    said = [reply for reply, found in zip(sampled.replies, sampled.verdicts, strict=True) if found == verdict]
    return Counter(said).most_common(1)[0][0] if said else None  # the first of equals


@dataclass(frozen=True)
class Stage:
    """A stage of a curriculum: its name and its questions."""

    name: str
    examples: tuple[Example, ...]


def curriculum(easy: Sequence[Example], hard: Sequence[Example], seed: int = 0) -> list[Stage]:
    """The three stages of Dianping (arXiv 2508.10337): easy questions alone, then as many hard ones, then twice as many.

    Each stage is as large as the questions allow without repeating one; a stage that would be empty is left out.
    """
    chooser = random.Random(seed)
    stages = [Stage("easy", tuple(easy))]
    for name, ratio in (("1:1", 1), ("1:2", 2)):
        size = min(len(easy), len(hard) // ratio)
        chosen = chooser.sample(list(easy), size) + chooser.sample(list(hard), ratio * size)
        chooser.shuffle(chosen)
        stages.append(Stage(name, tuple(chosen)))
    return [stage for stage in stages if stage.examples]
