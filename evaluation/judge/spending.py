"""Cost of a judge behind a server, and its limit."""

from __future__ import annotations

import re
import threading
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from evaluation.records import JudgeError

PRICES = Path(__file__).with_name("prices.toml")
_DATED = re.compile(r"-\d{4}-\d{2}-\d{2}$")


@dataclass(frozen=True)
class Price:
    """US dollars for a million tokens, read and written, and the source of these prices."""

    read: float
    written: float
    source: str = "--judge-price"

    def cost(self, num_read: int, num_written: int) -> float:
        """Return the US dollars for tokens read and written."""
        return (num_read * self.read + num_written * self.written) / 1e6


def look_up_price(model: str) -> Price | None:
    """Look up the price of a model, or of a dated version of it, in prices.toml; None if missing."""
    table = tomllib.loads(PRICES.read_text(encoding="utf-8"))
    name = _DATED.sub("", model.rsplit("/", 1)[-1])
    if name not in table["models"]:
        return None
    read_price, written_price = table["models"][name]
    return Price(read_price, written_price, f"prices of {table['as_of']}: {table['source']}")


def _add(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]


class Spending:
    """Counter of tokens and dollars, safe to use from several threads.

    Args:
        price: Price of the model; None: unknown.
        limit: US dollars that this object may spend; None: no limit. Requests under way when it is reached are still paid.

    Raises:
        JudgeError: There is a limit and no price.
    """

    def __init__(self, price: Price | None = None, limit: float | None = None) -> None:
        if limit is not None and price is None:
            raise JudgeError(
                "--max-cost needs the model's price, which is unknown: name it with --judge-price READ,WRITTEN"
            )
        self.price = price
        self.limit = limit
        self.requests = 0
        self.unmetered = 0
        self._now = self._earlier = (0, 0)
        self._lock = threading.Lock()

    def check(self) -> None:
        """Check the limit, before a request.

        Raises:
            JudgeError: The limit is reached.
        """
        if self.limit is not None and self.dollars >= self.limit:
            raise JudgeError(
                f"the judge has cost ${self.dollars:.4f}, and --max-cost is ${self.limit:g}; every judgement is kept: "
                "the same command goes on from here, a run with --resume"
            )

    def add(self, tokens: tuple[int, int] | None) -> None:
        """Count a reply and its tokens, read and written; None if the server does not state them.

        Raises:
            JudgeError: There is a limit, and the server does not state the tokens.
        """
        with self._lock:
            self.requests += 1
            self.unmetered += tokens is None
            self._now = _add(self._now, tokens or (0, 0))
        if tokens is None and self.limit is not None:
            raise JudgeError(
                "--max-cost cannot be held: the judge's server does not report how many tokens it used; "
                "leave --max-cost out, or take another server"
            )

    def add_earlier(self, tokens: tuple[int, int]) -> None:
        """Count the tokens of a judgement that an earlier run paid for."""
        with self._lock:
            self._earlier = _add(self._earlier, tokens)

    @property
    def dollars(self) -> float:
        """US dollars spent by this object; 0 without a price."""
        return self.price.cost(*self._now) if self.price is not None else 0.0

    def report(self) -> dict[str, Any]:
        """Return requests, tokens and dollars, now and earlier, for scores_dictionary.json."""
        return {
            "requests": self.requests,
            "tokens_read": self._now[0],
            "tokens_written": self._now[1],
            "dollars": self.dollars if self.price is not None else None,
            "dollars_of_kept_judgements": self.price.cost(*self._earlier) if self.price is not None else None,
            "prices": self.price.source if self.price is not None else None,
            "requests_without_token_counts": self.unmetered,
        }

    def __str__(self) -> str:
        """Return the report in a sentence."""
        report = f"{self.requests} requests, {self._now[0]} tokens read, {self._now[1]} written"
        if self.unmetered:
            report += f", {self.unmetered} requests without token counts"
        if self.price is None:
            return f"{report}; the model's price is not known (--judge-price)"
        earlier_cost = (
            f"; judgements kept from before had cost ${self.price.cost(*self._earlier):.4f}"
            if any(self._earlier)
            else ""
        )
        return f"{report}: ${self.dollars:.4f}{earlier_cost} ({self.price.source})"


@runtime_checkable
class Paid(Protocol):
    """Judge that costs money."""

    spending: Spending
