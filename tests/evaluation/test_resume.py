"""A run that is killed at any point, while writing too, and resumed: exactly the scores of an uninterrupted one."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import local_evaluation
from agents.base_agent import Message
from agents.crag_agent import CragAgent
from agents.settings.run_config import RunConfig
from evaluation.files.outputs import ALL_TURNS, SCORES
from evaluation.files.responses import JsonLinesWriter
from evaluation.run import generate
from tests.evaluation.worlds import ScriptedAgent, picture, row, write_dataset

TURNS = (3, 1, 4, 2)


class Killed(BaseException):
    """Exception that nothing in the evaluation catches."""


class Cut:
    """Kills a run once so many bytes were to be written; of what was not synced a part of any length reaches each file."""

    def __init__(self, seed: int, limit: int) -> None:
        self.chance = random.Random(seed)
        self.remaining = self.chance.randint(0, limit)
        self.open: list[CutWriter] = []

    def spend(self, count: int) -> None:
        self.remaining -= count
        if self.remaining < 0:
            for writer in self.open:
                writer.path.open("ab").write(writer.pending[: self.chance.randint(0, len(writer.pending))])
            raise Killed


class CutWriter(JsonLinesWriter):
    """Holds lines back until they are synced, as the buffers of a process do."""

    def __init__(self, path: Path, cut: Cut) -> None:
        super().__init__(path)
        self.path = path
        self.pending = b""
        self.cut = cut
        cut.open.append(self)

    def write(self, record: Mapping[str, Any]) -> None:
        line = (json.dumps(record, ensure_ascii=False) + "\n").encode()
        self.pending += line
        self.cut.spend(len(line))

    def sync(self) -> None:
        self._file.write(self.pending.decode())
        self.pending = b""
        super().sync()


def _answer(query: str, history: Sequence[Message]) -> str:
    """Answer right, wrong or not at all, by all earlier messages: a run that loses one gets other scores."""
    byte = hashlib.sha256(repr([query, [message["content"] for message in history]]).encode()).digest()[4]
    number = query.split()[-1].rstrip("?")
    return (f"number {number}.", f"It is number {number}", "I don't know", "A café\u2028in “Zürich”")[byte % 4]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data set, and a scripted agent in place of CragAgent."""
    folder = tmp_path_factory.mktemp("resume")
    rows = [row(name, turns, "v0.1.2", picture(), None) for name, turns in zip("abcd", TURNS, strict=True)]
    write_dataset(folder, rows, "v0.1.2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr(RunConfig, "pipeline", lambda *_, **__: None)
        patch.setattr(CragAgent, "from_config", lambda *_, **__: ScriptedAgent(_answer, batch_size=3))
        yield folder


def _main(folder: Path, output: Path, *arguments: str) -> int:
    places = ["--dataset", str(folder), "--cache", str(folder / "cache"), "--output-dir", str(output)]
    always = ["--dataset-type", "multi-turn", "--eval-model", "None", "--no_progress", "--no-report"]
    return local_evaluation.main([*always, *places, *arguments])


Outputs = tuple[bytes, str, dict[str, Any]]


def _read_outputs(output: Path) -> Outputs:
    """Return the files of a run: answers, judged turns without their costs, and scores."""
    scores = json.loads((output / SCORES).read_text())
    table = pd.read_csv(output / ALL_TURNS)[["interaction_id", "agent_response", "is_correct", "is_miss"]]
    return (output / "response.jsonl").read_bytes(), table.to_json(), {name: scores[name] for name in ("all", "ego")}


@pytest.fixture(scope="module")
def whole(folder: Path) -> Outputs:
    """What a run that nothing interrupts leaves behind."""
    assert _main(folder, folder / "whole") == 0
    outputs = _read_outputs(folder / "whole")
    counts = [outputs[2]["all"][name] for name in ("correct", "miss", "hallucination")]
    assert all(counts) and sum(counts) == sum(TURNS), counts
    return outputs


@pytest.mark.hostile("runs killed at any point, and resumed")
@pytest.mark.parametrize("seed", range(50))
def test_killed_anywhere_it_ends_with_the_same_scores(seed: int, folder: Path, whole: Outputs, tmp_path: Path) -> None:
    size = 2 * len(whole[0])
    more: list[str] = []
    for attempt in range(1 + (seed % 3 == 0)):
        killed = _run_until_cut(Cut(1000 * attempt + seed, size), partial(_main, folder, tmp_path, *more))
        more = ["--resume"]
        assert killed or (tmp_path / SCORES).exists()
    assert _main(folder, tmp_path, "--resume") == 0
    assert _read_outputs(tmp_path) == whole


def _run_until_cut(cut: Cut, run: Callable[[], object]) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generate, "JsonLinesWriter", lambda path: CutWriter(path, cut))
        try:
            run()
        except Killed:
            return True
    return False


def test_the_cuts_do_cut(folder: Path, whole: Outputs, tmp_path: Path) -> None:
    """Else the tests above would show nothing: most runs are killed, and some in the middle of a line."""
    torn = killed = 0
    for seed in range(6):
        output = tmp_path / str(seed)
        killed += _run_until_cut(Cut(seed, 2 * len(whole[0])), partial(_main, folder, output, "--mode", "generate"))
        content = (output / "response.jsonl").read_bytes()
        torn += bool(content) and not content.endswith(b"\n")
        assert len(content) <= len(whole[0])
    assert killed >= 3
    assert torn >= 1
