"""The code of docs/extending.md, run as the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agents import settings as settings_module
from agents.models.base import ChatReply
from agents.models.factories import FACTORIES
from agents.models.registry import ModelRegistry
from agents.prompts import PromptLibrary
from agents.settings import ROOT, Settings, load_profile, load_settings
from agents.stage import Context
from agents.turn import Candidate, Turn
from tests.agent.scripted import ScriptedChat, context, turn

PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
PROFILE = re.findall(r"^```toml\n(\[models\.reranker\].*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
FILES = dict(re.findall(r"^`(\S+)` \(new\)[^\n]*\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))


def run_code(source: str, **names: Any) -> dict[str, Any]:
    """The names that a block of the page defines."""
    space: dict[str, Any] = {"__name__": "extending", **names}
    exec(compile(source, "docs/extending.md", "exec"), space)
    return space


@pytest.fixture
def shorten(tmp_path: Path) -> Any:
    """The page's stage, with its settings and its prompt: turns, chat -> nothing."""
    table = re.search(r"```python\n(class ShortenSettings.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert table is not None
    made = run_code(table[1], _Table=settings_module._Table, Field=settings_module.Field)["ShortenSettings"]
    stage = run_code(FILES["agents/stages/shorten.py"])["Shorten"]()
    (tmp_path / "shorten.j2").write_text(FILES["prompts/shorten.j2"], encoding="utf-8")

    class Extended(Settings):
        shorten: made = made(most_words=12)  # type: ignore[valid-type]

    def run(turns: list[Turn], chat: ScriptedChat) -> None:
        parts = context(Extended(stages=()), chat=chat)
        run_stage(
            stage, turns, Context(parts.settings, parts.models, parts.search, PromptLibrary(tmp_path), parts.deadline)
        )

    return run


def test_the_stage_asks_once_and_only_about_long_answers(shorten: Any) -> None:
    long, short, none = (
        turn("How tall?", candidate=Candidate("so " * 12 + "tall", None)),
        turn("Who?", candidate=Candidate("so " * 11 + "many", None)),
        turn("Where?"),
    )
    chat = ScriptedChat(lambda _: "330 m")
    shorten([long, short, none], chat)
    assert chat.batches == [1]
    assert "at most 12 words" in chat.requests[0].messages[0].content
    assert long.candidate is not None and long.candidate.text == "330 m"
    assert short.candidate is not None and short.candidate.text.endswith("many")
    assert none.candidate is None and none.error is None


def test_a_long_answer_stays_where_the_model_fails(shorten: Any) -> None:
    long = turn("How tall?", candidate=Candidate("so " * 12 + "tall", None))
    shorten([long], ScriptedChat(lambda _: ChatReply("", "error", error="out of memory")))
    assert long.candidate is not None and long.candidate.text.endswith("tall")
    assert long.trace[0]["error"] == "out of memory"


def test_the_model_is_loaded_as_the_profile_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "overlap.toml").write_text(PROFILE, encoding="utf-8")
    made = run_code(FILES["agents/models/word_overlap.py"])["WordOverlapReranker"]
    line = re.search(r'`"(word-overlap)": "agents\.models\.word_overlap:(\w+)",`', PAGE)
    assert line is not None and line[2] == made.__name__
    monkeypatch.setitem(FACTORIES, line[1], lambda _, least_letters: made(least_letters))
    reranker = ModelRegistry(tmp_path).load(load_profile("overlap", tmp_path).models["reranker"])
    # Of "which tower is high" the words of four letters are which, tower and high; the passage holds one.
    assert reranker.score([("which tower is high", "is a tower"), ("is it", "it is")]).tolist() == pytest.approx(
        [1 / 3, 0]
    )


def test_the_preset_loads_with_its_overlay(tmp_path: Path) -> None:
    (tmp_path / "image_rag.toml").write_text(FILES["presets/image_rag.toml"], encoding="utf-8")
    plain, embedded = (load_settings("image_rag", profile, tmp_path) for profile in ("gpu", "embedded"))
    assert plain.stages[-1] == "finalise" and plain.rerank.k == embedded.rerank.k == 3
    assert (plain.rerank.threshold, embedded.rerank.threshold) == (0.0, 0.2)


def test_the_places_that_the_page_names_exist() -> None:
    new = {*FILES, "profiles/overlap.toml", "tests/agent/test_shorten.py"}
    named = set(re.findall(r"`((?:agents|presets|profiles|prompts|tests|docs|benchmarks)/[\w/]+\.\w+)`", PAGE)) - new
    assert len(named) > 10
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []
    for path, name in (
        ("agents/pipeline.py", "STAGES"),
        ("agents/settings.py", "StageName"),
        ("agents/runtime/roles.py", "PROMPTS_OF"),
        ("agents/runtime/roles.py", "MODELS_OF"),
        ("agents/runtime/start_up.py", "INDEPENDENT"),
        ("agents/latency/budget.py", "ANSWERING"),
        ("agents/latency/budget.py", "VERIFYING"),
        ("agents/latency/reduction.py", "reduced_settings"),
        ("agents/trace.py", "_OF_THE_PICTURE"),
    ):
        assert name in PAGE and name in (ROOT / path).read_text(encoding="utf-8"), (path, name)
