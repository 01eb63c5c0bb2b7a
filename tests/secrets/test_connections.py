"""Every place that opens a connection is in SECURITY.md with the word that allows it, and a key in the environment is no such word."""

from __future__ import annotations

import ast
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.profiles.profile import load_profile
from evaluation.judge.judging import choose_judge
from evaluation.judge.options import JudgeOptions
from evaluation.judge.rule_judge import RuleJudge
from evaluation.rules import RULES
from evaluation.run.command import main
from tests.evaluation.worlds import ScriptedAgent, from_history, picture, row, use_agent, write_dataset

ROOT = Path(__file__).parents[2]
PACKAGES = ("agents", "apps", "evaluation", "training", "mini_crag_mm", "tools", "examples")

OPENS = {
    *(f"httpx.{name}" for name in ("get", "post", "head", "stream", "request", "Client", "AsyncClient")),
    *(f"openai.{name}" for name in ("OpenAI", "AsyncOpenAI")),
    *(f"huggingface_hub.{name}" for name in ("snapshot_download", "hf_hub_download", "HfApi")),
    *("urllib.request.urlopen", "http.client.HTTPSConnection", "httpcore.ConnectionPool", "requests.get"),
    *("socket.create_connection", "asyncio.open_connection", "ray.init", "uvicorn.Config", "datasets.load_dataset"),
    *("transformers.utils.cached_file", "transformers.utils.hub.cached_file"),
}
METHODS = {"from_pretrained", "snapshot_download"}
PROGRAMS = {"uv", "pip", "pip_audit", "curl", "wget"}
"""Programs that are started by name and may open a connection."""
LOCAL = {
    "agents/models/chat/openai_chat.py": "names the type of a client that server_connection.py opens",
    "apps/preflight/check.py": "starts what its callers name",
    "tools/screenshots.py": "asks this machine's own page",
}


def find_openings(text: str) -> Iterator[str]:
    """Names in a module that open connections: functions, also where they are passed on, methods, and programs that are started."""
    tree = ast.parse(text)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {
                each.asname or (first := each.name.partition(".")[0]): each.name if each.asname else first
                for each in node.names
            }
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            first, point, rest = ast.unparse(node).partition(".")
            if (name := f"{names.get(first, '')}{point}{rest}") in OPENS:
                yield name
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            yield f".{node.attr}"
        if isinstance(node, (ast.List, ast.Tuple)) and node.elts:
            words = [each.value for each in node.elts if isinstance(each, ast.Constant)]
            if PROGRAMS.intersection(word for word in words[:3] if isinstance(word, str)) and len(words) > 2:
                yield " ".join(map(str, words))


def test_a_connection_is_found_however_it_is_opened() -> None:
    text = (
        "import httpx\nfrom huggingface_hub import snapshot_download\nfrom urllib.request import urlopen as ask\n"
        "httpx.get(URL)\nrequests.get(0)\npartial(snapshot_download, NAME)\nask(URL)\nModel.from_pretrained(NAME)\n"
        'run([sys.executable, "-m", "pip", "download", NAME])\n'
    )
    assert {*find_openings(text)} == {  # a list called requests is no library
        *("httpx.get", "huggingface_hub.snapshot_download", "urllib.request.urlopen", ".from_pretrained"),
        "-m pip download",
    }


def test_every_place_that_opens_a_connection_is_in_the_table_with_its_word() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^## Which connections.*?(?=^## )", text, re.MULTILINE | re.DOTALL)
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")][1:]
    listed = {file for _, files, _ in rows for file in re.findall(r"`([\w/]+\.py)`", files)}
    assert all(word.strip() for _, _, word in rows)
    opening = {
        file.relative_to(ROOT).as_posix(): [*found]
        for package in PACKAGES
        for file in sorted((ROOT / package).rglob("*.py"))
        if (found := {*find_openings(file.read_text(encoding="utf-8"))})
    }
    unlisted = {file: found for file, found in opening.items() if file not in {*listed, *LOCAL}}
    assert unlisted == {}, "say in SECURITY.md by whose word"
    assert listed - {*opening} == set(), "these open no connection"


@pytest.mark.parametrize("rules", RULES)
def test_a_key_names_no_judge(rules: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of-another-vendor")
    assert isinstance(choose_judge(None, cache=tmp_path, rules=RULES[rules]), RuleJudge)


def test_a_run_with_a_key_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dataset(tmp_path, [row("s0", 2, "v0.1.2", picture(), None)], "v0.1.2")
    use_agent(monkeypatch, lambda *_, **__: ScriptedAgent(from_history))
    monkeypatch.setenv("OPENAI_API_KEY", "of-another-vendor")
    tried: list[Any] = []

    def refuse(_: socket.socket, address: Any) -> None:
        tried.append(address)
        raise OSError("refused")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    places = ["--dataset", str(tmp_path), "--cache", str(tmp_path / "cache"), "--output-dir", str(tmp_path / "out")]
    assert main(["--dataset-type", "multi-turn", *places, "--no_progress"]) == 0
    assert tried == []


def test_a_named_judge_is_asked_where_the_key_belongs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "of-another-vendor")
    ours, theirs = "http://127.0.0.1:9/v1", "http://127.0.0.1:8/v1"
    profile = load_profile("server_embedded")
    assert profile.find_server("OPENAI_API_KEY") is None
    served = profile.with_server_options({"base_url": ours})
    assert served.find_server("OPENAI_API_KEY") == ours
    assert served.with_server_options({"api_key_env": "MY_KEY"}).find_server("OPENAI_API_KEY") is None
    assert f"; {ours})" in JudgeOptions().judge("m", tmp_path, server=ours).name
    assert f"; {theirs})" in JudgeOptions(judge_url=theirs).judge("m", tmp_path, server=ours).name
