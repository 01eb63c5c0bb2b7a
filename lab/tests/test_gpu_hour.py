"""The hour on a GPU: constants worked out by hand, steps that fail, resume and run out of time, and a whole step on the CPU."""

from __future__ import annotations

import dataclasses
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from rich.console import Console

from agents.models.architecture import Architecture, Decoder
from agents.models.base import ChatReply, ChatRequest
from agents.profiles.profile import ROOT
from agents.settings.run_config import RunConfig
from apps.preflight.memory import L40S_BYTES, estimate_memory
from evaluation.records import QuestionTurn, Session
from lab.benchmarks.latency.cost import Machine
from lab.gpu_hour.__main__ import Hour, HourOptions, choose_profiles
from lab.gpu_hour.constants import compare_constants, measure_chat
from lab.gpu_hour.measure import measure_profile, plan_worst
from lab.gpu_hour.report import list_missing, write_report
from lab.gpu_hour.step import remove_names
from mini_crag_mm.loader import AskedTurn
from tests.support.local_configs import use_local_configs

DECODER = Decoder(layers=1, kv_heads=1, head_dim=1, hidden=1, intermediate=1, vocabulary=1, context=100)
MODEL = Architecture("m", "llama", "bfloat16", 110, 0, 10, DECODER, None)
MACHINE = dataclasses.replace(Machine.read(), bandwidth=10.0, rates={"bfloat16": 200.0, "float32": 1.0, "float8": 1.0})


def test_constants_stand_beside_what_was_measured() -> None:
    values = {
        each.name: each.measured
        for each in compare_constants(
            MACHINE,
            {"bandwidth": 9.0},
            {"step": 0.1, "turn": 0.02},
            {"step": 50.6, "prompt_token": 2.5},
            (MODEL, "bfloat16"),
        )
    }
    # 100 parameters of 2 bytes, and of half a token's cache 2, at 10 bytes a second take 20.2 s; they took 50.6 - 0.1
    assert values["decode"] == pytest.approx(0.4)
    # 2 operations x 100 parameters at 200 a second take 1 s; a token took 2.5
    assert values["prefill"] == pytest.approx(0.4)
    assert values["bandwidth"] == 9.0 and values["step"] == 0.1 and values["turn"] == 0.02
    assert values["bfloat16"] is None and values["picture"] is None and values["characters"] is None


def test_without_real_weights_the_shares_are_not_measured() -> None:
    values = {each.name: each.measured for each in compare_constants(MACHINE, {}, {"step": 0.1}, {}, None)}
    assert values["decode"] is None and values["prefill"] is None


class ShortSpoken:
    """Chat model whose replies have three tokens, whatever is asked for."""

    name = "short"

    def chat(self, requests: list[ChatRequest]) -> list[ChatReply]:
        return [ChatReply("one two three", "stop", (-0.1,) * min(3, request.max_tokens)) for request in requests]


def test_a_reply_that_ends_early_gives_no_time_of_a_token() -> None:
    seconds = measure_chat(ShortSpoken(), 2, lambda text: len(text.split()), sees=False)
    assert not {"step", "step_at_once", "picture"} & seconds.keys()


def hour(folder: Path, machine: str = "a card, an engine", **options: Any) -> Hour:
    gpu_hour = Hour(HourOptions(out=folder, **options), Console(quiet=True))
    gpu_hour.machine = machine
    return gpu_hour


def test_a_step_that_dies_says_so_and_is_run_again(tmp_path: Path) -> None:
    result = hour(tmp_path).run("gpu tiny", ("no_such_module_of_python",), "1/1")
    assert result["state"] == "failed"
    assert "status 1" in result["reason"] and "no_such_module_of_python" in result["reason"]
    earlier_result = '{"state": "done", "figure": 7, "of": "a card, an engine"}'
    (tmp_path / "gpu_tiny.json").write_text(earlier_result, encoding="utf-8")
    assert hour(tmp_path).run("gpu tiny", ("no_such_module_of_python",), "1/1")["figure"] == 7
    other = hour(tmp_path, machine="another card").run("gpu tiny", ("no_such_module_of_python",), "1/1")
    (tmp_path / "gpu_tiny.json").write_text(earlier_result, encoding="utf-8")
    again = hour(tmp_path, again=True).run("gpu tiny", ("no_such_module_of_python",), "1/1")
    assert other["state"] == again["state"] == "failed"


def test_half_a_result_is_measured_again(tmp_path: Path) -> None:
    (tmp_path / "gpu_tiny.json").write_text('{"state": "do', encoding="utf-8")
    assert hour(tmp_path).run("gpu tiny", ("no_such_module_of_python",), "1/1")["state"] == "failed"


def test_a_step_that_hangs_is_ended(tmp_path: Path) -> None:
    # The server of the standard library runs until it is ended.
    result = hour(tmp_path, step_minutes=0.02).run("gpu tiny", ("http.server", "0", "--bind", "127.0.0.1"), "1/1")
    assert result["state"] == "failed" and "ended after 0.02 minutes" in result["reason"]


def test_no_step_starts_once_the_time_is_up(tmp_path: Path) -> None:
    result = hour(tmp_path, minutes=1e-9).run("gpu tiny", ("no_such_module_of_python",), "1/1")
    assert result["state"] == "not started" and "run the same command again" in result["reason"]
    assert not (tmp_path / "gpu_tiny.json").exists()


def test_profiles_are_those_of_the_engine() -> None:
    assert choose_profiles("0.10.2") == ("gpu", "gpu_fp8", "gpu_qwen")
    assert choose_profiles("0.32.0") == ("gpu_current", "gpu_current_fp8")
    assert len(choose_profiles(None)) == 5


def test_neither_machine_nor_keys_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijkl")
    monkeypatch.setattr(socket, "gethostname", lambda: "borrowed-card")
    text = remove_names(f"{ROOT}/agents {Path.home()}/x on borrowed-card with hf_abcdefghijkl")
    assert text == "./agents ~/x on HOST with ***"


def test_an_engine_fills_the_share_that_it_is_given() -> None:
    plan = estimate_memory(use_local_configs(RunConfig.read("best", "gpu")), L40S_BYTES)
    [engine] = [row for row in plan.rows if row.engine]
    share = float(engine.checkpoint.options["gpu_memory_utilization"])
    assert plan_worst(plan) == pytest.approx(plan.needed + share * L40S_BYTES - engine.within_share, abs=1)


def test_a_profile_is_measured_on_the_cpu(pipeline: Any, tmp_path: Path) -> None:
    """Twenty turns of a GPU take minutes here: two, with the weights that the hour makes itself."""
    missing: list[str] = []
    batches = [[make_turn(0), make_turn(1)]]
    slow = ["limits.seconds_per_turn=600", "limits.seconds_per_dialog=1200"]  # whatever else this machine does
    config = RunConfig.read("best", "gpu", overrides=slow)
    profile_report = measure_profile(config, "tiny", batches, pipeline, tmp_path, missing.append)
    assert profile_report["turns"]["turns"] == 2 and profile_report["turns"]["failed"] == {}
    assert profile_report["start_up"]["failures"] == []
    named = {row["call"] for row in profile_report["calls"]}
    assert {"chat.chat", "coarse_reranker.score_multimodal", "fine_reranker.score", "detector.detect"} <= named
    assert all(row["measured"] > 0 for row in profile_report["calls"])
    assert {"step", "prompt_token", "call", "vector_query", "transformers_step", "turn"} <= profile_report[
        "constants"
    ].keys()
    assert profile_report["memory"]["worst"] >= profile_report["memory"]["before"] > 0
    steps = {
        "machine": {"state": "done", "gpu": None, "versions": {}},
        "gpu tiny": {"state": "done", "missing": missing, **profile_report},
    }
    report = write_report(steps, "best")
    assert json.loads(report.split("```json\n")[1].split("\n```")[0]) == json.loads(json.dumps(steps))
    assert "| gpu | tiny" in report and "| transformers_step |" in report
    text = " ".join(list_missing(steps))
    assert "torch has no GPU here" in text and "2.7 million chunks" in text


def make_turn(number: int) -> AskedTurn:
    turn = QuestionTurn(f"{number}-0", 0, "How tall is this tower?", "330 m")
    return AskedTurn(Session(str(number), (turn,), 0), turn, Image.new("RGB", (160 + number, 128), "gray"), (), (), {})


def test_what_is_missing_is_named_once_with_its_steps() -> None:
    steps: dict[str, dict[str, Any]] = {
        "gpu tiny": {"state": "done", "missing": ["no GPU"]},
        "gpu_fp8 tiny": {"state": "done", "missing": ["no GPU"]},
        "gpu real": {"state": "not measured", "reason": "no weights"},
    }
    assert list_missing(steps) == ["gpu tiny, gpu_fp8 tiny: no GPU", "gpu real: everything (not measured): no weights"]


def test_a_model_that_fails_is_not_timed() -> None:
    class Failing:
        name = "failing"

        def chat(self, requests: list[ChatRequest]) -> list[ChatReply]:
            return [ChatReply("", "error", error="out of memory") for _ in requests]

    with pytest.raises(Exception, match="cannot be timed: out of memory"):
        measure_chat(Failing(), 1, len, sees=False)
