"""Timer of a server's silence: the judge's patience, and warnings meanwhile."""

from __future__ import annotations

import logging
import threading
import time

PATIENCE_SECONDS = 300.0
"""Longest silence, tries and pauses included, after which a server is given up: nothing more is asked of it."""

SIGN_SECONDS = 15.0
"""Interval between the warnings that a server is silent."""

GIVE_UP_AFTER = 3
"""Number of requests in a row without a reply after which a server is given up too, and of judgements in a row without a verdict after
which nothing more is judged."""

log = logging.getLogger(__name__)


class InactivityTimer:
    """Timer of a server's silence, shared by all threads that ask it."""

    def __init__(self, patience: float = PATIENCE_SECONDS, sign: float = SIGN_SECONDS) -> None:
        self._patience, self._sign = patience, sign
        self._lock = threading.Lock()
        self._waiting = self._unanswered = 0
        self._since = self._spent = self._last_sign = (
            0.0  # ``_since`` holds while a request is pending, ``_spent`` while none is
        )

    @property
    def seconds(self) -> float:
        """Seconds since the last reply, or since the first request, during which a request was pending."""
        with self._lock:
            return time.monotonic() - self._since if self._waiting else self._spent

    @property
    def seconds_left(self) -> float:
        """Seconds until the server is given up."""
        return self._patience - self.seconds

    @property
    def give_up_reason(self) -> str:
        """Reason to give up on the server, or ""."""
        if self._unanswered >= GIVE_UP_AFTER:
            return f"gave no reply {GIVE_UP_AFTER} times in a row"
        return f"has not replied for {self.seconds:.0f} s" if self.seconds_left <= 0 else ""

    def start_request(self) -> threading.Event:
        """Record a request, and warn of a silent server until the returned event is set."""
        with self._lock:
            if not self._waiting:
                self._last_sign = time.monotonic()
                self._since = self._last_sign - self._spent
            self._waiting += 1
        over = threading.Event()
        threading.Thread(target=self._warn_while_pending, args=(over,), daemon=True).start()
        return over

    def end_request(self, *, replied: bool) -> None:
        """Record that a request has its reply, or is given up."""
        with self._lock:
            self._waiting -= 1
            self._unanswered = 0 if replied else self._unanswered + 1
            now = time.monotonic()
            if replied:
                self._since = self._last_sign = now
            self._spent = now - self._since

    def _warn_while_pending(self, over: threading.Event) -> None:
        while not over.wait(self._sign):
            if self._is_warning_due():
                log.warning(
                    "the judge's server has not replied for %.0f s; it is given up after %.0f s",
                    self.seconds,
                    self._patience,
                )

    def _is_warning_due(self) -> bool:
        """Return whether a warning is due; if so the next one is due after the interval."""
        with self._lock:
            now = time.monotonic()
            due = self._waiting > 0 and now - self._last_sign >= self._sign and now - self._since < self._patience
            if due:
                self._last_sign = now
            return due
