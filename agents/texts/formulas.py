"""Writes formulas of MathML on one line: ``2 sqrt(x+1)``, ``10^6``, ``(1+7)/4``."""

from __future__ import annotations

import re
from itertools import islice

from lxml import etree

_MAX_PARTS = 2_000  # elements of a formula that is written
_MAX_DEPTH = 60
_ROWS = frozenset("math mrow mstyle mpadded merror".split())
_TOKENS = frozenset("mi mn mo ms".split())
_SILENT = frozenset("mphantom mspace none mprescripts annotation annotation-xml maligngroup malignmark".split())
_SCRIPTS = {"msub": "_", "munder": "_", "msup": "^", "msubsup": "_^", "munderover": "_^"}  # signs before each script
_INVISIBLE = dict.fromkeys(map(ord, "\u2061\u2062\u2063\u2064"))  # signs of multiplication and of functions
_SIMPLE = re.compile(r"[-\u2212+±]?[\w.,′]+|[^\w\s]|\([^()]*\)")  # takes no brackets
_SCRIPTED = re.compile(r"[_^](?:\([^()]*\)|[^\s_^]+)$")
_WORD = re.compile(r"[^\W\d_]{2,}$")


class _UnknownElementError(ValueError):
    """A formula has an element whose meaning is lost in a line."""


def write_formula(math: etree._Element) -> str:
    """Return a formula on one line.

    One with unknown elements is written as the TeX that stands beside it, or else as its texts with blanks between them.
    """
    if len(list(islice(math.iter(), _MAX_PARTS + 1))) <= _MAX_PARTS:
        try:
            return " ".join(_write(math, 0).split())
        except _UnknownElementError:
            pass
    annotations = {str(each.get("encoding", "")): each for each in islice(math.iter("annotation"), 10)}
    tex = next((each.text for name, each in annotations.items() if "tex" in name.lower() and each.text), None)
    if tex is None:
        leaves = (part.text for part in islice(math.iter(), _MAX_PARTS) if part.tag not in _SILENT)
        tex = " ".join(filter(None, leaves))
    return " ".join(tex.split())


def _write(element: etree._Element, depth: int) -> str:
    name = str(element.tag).rpartition("}")[2].rpartition(":")[2]
    if depth > _MAX_DEPTH:
        raise _UnknownElementError(name)
    if name in _SILENT:
        return ""
    if name in _TOKENS:
        return "".join("".join(element.itertext()).split()).translate(_INVISIBLE)
    if name == "mtext":
        return f" {' '.join(''.join(element.itertext()).split())} "
    parts = [_write(child, depth + 1) for child in element]
    if name in _ROWS:
        return _join([element.text or "", *parts] if name == "math" else parts)
    if name == "semantics":
        return parts[0] if parts else ""
    if name == "msqrt":
        return f"sqrt({_join(parts)})"
    if name == "mroot" and len(parts) == 2:
        return f"root({parts[1]}, {parts[0]})"
    if name == "mfrac" and len(parts) == 2:
        return f"{_bracket(parts[0])}/{_bracket(parts[1])}"
    if name in _SCRIPTS and len(parts) == len(_SCRIPTS[name]) + 1:
        scripts = zip(_SCRIPTS[name], parts[1:], strict=True)
        return _bracket(parts[0]) + "".join(f"{sign}{_bracket(part)}" for sign, part in scripts if part)
    if name == "mover" and len(parts) == 2:
        return parts[0] + (parts[1] if len(parts[1]) == 1 else f"^{_bracket(parts[1])}")
    if name == "mfenced":
        between = (element.get("separators", ",").strip() or " ")[0]
        return f"{element.get('open', '(')}{between.join(parts)}{element.get('close', ')')}"
    if name in ("mtable", "mtr", "mlabeledtr"):
        return "; ".join(parts) if name == "mtable" else ", ".join(parts)
    if name == "mtd":
        return _join(parts)
    raise _UnknownElementError(name)


def _join(parts: list[str]) -> str:
    """Join the parts of a row, with a blank where two of them would become one figure or one word."""
    line = ""
    for part in filter(None, parts):
        melts = part[0].isalnum() and (
            (line[-1:].isdecimal() and (part[0].isdecimal() or part.startswith(("sqrt(", "root("))))
            or _WORD.search(line) is not None
            or _SCRIPTED.search(line) is not None
            or (line.endswith(")") and part.startswith(("sqrt(", "root(")))
        )
        line += f" {part}" if melts else part
    return line


def _bracket(text: str) -> str:
    """Put brackets around a part that a sign beside it would tear."""
    text = text.strip()
    return text if not text or _SIMPLE.fullmatch(text) else f"({text})"
