"""Progress bars in turns with the time left: that of a run, and one of a study over all of its runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self

from tqdm import tqdm
from tqdm.utils import ObjectWrapper

SECONDS_A_LINE = 30.0
"""Where nobody watches (a file, a pipe) the bar is a line of its own after so long."""


class Bar(Protocol):
    """What a run does with its bar; ``tqdm`` is one."""

    def update(self, n: int = 1) -> object:
        """So many turns more are done."""

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> object:
        """Show a text behind the bar."""


class MakeBar(Protocol):
    """Makes the bar of ``what`` is done to ``total`` turns, of which ``there`` were done before."""

    def __call__(self, what: str, total: int, there: int = 0, *, shown: bool = True) -> AbstractContextManager[Bar]:
        """See ``turn_bar``."""


def turn_bar(what: str, total: int, there: int = 0, *, shown: bool = True, **options: Any) -> tqdm[Any]:
    """A bar on standard error (``MakeBar``); ``options`` are tqdm's."""
    if not sys.stderr.isatty():
        options |= {"file": _Lines(sys.stderr), "mininterval": SECONDS_A_LINE}
    return tqdm(total=total, initial=there, desc=what, unit="turn", disable=not shown, **options)


class _Lines(ObjectWrapper):
    """A file that gets each state of a bar as a line."""

    def write(self, text: str) -> None:
        if line := text.strip():
            self._wrapped.write(f"{line}\n")


@dataclass
class Share:
    """Turns of a run within a study: all of them, those that were done before, and those done since."""

    total: int
    there: int = 0
    done: int = 0


class StudyBar:
    """One bar over all runs of a study.

    Args:
        what: Is counted; of a run's other bars it is only told that they are at work.
        shares: What is known of each run beforehand, by its name; the run corrects it when it begins.
    """

    def __init__(self, what: str, shares: Mapping[str, Share], *, shown: bool = True) -> None:
        self._what, self._shares = what, dict(shares)
        self._sums = self._summed()
        # The time left goes by the mean of the whole study: the last turns say nothing of the next run, which is slower or faster.
        self._bar = turn_bar(what, *self._sums, shown=shown, smoothing=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def of(self, label: str, *names: str) -> MakeBar:
        """Makes the bars of the runs of these names, one after the other."""
        left = iter(names)

        @contextmanager
        def make(what: str, total: int, there: int = 0, *, shown: bool = True) -> Iterator[Bar]:  # noqa: ARG001
            share = Share(total, there)
            if what == self._what:
                self._shares[next(left)] = share
                self._bar.set_description_str(label, refresh=False)
                self.show()
            else:
                self._bar.set_description_str(f"{label}, {what}")
            yield _Part(self, share)

        return make

    def end(self, *names: str) -> None:
        """These runs are over: what they have not done will not be done."""
        for name in names:
            share = self._shares[name]
            share.total = share.there + share.done
        self.show()

    def say(self, text: str = "") -> None:
        """Show a text behind the bar."""
        self._bar.set_postfix_str(text, refresh=False)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """While something else is printed the bar is away."""
        with tqdm.external_write_mode(file=sys.stderr):
            yield

    def show(self) -> None:
        """Show how far all runs are."""
        sums = self._summed()
        if sums != self._sums:
            self._sums = self._bar.total, self._bar.initial = sums
            self._bar.n = self._done()
            self._bar.refresh()
        self._bar.update(self._done() - self._bar.n)

    def _done(self) -> int:
        return sum(share.there + share.done for share in self._shares.values())

    def _summed(self) -> tuple[int, int]:
        shares = self._shares.values()
        return sum(share.total for share in shares), sum(share.there for share in shares)


class _Part:
    """The bar of one run."""

    def __init__(self, study: StudyBar, share: Share) -> None:
        self._study, self._share = study, share

    def update(self, n: int = 1) -> None:
        self._share.done += n
        self._study.show()

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:  # noqa: ARG002
        self._study.say(s)
