"""Dates in words as far as they say something: read, compared, moved by a duration, and the time between two of them."""

from __future__ import annotations

import calendar
import datetime
import re
from dataclasses import dataclass
from typing import Literal

from dateutil.relativedelta import relativedelta

Span = Literal["day", "week", "month", "year"]

_NAMES = {
    name.lower(): number
    for names in (calendar.month_name, calendar.month_abbr)
    for number, name in enumerate(names)
    if name
} | {"sept": 9}
MONTH = rf"(?:{'|'.join(sorted(_NAMES, key=len, reverse=True))})"
DAY = r"\d{1,2}(?:st|nd|rd|th)?(?!\d)"
DATE = (
    rf"\b(?:{DAY}(?:\s+of)?\s+{MONTH}\b\.?(?:(?:,|\s+of)?\s+\d{{4}}\b)?"  # 1 March, 1st of March 2020
    rf"|{MONTH}\b\.?\s+{DAY}(?:,?\s+\d{{4}}\b)?"  # March 1, 2020
    rf"|{MONTH}\b\.?(?:,|\s+of)?\s+\d{{4}}\b"  # March 2020, March of 2020
    r"|\d{4}-\d{2}-\d{2}\b)"
)
"""A date with a month, as a regular expression; case does not count."""

_DATE = re.compile(DATE, re.IGNORECASE)
_MONTH = re.compile(rf"\b({MONTH})\b", re.IGNORECASE)
_YEAR = re.compile(  # of "1200 to 1150 BC" the first, of the same era
    r"(?<![\w,.])(?P<early>\d{1,2},\d{3}|\d{1,4})(?:\s?(?:-|–|—|to|or|and)\s?[\d,]{1,6})?\s?(?P<era>B\.?C\.?(?:E\.?)?|A\.?D\.?|C\.?E\.?)(?!\w)"
    r"|\b(?P<year>1\d{3}|20\d{2})\b|\b(?:AD|A\.D\.)\s?(?P<after>\d{1,4})\b"
)
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_DAY = re.compile(rf"\b({DAY})\b", re.IGNORECASE)
_NOTHING_COUNTED = re.compile(
    r"\W*$|\W*(?:in|at|on|by|to|and|or|for|when|as|with|under|after|before|until|from|during|BC|BCE|AD|CE)\b|\s*[.,;:()/–-]",
    re.IGNORECASE,
)
_COMMON_YEAR = 2001  # in place of a year that nobody says: one without 29 February
_DAYS_OF_A_MONTH = 365.2425 / 12
_MAX_YEARS = 5_000


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
        """Format the date as an answer shows it: ``1 March 2020``, without the parts that are missing."""
        year = f"{-self.year} BC" if self.year < 0 else str(self.year or "")
        parts = (str(self.day or ""), calendar.month_name[self.month] if self.month else "", year)
        return " ".join(part for part in parts if part)


def parse_day(text: str) -> Day:
    """Parse the first date of a text; its month or its year may be missing.

    Raises:
        ValueError: The text contains no date, or the day does not exist.
    """
    if (iso := _ISO.search(text)) is not None:
        return _check_day(Day(int(iso[1]), int(iso[2]), int(iso[3])))
    match = _DATE.search(text)
    year = _YEAR.search(match.group() if match is not None and _YEAR.search(match.group()) else text)
    if match is None and year is None:
        raise ValueError(f"no date in {text!r}")
    number = 0
    if year is not None:
        number = int((year["year"] or year["early"] or year["after"]).replace(",", ""))
        number = -number if (year["era"] or "").startswith("B") else number
    if match is None:
        return Day(number)
    words = match.group()
    month = _MONTH.search(words)
    assert month is not None  # a date has one
    day = _DAY.search(words)
    return _check_day(Day(number, _NAMES[month.group(1).lower()], int(re.sub(r"\D", "", day.group(1))) if day else 0))


def _check_day(day: Day) -> Day:
    longest = calendar.monthrange(day.year if day.year > 0 else 2000, day.month)[1] if 1 <= day.month <= 12 else 0
    if day.day > longest or not longest:
        raise ValueError(f"there is no day {day.day} in month {day.month}")
    return day


def is_date(text: str) -> bool:
    """Return whether the first figure of a short answer belongs to a date.

    In "5,630 in 2018" and "1480 kg" it counts something.
    """
    figure = re.search(r"\d", text)
    match = _DATE.search(text)
    if figure is None or (match is not None and match.start() <= figure.start()):
        return match is not None
    year = _YEAR.search(text)
    return year is not None and year.start() <= figure.start() and bool(_NOTHING_COUNTED.match(text[year.end() :]))


def move(day: Day, count: float, span: Span) -> Day:
    """Move a date by so many days, weeks, months or years; a negative number moves it back.

    Raises:
        ValueError: The date does not give the unit that it is moved by, or the result is outside of the calendar.
    """
    if abs(count) > {"day": 366, "week": 53, "month": 12, "year": 1}[span] * _MAX_YEARS:
        raise ValueError(f"{count} {span}s are out of the calendar")
    if day.span == "year" and span == "year" and day.year:
        year = day.year + round(count)
        return Day(
            year + 1 if day.year < 0 <= year else year - 1 if year <= 0 < day.year else year
        )  # there was no year 0
    if day.span == "year" or (day.span == "month" and span in ("day", "week")):
        raise ValueError(f"{day} is not known to the {span}")
    if day.year < 0:
        raise ValueError(f"{day} is out of the calendar")
    months = count * {"day": 0, "week": 0, "month": 1, "year": 12}[span]
    days = count * {"day": 1, "week": 7, "month": 0, "year": 0}[span] + (months - int(months)) * _DAYS_OF_A_MONTH
    try:
        start = datetime.date(day.year or _COMMON_YEAR, day.month, day.day or 1)
        end = start + relativedelta(months=int(months), days=round(days) if day.day else 0)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{day} and {count} {span}s: {error}") from error
    return Day(end.year if day.year else 0, end.month, end.day if day.day else 0)


def measure_span(first: Day, second: Day, span: Span) -> int:
    """Compute the time between two dates in whole days, weeks, months or years.

    Dates that give no month are compared by their years alone.

    Raises:
        ValueError: A date does not give the unit, or has no year.
    """
    low, high = sorted((first, second))
    if not low.year or not high.year:
        raise ValueError("a date without its year")
    units = ("year", "month", "day")
    finest = min(units.index(day.span) for day in (low, high))
    if finest < units.index("day" if span == "week" else span):
        raise ValueError(f"{low} and {high} are not both known to the {span}")
    if units[finest] == "year" or low.year < 0:
        if span != "year":
            raise ValueError(f"{low} is out of the calendar")
        return high.year - low.year - (low.year < 0 < high.year)  # there was no year 0
    start, end = (datetime.date(day.year, day.month, day.day if units[finest] == "day" else 1) for day in (low, high))
    if span in ("day", "week"):
        return (end - start).days // (7 if span == "week" else 1)
    gap = relativedelta(end, start)
    years, months = int(gap.years), int(gap.months)
    return years if span == "year" else years * 12 + months
