"""What stands printed in a photo, for code: each figure with the label that it belongs to, prices, calculations and columns of numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz.fuzz import ratio

from agents.english.step_plans import parse_calculation
from agents.models.base import TextLine

_FIGURE = re.compile(r"\W*(?:\d[\d.,:/x]*)\W*(?:each|(?:per|a|an|/)\s*\w+|[A-Za-z]{1,3})?\W*", re.IGNORECASE)
_PRICE = re.compile(
    r"(?P<sign>[$€£])?\s?(?<!\d)(?<!\d[.,])(?P<whole>\d{1,3}(?:,\d{3})+|\d{1,3}(?:\.\d{3})+|\d+)(?:[.,](?P<cents>\d\d?))?(?![.,]?\d)"
    r"(?:\s*(?P<currency>€|£|EUR(?:OS?)?\b|USD\b|GBP\b)|(?=per|each)|(?![a-z]))(?:[^\w/$€£]*(?:(?:per\s*|/\s*|an?\s+)(?P<per>\d*\s?[a-z]+)|each))?",
    re.IGNORECASE,
)
_SIGNS = {"€": "€", "eur": "€", "euro": "€", "euros": "€", "usd": "$", "£": "£", "gbp": "£"}
_OFFER = re.compile(r"\b\d+\s*(?:/\s*[$€£]\s?|for\s*(?:[$€£]\s?)?)\d|\bfor\s+\d+\b", re.IGNORECASE)  # "2 for $5"
_PIECES = frozenset({"each", "ea", "piece", "pc", "pcs", "unit", "item"})
_NUMBER = re.compile(r"[-+]?[$€£]?\s?\d+(?:[.,]\d+)?")
_WORKED = re.compile(r"[=?]|[\d)]\s*[+*]\s*[(\d.]|[\d)](?:\s+[-/]|[-/]\s)\s*[(\d.]")
_LETTERS = re.compile(r"[A-Za-z0]{3,}")
_MIN_MISREAD = 4  # letters of a word in which one may be misread: "ice" is no rice
_ALIKE = 85  # per cent of a word's letters, so that BR0CC0LI is broccoli and onion no union


@dataclass(frozen=True)
class Price:
    """The price of a thing, printed in a photo."""

    label: str
    amount: str  # with its sign, a decimal point and no other mark
    unit: str | None  # the unit that it is the price of: "KG"; None for a piece


def attach_labels(lines: Sequence[TextLine]) -> list[str]:
    """Put each bare figure of a photo behind its label: left of it in its row, else the nearest above it."""
    labels = [line for line in lines if _FIGURE.fullmatch(line.text) is None]
    numbers_by_label: dict[int, list[str]] = {}
    alone: list[tuple[int, str]] = []
    for place, line in enumerate(lines):
        if _FIGURE.fullmatch(line.text) is None:
            continue
        owner = _find_label(line, labels)
        if owner is None:
            alone.append((place, line.text))
        else:
            numbers_by_label.setdefault(id(owner), []).append(line.text)
    labelled_lines = [
        (place, " ".join([line.text, *numbers_by_label.get(id(line), [])]))
        for place, line in enumerate(lines)
        if line in labels
    ]
    return [text for _, text in sorted([*labelled_lines, *alone])]


def _find_label(figure: TextLine, labels: Sequence[TextLine]) -> TextLine | None:
    box = figure.box
    height = box.bottom - box.top

    def beside(label: TextLine) -> bool:
        overlap = min(box.bottom, label.box.bottom) - max(box.top, label.box.top)
        return overlap > 0.5 * height and label.box.right <= box.left + height

    def above(label: TextLine) -> bool:
        return label.box.bottom <= box.top + 0.5 * height and min(box.right, label.box.right) > max(
            box.left, label.box.left
        )

    row = [label for label in labels if beside(label)]
    if row:
        return max(row, key=lambda label: label.box.right)
    column = [label for label in labels if above(label)]
    return max(column, key=lambda label: label.box.bottom, default=None)


def parse_prices(lines: Sequence[str]) -> list[Price]:
    """Extract the prices from the lines of a photo, each with its label. Figures without a currency are no prices.

    Nor is the price of several ("2 for $5"). Prices that share a label are ambiguous.
    """
    prices = []
    for line in lines:
        label, end = "", 0
        for price in _PRICE.finditer(line) if _OFFER.search(line) is None else ():
            sign = price["sign"] or _SIGNS.get((price["currency"] or "").lower())
            if sign is None:
                continue
            between = line[end : price.start()].strip()
            if _LETTERS.search(between) and (label or end == 0):  # where prices stand first, none has a label
                label = between
            end = price.end()
            unit = None if (price["per"] or "").lower() in _PIECES else price["per"]
            prices.append(Price(label, f"{sign}{_read_amount(price, sign)}", unit))
    return prices


def _read_amount(price: re.Match[str], sign: str) -> str:
    """Write an amount with a decimal point and nothing else; "$3.459" has three decimals, and "€1.299" none."""
    whole, cents = price["whole"], price["cents"]
    if cents is None and sign != "€" and whole.count(".") == 1:
        return whole
    digits = re.sub(r"\D", "", whole)
    return digits if cents is None else f"{digits}.{cents}"


def mentions(label: str, word: str) -> bool:
    """Return whether a word of a question occurs in a label, in singular or plural.

    A letter or two of a longer word may be misread.
    """
    plain = word.lower()
    forms = {plain, plain.removesuffix("s"), plain.removesuffix("es")}
    printed = {each.lower().replace("0", "o") for each in list_words(label)}
    if len(plain.removesuffix("s")) < _MIN_MISREAD:
        return bool(printed & {ending for form in forms for ending in (form, f"{form}s", f"{form}es")})
    return any(ratio(each, form) >= _ALIKE for each in printed for form in forms)


def list_words(label: str) -> list[str]:
    """Return the words of a label that may name a thing."""
    return _LETTERS.findall(label)


def find_calculation(lines: Sequence[str], *, bare: bool = False) -> str | None:
    """Return the single calculation of a photo as it is printed; None for no or several calculations.

    Args:
        lines: Text in the photo.
        bare: Whether "24/7" and "555-1234" count too, which are mostly hours, dates and telephone numbers.
    """
    calculations = [
        line for line in lines if (signs := parse_calculation(line)) and (bare or _WORKED.search(f"{signs};{line}"))
    ]
    return calculations[0] if len(calculations) == 1 else None


def read_number_column(lines: Sequence[str]) -> list[str]:
    """Return the numbers of a photo whose text is nothing but numbers; [] for any other photo."""
    bare = [line.strip() for line in lines]
    return bare if len(bare) > 1 and all(_NUMBER.fullmatch(line) for line in bare) else []
