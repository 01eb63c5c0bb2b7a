"""Fixtures of several files."""

from functools import cache

import pytest

from evaluation.run import phases
from evaluation.studies import plots
from tests.evaluation.kits import kit, make, own_python

__all__ = ["kit", "make", "own_python"]

_load_once = cache(phases.load_truncator)


@pytest.fixture(autouse=True)
def _one_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the tokenizer that cuts answers once for all runs: each would take half a second."""
    monkeypatch.setattr(phases, "load_truncator", _load_once)


@pytest.fixture(autouse=True)
def _small_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw figures once and small: three formats take longer than all else that a study does. ``test_study_files`` has them whole."""
    if request.path.stem != "test_study_files":
        monkeypatch.setattr(plots, "_DATED", {"png": ()})
        monkeypatch.setattr(plots, "_DOTS_AN_INCH", 20)
