"""Plain text of raw infobox values and pages, and the comparison of short answers with it."""

from __future__ import annotations

import html
import re
import unicodedata
from typing import Any

_RANGE_WORDS = {"-", "–", "to", "and", "x", "by", "or", "+/-", "±", "to(-)"}
_UNITS = {
    "metre": "m", "metres": "m", "meter": "m", "meters": "m", "kilometre": "km", "kilometres": "km", "kilometer": "km",
    "kilometers": "km", "centimetre": "cm", "centimetres": "cm", "centimeter": "cm", "centimeters": "cm", "millimetre": "mm",
    "millimetres": "mm", "foot": "ft", "feet": "ft", "inch": "in", "inches": "in", "mile": "mi", "miles": "mi",
    "kilogram": "kg", "kilograms": "kg", "gram": "g", "grams": "g", "tonne": "t", "tonnes": "t", "pound": "lb", "pounds": "lb",
    "lbs": "lb", "kph": "km/h", "litre": "l", "litres": "l", "liter": "l", "liters": "l", "hectares": "ha", "hectare": "ha",
    "acres": "acre", "gallon": "gal", "gallons": "gal", "usgal": "gal", "impgal": "gal",
}  # fmt: skip


def _template(body: str) -> str:
    """What a wiki template shows, roughly: `convert` its first measure, the others their values."""
    name, *values = [part.strip() for part in body.split("|")]
    name = name.lower()
    unnamed = [value for value in values if not re.match(r"^[\w ]+=", value)]
    if name in ("convert", "cvt"):
        shown: list[str] = []
        for value in unnamed:
            shown.append(value)
            if not re.match(r"^[\d.,/+−-]+$", value) and value.lower() not in _RANGE_WORDS:
                break
        return " ".join(shown)
    if name in ("circa", "c."):
        return "circa " + " ".join(unnamed)
    return " ".join(re.sub(r"^[\w ]+=", "", value) for value in values) or name


def plain_markup(text: str) -> str:
    """Wiki markup as a reader sees it: templates opened, links shown by their label, tags and references gone."""
    text = re.sub(r"<ref[^>/]*/>|<ref[^>]*>.*?</ref>", " ", text, flags=re.DOTALL | re.IGNORECASE)
    text = re.sub(r"<[^<>]*>", " ", text)
    text = re.sub(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]", r"\1", text)
    innermost = re.compile(r"\{\{([^{}]*)\}\}")
    while innermost.search(text):
        text = innermost.sub(lambda found: _template(found[1]), text)
    return " ".join(html.unescape(text.replace("'''", "").replace("''", "")).split())


def plain_attribute(value: Any) -> str:
    """A raw infobox value (text, number, list, dict or None) as plain text."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return "; ".join(f"{str(key).replace('_', ' ')} {plain_attribute(inner)}" for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return "; ".join(plain_attribute(inner) for inner in value)
    return plain_markup(str(value))


def normal(text: str) -> str:
    """Lower-case words and numbers alone: no accents, no punctuation, no thousands separators, short unit names."""
    text = unicodedata.normalize("NFKD", html.unescape(text)).lower()
    text = "".join(letter for letter in text if not unicodedata.combining(letter))
    text = re.sub(r"(?<=\d)[,\u202f\u00a0 ](?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(?<=\d)(?=[a-z])", " ", text)
    words = re.findall(r"\d+(?:\.\d+)?|km/h|[^\W\d_]+", text)
    return " ".join(_UNITS.get(word, word) for word in words)


def stands_in(answer: str, evidence: str) -> bool:
    """Whether all words and numbers of a short answer occur in the evidence, as whole words."""
    wanted = normal(answer)
    if not wanted:
        return False
    present = normal(evidence)
    return f" {wanted} " in f" {present} " or set(wanted.split()) <= set(present.split())
