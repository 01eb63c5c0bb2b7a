"""Fixtures of several files."""

from functools import cache

import pytest

from evaluation.run import phases
from tests.evaluation.kits import kit, make, own_python

__all__ = ["kit", "make", "own_python"]

_load_once = cache(phases.load_truncator)


@pytest.fixture(autouse=True)
def _one_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the tokenizer that cuts answers once for all runs: each would take half a second."""
    monkeypatch.setattr(phases, "load_truncator", _load_once)
