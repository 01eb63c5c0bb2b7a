"""Progress bars that count turns and show the time left."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any, Protocol

from tqdm import tqdm
from tqdm.utils import ObjectWrapper

SECONDS_A_LINE = 30.0
"""Interval between the lines of a bar in a file or pipe."""


class Bar(Protocol):
    """The methods that a run calls on its bar; ``tqdm`` has them."""

    def update(self, n: int = 1) -> object:
        """Count ``n`` more turns as done."""

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> object:
        """Show a text behind the bar."""


class MakeBar(Protocol):
    """Factory of progress bars."""

    def __call__(
        self, description: str, total: int, there: int = 0, *, is_visible: bool = True
    ) -> AbstractContextManager[Bar]:
        """Return the bar of a run.

        Args:
            description: Unit that the bar counts.
            total: Turns of the run.
            there: Turns done before.
            is_visible: Whether the bar is shown.
        """


def turn_bar(description: str, total: int, there: int = 0, *, is_visible: bool = True, **options: Any) -> tqdm[Any]:
    """Return a bar on standard error (see ``MakeBar``); ``options`` are passed to tqdm."""
    if not sys.stderr.isatty():
        options |= {"file": _Lines(sys.stderr), "mininterval": SECONDS_A_LINE}
    return tqdm(total=total, initial=there, desc=description, unit="turn", disable=not is_visible, **options)


class _Lines(ObjectWrapper):
    """File wrapper that writes each state of a bar as a line."""

    def write(self, text: str) -> None:
        if line := text.strip():
            self._wrapped.write(f"{line}\n")


def label_bars(label: str) -> MakeBar:
    """Return a factory of bars (``turn_bar``) that begin with the label of a run."""

    def make(description: str, total: int, there: int = 0, *, is_visible: bool = True) -> tqdm[Any]:
        return turn_bar(f"{label}, {description}", total, there, is_visible=is_visible)

    return make
