"""Each test of training trains for itself: transformers and accelerate keep the precision of the first trainer of a process."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """The precision of a test's own arguments, whatever trained before it in this process."""
    from accelerate.state import AcceleratorState

    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    AcceleratorState._reset_state(reset_partial_state=True)
