"""The preflight: aicrowd.json for each task, every way in which a submission would fail, and the network held shut."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.launch import preset_names
from agents.preflight import image, running
from agents.preflight.check import Check, guarded
from agents.preflight.submission import CHALLENGES, check_limits, check_preset, check_submission, wanted_models, write
from agents.prompts import PromptLibrary
from agents.runtime.equipment import with_found_weights
from agents.runtime.revisions import Pin, is_commit, loadable, pins
from agents.settings import PRESETS, PROMPTS, ROOT, Profile, Settings, load_profile, load_settings, names, settings_from

LIBRARY = PromptLibrary(PROMPTS)
GPU = load_profile("gpu")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def settings() -> Settings:
    return load_settings("best", "gpu")


def pinned(models: list[str]) -> dict[str, Pin]:
    return {model: Pin(COMMIT) for model in models}


def states(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.state for check in checks}


@pytest.mark.parametrize("task", [1, 2, 3])
def test_what_is_written_for_a_task_passes(task: int, tmp_path: Path) -> None:
    path = tmp_path / "aicrowd.json"
    path.write_text(json.dumps({"authors": ["somebody"], "challenge_id": "old", "hf_models": [{"repo_id": "a/b"}]}))
    models = wanted_models(settings(), GPU, LIBRARY, task)
    table = write(path, task, models, pinned(models))
    assert table["challenge_id"] == CHALLENGES[task] and table["authors"] == ["somebody"] and table["gpu"] is True
    assert set(states(check_submission(path, settings(), GPU, LIBRARY)).values()) == {"ok"}


def test_task_1_takes_no_encoder_for_the_web() -> None:
    one, two = (wanted_models(load_settings("direct_rag", "gpu"), GPU, LIBRARY, task) for task in (1, 2))
    assert set(two) - set(one) == {"BAAI/bge-large-en-v1.5"}
    assert "meta-llama/Llama-3.2-11B-Vision-Instruct" in one and "openai/clip-vit-large-patch14-336" in one


def test_an_adapter_of_the_preset_is_listed() -> None:
    adapted = settings().model_copy(update={"lora": settings_from(
        {"stages": [], "lora": {"name": "ours", "path": "us/adapter"}}
    ).lora})  # fmt: skip
    assert "us/adapter" in wanted_models(adapted, GPU, LIBRARY, 2)


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        (lambda table: table.update(challenge_id="multi"), "aicrowd.json"),
        (lambda table: table.update(gpu=False), "aicrowd.json"),
        (lambda table: table.pop("hf_models"), "aicrowd.json"),
        (lambda table: table["hf_models"].append({"repo_id": "a/b", "revision": COMMIT}), "models listed"),
        (lambda table: table["hf_models"].append(dict(table["hf_models"][0])), "models listed"),
        (lambda table: table["hf_models"].pop(), "models listed"),
        (lambda table: table["hf_models"][0].update(revision="main"), "revisions pinned"),
        (lambda table: table["hf_models"][0].update(revision=""), "revisions pinned"),
    ],
)
def test_what_would_cost_the_submission_is_found_with_its_mend(change: Any, failing: str, tmp_path: Path) -> None:
    path = tmp_path / "aicrowd.json"
    models = wanted_models(settings(), GPU, LIBRARY, 2)
    table = write(path, 2, models, pinned(models))
    change(table)
    path.write_text(json.dumps(table))
    bad = [check for check in check_submission(path, settings(), GPU, LIBRARY) if check.state == "failed"]
    assert [check.name for check in bad] == [failing]
    assert bad[0].mend


def test_no_file_and_a_broken_one_are_failures(tmp_path: Path) -> None:
    path = tmp_path / "aicrowd.json"
    assert check_submission(path, settings(), GPU, LIBRARY)[0].found == "there is none"
    path.write_text("{")
    assert check_submission(path, settings(), GPU, LIBRARY)[0].state == "failed"


def test_a_preset_without_web_search_is_not_for_task_2(tmp_path: Path) -> None:
    path = tmp_path / "aicrowd.json"
    offline = settings().without(["web_search"])
    models = wanted_models(offline, GPU, LIBRARY, 2)
    write(path, 2, models, pinned(models))
    assert states(check_submission(path, offline, GPU, LIBRARY))["task"] == "failed"
    write(path, 1, models, pinned(models))
    assert states(check_submission(path, offline, GPU, LIBRARY))["task"] == "ok"


@pytest.mark.parametrize("field", ["seconds_per_turn", "seconds_per_dialog", "answer_tokens"])
def test_limits_beyond_those_of_the_challenge_are_found(field: str) -> None:
    assert check_limits(settings()).state == "ok"
    wider = settings().limits.model_copy(update={field: 76})
    found = check_limits(settings().model_copy(update={"limits": wider}))
    assert found.state == "failed" and field in found.found and found.mend


@pytest.mark.parametrize("preset", names(PRESETS))
def test_every_preset_keeps_them_under_the_profile_that_is_submitted(preset: str) -> None:
    assert check_limits(load_settings(preset, "gpu")).state == "ok"


def test_the_image_has_to_run_the_preset_that_is_checked(tmp_path: Path) -> None:
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("FROM x\n")
    assert check_preset("best", dockerfile).state == "ok"
    assert check_preset("cruise", dockerfile).mend == "ENV CRAG_PRESET=cruise in the Dockerfile"
    dockerfile.write_text("FROM x\nENV CRAG_PRESET=cruise\n")
    assert check_preset("cruise", dockerfile).state == "ok"


def test_every_model_that_a_preset_can_load_has_an_entry_for_its_revision() -> None:
    known = pins()
    for preset in preset_names():
        for model in wanted_models(load_settings(preset, "gpu"), GPU, LIBRARY, 2):
            assert model in known, f"{model} is missing in agents/data/model_revisions.toml"
    assert all(pin.revision == "" or is_commit(pin.revision) for pin in known.values())


def test_a_cache_filled_with_a_commit_is_found_without_its_main(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert loadable("us/model") == "us/model"
    snapshot = tmp_path / "models--us--model" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    assert loadable("us/model") == str(snapshot)
    profile = Profile(name="p", models={"reranker": {"kind": "cosine", "encoder": {"kind": "x", "path": "us/model"}}})
    assert with_found_weights(profile).models["reranker"]["encoder"]["path"] == str(snapshot)
    (snapshot.parent / ("f" * 40)).mkdir()
    assert loadable("us/model") == "us/model"  # which of the two is not ours to guess
    assert loadable("us/model", COMMIT) == str(snapshot)
    main = tmp_path / "models--us--model" / "refs" / "main"
    main.parent.mkdir()
    main.write_text(COMMIT)
    assert loadable("us/model") == "us/model"


REPORT: dict[str, Any] = {
    "start_up": 12.0, "start_up_failures": [], "seconds": 40.0, "answers": ["a"] * 16, "turns": 16, "tokens": [7] * 16,
    "tokenizer": "Llama", "without_search": "", "attempts": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, None),
        ({"attempts": ["connect ('1.2.3.4', 443)"]}, "offline run"),
        ({"start_up_failures": ["load reranker: gone"]}, "offline run"),
        ({"without_search": "no index"}, "offline run"),
        ({"start_up": 601.0}, "time"),
        ({"seconds": 160.5}, "time"),
        ({"answers": ["a"] * 15}, "answers"),
        ({"answers": ["a"] * 15 + [" "]}, "answers"),
        ({"tokens": [76] * 16}, "answers"),
    ],
)
def test_the_report_of_the_offline_run_is_judged_by_the_limits(change: dict[str, Any], failing: str | None) -> None:
    bad = [check.name for check in running.judge({**REPORT, **change}) if check.state == "failed"]
    assert bad == ([failing] if failing else [])


def test_importing_the_agent_is_quick_and_loads_nothing() -> None:
    assert running.check_import().state == "ok"


def test_the_network_is_shut_for_the_whole_process() -> None:
    code = (
        "from agents.preflight.rehearsal import block_network\n"
        "tried = block_network()\n"
        "import socket, urllib.request\n"
        "for reach in (lambda: socket.create_connection(('127.0.0.1', 9)), lambda: urllib.request.urlopen('http://example.org')):\n"
        "    try: reach()\n"
        "    except OSError as error: assert 'blocked' in str(error), error\n"
        "    else: raise SystemExit('reached')\n"
        "a, b = socket.socketpair()\n"
        "print(len(tried))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 2


def test_the_dockerfile_keeps_the_rules(tmp_path: Path) -> None:
    assert "failed" not in states(image.check_dockerfile(ROOT / "Dockerfile")).values()
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM python\nUSER root\nWORKDIR /app\n")
    assert states(image.check_dockerfile(bad))["Dockerfile's user and folder"] == "failed"
    bad.write_text("FROM python:3.11\nUSER 1001\nWORKDIR /app\n")
    assert "/home/aicrowd" in image.check_dockerfile(bad)[-1].mend


def test_a_check_that_breaks_has_failed() -> None:
    assert guarded("x", lambda: 1 / 0)[0].state == "failed"  # type: ignore[return-value, arg-type]


def test_quick_leaves_the_resolver_out_and_says_so() -> None:
    found = image.check_requirements(ROOT / "requirements.txt", quick=True)
    assert found.state == "skipped" and "--quick" in found.found
