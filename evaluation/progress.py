"""Progress bars that count turns and show the time left: one for a run, and one for all runs of a study."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self

from tqdm import tqdm
from tqdm.utils import ObjectWrapper

from agents.base.printing import without_escapes

SECONDS_A_LINE = 30.0
"""Interval between the lines of a bar that is written to a file or pipe."""


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
            description: What is counted, as the bar says it.
            total: Turns of the run.
            there: Turns that were done before.
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


@dataclass
class Share:
    """Turns of one run within a study.

    Attributes:
        total: All of its turns.
        there: Turns that were done before.
        done: Turns done since.
    """

    total: int
    there: int = 0
    done: int = 0


class StudyBar:
    """One bar over all runs of a study.

    Args:
        description: The bars of runs that it sums up. For bars of another name it only shows that they are at work.
        shares: The size of each run by its name, as known beforehand. The run corrects it when it begins.
        is_visible: Whether the bar is shown.
    """

    def __init__(self, description: str, shares: Mapping[str, Share], *, is_visible: bool = True) -> None:
        self._description, self._shares = description, dict(shares)
        self._sums = self._sum_shares()
        # The time left is estimated from the mean of the whole study: the latest turns do not predict the next run's speed.
        self._bar = turn_bar(description, *self._sums, is_visible=is_visible, smoothing=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def bars_for(self, label: str, *names: str) -> MakeBar:
        """Return a factory of bars for the runs of these names, one after the other."""
        remaining_names = iter(names)

        @contextmanager
        def make(description: str, total: int, there: int = 0, *, is_visible: bool = True) -> Iterator[Bar]:  # noqa: ARG001
            share = Share(total, there)
            if description == self._description:
                self._shares[next(remaining_names)] = share
                self._bar.set_description_str(label, refresh=False)
                self.show()
            else:
                self._bar.set_description_str(f"{label}, {description}")
            yield _Part(self, share)

        return make

    def end(self, *names: str) -> None:
        """Record that these runs are over: turns that they have not done no longer count."""
        for name in names:
            share = self._shares[name]
            share.total = share.there + share.done
        self.show()

    def say(self, text: str = "") -> None:
        """Show a text behind the bar."""
        self._bar.set_postfix_str(without_escapes(text), refresh=False)

    @contextmanager
    def hide(self) -> Iterator[None]:
        """Hide the bar while something else is printed."""
        with tqdm.external_write_mode(file=sys.stderr):
            yield

    def show(self) -> None:
        """Show how far all runs are."""
        sums = self._sum_shares()
        if sums != self._sums:
            self._sums = self._bar.total, self._bar.initial = sums
            self._bar.n = self._count_done()
            self._bar.refresh()
        self._bar.update(self._count_done() - self._bar.n)

    def _count_done(self) -> int:
        return sum(share.there + share.done for share in self._shares.values())

    def _sum_shares(self) -> tuple[int, int]:
        shares = self._shares.values()
        return sum(share.total for share in shares), sum(share.there for share in shares)


class _Part:
    """Bar of one run within a study."""

    def __init__(self, study: StudyBar, share: Share) -> None:
        self._study, self._share = study, share

    def update(self, n: int = 1) -> None:
        self._share.done += n
        self._study.show()

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:  # noqa: ARG002
        self._study.say(s)
