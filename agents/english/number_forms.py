"""Rewrites numbers in words, powers of ten, fractions, and feet and inches in the figures that ``computation.py`` reads."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

from text_to_num import text2num

from agents.english.step_plans import DECIMAL_COMMA

NUMBER_WORD = (  # that text2num reads
    "(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|"
    "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|billion)"
)
_IN_WORDS = re.compile(  # neither "half a million" nor "two-thirds"
    rf"(?<!half a )\b{NUMBER_WORD}(?:(?:[ -]| and ){NUMBER_WORD})*\b(?![ -](?:half|halves|thirds?|quarters?|fifths?)\b)",
    re.IGNORECASE,
)
_TIME = r"(?:second|minute|hour|day|week|month|year|decade|century)\b"
_NO_NOUN = r"(?:of|or|to|and|another|who|which|that|is|are|was|were|more|less|each|half|third|quarter|fifth|dozen)\b"
_ONE = re.compile(  # "one of the oldest" counts nothing, nor does "the one"
    rf"(?<!no )(?<!the )(?<!this )(?<!that )(?<!which )(?<!half )\bone"
    rf"(?=[ -]{_TIME}|\s(?!{_NO_NOUN})[a-z]+(?:\s(?:per|an?|each|every|at|in|and)\b|\s?[.,;()]|\s*$)|\s(?:to|and)\s\d)",
    re.IGNORECASE,
)
_A_TIME = re.compile(
    rf"^(?P<about>\W*(?:(?:about|around|approximately|roughly)\s)?)an?(?=\s{_TIME}(?!\s(?:or|to)\b))", re.IGNORECASE
)

_VULGAR = re.compile("[½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]")
_FRACTION = re.compile(
    r"(?<![\w.,/])(?:(?P<whole>\d{1,3})(?:\s+|\s?-))?(?P<top>\d{1,2})\s?(?P<bar>[/⁄])\s?(?P<bottom>\d{1,2})(?![\w.,/]*\d)"
)
_BOTTOMS = frozenset((2, 3, 4, 8, 16, 32, 64))  # of a fraction that is written with "/"; "9/11" is a date
SCORE = r"out of (?:5|10|20|100)\b(?![.,]\d)"
_SCORE = re.compile(
    r"(?<![\w.,/])(?<!\d\s)(?P<points>\d{1,3}(?:[.,]\d{1,2})?)\s?/\s?(?P<best>5|10|20|100)(?![\w.,/]*\d)"
)
_AND_A_HALF = re.compile(r"(?<![\w.,/])(?P<whole>\d+)[ -]and[ -]an?[ -](?P<part>half|quarter)\b", re.IGNORECASE)
_POWER = re.compile(
    r"(?<![\w.,])(?:(?P<factor>\d+(?:[.,]\d+)*)\s?[×x·*]\s?)?10"
    r"(?:\s?\^\s?(?P<exponent>[-−–]?\d{1,2})|(?P<raised>⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,2}))(?!\d|[.,]\d)"
    r"|(?<![\w.,])(?P<mantissa>\d+\.\d+)e\+?(?P<small>-?\d{1,2})\b",
    re.IGNORECASE,
)
_UNCERTAINTY = re.compile(r"\s?±\s?\d+(?:\.\d+)?")
_FEET = re.compile(r"(?<![\d.,])(?P<feet>\d+)\s?['′’]\s?(?P<inches>\d{1,2}(?:\.\d+)?)(?!\w)(?:\s?(?:[\"″”]|''|′′))?")
_LONE_MARK = re.compile(r"^(?P<before>[^'\"′″’”‘“]*\d)\s?(?:(?P<feet>['′’])|[\"″”])(?!\w)")


def replace_number_words(text: str) -> str:
    """Replace number words ("three weeks", "a month") by figures, unless the text contains a figure already."""
    if any(letter.isdigit() for letter in text):
        return text
    return _A_TIME.sub(r"\g<about>1", _ONE.sub("1", _IN_WORDS.sub(_figures, text)))


def _figures(match: re.Match[str]) -> str:
    words = match.group()
    if words.lower() == "one":  # seldom a number: "one of the oldest"; the words around it tell
        return words
    apart = " and ".join(parse_number_words(part) or part for part in words.split(" and "))  # "between two and three"
    return parse_number_words(words) or apart


def parse_number_words(words: str) -> str | None:
    """Convert number words to a figure ("two hundred": 200); None for other words."""
    try:
        return str(text2num(words.lower(), "en"))
    except ValueError:
        return None


def rewrite_numbers(text: str) -> str:
    """Rewrite powers of ten ("5.97×10^24"), fractions ("3½"), scores ("9/10") and feet and inches (5'11") in plain figures."""
    text = _VULGAR.sub(lambda match: " " + unicodedata.normalize("NFKC", match.group()), text)
    text = _SCORE.sub(_format_score, _AND_A_HALF.sub(_add_part, _FRACTION.sub(_divide, text)))
    text = _UNCERTAINTY.sub("", _POWER.sub(_raise, text))
    if "°" in text:  # minutes and seconds of an angle are written as feet and inches are
        return text
    text = _FEET.sub(r"\g<feet> ft \g<inches> in", text)
    return _LONE_MARK.sub(lambda match: match["before"] + (" ft" if match["feet"] else " in"), text)


def _divide(match: re.Match[str]) -> str:
    top, bottom = int(match["top"]), int(match["bottom"])
    is_read = bottom in _BOTTOMS or match["bar"] == "⁄"  # that of "⅗", which no date contains
    if not is_read or not 0 < top < bottom:
        return match.group()
    return f"{int(match['whole'] or 0) + top / bottom:.10g}"


def _format_score(match: re.Match[str]) -> str:
    """Write "8.1/10" as "8.1 out of 10"; more points than the best score are none."""
    points = DECIMAL_COMMA.sub(".", match["points"])
    return f"{points} out of {match['best']}" if Decimal(points) <= int(match["best"]) else match.group()


def _add_part(match: re.Match[str]) -> str:
    return match["whole"] + {"half": ".5", "quarter": ".25"}[match["part"].lower()]


def _raise(match: re.Match[str]) -> str:
    factor = DECIMAL_COMMA.sub(".", match["factor"] or match["mantissa"] or "1").replace(",", "")
    exponent = unicodedata.normalize("NFKC", match["exponent"] or match["raised"] or match["small"])
    if factor.count(".") > 1:
        return match.group()
    return f"{Decimal(factor).scaleb(int(re.sub('[-−–]', '-', exponent))):f}"
