"""The command ``crag web`` before its page is there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from apps import web
from apps.answering import AnswererOptions


def test_a_page_without_gradio_is_told_before_models_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[AnswererOptions] = []
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    monkeypatch.setattr(web, "start", started.append)
    monkeypatch.setitem(sys.modules, "gradio", None)
    monkeypatch.delitem(sys.modules, "apps.page", raising=False)
    assert web.main(["--port", "0"]) == 2 and not started
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: the page needs gradio (") and "run make web" in line
