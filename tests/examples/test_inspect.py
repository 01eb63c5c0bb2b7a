"""The task of Inspect with its mock model, over a real index and the real search (`make test-inspect`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="Inspect is not installed: make test-inspect")
from inspect_ai import Task
from inspect_ai import eval as run_eval
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessage, ChatMessageTool, ModelOutput, ModelUsage, get_model

from agents.profiles.profile import ROOT
from agents.search.build_index import main
from tests.examples.test_examples import PROFILE

MUSEUM = ROOT / "examples" / "museum"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspect")
    assert main([str(MUSEUM), "--cache", str(folder / "cache"), "--no-progress"]) == 0
    (folder / "quoting.toml").write_text(PROFILE)
    return folder / "cache"


@pytest.fixture(scope="module")
def example() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "examples"))
    import inspect_crag_mm

    yield inspect_crag_mm
    sys.path.remove(str(ROOT / "examples"))


def use(tool: str, **arguments: Any) -> ModelOutput:
    output = ModelOutput.for_tool_call("mockllm/model", tool, arguments)
    output.usage = ModelUsage()  # the mock model would fetch a tokenizer to count
    return output


def say(text: str) -> ModelOutput:
    output = ModelOutput.from_content("mockllm/model", text)
    output.usage = ModelUsage()
    return output


def answer(messages: list[ChatMessage], tools: list[Any], *_: Any) -> ModelOutput:
    """Search once with the photo and once for pages, then say who made it if that was asked."""
    question = next(message.text for message in reversed(messages) if message.role == "user")
    results = [message for message in messages if isinstance(message, ChatMessageTool)]
    if len(results) < 2:
        assert {tool.name for tool in tools} == {"search_photo", "search_pages"}
        box = [0, 0, 1, 1]
        return use("search_photo", box=box) if not results else use("search_pages", query=question)
    assert "Eiffel Tower" in results[0].text and "(cosine 0." in results[0].text
    assert "pages/" in results[1].text, "sources have their names"
    if "Who made" in question:
        return say("Bram Tiller made it." if "Bram Tiller" in results[0].text else "nothing found")
    return say("I don't know." if "tall" in question else "It weighs 5 kg.")


def run(task: Task, cache: Path, **options: Any) -> EvalLog:
    model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
    [log] = run_eval(task, model=model, limit=3, display="none", log_dir=str(cache / "logs"), max_samples=2, **options)
    assert log.status == "success", log.error
    return log


def read_metrics(log: EvalLog) -> dict[str, float]:
    assert log.results is not None
    [scores] = log.results.scores
    return {name: metric.value for name, metric in scores.metrics.items()}


def test_a_model_with_the_two_searches_is_scored_by_the_rules(example: Any, cache: Path) -> None:
    log = run(example.crag_mm(knowledge=str(MUSEUM), data_cache=str(cache)), cache)
    metrics = read_metrics(log)
    assert metrics["truthfulness"] == 0.0 and metrics["stderr"] > 0
    assert [metrics[name] for name in ("accuracy", "missing", "hallucination")] == pytest.approx([1 / 3] * 3)
    assert log.samples is not None
    verdicts = {
        sample.input[0].text: str(sample.scores["crag_mm_rules"].explanation).partition(":")[0]
        for sample in log.samples
        if sample.scores and not isinstance(sample.input, str)
    }
    assert verdicts == {
        "Who made this?": "correct",
        "How tall is this model?": "miss",
        "How much does this model weigh?": "hallucination",
    }


def test_this_projects_agent_is_a_solver(example: Any, cache: Path) -> None:
    agent = example.crag_agent(knowledge=str(MUSEUM), data_cache=str(cache), profile=str(cache.parent / "quoting.toml"))
    log = run(example.crag_mm(knowledge=str(MUSEUM), data_cache=str(cache)), cache, solver=agent)
    assert log.samples is not None
    first = log.samples[0]
    assert first.store["crag"]["sources"] and first.output.completion == first.store["crag"]["answer"]
    assert "Eiffel Tower" in first.store["crag"]["entity"]
    assert -1 <= read_metrics(log)["truthfulness"] <= 1


def test_dialogs_are_asked_turn_by_turn_after_the_true_answers(example: Any, cache: Path) -> None:
    samples = example.crag_mm(knowledge=str(MUSEUM), data_cache=str(cache)).dataset
    assert len(samples) == 40
    later = [sample for sample in samples if len(sample.input) > 1]
    assert len(later) == 3, "two dialogs of two and three turns"
    assert [message.role for message in later[0].input] == ["user", "assistant", "user"]


def test_a_search_that_does_not_exist_is_told_to_the_model(example: Any) -> None:
    assert example.format_found(example.Found(off="page search")) == "error: there is no page search"
    assert example.format_found(example.Found(error="it broke")) == "error: it broke"
    assert example.format_found(example.Found()) == "nothing found"
