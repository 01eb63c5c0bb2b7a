"""Words of templates and programs that the pictures of docs/figures show, kept in the PNG so that a test finds stale pictures."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from jinja2 import Environment
from PIL import Image, PngImagePlugin

from agents.profiles.profile import ROOT
from evaluation.files.manifest import WORDS

_DECISIONS = (ROOT / "agents" / "record.py", *sorted((ROOT / "agents" / "decision").glob("*.py")))
"""Sources of the words in which a decision is explained."""
_PAGE = tuple(ROOT / "apps" / name for name in ("page.py", "details.py", "outcome.py"))
_REPORT = tuple(
    ROOT / "evaluation" / "report" / "templates" / f"{name}.html.j2" for name in ("page", "macros", "report")
)
PICTURES: Mapping[str, tuple[Path, ...]] = {
    "page.png": (*_PAGE, *_DECISIONS),
    "page_phone.png": _PAGE,
    "report.png": (*_REPORT, *_DECISIONS),
}
"""Pictures of docs/figures that `make screenshots` makes, with the sources of their words."""

_GAP = "\0"
_HIDDEN = re.compile(r"<(style|script)\b.*?</\1>|\{#.*?#\}", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_PHRASE = re.compile(r"[^\W\d_][^\0\n]*")
_EDGES = " \t·:;,.()|“”\"'"
_MIN_CHARACTERS = 4


def list_phrases(source: Path) -> set[str]:
    """List the phrases that a source writes itself: the text of a Jinja template, or the string constants of a Python module."""
    text = source.read_text(encoding="utf-8")
    parts = _template_parts(text) if source.suffix == ".j2" else _module_parts(text)
    return {phrase for part in parts for phrase in _split_phrases(part)}


def _template_parts(text: str) -> Iterator[str]:
    """Yield the text between expressions as one part, with gaps in their place, and each string of an expression."""
    data = []
    for _, kind, value in Environment(autoescape=True).lex(_HIDDEN.sub("", text)):
        if kind == "string":
            yield ast.literal_eval(value)
        data.append(value if kind == "data" else _GAP)
    yield "".join(data)


def _module_parts(text: str) -> Iterator[str]:
    """Yield the string constants of a module; those of a formatted text together, with gaps between them."""
    tree = ast.parse(text)
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(each) for each in ast.walk(node)}
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else _GAP for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield re.sub(r"\{[^{}]*\}", _GAP, node.value)


def _split_phrases(part: str) -> Iterator[str]:
    for text in _PHRASE.findall(_TAG.sub(_GAP, part)):
        phrase = " ".join(text.split()).strip(_EDGES)
        if len(phrase) >= _MIN_CHARACTERS:
            yield phrase


def select_visible(phrases: Iterable[str], page_texts: Collection[str]) -> list[str]:
    """Select the phrases that a picture shows.

    A single word counts only if it is a whole text, because evidence may hold it too.

    Args:
        phrases: Phrases of the sources.
        page_texts: Texts of the page that lie in the picture.
    """
    texts = [" ".join(text.split()) for text in page_texts]
    whole = {text.strip(_EDGES) for text in texts}
    return sorted(
        phrase for phrase in {*phrases} if phrase in whole or (" " in phrase and any(phrase in text for text in texts))
    )


def build_chunks(about: Mapping[str, str]) -> PngImagePlugin.PngInfo:
    """Build the text chunks of a PNG."""
    chunks = PngImagePlugin.PngInfo()
    for name, value in about.items():
        chunks.add_itxt(name, value)
    return chunks


def read_about(path: Path) -> dict[str, str]:
    """Return the text chunks of a PNG file."""
    with Image.open(path) as picture:
        picture.load()
        return {str(name): str(value) for name, value in getattr(picture, "text", {}).items()}


def read_words(path: Path) -> list[str]:
    """Return the words that a picture keeps; empty if it keeps none."""
    return [str(word) for word in json.loads(read_about(path).get(WORDS, "[]"))]
