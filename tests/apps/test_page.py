"""The page itself, where gradio is installed (`make test-web`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.apps.answering import Answerer
from tests.apps.conftest import PHOTO, crag_agent

gradio = pytest.importorskip("gradio", reason="gradio is not installed: make test-web")
from agents.apps.page import build  # noqa: E402


@pytest.fixture
def answer() -> Iterator[Any]:
    """What happens between a question and its answer."""
    page = build(Answerer(crag_agent()))
    functions = {function.name: function.fn for function in page.fns.values()}
    yield functions["answer"]


def test_an_answer_comes_with_its_details(answer: Any, tmp_path: Path) -> None:
    PHOTO.save(tmp_path / "photo.png")
    asked = [{"role": "user", "content": [{"type": "text", "text": "How tall is this?"}]}]  # as gradio passes it
    talk, told = answer(str(tmp_path / "photo.png"), asked)
    assert talk == [{"role": "user", "content": "How tall is this?"}, {"role": "assistant", "content": "300 m"}]
    assert "Red Tower" in told and "answered" in told


def test_a_broken_photo_is_told_in_the_dialog(answer: Any, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"nothing")
    talk, _ = answer(str(tmp_path / "photo.png"), [{"role": "user", "content": "What?"}])
    assert "cannot be read as a photo" in talk[-1]["content"]
