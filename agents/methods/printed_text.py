"""What stands printed in a photo, for code: each figure with the label that it belongs to, prices, calculations and columns of numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz.fuzz import ratio

from agents.methods.step_plans import parse_calculation
from agents.models.base import TextLine

_FIGURE = re.compile(r"\W*(?:\d[\d.,:/x]*)\W*(?:each|(?:per|a|an|/)\s*\w+|[A-Za-z]{1,3})?\W*", re.IGNORECASE)
_PRICE = re.compile(
    r"(?P<sign>[$€£])?\s?(?<!\d)(?P<amount>\d+(?:[.,]\d\d)?)(?!\d)\s*(?P<currency>€|EUR|USD)?\b\W*(?:(?:per|/|an?)\s*(?P<per>[a-z]+)|each)?",
    re.IGNORECASE,
)
_SIGNS = {"eur": "€", "usd": "$", "€": "€"}
_NUMBER = re.compile(r"[-+]?[$€£]?\s?\d+(?:[.,]\d+)?")
_QUOTED = re.compile(r"\"([^\"]{1,200})\"|“([^”]{1,200})”")
_LETTERS = re.compile(r"[A-Za-z0]{3,}")
_ALIKE = 85  # per cent of a word's letters, so that BR0CC0LI is broccoli and onion no union


@dataclass(frozen=True)
class Price:
    """The price of a thing, printed in a photo."""

    label: str
    amount: str  # with its sign, as it is printed
    per: str | None  # the unit that it is the price of: "KG"; None for a piece


def attach_labels(lines: Sequence[TextLine]) -> list[str]:
    """Put each bare figure of a photo behind its label: left of it in its row, else the nearest above it."""
    labels = [line for line in lines if _FIGURE.fullmatch(line.text) is None]
    taken: dict[int, list[str]] = {}
    alone: list[tuple[int, str]] = []
    for place, line in enumerate(lines):
        if _FIGURE.fullmatch(line.text) is None:
            continue
        owner = _find_label(line, labels)
        if owner is None:
            alone.append((place, line.text))
        else:
            taken.setdefault(id(owner), []).append(line.text)
    said = [
        (place, " ".join([line.text, *taken.get(id(line), [])])) for place, line in enumerate(lines) if line in labels
    ]
    return [text for _, text in sorted([*said, *alone])]


def split_sentence(said: str) -> list[str]:
    """Split a model's sentence about text in a photo into lines.

    Lines are the parts between semicolons or in quotation marks, else the clauses.
    """
    quoted = [text for pair in _QUOTED.findall(said) for text in pair if text.strip()]
    between = r"[;\n]" if ";" in said else r"\n|,\s|\band\b"
    return quoted or [part for each in re.split(between, said) if (part := each.strip(" ."))]


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
    """Extract the prices from the lines of a photo, each with its label. Figures without a currency are no prices."""
    found = []
    for line in lines:
        for price in _PRICE.finditer(line):
            sign = price["sign"] or _SIGNS.get((price["currency"] or "").lower())
            if sign is not None:
                amount = price["amount"].replace(",", ".")
                found.append(Price(line[: price.start()].strip(), f"{sign}{amount}", price["per"]))
    return found


def mentions(label: str, word: str) -> bool:
    """Return whether a word of a question occurs in a label, in singular or plural.

    A letter or two may be misread.
    """
    plain = word.lower()
    return any(
        ratio(each.lower().replace("0", "o"), form) >= _ALIKE
        for each in _LETTERS.findall(label)
        for form in {plain, plain.removesuffix("s"), plain.removesuffix("es")}
    )


def find_calculation(lines: Sequence[str]) -> str | None:
    """Return the single calculation of a photo as it is printed; None for no or several calculations."""
    found = [line for line in lines if parse_calculation(line)]
    return found[0] if len(found) == 1 else None


def read_number_column(lines: Sequence[str]) -> list[str]:
    """Return the numbers of a photo whose text is nothing but numbers; [] for any other photo."""
    bare = [line.strip() for line in lines]
    return bare if len(bare) > 1 and all(_NUMBER.fullmatch(line) for line in bare) else []
