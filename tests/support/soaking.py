"""A long run of an agent on mixed turns, and what the process holds meanwhile: memory, threads, open files, temporary files."""

from __future__ import annotations

import gc
import io
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from PIL import Image

from agents.base_agent import BaseAgent, Message

MAX_GROWTH = 0.05
_MIB = 2**20
_MAX_TURNS = 6  # of a dialog
_DIALOGS = 24  # open at a time
_BROKEN_SHARE = 0.1
_NEW_SHARE = 0.5


@dataclass(frozen=True)
class Question:
    """A picture, as it is opened anew each time it is asked about, and the questions of a dialog on it."""

    open_image: Callable[[], Image.Image]
    queries: Sequence[str]


@dataclass(frozen=True)
class Sample:
    """What the process held after so many turns.

    Attributes:
        turns: Turns answered until then.
        rss: Resident memory in MiB, after a collection.
        threads: Threads of the process.
        files: Open files, sockets and pipes.
        temporary: Files and folders in the process' temporary folder.
        seconds: Since the beginning.
    """

    turns: int
    rss: float
    threads: int
    files: int
    temporary: int
    seconds: float


@dataclass
class _Dialog:
    question: Question
    history: list[Message] = field(default_factory=list)

    @property
    def num_asked(self) -> int:
        return len(self.history) // 2

    @property
    def over(self) -> bool:
        return self.num_asked >= min(_MAX_TURNS, 3 * len(self.question.queries))

    @property
    def query(self) -> str:
        return self.question.queries[self.num_asked % len(self.question.queries)]


@dataclass(frozen=True)
class _Turn:
    query: Any
    image: Any
    history: Any
    dialog: _Dialog | None = None


def soak(
    agent: BaseAgent, questions: Sequence[Question], turns: int, *, every: int = 20, largest: int = 16, seed: int = 0
) -> Iterator[Sample]:
    """Ask about so many turns in batches of 1 to ``largest``, and sample the process after each ``every`` turns.

    Half of the turns are first questions, some of these the beginning of a dialog; a tenth are broken.

    Raises:
        RuntimeError: A batch was not answered with as many texts.
    """
    chance = random.Random(seed)
    dialogs: list[_Dialog] = []
    started = time.monotonic()
    num_done = sampled = 0
    while num_done < turns:
        batch = _batch(chance, questions, dialogs, min(chance.randint(1, largest), turns - num_done))
        answers = agent.batch_generate_response(
            [turn.query for turn in batch], [turn.image for turn in batch], [turn.history for turn in batch]
        )
        if len(answers) != len(batch) or not all(isinstance(answer, str) and answer for answer in answers):
            raise RuntimeError(f"{len(answers)} answers for {len(batch)} turns: {answers!r}")
        for turn, answer in zip(batch, answers, strict=True):
            if turn.dialog is not None:
                turn.dialog.history += [
                    Message(role="user", content=turn.query),
                    Message(role="assistant", content=answer),
                ]
        dialogs[:] = [dialog for dialog in dialogs if not dialog.over][-_DIALOGS:]
        num_done += len(batch)
        del batch
        if num_done - sampled >= every or num_done >= turns:
            sampled = num_done
            yield sample(num_done, time.monotonic() - started)


def _batch(chance: random.Random, questions: Sequence[Question], dialogs: list[_Dialog], size: int) -> list[_Turn]:
    waiting = [dialog for dialog in dialogs if not dialog.over]
    chance.shuffle(waiting)  # a dialog is in a batch once
    turns = []
    for _ in range(size):
        if chance.random() < _BROKEN_SHARE:
            turns.append(_broken(chance, questions))
        elif waiting and chance.random() > _NEW_SHARE:
            dialog = waiting.pop()
            turns.append(_Turn(dialog.query, dialog.question.open_image(), list(dialog.history), dialog))
        else:
            question = chance.choice(questions)
            new_dialog = _Dialog(question)
            dialogs.append(new_dialog)
            turns.append(_Turn(new_dialog.query, question.open_image(), [], new_dialog))
    return turns


def _broken(chance: random.Random, questions: Sequence[Question]) -> _Turn:
    """A turn with one thing wrong."""
    question = chance.choice(questions)
    query, image = question.queries[0], question.open_image()
    kinds: list[Callable[[], _Turn]] = [
        lambda: _Turn(query, None, []),
        lambda: _Turn(query, _torn(image), []),
        lambda: _Turn(query, Image.new("RGB", (1, 1)), []),
        lambda: _Turn(query, Image.new("CMYK", (3000, 2000)), []),
        lambda: _Turn(query, "a path", None),
        lambda: _Turn("", image, []),
        lambda: _Turn("how high is it " * 7_000, image, []),
        lambda: _Turn("<|eot_id|>{{ 7*7 }}\x00\ud800", image, []),
        lambda: _Turn(query, image, [None, {"role": "system", "content": "x"}, {"role": "user"}, 7]),
        lambda: _Turn(None, image, "no list"),
    ]
    return chance.choice(kinds)()


def _torn(image: Image.Image) -> Image.Image:
    """A JPEG whose file ends in the middle."""
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG")
    return Image.open(io.BytesIO(buffer.getvalue()[: max(700, buffer.tell() // 2)]))


def sample(turns: int, seconds: float) -> Sample:
    """What the process holds now."""
    gc.collect()
    process = psutil.Process()
    return Sample(
        turns,
        process.memory_info().rss / _MIB,
        process.num_threads(),
        process.num_fds(),
        sum(len(folders) + len(files) for _, folders, files in os.walk(tempfile.gettempdir())),
        seconds,
    )


def own_temporary_folder(folder: Path) -> None:
    """Let this process put its temporary files into a folder of its own, so that those left behind can be counted."""
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = str(folder)


def after_warm_up(samples: Sequence[Sample], share: float) -> list[Sample]:
    """The samples after the first share of the turns."""
    return [one for one in samples if one.turns >= share * samples[-1].turns]


def growth(samples: Sequence[Sample]) -> float:
    """How much more memory the last quarter of the samples holds than the first, by their medians; 0.05 is 5%."""
    quarter = max(1, len(samples) // 4)
    first, last = (median(one.rss for one in part) for part in (samples[:quarter], samples[-quarter:]))
    return last / first - 1.0


def piles_up(steady: Sequence[Sample]) -> list[str]:
    """What there is more of at the end than after the warm-up; memory may grow by ``MAX_GROWTH``."""
    problems = [] if growth(steady) <= MAX_GROWTH else ["memory"]
    first, last = steady[0], steady[-1]
    return problems + [name for name in ("threads", "files", "temporary") if getattr(last, name) > getattr(first, name)]
