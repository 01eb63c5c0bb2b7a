"""Elements of HTML that readers of markup drop with their words: they are unwrapped, and states of forms are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator

from lxml import etree

BLOCKS = frozenset(
    "address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption figure footer form "
    "frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li main menu nav ol p pre search section summary table tbody td tfoot "
    "th thead title tr ul".split()
)  # fmt: skip
"""Elements that end a line. Browsers show any other one inside of its line, unknown ones too."""

_DELETED = ("del", "s", "strike")
_KNOWN = frozenset("a b button em i img math span strong sub sup svg u".split())  # to readers of markup
_STATES = ("checkbox", "radio")
_UNSEEN_FIELDS = ("hidden", "password", "file", "image", "color", "range")
_FRAMES = ("iframe", "object", "embed", "frame", "video", "audio")
_DRAWING = "svg"
_UNWRAPPED = "unwrapped"


def unwrap_phrasing(root: etree._Element, *, descriptions: bool = False) -> None:
    """Unwrap phrasing elements, and write what forms, quotes and drawings show as text.

    Args:
        root: The page.
        descriptions: Write the descriptions of pictures in their place.
    """
    for drawing in list(root.iter(_DRAWING)):
        put_text(drawing, " ".join(" ".join("".join(part.itertext()).split()) for part in drawing.iter("text")))
    for ruby in root.iter("rt"):
        if next(ruby.itersiblings("rp", preceding=True), None) is None:
            ruby.text = f"({ruby.text or ''}"
            append_text(ruby, ")")
    for quote in root.iter("q"):
        quote.text = f"“{quote.text or ''}"
        append_text(quote, "”")
    for choice in list(root.iter("select")):
        options = choice.iter("option")
        put_text(
            choice, " ".join(_write_state("".join(each.itertext()), "selected" in each.attrib) for each in options)
        )
    for field in list(root.iter("input")):
        put_text(field, _write_field(field))
    for picture in list(root.iter("img")) if descriptions else ():
        description = " ".join(picture.get("alt", "").split())
        put_text(picture, f" (picture: {description}) " if description else "")
    for element in root.iter(etree.Element):
        if element.tag == "address":
            element.tag = (
                "p" if all(part.tag not in BLOCKS or part.tag == "br" for part in element.iterdescendants()) else "div"
            )
        elif element.tag not in BLOCKS and (
            element.tag not in _KNOWN or (element.tag == "span" and not element.attrib)
        ):
            element.tag = _UNWRAPPED
    etree.strip_tags(root, _UNWRAPPED)


def _write_state(text: str, is_chosen: bool) -> str:
    return f"[{'x' if is_chosen else ' '}] {' '.join(text.split())}"


def _write_field(field: etree._Element) -> str:
    """Return the state of a box, or the value of another field of a form."""
    kind = field.get("type", "text").lower()
    if kind in _STATES:
        return _write_state("", "checked" in field.attrib)
    return "" if kind in _UNSEEN_FIELDS else field.get("value", "")


def remove_unread(
    root: etree._Element, is_hidden: Callable[[etree._Element], bool], *, beside: Collection[str]
) -> Counter[str]:
    """Remove elements whose words are no part of the text.

    Args:
        root: The page.
        is_hidden: Whether an element's attributes hide it.
        beside: Tags of parts beside the content to remove too, such as "nav".

    Returns:
        The number of words of each part that was removed; 0 for a frame, whose words are elsewhere.
    """
    words: Counter[str] = Counter()
    for element, part in list(_list_unread(root, is_hidden, beside)):
        count = len(" ".join(element.itertext()).split())
        if part == "embedded frame":
            words[part] += 0
        elif part and count:
            words[part] += count
        remove(element)
    return words


def _list_unread(
    root: etree._Element, is_hidden: Callable[[etree._Element], bool], beside: Collection[str]
) -> Iterator[tuple[etree._Element, str]]:
    """Yield the outermost elements to remove, with their names for a user; "" for scripts and the like."""
    walk = etree.iterwalk(root, events=("start",))
    for _, element in walk:
        if element.tag in ("script", "style", "datalist", "canvas"):
            part = ""
        elif element.tag in ("noscript", "noembed", "noframes"):
            part = "text for browsers without scripts"
        elif element.tag in _FRAMES:
            part = "embedded frame"
        elif element.tag in _DELETED:
            part = "deleted text"
        elif _draws_formula(element):
            part = ""
        elif element.tag == "template" or is_hidden(element):
            part = "hidden text"
        elif element.tag in beside or ("nav" in beside and element.get("role") == "navigation"):
            part = "navigation" if element.tag != "footer" else "footer"
        else:
            continue
        yield element, part
        walk.skip_subtree()


def _draws_formula(element: etree._Element) -> bool:
    """Return whether an element is hidden from screen readers because its formula is beside it as MathML."""
    parent = element.getparent()
    return bool(element.get("aria-hidden")) and parent.tag not in BLOCKS and next(parent.iter("math"), None) is not None


def remove(element: etree._Element) -> None:
    """Empty an element and keep the text behind it, without tearing the words around it."""
    element.clear(keep_tail=True)
    element.tag = "span" if element.tag not in BLOCKS else "div"


def put_text(element: etree._Element, text: str) -> None:
    """Put a text in the place of an element's content."""
    tail = element.tail
    element.clear()
    element.tag, element.text, element.tail = "span", text, tail


def append_text(element: etree._Element, text: str) -> None:
    """Append a text to an element's content."""
    if len(element):
        element[-1].tail = f"{element[-1].tail or ''}{text}"
    else:
        element.text = f"{element.text or ''}{text}"
