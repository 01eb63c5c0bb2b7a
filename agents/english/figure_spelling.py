"""Writes vulgar fractions and raised figures as decimals, because Unicode's compatibility form makes "21/2" of "2½"."""

from __future__ import annotations

import re
import unicodedata

_SLASH = "\u2044"
_VULGAR = re.compile(r"(?:(?<![\d.,])(\d+)\s?)?([\u00bc-\u00be\u2150-\u215e])")
_SLASHED = re.compile(rf"(?<![\d./{_SLASH}])(?:(\d+) (\d+)[/{_SLASH}](\d+)|()(\d+){_SLASH}(\d+))(?![\d./{_SLASH}])")
_RAISED_DIGITS = r"\u00b2\u00b3\u00b9\u2070\u2074-\u2079"
_RAISED = re.compile(rf"((?<![\d.,])\d+|[^\W\d_{_RAISED_DIGITS}]*)([\u207a\u207b]?[{_RAISED_DIGITS}]+)")
_LONGEST_UNIT = 3
"""Letters of the longest unit before an exponent ("yd²", "mi²"); a figure behind a longer word is the mark of a footnote."""
_LARGEST_EXPONENT = 15


def spell_figures(text: str) -> str:
    """Write fractions as decimals and powers of ten in full, and remove the marks of footnotes.

    "2½" and "2 1/2" become "2.5", "10⁶" becomes "1000000", "m²" "m2", and "1862³" "1862". A fraction of two figures ("1/2") remains,
    since it may be a date.
    """
    if not text.isascii():
        text = _RAISED.sub(_lower, _VULGAR.sub(_spell_vulgar, text))
    return _SLASHED.sub(_divide, text)


def format_decimal(value: float) -> str:
    """Format a number with at most four digits behind the point, and no noughts at the end."""
    return f"{value:.4f}".rstrip("0").rstrip(".")


def _spell_vulgar(fraction: re.Match[str]) -> str:
    return format_decimal(int(fraction[1] or 0) + unicodedata.numeric(fraction[2]))


def _divide(fraction: re.Match[str]) -> str:
    whole, numerator, denominator = (
        int(part or 0) for part in (fraction.groups()[:3] if fraction[1] else fraction.groups()[3:])
    )
    return format_decimal(whole + numerator / denominator) if 0 < numerator < denominator else fraction[0]


def _lower(raised: re.Match[str]) -> str:
    base, exponent = raised[1], unicodedata.normalize("NFKC", raised[2]).replace("\u2212", "-")
    if base == "10":
        power = int(exponent)
        return f"{10.0**power:.{max(-power, 0)}f}" if abs(power) <= _LARGEST_EXPONENT else f"10^{power}"
    return base + exponent if base.isalpha() and len(base) <= _LONGEST_UNIT else base
