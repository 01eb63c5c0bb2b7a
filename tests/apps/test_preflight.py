"""The preflight: aicrowd.json for each task, every way in which a submission would fail, and the network held shut."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.profiles.profile import ROOT, Profile
from agents.profiles.weights import cached_revision, resolve_weights, with_found_weights
from agents.search.build_index import main as build_index
from agents.search.hits import SearchError
from agents.settings.presets import Settings
from agents.settings.run_config import RunConfig, preset_names
from apps.preflight import rehearsal, repository
from apps.preflight.__main__ import check_memory, conclude, is_ready
from apps.preflight.check import Check, run_check
from apps.preflight.hub_access import Access, check_access
from apps.preflight.memory import L40S_BYTES
from apps.preflight.submission import (
    CHALLENGES,
    check_gate,
    check_image_choices,
    check_limits,
    check_submission,
    list_models,
    write_submission,
)
from tests.search.conftest import write_sources
from tests.support.local_configs import use_local_configs

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def pinned(config: RunConfig, commit: str = COMMIT) -> RunConfig:
    """The configuration with a revision for each model of the profile, whatever the profile itself pins."""

    def pin(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: pin(inner) for key, inner in value.items()} | ({"revision": commit} if "path" in value else {})

    search = config.profile.search.model_copy(update={"image_revision": commit, "text_revision": commit})
    profile = config.profile.model_copy(update={"models": pin(config.profile.models), "search": search})
    return dataclasses.replace(config, profile=profile)


BEST = pinned(RunConfig.read("best", "gpu"), "main")


def changed(settings: Settings) -> RunConfig:
    return dataclasses.replace(BEST, settings=settings)


def write_pinned(path: Path, task: int, config: RunConfig = BEST) -> dict[str, Any]:
    """``aicrowd.json`` for a task, with a commit for each model."""
    write_submission(path, task, config)
    table: dict[str, Any] = json.loads(path.read_text())
    for model in table["hf_models"]:
        model["revision"] = COMMIT
    path.write_text(json.dumps(table))
    return table


def states(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.state for check in checks}


def test_the_rehearsal_searches_the_indices_that_there_are(tmp_path: Path) -> None:
    """`make demo` prepares public_test alone."""
    config = RunConfig.read("best", "embedded", cache=tmp_path / "cache")
    with pytest.raises(SearchError, match="no image index"):
        rehearsal.open_search(config, web=True)
    world = write_sources(tmp_path)
    made_of = ["--images", str(world.images), "--kg", str(world.kg), "--pages", str(world.pages)]
    assert build_index([*made_of, "--split", "public_test", "--cache", str(world.cache), "--no-progress"]) == 0
    assert world.cache == config.cache
    assert len(rehearsal.open_search(config, web=True)("anything", k=2)) == 2


@pytest.mark.parametrize("task", [1, 2, 3])
def test_what_is_written_for_a_task_passes(task: int, tmp_path: Path) -> None:
    path = tmp_path / "aicrowd.json"
    path.write_text(json.dumps({"authors": ["somebody"], "challenge_id": "old", "hf_models": [{"repo_id": "a/b"}]}))
    table = write_pinned(path, task)
    assert table["challenge_id"] == CHALLENGES[task] and table["authors"] == ["somebody"] and table["gpu"] is True
    assert set(states(check_submission(path, pinned(BEST))).values()) == {"ok"}
    assert write_submission(path, task, BEST) == table  # revisions are kept
    assert states(check_submission(path, BEST))["revisions pinned"] == "warning"  # the agent would load main at home
    moved = pinned(BEST, COMMIT[::-1])
    finding = {check.name: check for check in check_submission(path, moved)}["revisions pinned"]
    assert (
        finding.state == "failed" and f"@{COMMIT}, but @{COMMIT[::-1]} in the profile" in finding.found and finding.fix
    )
    assert {model["revision"] for model in write_submission(path, task, moved)["hf_models"]} == {COMMIT[::-1]}
    assert set(states(check_submission(path, moved)).values()) == {"ok"}


@pytest.mark.parametrize("content", [b'{ "challenge_id": ', b"", b"\xff", b"[" * 101 + b"]" * 101, b"[]"])
def test_an_older_file_that_is_broken_is_named_with_advice(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "aicrowd.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))} is no JSON.*; remove it, and it is written anew$"):
        write_submission(path, 2, BEST)
    assert path.read_bytes() == content


def test_task_1_takes_no_encoder_for_the_web() -> None:
    one, two = (list_models(RunConfig.read("direct_rag", "gpu"), task) for task in (1, 2))
    assert set(two) - set(one) == {"BAAI/bge-large-en-v1.5"}
    assert "meta-llama/Llama-3.2-11B-Vision-Instruct" in one and "openai/clip-vit-large-patch14-336" in one


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        (lambda table: table.update(challenge_id="multi"), "aicrowd.json"),
        (lambda table: table.update(gpu=False), "aicrowd.json"),
        (lambda table: table.pop("hf_models"), "aicrowd.json"),
        (lambda table: table["hf_models"].append({"repo_id": "a/b", "revision": COMMIT}), "models listed"),
        (lambda table: table["hf_models"].append(dict(table["hf_models"][0])), "models listed"),
        (lambda table: table["hf_models"].pop(), "models listed"),
        (lambda table: table["hf_models"][0].update(revision=""), "revisions pinned"),
    ],
)
def test_faults_that_would_cost_the_submission_are_found_with_advice(change: Any, failing: str, tmp_path: Path) -> None:
    path = tmp_path / "aicrowd.json"
    table = write_pinned(path, 2)
    change(table)
    path.write_text(json.dumps(table))
    bad = [check for check in check_submission(path, BEST) if check.state == "failed"]
    assert [check.name for check in bad] == [failing]
    assert bad[0].fix


@pytest.mark.parametrize(
    ("access", "state", "ending"),
    [
        ({}, "ok", "all public"),
        ({"us/aicrowd-model": "gated"}, "warning", "gated: us/aicrowd-model"),
        ({"us/model": "gated", "us/aicrowd-model": "gated"}, "warning", "without 'aicrowd' in the name: us/model"),
        ({"us/model": "hidden"}, "failed", "private or not there: us/model"),
    ],
)
def test_the_organiser_has_to_be_let_into_every_repository(access: dict[str, Access], state: str, ending: str) -> None:
    models = ["us/model", "us/aicrowd-model"]
    finding = check_access(models, lambda model: access.get(model, "public"))
    assert finding.state == state and finding.found.endswith(ending)
    assert state == "ok" or "'aicrowd'" in finding.fix


def test_where_no_hub_can_be_reached_access_is_not_judged() -> None:
    def silent(_: str) -> Access:
        raise ConnectionError("no network")

    assert check_access(["us/model"], silent).state == "skipped"
    assert check_access(["us/model"], silent, quick=True).found == "--quick"


def test_no_file_and_a_broken_one_are_failures(tmp_path: Path) -> None:
    path = tmp_path / "aicrowd.json"
    assert check_submission(path, BEST)[0].found == "there is none"
    path.write_text("{")
    assert check_submission(path, BEST)[0].state == "failed"


def test_a_preset_without_web_search_is_not_for_task_2(tmp_path: Path) -> None:
    path = tmp_path / "aicrowd.json"
    offline = changed(BEST.settings.without(["web_search"]))
    for task, state in ((2, "failed"), (1, "ok")):
        write_pinned(path, task, offline)
        assert states(check_submission(path, offline))["task"] == state


@pytest.mark.parametrize("field", ["seconds_per_turn", "seconds_per_dialog", "answer_tokens"])
def test_limits_beyond_those_of_the_challenge_are_found(field: str) -> None:
    wider = BEST.settings.limits.model_copy(update={field: 75})
    finding = check_limits(BEST.settings.model_copy(update={"limits": wider}))
    assert finding.state == "failed" and field in finding.found and finding.fix


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_keeps_them_under_the_profile_that_is_submitted(preset: str) -> None:
    assert check_limits(RunConfig.read(preset, "gpu").settings).state == "ok"


def test_the_image_has_to_run_the_preset_that_is_checked(tmp_path: Path) -> None:
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("FROM x\n")
    assert {each.state for each in check_image_choices("best", "gpu", dockerfile)} == {"ok"}
    preset, profile = check_image_choices("cruise", "gpu_fp8", dockerfile)
    assert preset.fix == "ENV CRAG_PRESET=cruise in the Dockerfile, or leave --preset out to check what the image runs"
    assert profile.state == "failed" and profile.fix.startswith("ENV CRAG_PROFILE=gpu_fp8 in the Dockerfile, or leave")
    dockerfile.write_text(
        "FROM x\nENV CRAG_PRESET=best \\\n    CRAG_PROFILE=gpu_fp8\n# CRAG_PRESET=own\nENV CRAG_PRESET cruise\n"
    )
    assert {each.state for each in check_image_choices("cruise", "gpu_fp8", dockerfile)} == {"ok"}
    assert check_image_choices(str(ROOT / "presets/cruise.toml"), "gpu", dockerfile)[0].state == "ok"


def test_the_image_runs_no_file_that_it_does_not_have(tmp_path: Path) -> None:
    dockerfile, outside = tmp_path / "Dockerfile", tmp_path / "gpu.toml"
    dockerfile.write_text("FROM x\n")
    _, profile = check_image_choices("best", str(outside), dockerfile)
    assert (profile.state, profile.fix) == ("failed", f"copy {outside} to profiles/gpu.toml, then CRAG_PROFILE=gpu")
    dockerfile.write_text("FROM x\nENV CRAG_PROFILE=profiles/gpu_fp8.toml\n")
    assert check_image_choices("best", "gpu_fp8", dockerfile)[1].state == "ok"


def test_a_cache_filled_with_a_commit_is_found_without_its_main(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert resolve_weights("us/model") == "us/model"
    snapshot = tmp_path / "models--us--model" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    assert resolve_weights("us/model") == str(snapshot)
    profile = Profile(name="p", models={"reranker": {"kind": "cosine", "encoder": {"kind": "x", "path": "us/model"}}})
    assert with_found_weights(profile).models["reranker"]["encoder"]["path"] == str(snapshot)
    assert cached_revision("us/model") == COMMIT
    (snapshot.parent / ("f" * 40)).mkdir()
    assert resolve_weights("us/model") == "us/model"  # which of the two is not ours to guess
    assert resolve_weights("us/model", COMMIT) == str(snapshot)
    # A commit that the profile names is never replaced by another; its folder is taken where no hub could complete it.
    assert resolve_weights("us/model", "e" * 40, pinned=True) == "us/model"
    assert resolve_weights("us/model", COMMIT, pinned=True) == str(snapshot)
    monkeypatch.setattr("agents.profiles.weights.no_hub", lambda: None)
    assert resolve_weights("us/model", COMMIT, pinned=True) == "us/model"
    main = tmp_path / "models--us--model" / "refs" / "main"
    main.parent.mkdir()
    main.write_text(COMMIT)
    assert resolve_weights("us/model") == "us/model"


REPORT: dict[str, Any] = {
    "start_up": 12.0, "failures": [], "cut": [], "tokenizer": "Llama", "attempts": [],
    "turns": 4, "seconds": 40.0, "answers": ["a"] * 4, "tokens": [7] * 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("checks", "caption"),
    [
        ([Check("a", "ok", "")], "ready to submit"),
        ([Check("a", "ok", ""), Check("b", "skipped", "", decides=False)], "ready to submit"),
        ([Check("a", "warning", "")], "ready to submit; look at the warnings: a"),
        ([Check("a", "skipped", ""), Check("b", "skipped", "")], "not known, since skipped: a, b"),
        ([Check("a", "failed", ""), Check("b", "skipped", "")], "1 failed; not known, since skipped: b"),
    ],
)
def test_only_what_was_looked_at_is_ready(checks: list[Check], caption: str) -> None:
    assert conclude(checks) == caption
    assert is_ready(checks) is caption.startswith("ready")


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, None),
        ({"attempts": ["connect ('1.2.3.4', 443)"]}, "offline"),
        ({"failures": ["load reranker: gone"]}, "offline"),
        ({"start_up": 601.0}, "time"),
        ({"seconds": 40.5}, "time"),  # the challenge gives a turn 10 s, whatever the profile
        ({"answers": ["a"] * 3}, "answers"),
        ({"answers": ["a"] * 3 + [" "]}, "answers"),
        ({"tokens": [75] * 4}, "answers"),
    ],
)
def test_the_report_of_the_rehearsal_is_judged_by_the_limits(change: dict[str, Any], failing: str | None) -> None:
    bad = [check.name for check in rehearsal.judge({**REPORT, **change}) if check.state == "failed"]
    assert bad == ([failing] if failing else [])


def test_an_agent_that_keeps_the_time_by_leaving_stages_out_is_no_ok() -> None:
    [_, timed, _] = rehearsal.judge({**REPORT, "cut": ["answer"]})
    assert (timed.name, timed.state) == ("time", "warning") and timed.found.endswith("too little for: answer")


def test_the_agents_process_has_the_images_environment_and_the_challenges_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"CRAG_PRESET": "cruise", "CRAG_REPLY_TOKENS": "1", "CRAG_CACHE_DIR": "pictures"}.items():
        monkeypatch.setenv(name, value)  # of whoever runs the preflight: the image has its own
    image = {
        "CRAG_PRESET": "direct_rag",
        "CRAG_PROFILE": "gpu_fp8",
        "PATH": "/opt/bin",
        "HF_HOME": "/models",
        "MINE": "1",
    }
    env = rehearsal.make_environment(image, tmp_path)
    assert (env["CRAG_PRESET"], env["CRAG_PROFILE"], env["MINE"]) == ("direct_rag", "gpu_fp8", "1")
    assert (env["CRAG_CACHE"], env["CRAG_CACHE_DIR"], env["HF_HUB_OFFLINE"]) == (str(tmp_path), "pictures", "1")
    assert env["PATH"] != "/opt/bin" and "CRAG_REPLY_TOKENS" not in env and env.get("HF_HOME") != "/models"
    ours = rehearsal.make_environment(image, tmp_path, "embedded")
    assert (ours["CRAG_PROFILE"], ours["CRAG_LIMITS__SECONDS_PER_TURN"]) == ("embedded", "10")
    assert ours["CRAG_LIMITS__SECONDS_PER_DIALOG"] == "30"


def test_the_network_is_shut_for_the_whole_process() -> None:
    code = (
        "from evaluation.run.agent_child import block_network\n"
        "tried = block_network()\n"
        "import socket, urllib.request\n"
        "for reach in (lambda: socket.create_connection(('127.0.0.1', 9)), lambda: urllib.request.urlopen('http://example.org')):\n"
        "    try: reach()\n"
        "    except OSError as error: assert 'blocked' in str(error), error\n"
        "    else: raise SystemExit('reached')\n"
        "a, b = socket.socketpair()\n"
        "print(len(tried))\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert process.returncode == 0, process.stderr
    assert int(process.stdout) >= 2


def test_the_dockerfile_keeps_the_rules(tmp_path: Path) -> None:
    assert "failed" not in states(repository.check_dockerfile(ROOT / "Dockerfile")).values()
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM python\nUSER 1001\nWORKDIR /home/aicrowd\n")
    assert states(repository.check_dockerfile(bad))["Dockerfile's user and folder"] == "failed"
    bad.write_text("FROM python:3.11\nWORKDIR /app\n")
    assert "/home/aicrowd" in repository.check_dockerfile(bad)[-1].fix


def test_a_gate_that_was_fitted_to_other_models_is_told() -> None:
    fitted, none = RunConfig.read("best", "embedded"), RunConfig.read("vlm_only", "gpu")
    finding = check_gate(BEST)
    assert (
        finding.state == "warning"
        and "no gate fitted for meta-llama/Llama-3.2-11B-Vision-Instruct + openai/clip" in finding.found
    )
    assert [check_gate(config).state for config in (fitted, none)] == ["ok", "ok"]


def test_a_check_that_breaks_has_failed() -> None:
    assert run_check("x", lambda: 1 / 0)[0].state == "failed"  # type: ignore[return-value, arg-type]


def test_quick_leaves_the_resolver_out_and_says_so() -> None:
    finding = repository.check_requirements(ROOT / "requirements.txt", quick=True)
    assert finding.state == "skipped" and "--quick" in finding.found
    gone = repository.check_requirements(ROOT / "requirements_of_nobody.txt", quick=True)
    assert (gone.state, gone.found) == ("failed", "there is none")


def test_large_files_and_keys_are_named(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "weights.bin").write_bytes(b"0" * (repository.MAX_BYTES + 1))
    (tmp_path / "notes.txt").write_text("token: hf_" + "a" * 34)
    (tmp_path / "untracked.txt").write_text("hf_" + "b" * 34)
    subprocess.run(["git", "-C", str(tmp_path), "add", "weights.bin", "notes.txt"], check=True)
    size, keys = repository.check_files(tmp_path)
    assert (size.state, size.found) == ("failed", "weights.bin") and "git lfs" in size.fix
    assert (keys.state, keys.found) == ("failed", "notes.txt")


def test_this_repository_has_neither() -> None:
    assert "failed" not in states(repository.check_files(ROOT)).values()


def test_models_without_config_json_are_told_and_nothing_fails() -> None:
    finding = check_memory(BEST, L40S_BYTES)
    assert finding.state == "skipped" and "no config.json of meta-llama" in finding.found
    assert check_memory(use_local_configs(BEST), L40S_BYTES).state == "ok"
    assert check_memory(use_local_configs(BEST), 24_000_000_000).state == "failed"
