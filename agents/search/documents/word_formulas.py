"""Writes formulas of Word as MathML."""

from __future__ import annotations

from lxml import etree

_ROWS = {
    "e",
    "num",
    "den",
    "deg",
    "sub",
    "sup",
    "fName",
    "lim",
    "oMath",
    "oMathPara",
    "box",
    "borderBox",
    "phant",
    "bar",
}
_PARTS = {  # the parts of each in the order in which MathML has them
    "f": ("mfrac", ("num", "den")),
    "sSup": ("msup", ("e", "sup")),
    "sSub": ("msub", ("e", "sub")),
    "sSubSup": ("msubsup", ("e", "sub", "sup")),
    "func": ("mrow", ("fName", "e")),
    "limLow": ("munder", ("e", "lim")),
    "limUpp": ("mover", ("e", "lim")),
}
_MAX_DEPTH = 50


def write_mathml(formula: etree._Element, depth: int = 0) -> etree._Element:
    """Return a formula, without namespaces, as an element of MathML.

    Parts that are unknown become elements that MathML does not know: the formula is then written as its texts.
    """
    name = str(formula.tag)
    if name == "r":
        return _make("mi", text="".join(each.text or "" for each in formula.iterchildren("t")))
    children = [] if depth > _MAX_DEPTH else [each for each in formula if not str(each.tag).endswith("Pr")]
    if name in _PARTS:
        tag, names = _PARTS[name]
        found = [formula.find(each) for each in names]
        return _make(tag, *(write_mathml(each, depth + 1) for each in found if each is not None))
    if name == "rad":
        degree, base = formula.find("deg"), formula.find("e")
        parts = [write_mathml(each, depth + 1) for each in (base, degree) if each is not None and len(each)]
        return _make("mroot" if len(parts) > 1 else "msqrt", *parts)
    parts = [write_mathml(each, depth + 1) for each in children]
    if name == "d":
        marks = {each.tag: each.get("val", "") for each in formula.iterfind("dPr/*")}
        return _make("mfenced", *parts, open=marks.get("begChr", "("), close=marks.get("endChr", ")"))
    if name == "nary":
        sign = formula.find("naryPr/chr")
        return _make("mrow", _make("mo", text="\u222b" if sign is None else sign.get("val", "")), *parts)
    return _make("math" if name == "oMath" else "mrow" if name in _ROWS else f"m{name}", *parts)


def _make(tag: str, *children: etree._Element, text: str = "", **attributes: str) -> etree._Element:
    element = etree.Element(tag, attributes)
    element.text = text
    element.extend(children)
    return element
