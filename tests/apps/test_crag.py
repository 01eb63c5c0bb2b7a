"""The command ``crag``: every command is there, is called by its name, and costs nothing before it is run."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import tomllib

import pytest

from agents.base.cache_folder import CACHE_VARIABLE, DEFAULT_CACHE
from agents.base.command_options import Flag, Options
from agents.profiles.profile import ROOT
from agents.settings.run_config import preset_names, profile_names
from apps import crag

each_command = pytest.mark.parametrize("command", crag.COMMANDS, ids=lambda command: command.name)


@each_command
def test_a_command_calls_itself_by_its_name_and_shows_defaults(
    command: crag.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert issubclass(getattr(command.load(), command.options), Options)
    with pytest.raises(SystemExit) as stopped:
        crag.main([command.name, "--help"])
    stdout = capsys.readouterr().out
    assert stopped.value.code == 0
    assert stdout.startswith(f"usage: crag {command.name} ") and "(default: " in stdout and "-v, --verbose" in stdout
    with pytest.raises(SystemExit) as stopped:
        crag.main([command.name, "--unheard-of"])
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"crag {command.name}: error: ")


PACKAGES = ("agents", "apps", "evaluation", "mini_crag_mm", "training")


@pytest.mark.parametrize(
    "module",
    [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if re.search(r"^    cache: .*Field\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    ],
)
def test_a_command_with_a_cache_finds_it_by_the_environment_else_in_the_repository(module: str) -> None:
    kinds = [kind for kind in vars(importlib.import_module(module)).values() if isinstance(kind, type)]
    fields = [
        field for kind in kinds if issubclass(kind, Options) and (field := kind.model_fields.get("cache")) is not None
    ]
    assert fields
    for field in fields:
        assert field.default == DEFAULT_CACHE and Flag(variable=CACHE_VARIABLE) in field.metadata


def test_the_list_of_commands_imports_none_of_them() -> None:
    heavy = ("torch", "numpy", "PIL", "rich", "pandas", "apps.terminal", "evaluation")
    code = f"""
import json, sys
from apps import crag
status = [crag.main(["--help"]), crag.main(["asc"])]
print(json.dumps([status, [name for name in {heavy!r} if name in sys.modules]]))
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    *lines, last = process.stdout.splitlines()
    assert json.loads(last) == [[0, 2], []]
    words = " ".join(lines).replace(",", "").split()
    assert {*(command.name for command in crag.COMMANDS), *preset_names(), *profile_names()} <= {*words}
    assert "there is no command 'asc'; did you mean 'ask'?" in process.stderr


@pytest.mark.parametrize("place", ["apps.crag.import_module", "apps.probe.probe_profile"])
def test_ctrl_c_ends_a_command_that_imports_or_runs_with_status_130(
    place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupt)
    assert crag.main(["probe", "--base-url", "http://localhost:1/v1", "--model-name", "own"]) == 130
    assert capsys.readouterr().err == "stopped\n"


def test_too_little_memory_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("apps.probe.probe_profile", fill)
    assert crag.main(["probe", "--base-url", "http://localhost:1/v1", "--model-name", "own"]) == 2
    assert capsys.readouterr().err.startswith("error: there is not enough memory")


def test_the_script_of_the_project_is_this_command() -> None:
    module, _, name = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["crag"].partition(":")
    assert getattr(importlib.import_module(module), name) is crag.main


def test_the_version_is_that_of_the_project_the_citation_and_the_change_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert crag.main(["--version"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert line == f"crag {version}"
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    latest = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released, dev, _ = version.partition(".dev")
    assert latest and latest[1].startswith(f"[Unreleased] - to be {released}" if dev else f"[{released}] - 20")


def test_bash_completes_commands_options_and_presets(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab", reason="make install")
    assert crag.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out

    def complete(*words: str) -> list[str]:
        typed = " ".join(words)
        ask = f'COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _shtab_crag; printf "%s\\n" "${{COMPREPLY[@]}}"'
        process = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True)
        return process.stdout.split()

    assert complete("crag", "le") == ["leaderboard"]
    assert complete("crag", "compare", "--base") == ["--base-url"]
    assert complete("crag", "ask", "--preset", "q") == ["qa_dragon"]


def test_completion_names_the_shells_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert crag.main(["completion", "fish"]) == 2
    assert "bash, zsh, tcsh" in capsys.readouterr().err


def test_the_evaluation_outside_its_environment_says_what_to_do() -> None:
    bare = [sys.executable, "-I", "-S", "local_evaluation.py", "--help"]  # without the libraries of the environment
    process = subprocess.run(bare, capture_output=True, text=True, cwd=ROOT, check=False)
    (line,) = process.stderr.splitlines()
    assert process.returncode == 1 and "make install" in line and "source .venv/bin/activate" in line
