"""Small data sets and scripted agents for the evaluation's tests."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import datasets
import pytest
from PIL import Image
from rich.console import Console

from agents.base_agent import BaseAgent, Message
from agents.crag_agent import CragAgent
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Profile
from agents.record import TurnRecord
from agents.settings.presets import Settings
from agents.settings.run_config import RunConfig
from evaluation.data.dataset_images import LoadedImage
from evaluation.records import AnsweredTurn, JudgedTurn, QuestionTurn, Session
from evaluation.run.truncation import Truncator, approximate_ends
from tests.agent.scripted import ScriptedChat

DOMAINS = ["animal", "food", "vehicle"]
CATEGORIES = ["simple-knowledge", "multi-hop"]
DYNAMISM = ["static", "real-time"]
QUALITY = ["normal", "blurred"]

PLAIN = Truncator("rule", approximate_ends)


def picture(colour: str = "red", size: tuple[int, int] = (64, 48)) -> Image.Image:
    return Image.new("RGB", size, colour)


def run_command(main: Callable[..., int], *arguments: str | Path, width: int = 200) -> tuple[int, str]:
    """Run a command of the evaluation; return its exit status and what it printed."""
    stream = io.StringIO()
    return main([str(argument) for argument in arguments], Console(file=stream, width=width)), stream.getvalue()


def stay_offline(patch: pytest.MonkeyPatch) -> None:
    """Keep a run from the hub and from the keys of whoever runs the tests."""
    patch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        patch.delenv(name, raising=False)


def use_agent(patch: pytest.MonkeyPatch, build: Callable[..., Any]) -> None:
    """Have runs build their agent by a function in place of ``CragAgent.from_config``, without a search, and stay offline."""
    stay_offline(patch)
    patch.setattr(RunConfig, "pipeline", lambda *_, **__: None)
    patch.setattr(CragAgent, "from_config", build)


def sessions(turn_counts: Sequence[int], ego: bool = True) -> list[Session]:
    return [
        Session(
            f"s{number}",
            tuple(
                QuestionTurn(
                    f"s{number}t{turn}",
                    turn,
                    f"question {turn} of {number}?",
                    f"truth {number} {turn}",
                    "food",
                    "multi-hop",
                    "static",
                )
                for turn in range(count)
            ),
            row=number,
            image_url=None if ego else f"https://pictures.example/{number}.jpg",
        )
        for number, count in enumerate(turn_counts)
    ]


class OneColour:
    """Image source that has a picture for every session except those in ``without``."""

    def __init__(self, without: Sequence[str] = ()) -> None:
        self.without = set(without)

    def image(self, session: Session) -> LoadedImage:
        if session.session_id in self.without:
            return LoadedImage(None, f"session {session.session_id}: no picture")
        return LoadedImage(picture())


def write_records(path: Path, records: Iterable[TurnRecord]) -> Path:
    """Write a trace.jsonl of these records."""
    path.write_text("".join(json.dumps(record.as_json()) + "\n" for record in records), encoding="utf-8")
    return path


Script = Callable[[str, Sequence[Message]], str]


def from_history(query: str, history: Sequence[Message]) -> str:
    """Return an answer that depends on every earlier one: a run that loses or changes one gives others."""
    digest = hashlib.sha256(repr([message["content"] for message in history]).encode()).hexdigest()[:8]
    return f"{query} -> {digest} " + "very " * (40 * (len(history) // 2)) + "long"


class ScriptedAgent(BaseAgent):
    """Agent that answers by a function of query and history, and remembers each call."""

    def __init__(self, script: Script = from_history, batch_size: int = 4, **options: Any) -> None:
        super().__init__(**options)
        self.script = script
        self.batch_size = batch_size
        self.calls: list[list[str]] = []
        self.histories: dict[str, list[Message]] = {}

    def get_batch_size(self) -> int:
        return self.batch_size

    def batch_generate_response(
        self,
        queries: Sequence[str],
        images: Sequence[Image.Image | None],
        message_histories: Sequence[Sequence[Message]] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        self.calls.append(list(queries))
        histories = message_histories or [[] for _ in queries]
        for query, history in zip(queries, histories, strict=True):
            self.histories[query] = list(history)
        return [self.script(query, history) for query, history in zip(queries, histories, strict=True)]


class ScriptedCragAgent(ScriptedAgent, CragAgent):
    """``ScriptedAgent`` with the further parts of a ``CragAgent``: models, a trace and a warm-up."""

    def __init__(self, script: Script = from_history) -> None:
        models = ModelSet(
            Profile(name="scripted", models={}), Path("unused"), ready={"chat": ScriptedChat(lambda _: "")}
        )
        super().__init__(script, settings=Settings(stages=("answer", "finalise")), models=models)


def judged(
    verdicts: str, session_id: str = "s", *, ego: bool = True, domain: str = "food", start: int = 0
) -> list[JudgedTurn]:
    """Make a dialog from its verdicts: c correct, m miss, h hallucination."""
    return [
        JudgedTurn(
            AnsweredTurn(
                session_id, f"{session_id}-{index}", index, ego, "normal", "multi-hop", domain, "static",
                f"q{index}?", "truth", "answer", len(verdicts), [],
            ),
            exact=False,
            miss=verdict == "m",
            correct=verdict == "c",
            semantic=None if verdict == "m" else verdict == "c",
        )
        for index, verdict in enumerate(verdicts, start)
    ]  # fmt: skip


def turn_record(session: str, number: int, revision: str) -> dict[str, Any]:
    record: dict[str, Any] = {
        "interaction_id": f"{session}-{number}",
        "domain": DOMAINS[number % len(DOMAINS)],
        "query_category": CATEGORIES[number % len(CATEGORIES)],
        "dynamism": DYNAMISM[number % len(DYNAMISM)],
        "query": f"What is number {number}?",
    }
    return record | ({"image_quality": QUALITY[number % 2]} if revision == "v0.1.2" else {})


def row(session: str, turns: int, revision: str, image: Image.Image | None, url: str | None) -> dict[str, Any]:
    return {
        "session_id": session,
        "image": image,
        "image_url": url,
        "turns": [turn_record(session, number, revision) for number in range(turns)],
        # in another order than the turns: they belong together by interaction_id
        "answers": [{"interaction_id": f"{session}-{number}", "ans_full": f"Number {number}."} for number in reversed(range(turns))],
    }  # fmt: skip


def features(revision: str) -> datasets.Features:
    """Return a revision's features: lists of dicts with strings, or a dict of columns with ClassLabels."""
    text = datasets.Value("string")
    answer = {"interaction_id": text, "ans_full": text}
    if revision == "v0.1.1":
        turn = dict.fromkeys(("interaction_id", "domain", "query_category", "dynamism", "query"), text)
        turns: Any = datasets.List(turn)
        answers: Any = datasets.List(answer)
    else:
        labels = {"domain": DOMAINS, "query_category": CATEGORIES, "dynamism": DYNAMISM, "image_quality": QUALITY}
        turns = {name: datasets.List(datasets.ClassLabel(names=names)) for name, names in labels.items()}
        turns |= {name: datasets.List(text) for name in ("interaction_id", "query")}
        answers = {name: datasets.List(text) for name in answer}
    return datasets.Features(
        {"session_id": text, "image": datasets.Image(), "image_url": text, "turns": turns, "answers": answers}
    )


def write_dataset(
    folder: Path,
    rows: Sequence[dict[str, Any]],
    revision: str,
    split: str = "validation",
    repository: str = "crag-mm-multi-turn-public",
) -> Path:
    """Write rows as ``<repository>/<revision>/data/<split>-00000-of-00001.parquet`` under ``folder``."""
    if revision != "v0.1.1":
        rows = [
            {**item, **{name: {key: [record[key] for record in item[name]] for key in item[name][0]} for name in ("turns", "answers")}}
            for item in rows
        ]  # fmt: skip
    table = datasets.Dataset.from_list(list(rows), features=features(revision))
    data = folder / repository / revision / "data"
    data.mkdir(parents=True, exist_ok=True)
    table.to_parquet(str(data / f"{split}-00000-of-00001.parquet"))
    return folder
