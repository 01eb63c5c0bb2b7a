"""Rewrites markup that plain text cannot show: raised figures, footnote marks and formulas.

Text loses the tags around them, and "10<sup>6</sup>" would read as "106".
"""

import re
from collections.abc import Collection
from itertools import islice, takewhile

from lxml import etree

from agents.texts.formulas import write_formula
from agents.texts.phrasing import BLOCKS

_MAY_RAISE = re.compile(r"<su[pb]\b|<math\b|vertical-align|<a\b[^<>#]{0,500}#[^<>]{0,500}>\s*\[", re.IGNORECASE)
_RAISED_STYLE = re.compile(r"vertical-align\s*:\s*super", re.IGNORECASE)
_LOWERED_STYLE = re.compile(r"vertical-align\s*:\s*sub", re.IGNORECASE)

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_EXPONENT = re.compile(r"[-–−+]?\d{1,4}")
_MARK = re.compile(r"[\[(]?\s*(?:\d{1,3}|[a-zA-Z]|[*†‡§¶]+)\s*[\])]?")
_IN_BRACKETS = re.compile(r"\[\s*(?:\d{1,3}|[a-z]|note \d{1,3}|nb \d{1,3})\s*\]", re.IGNORECASE)
_POWER_OF_TEN = re.compile(r"(?<![\d.,])10$")
_FIGURE_WITH_UNIT = re.compile(r"\d\s*[^\W\d_]{1,3}$")
_SHORT_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]{1,3}$")
_BEFORE = 20  # characters to look at before a raised figure
_LONG = 60  # characters; longer text is no exponent and no mark
_MAX_RAISED = 100_000  # elements of a page
_STEPS = 30  # elements to look at around a raised figure
_SLASHES = ("/", "\u2044", "\u2215")
_MARK_CLASSES = ("reference", "footnote")


def may_raise(page: str) -> bool:
    """Return whether a page has markup that ``write_powers`` might change."""
    return _MAY_RAISE.search(page) is not None


def write_powers(root: etree._Element) -> None:
    """Write powers ("10^6"), fractions ("3 1/2") and formulas in plain characters, and remove footnote marks."""
    formulas = [formula for formula in root.iter("math") if next(formula.iterancestors("math"), None) is None]
    for formula in formulas:
        _replace(formula, write_formula(formula))
    marks = [link for link in root.iter("a") if _is_mark_in_brackets(link)]
    inline = [each for each in root.iter(etree.Element) if each.tag in ("sup", "sub") or each.get("style")]
    raised = [
        (element, text, _text_before(element))
        for element in islice(filter(_is_raised, inline), _MAX_RAISED)
        if 0 < len(text := text_of(element)) < _LONG
    ]
    lowered = list(islice(filter(_is_lowered, inline), _MAX_RAISED))
    notes = {text for _, text, before in raised if not before.strip()}
    for element, text, before in raised:
        tail = element.tail or ""
        written = write_raised(text, before, tail, notes, is_linked=_is_linked(element))
        is_of_a_note = not before.strip() and tail[:1].isalnum()
        _replace(element, f"{written} " if is_of_a_note else written)
    for element in lowered:
        if (text := text_of(element)).isdecimal() and _text_before(element)[-1:].isdecimal():
            _replace(element, f"_{text}")
    for link in marks:
        _replace(link, "")


def _is_raised(element: etree._Element) -> bool:
    return element.tag == "sup" or _RAISED_STYLE.search(element.get("style", "")[:500]) is not None


def _is_lowered(element: etree._Element) -> bool:
    return element.tag == "sub" or _LOWERED_STYLE.search(element.get("style", "")[:500]) is not None


def write_raised(text: str, before: str, after: str, notes: Collection[str] = (), *, is_linked: bool = False) -> str:
    """Return the plain text of a raised text; "" for a footnote mark.

    Args:
        text: The raised text.
        before: The end of the line before it.
        after: The text that follows it.
        notes: Marks of the page's footnotes.
        is_linked: Whether it is marked as a reference.
    """
    after, line = after.lstrip(), before.rstrip()
    if after.startswith(_SLASHES) and text.isdecimal():
        return f" {text}" if before[-1:].isdecimal() else text
    if not line:
        return text
    is_power_of_ten = _POWER_OF_TEN.search(before) is not None
    if is_linked and not is_power_of_ten and _MARK.fullmatch(text):
        return ""
    if not _EXPONENT.fullmatch(text):
        return text
    if text in notes and not is_power_of_ten and not _FIGURE_WITH_UNIT.search(before):
        return ""
    if line != before or _SHORT_WORD.search(before):  # an isotope, a unit
        return text
    return f"^{text}" if before[-1].isalnum() or before[-1] in ")]}" else ""


def _is_linked(element: etree._Element) -> bool:
    """Return whether a raised element is a link, or is marked as a reference."""
    if any(mark in element.get("class", "").lower() for mark in _MARK_CLASSES):
        return True
    if any(part.tag == "a" for part in islice(element.iter(), _STEPS)):
        return True
    return any(parent.tag == "a" for parent in takewhile(_is_inline, islice(element.iterancestors(), _STEPS)))


def _is_mark_in_brackets(link: etree._Element) -> bool:
    return "#" in link.get("href", "") and len(link) == 0 and _IN_BRACKETS.fullmatch(text_of(link)) is not None


def without_unwritable(text: str) -> str:
    """Remove characters that libxml2 reads from a page and does not write into its tree."""
    return text if text.isprintable() else _CONTROLS.sub("", text)


def _is_inline(element: etree._Element) -> bool:
    return element.tag not in BLOCKS


def text_of(element: etree._Element, characters: int = _LONG) -> str:
    """Return the text of an element, but not much more than ``characters`` of it: elements are nested by thousands."""
    parts: list[str] = []
    size = 0
    for part in element.itertext():
        parts.append(part[: characters + 1])
        size += len(part)
        if size > characters:
            break
    return without_unwritable("".join(parts)).strip()


def _text_before(element: etree._Element) -> str:
    """Return the last characters before an element in its line; "" at the beginning of a line."""
    parts: list[str] = []
    node = element
    for _ in range(_STEPS):
        previous = node.getprevious()
        if previous is None:
            previous, node = None, node.getparent()
            if node is None:
                break
            parts.append((node.text or "")[-_BEFORE:])
            if not _is_inline(node):
                break
        else:
            parts.append((previous.tail or "")[-_BEFORE:])
            if not _is_inline(previous):
                break
            parts.append(text_of(previous)[-_BEFORE:] if len(previous) else (previous.text or "")[-_BEFORE:])
            node = previous
        if sum(map(len, parts)) >= _BEFORE:
            break
    return "".join(reversed(parts))[-_BEFORE:]


def _replace(element: etree._Element, text: str) -> None:
    """Put a text in the place of an element's content."""
    parent = element.getparent()
    if not text and parent is not None and parent.tag == "a" and not text_of(parent).replace(text_of(element), "", 1):
        element = parent  # an empty link counts against its paragraph
    tail = element.tail
    element.clear()
    element.tag, element.text = "span", without_unwritable(text)
    element.tail = without_unwritable(tail or "")
