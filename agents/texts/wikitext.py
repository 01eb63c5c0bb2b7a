"""Infobox values as plain text: the markup is parsed by mwparserfromhell, the common value templates are spelled out here.

``strip_code`` alone would drop every template, and with ``{{convert|330|m|ft}}`` the fact itself.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any

import mwparserfromhell
from mwparserfromhell.nodes import Comment, ExternalLink, HTMLEntity, Tag, Template, Text, Wikilink
from mwparserfromhell.wikicode import Wikicode

from agents.texts.text import clean, one_line

KEPT_VALUES = 4_096  # values whose cleaned form is remembered: a batch finds the same entities with many crops
_MAX_CHARACTERS = 20_000  # of one raw value: real infobox values are far shorter
_MAX_MARKS = 150  # beginnings of markup in one value; the parser's time grows with their square
_MARKS = re.compile(r"\{\{|\[\[?|<|\{\||\n[*#:;=|!]|[*#:;]{2}|''")
_MARKUP = re.compile(r"<[^<>]{0,200}>|[\[\]{}<>|*#=']+")
_MAX_PAIRS = 400  # of one attribute
_MAX_STEPS = 4_000  # through one attribute: nested lists may contain themselves
_MAX_DEPTH = 6
_HIDDEN_TAGS = frozenset({"ref", "gallery", "math", "score", "style", "script", "noinclude"})
_BREAK_TAGS = frozenset({"br", "li", "p", "hr"})
_HIDDEN_LINKS = ("file:", "image:", "category:")
_EXPONENT = re.compile(r"[-–−+]?\d+")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_RANGE = frozenset({"-", "–", "to", "and", "&", "or", "x", "by", "×"})
_SEPARATOR = "; "


_Render = Callable[[Sequence[str]], str]  # from what a template is given by position, in plain text, to what it shows


def _convert(values: Sequence[str]) -> str:
    """``{{convert|870|ft|m}}`` -> ``870 ft``; ``|5|to|10|kg`` -> ``5 to 10 kg``; ``|5|ft|11|in|m`` -> ``5 ft 11 in``."""
    last = 0  # place of the last number of a range
    while len(values) > last + 2 and values[last + 1] in _RANGE:
        last += 2
    if last:
        return " ".join(values[: last + 2])
    if len(values) >= 4 and re.fullmatch(r"[\d.,]+", values[2]) and re.fullmatch(r"[a-z]+", values[3]):
        return " ".join(values[:4])
    return " ".join(values[:2])


def _date(values: Sequence[str]) -> str:
    """Format the values of a date: ``{{start date|1889|3|31}}`` -> ``31 March 1889``; of birth and age the birth."""
    numbers = [value for value in values if value.isdecimal()]
    if not numbers:
        return _SEPARATOR.join(values)
    year, *rest = numbers[:3]
    if not rest:
        return year
    month = int(rest[0])
    named = _MONTHS[month - 1] if 1 <= month <= 12 else rest[0]
    return f"{rest[1]} {named} {year}" if len(rest) > 1 else f"{named} {year}"


def _listed(values: Sequence[str]) -> str:
    return _SEPARATOR.join(filter(None, values))


def _first(values: Sequence[str]) -> str:
    return next(iter(values), "")


def _last(values: Sequence[str]) -> str:
    return next(reversed(values), "")


def _prefixed(word: str) -> _Render:
    return lambda values: one_line(f"{word} {_first(values)}")


def _constant(text: str) -> _Render:
    return lambda _: text


def _circa(values: Sequence[str]) -> str:
    return f"c. {'–'.join(values[:2])}"


def _second(values: Sequence[str]) -> str:
    return values[1] if len(values) > 1 else _first(values)


def _fraction(values: Sequence[str]) -> str:
    """``{{frac|3|1|2}}`` -> ``3 1/2``, ``{{frac|2}}`` -> ``1/2``; apart from a number before it."""
    *whole, above, below = values[:3] if len(values) > 1 else ("1", _first(values))
    return " " + " ".join((*whole, f"{above}/{below}"))


def _raised(text: str) -> str:
    """Mark an exponent: ``24`` -> ``^24``; other text stays."""
    return f"^{text}" if _EXPONENT.fullmatch(text) else text


def _value(values: Sequence[str], named: Mapping[str, str]) -> str:
    """``{{val|5.97|e=24|u=kg}}`` -> ``5.97×10^24 kg``; uncertainties are left out."""
    power = f"×10^{named['e']}" if named.get("e") else ""
    unit = named.get("u") or named.get("ul") or ""
    divisor = named.get("up") or named.get("upl")
    return f"{_first(values)}{power} {unit}{f'/{divisor}' if divisor else ''}".strip()


def _height(values: Sequence[str], named: Mapping[str, str]) -> str:
    return " ".join(f"{named[unit]} {unit}" for unit in ("m", "cm", "ft", "in") if named.get(unit)) or _first(values)


def _duration(values: Sequence[str], named: Mapping[str, str]) -> str:
    """``{{duration|m=3|s=5}}`` -> ``3:05``."""
    first, *rest = [named[unit] for unit in ("h", "m", "s") if named.get(unit)] or values or ("",)
    return ":".join((first, *(part.zfill(2) for part in rest)))


def _coordinates(values: Sequence[str]) -> str:
    return " ".join(value for value in values if re.fullmatch(r"[\d.+-]+|[NSEW]", value))


_RENDERERS: dict[str, _Render] = {
    "convert": _convert, "cvt": _convert,
    "start date": _date, "end date": _date, "start date and age": _date, "start-date": _date, "birth date": _date,
    "birth date and age": _date, "birth-date and age": _date, "death date": _date, "death date and age": _date,
    "film date": _date, "release date": _date, "date": _date,
    "plainlist": _listed, "unbulleted list": _listed, "ubl": _listed, "hlist": _listed, "flatlist": _listed,
    "bulleted list": _listed, "blist": _listed, "collapsible list": _listed, "indented plainlist": _listed, "csv": _listed,
    "cslist": _listed,
    "circa": _circa, "c.": _circa, "ca": _circa,
    "us$": _prefixed("US$"), "usd": _prefixed("US$"), "gbp": _prefixed("£"), "£": _prefixed("£"),
    "eur": _prefixed("€"), "€": _prefixed("€"), "inr": _prefixed("₹"),
    "frac": _fraction, "fraction": _fraction, "sfrac": _fraction, "gaps": "".join, "sup": lambda values: _raised(_first(values)),
    "e": lambda values: f"×10^{_first(values)}", "10^": lambda values: f"10^{_first(values)}", "±": lambda values: f" ± {_first(values)}",
    "ndash": _constant("–"), "en dash": _constant("–"), "mdash": _constant("—"), "snd": _constant(" – "), "spnd": _constant(" – "),
    "spaced ndash": _constant(" – "), "spaced en dash": _constant(" – "), "times": _constant("×"), "minus": _constant("−"),
    "nbsp": _constant(" "), "space": _constant(" "), "br": _constant(_SEPARATOR), "break": _constant(_SEPARATOR),
    "native name": _second, "native phrase": _second, "sort": _second, "sortname": lambda values: " ".join(values[:2]), "dts": _date,
    "lang": _last, "flag": _first, "flagicon": lambda _: "", "flagcountry": _first, "coord": _coordinates,
    **dict.fromkeys(  # references, keys to sort by, and computed ages
        ("citation needed", "cn", "citation", "r", "rp", "ref label", "note label", "refn", "notetag", "cref", "webarchive", "hs", "ntsh",
         "sort key", "hidden sort key", "age"), _constant("")),
}  # fmt: skip
_NOTHING = ("cite ", "efn", "sfn", "harv", "age in ")  # beginnings of names of the same kinds
_OF_EDITORS = frozenset(("date", "reason", "talk"))  # contents of remarks such as {{update inline|date=May 2020}}
_NAMED_RENDERERS: dict[str, Callable[[Sequence[str], Mapping[str, str]], str]] = {
    "val": _value, "height": _height, "duration": _duration
}  # fmt: skip


def _template(template: Template) -> str:
    values = [_text(param.value) for param in template.params if not param.showkey]
    named = {str(param.name).strip(): _text(param.value) for param in template.params if param.showkey}
    name = str(template.name).strip().lower().replace("_", " ")
    if name.startswith(_NOTHING):
        return ""
    if numbered := sorted((key for key in named if key.isdecimal()), key=int):  # {{ubl|1=a|2=b}} is {{ubl|a|b}}
        values = [*values, *(named[key] for key in numbered)]
        named = {key: value for key, value in named.items() if key not in numbered}
    if name.startswith("formatnum:"):
        return name.removeprefix("formatnum:").strip()
    if name in _NAMED_RENDERERS:
        return _NAMED_RENDERERS[name](values, named)
    if name in _RENDERERS:
        return _RENDERERS[name](values)
    # Unknown templates (nowrap, small, nobold, abbr and hundreds more) nearly always wrap their first value.
    return _first(values) or _SEPARATOR.join(value for key, value in named.items() if key not in _OF_EDITORS)


def _nodes(code: Wikicode) -> Iterator[str]:
    for before, node in pairwise((None, *code.nodes)):
        if isinstance(node, Text):
            yield str(node.value)
        elif isinstance(node, Template):
            yield _template(node)
        elif isinstance(node, Wikilink):
            if not str(node.title).strip().lower().startswith(_HIDDEN_LINKS):
                yield _text(node.text if node.text else node.title)
        elif isinstance(node, ExternalLink):
            yield _text(node.title) if node.title else str(node.url)
        elif isinstance(node, HTMLEntity):
            yield node.normalize() or " "
        elif isinstance(node, Tag):
            name = str(node.tag).strip().lower()
            if name in _BREAK_TAGS:
                yield _SEPARATOR
            if name not in _HIDDEN_TAGS and node.contents is not None:
                text = _text(node.contents)
                is_power = name == "sup" and isinstance(before, Text) and str(before.value)[-1:].isdecimal()
                yield _raised(text) if is_power else text
        elif not isinstance(node, Comment):
            yield str(node)


def _text(code: Wikicode) -> str:
    return "".join(_nodes(code)).strip()


@lru_cache(maxsize=KEPT_VALUES)
def plain(value: str) -> str:
    """Convert one raw infobox string to plain text on one line, with semicolons between list items and lines."""
    value = value[:_MAX_CHARACTERS]
    if not any(mark in value for mark in "[{<&'|*#\n"):
        return one_line(clean(value))
    if len(_MARKS.findall(value)) > _MAX_MARKS:  # no infobox value: the marks go, the words stay
        return one_line(clean(_MARKUP.sub(" ", value)))
    text = _text(mwparserfromhell.parse(value))
    lines = text.replace("\n*", _SEPARATOR).replace("\n", _SEPARATOR)
    items = (one_line(clean(item)).strip("*# ") for item in lines.split(";"))
    return _SEPARATOR.join(item for item in items if item)


def flatten(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Flatten an infobox attribute into (key, plain value) pairs.

    A dict gives one pair an entry, a list one joined value, and an empty value none. Keys are spelled with blanks
    (``built_in`` -> ``built in``). Nesting deeper than six levels is left out.
    """
    return islice(_pairs(key, value, 0, iter(range(_MAX_STEPS))), _MAX_PAIRS)


def _pairs(key: str, value: Any, depth: int, steps: Iterator[int]) -> Iterator[tuple[str, str]]:
    if value is None or depth > _MAX_DEPTH or next(steps, None) is None:
        return
    if isinstance(value, Mapping):
        for inner_key, inner in value.items():
            yield from _pairs(f"{key} {inner_key}" if key else str(inner_key), inner, depth + 1, steps)
    elif isinstance(value, (list, tuple)):
        if any(isinstance(item, (Mapping, list, tuple)) for item in value):
            for item in value:
                yield from _pairs(key, item, depth + 1, steps)
        else:
            joined = _SEPARATOR.join(
                text for text in (plain(str(item)) for item in value[:_MAX_PAIRS] if item is not None) if text
            )
            if joined:
                yield one_line(key.replace("_", " ")), joined
    else:
        text = plain(str(value))
        if text:
            yield one_line(key.replace("_", " ")), text
