"""Dates as precisely as they are known: parsed by dateutil, moved by a duration, and the time between two of them."""

from __future__ import annotations

import calendar
import datetime
import re
from dataclasses import dataclass
from typing import Literal

from dateutil.parser import parse
from dateutil.relativedelta import relativedelta

from agents.english.plain_text import counts_nothing

Span = Literal["day", "week", "month", "year"]

_MONTH = rf"(?:{'|'.join((*calendar.month_name[1:], *calendar.month_abbr[1:], 'Sept'))})\b\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?(?!\d)"
DATE = (
    rf"\b(?:{_DAY}(?:\s+of)?\s+{_MONTH}(?:(?:,|\s+of)?\s+\d{{4}}\b)?"  # 1 March, 1st of March 2020
    rf"|{_MONTH}\s+{_DAY}(?:,?\s+\d{{4}}\b)?"  # March 1, 2020
    rf"|{_MONTH}(?:,|\s+of)?\s+\d{{4}}\b"  # March 2020
    r"|\d{4}-(?:0\d|1[0-2])-\d{2}\b)"
)
"""A date with a month, as a regular expression; case does not count."""

_DATE = re.compile(DATE, re.IGNORECASE)
_YEAR = re.compile(  # of "1200 to 1150 BC" the first, of the same era
    r"(?<![\w,.])(?P<early>\d{1,4})(?:\s?(?:-|–|to)\s?\d{1,4})?\s?(?P<era>B\.?C|A\.?D|C\.?E)\b\.?E?"
    r"|\b(?P<year>1\d{3}|20\d{2})\b|\bAD\s?(?P<after>\d{1,4})\b"
)
_WORD = re.compile(r"\s*([\w°%]*)")
_COMMON_YEAR = 2001  # in place of a year that nobody says: one without 29 February
_SPANS: dict[Span, tuple[Span, ...]] = {
    "day": ("day", "week", "month", "year"),
    "month": ("month", "year"),
    "year": ("year",),
}
"""The spans that a date can be moved by or measured in, by the smallest unit that it gives."""


@dataclass(frozen=True, order=True)
class Day:
    """A date as precisely as it is known: 0 for a missing part; years before Christ are negative."""

    year: int = 0
    month: int = 0
    day: int = 0

    @property
    def span(self) -> Span:
        """Smallest unit that the date gives."""
        return "day" if self.day else "month" if self.month else "year"

    def __str__(self) -> str:
        """Format the date as an answer shows it: ``1 March 2020``, without missing parts."""
        year = f"{-self.year} BC" if self.year < 0 else str(self.year or "")
        parts = (str(self.day or ""), calendar.month_name[self.month] if self.month else "", year)
        return " ".join(part for part in parts if part)


def parse_day(text: str) -> Day:
    """Parse the first date of a text; its month or its year may be missing.

    Raises:
        ValueError: The text contains no date, or the day does not exist.
    """
    match = _DATE.search(text)
    words = match.group() if match is not None else ""
    found = _YEAR.search(words) or _YEAR.search(text)
    year = int(found["early"] or found["year"] or found["after"]) if found is not None else 0
    if found is not None and (found["era"] or "").startswith("B"):
        year = -year
    if not words and not year:
        raise ValueError(f"no date in {text!r}")
    if not words:
        return Day(year)
    first, second = (parse(words, default=datetime.datetime(2000, 1, day)) for day in (1, 2))
    return Day(year, first.month, first.day if first.day == second.day else 0)


def spell_dates(text: str) -> str:
    """Write all dates of a text in one form: "July 4, 1776" is "4 July 1776"."""
    return _DATE.sub(_spell_date, text)


def _spell_date(match: re.Match[str]) -> str:
    try:
        return str(parse_day(match.group()))
    except ValueError:  # 31 February
        return match.group()


def is_date(text: str) -> bool:
    """Return whether the first figure of a short answer belongs to a date.

    In "5,630 in 2018" and "1480 kg" it counts something.
    """
    figure, date, year = re.search(r"\d", text), _DATE.search(text), _YEAR.search(text)
    if figure is None or (date is not None and date.start() <= figure.start()):
        return date is not None
    if year is None or year.start() > figure.start():
        return False
    following = _WORD.match(text, year.end())
    return following is None or not following[1] or counts_nothing(following[1].lower())


def move(day: Day, count: float, span: Span) -> Day:
    """Move a date by so many days, weeks, months or years; a negative number moves it back.

    Raises:
        ValueError: The date does not give the unit that it is moved by, or the result is outside of the calendar.
    """
    if span not in _SPANS[day.span] or day.year < 0:
        raise ValueError(f"{day} is not known to the {span}")
    try:
        months, days = (count * {"month": 1, "year": 12}.get(span, 0), count * {"day": 1, "week": 7}.get(span, 0))
        start = datetime.date(day.year or _COMMON_YEAR, day.month or 1, day.day or 1)
        end = start + relativedelta(months=round(months), days=round(days))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{day} and {count} {span}s: {error}") from error
    return Day(end.year if day.year else 0, end.month if day.month else 0, end.day if day.day else 0)


def measure_span(first: Day, second: Day, span: Span) -> int:
    """Compute the time between two dates in whole days, weeks, months or years.

    Dates that give no month are compared by their years alone.

    Raises:
        ValueError: A date does not give the unit, has no year or is before Christ.
    """
    low, high = sorted((first, second))
    if low.year <= 0:
        raise ValueError("a date without its year, or before Christ")
    known = _SPANS[low.span] if len(_SPANS[low.span]) < len(_SPANS[high.span]) else _SPANS[high.span]
    if span not in known:
        raise ValueError(f"{low} and {high} are not both known to the {span}")
    start, end = (
        datetime.date(day.year, day.month if "month" in known else 1, day.day if "day" in known else 1)
        for day in (low, high)
    )
    if span in ("day", "week"):
        return (end - start).days // (7 if span == "week" else 1)
    gap = relativedelta(end, start)
    return int(gap.years if span == "year" else gap.years * 12 + gap.months)
