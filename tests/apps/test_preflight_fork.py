"""``python -m apps.preflight --agent-root``: a fork of the starter kit is checked and rehearsed under its own interpreter."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from apps.preflight import __main__ as preflight
from apps.preflight import fork, rehearsal
from apps.preflight.check import Check
from apps.preflight.fork import run_fork
from tests.apps.clones import commit
from tests.evaluation.kits import kit as kit
from tests.evaluation.kits import own_python as own_python

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = {"repo_id": "meta-llama/Llama-3.2-11B-Vision-Instruct", "revision": COMMIT}


@pytest.fixture
def root(kit: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone that could be submitted, but for what nobody can find out here."""
    table = {"challenge_id": "multi-turn-qa", "gpu": True, "hf_models": [MODEL], "authors": ["somebody"]}
    (kit / "aicrowd.json").write_text(json.dumps(table))
    (kit / "requirements.txt").write_text("")
    (kit / "Dockerfile").write_text("FROM python:3.11\nWORKDIR /home/aicrowd\nCOPY . .\n")
    subprocess.run(["git", "init", "-q", str(kit)], check=True)
    commit(kit)
    monkeypatch.setattr(rehearsal, "open_search", lambda *_, **__: lambda query, k: [])
    monkeypatch.setattr(
        fork, "check_requirements", lambda *_, **__: Check("requirements.txt installable", "ok", "0 packages")
    )
    monkeypatch.setattr(fork, "check_access", lambda *_, **__: Check("access to models", "ok", "all public"))
    return kit


def states(checks: list[Check]) -> dict[str, str]:
    return {each.name: each.state for each in checks if each.name != "Dockerfile lint"}


def test_a_fork_is_checked_and_rehearsed(root: Path, own_python: Path, tmp_path: Path) -> None:
    checks = run_fork(root, own_python, tmp_path / "cache")
    assert set(states(checks)) >= {
        "aicrowd.json",
        "revisions pinned",
        "models admitted",
        "size of files",
        "offline",
        "time",
    }
    assert set(states(checks).values()) == {"ok"}, checks
    assert "of 40 s" in next(each.found for each in checks if each.name == "time")  # 4 turns
    assert preflight.conclude(checks) == "ready to submit"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("raise KeyError('gpu')", "KeyError: 'gpu'"),
        ("import socket; socket.create_connection(('127.0.0.1', 9))", "the network is blocked"),
        ("return queries[1:]", "not one for each turn"),
        ("return [None for _ in queries]", "not one text for each turn"),
    ],
)
def test_what_would_cost_the_submission_fails(
    line: str, found: str, root: Path, own_python: Path, tmp_path: Path
) -> None:
    agent = (
        "from agents.my_agent import MyAgent\n"
        "class UserAgent(MyAgent):\n"
        f"    def batch_generate_response(self, queries, images, message_histories):\n        {line}\n"
    )
    (root / "agents" / "user_config.py").write_text(agent)
    commit(root)
    [bad] = [each for each in run_fork(root, own_python, tmp_path / "cache") if each.state == "failed"]
    assert found in bad.found and bad.fix


def test_answers_that_the_evaluator_cuts_are_told(root: Path, own_python: Path, tmp_path: Path) -> None:
    (root / "agents" / "helpers.py").write_text("def reply(*_): return 'word ' * 75\n")
    commit(root)
    checks = run_fork(root, own_python, tmp_path / "cache")
    assert states(checks)["answers"] == "warning" and preflight.conclude(checks).startswith("ready to submit")


def test_an_agent_that_cannot_be_built_fails_with_its_reason(root: Path, own_python: Path, tmp_path: Path) -> None:
    (root / "agents" / "user_config.py").write_text("import vllm_of_nobody\n")
    commit(root)
    [bad] = [each for each in run_fork(root, own_python, tmp_path / "cache") if each.state == "failed"]
    assert bad.name == "rehearsal" and "No module named 'vllm_of_nobody'" in bad.found


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({"challenge_id": "multi"}, "aicrowd.json"),
        ({"hf_models": [{**MODEL, "revision": ""}]}, "revisions pinned"),
        ({"hf_models": [{"repo_id": "Qwen/Qwen2.5-VL-7B-Instruct", "revision": COMMIT}]}, "models admitted"),
    ],
)
def test_faults_of_its_aicrowd_json_are_found(
    change: dict[str, Any], failing: str, root: Path, own_python: Path
) -> None:
    path = root / "aicrowd.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    commit(root)
    checks = run_fork(root, own_python, root.parent, quick=True)
    assert [each.name for each in checks if each.state == "failed"] == [failing]


def test_the_command_takes_a_fork_and_is_not_ready_by_a_quick_look(
    root: Path, own_python: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--agent-root", str(root), "--agent-python", str(own_python), "--quick", "--cache", str(root.parent)]
    assert preflight.main(arguments) == 0
    assert "not known, since skipped: rehearsal" in capsys.readouterr().out
    assert preflight.main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ready"] is False
    assert preflight.main(["--agent-root", str(root / "gone")]) == 1
    assert "is no folder; name the clone of the fork" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        preflight.main([*arguments, "--task", "2"])
