"""Reads the fields of a PDF's form as it was filled in, and text that was written onto its pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pdfplumber.page import Page

_MAX_PARENTS = 5
_TICKABLE = "Btn"


def read_forms(page: Page) -> Iterator[str]:
    """Yield a line for each field with a value ("Name: Anna", "[x] Dogs") and each text that was written onto the page."""
    for annotation in page.annots:
        data = annotation["data"]
        kind = _decode(data.get("Subtype"))
        if kind == "FreeText" and (text := _decode(data.get("Contents"))):
            yield text
        if kind != "Widget":
            continue
        label = _decode(_inherit(data, "TU")) or _decode(_inherit(data, "T"))
        value = _decode(_inherit(data, "V"))
        if _decode(_inherit(data, "FT")) == _TICKABLE:
            state = _decode(data.get("AS")) or value
            if state:
                yield f"[{' ' if state == 'Off' else 'x'}] {label}"
        elif value:
            yield f"{label}: {value}" if label else value


def _inherit(data: Mapping[str, Any], name: str) -> object:
    """Return a value of a field, or of the one that it is part of."""
    from pdfminer.pdftypes import resolve1

    for _ in range(_MAX_PARENTS):
        if name in data:
            return resolve1(data[name])
        data = resolve1(data.get("Parent")) or {}
    return None


def _decode(value: object) -> str:
    """Return the text of a string or name of a PDF."""
    from pdfminer.psparser import PSLiteral
    from pdfminer.utils import decode_text

    if isinstance(value, PSLiteral):
        value = value.name
    if isinstance(value, bytes):
        value = decode_text(value)
    return " ".join(value.split()) if isinstance(value, str) else ""
