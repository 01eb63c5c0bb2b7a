"""The folder in which a page keeps its uploads; it needs no gradio."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from apps import web

VARIABLE = "GRADIO_TEMP_DIR"


@pytest.mark.parametrize("before", [None, ""])
def test_the_variable_is_afterwards_as_it_was(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if before is not None:
        monkeypatch.setenv(VARIABLE, before)
    with web.own_upload_folder():
        folder = Path(os.environ[VARIABLE])
        assert folder.is_dir()
    assert os.environ.get(VARIABLE) == before and not folder.exists()


def test_a_page_whose_uploads_have_no_place_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file" / "uploads"))
    assert web.main(["--port", "0"]) == 2
    message = capsys.readouterr().err
    assert message.startswith(
        "error: making a folder for uploads (GRADIO_TEMP_DIR or TMPDIR says where): Not a directory"
    )
    assert message.count("\n") == 1


def test_a_page_without_room_for_uploads_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert web.main(["--port", "0"]) == 2
    assert "error: making a folder for uploads" in capsys.readouterr().err
