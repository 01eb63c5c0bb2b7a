"""Measures readers of HTML on the cases of ``tests/pages/reading_cases.toml``: words and figures lost, invented, doubled, out of order.

Readers that are not installed are left out, so that others can be tried in an environment of their own:
``python -m lab.benchmarks.html_readers [READER ...]``.
"""

from __future__ import annotations

import io
import re
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from difflib import SequenceMatcher
from importlib import import_module
from pathlib import Path
from typing import Any

CASES = Path(__file__).parents[2] / "tests" / "pages" / "reading_cases.toml"
PAGE = Path(__file__).parents[2] / "tests" / "pages" / "python_faq_general.html"
_TOKEN = re.compile(r"\[[ x]\]|\d+(?:[.,:]\d+)*|[^\W\d_]+")
_DECORATION = re.compile(r"^(?:#+|[-*>]|```.*)(?= |$)|[*`\\]|!?\[([^\]]{2,})\]\([^)]*\)", re.MULTILINE)
Read = Callable[[str], str]


def project() -> Read:
    """Return the project's reader for own pages."""
    from agents.search.pages.page_text import read_page

    return lambda page: read_page(page).text


def project_main_content() -> Read:
    """Return the project's reader for found web pages."""
    from agents.search.pages.page_text import main_content

    return main_content


def trafilatura() -> Read:
    """Return trafilatura with recall favoured."""
    library: Any = import_module("trafilatura")
    return lambda page: (
        library.extract(page, favor_recall=True, output_format="markdown", include_formatting=True) or ""
    )


def markitdown() -> Read:
    """Return markitdown."""
    library: Any = import_module("markitdown")
    reader, info = library.MarkItDown(), library.StreamInfo(extension=".html", charset="utf-8")
    return lambda page: str(reader.convert_stream(io.BytesIO(page.encode()), stream_info=info).text_content)


def markdownify() -> Read:
    """Return markdownify over lxml."""
    library: Any = import_module("markdownify")
    return lambda page: str(library.markdownify(page, heading_style="ATX", bs4_options={"features": "lxml"}))


def html_to_markdown() -> Read:
    """Return html-to-markdown, which is written in Rust."""
    library: Any = import_module("html_to_markdown")
    return lambda page: str(library.convert(page).content or "")


def html2text() -> Read:
    """Return html2text."""
    library: Any = import_module("html2text")
    return lambda page: str(library.HTML2Text(bodywidth=0).handle(page))


def inscriptis() -> Read:
    """Return inscriptis, which lays pages out."""
    library: Any = import_module("inscriptis")
    return lambda page: str(library.get_text(page))


def resiliparse() -> Read:
    """Return Resiliparse without its main-content guess."""
    library: Any = import_module("resiliparse.extract.html2text")
    return lambda page: str(library.extract_plain_text(page, main_content=False, form_fields=True, noscript=False))


def resiliparse_main() -> Read:
    """Return Resiliparse with its main-content guess."""
    library: Any = import_module("resiliparse.extract.html2text")
    return lambda page: str(library.extract_plain_text(page, main_content=True))


def selectolax() -> Read:
    """Return the text of selectolax's lexbor parser."""
    library: Any = import_module("selectolax.lexbor")

    def read(page: str) -> str:
        tree = library.LexborHTMLParser(page)
        tree.strip_tags(["script", "style", "template", "noscript"])
        return str(tree.body.text(separator=" ")) if tree.body else ""

    return read


def kreuzberg() -> Read:
    """Return kreuzberg."""
    library: Any = import_module("kreuzberg")
    return lambda page: str(library.extract_bytes_sync(page.encode(), "text/html").content)


READERS = (
    project, project_main_content, trafilatura, markitdown, markdownify, html_to_markdown, html2text, inscriptis, resiliparse,
    resiliparse_main, selectolax, kreuzberg,
)  # fmt: skip


def list_tokens(text: str) -> list[str]:
    """Return the words, figures and boxes of a Markdown text without its signs."""
    return _TOKEN.findall(_DECORATION.sub(lambda match: match[1] or "", text.replace("\u00ad", "")))


def compare(expected: str, read: str) -> Counter[str]:
    """Count the tokens that a reader lost, invented, doubled and moved."""
    right, got = list_tokens(expected), list_tokens(read)
    missing, extra = Counter(right) - Counter(got), Counter(got) - Counter(right)
    doubled = sum(count for token, count in extra.items() if token in right)
    common = len(right) - missing.total()
    kept = sum(block.size for block in SequenceMatcher(None, right, got, autojunk=False).get_matching_blocks())
    return Counter(
        lost=missing.total(), invented=extra.total() - doubled, doubled=doubled, moved=max(0, common - kept),
        figures=sum(count for token, count in missing.items() if token[0].isdigit()),
    )  # fmt: skip


def measure(read: Read, cases: list[dict[str, str]], verbose: bool) -> tuple[int, Counter[str], float]:
    """Return how many cases a reader gets whole, the sums of its faults, and seconds for a page of 60 KB."""
    whole, faults = 0, Counter[str]()
    for case in cases:
        try:
            got = read(case["input"])
        except Exception as error:  # noqa: BLE001 - a reader that fails loses all
            got = f"({type(error).__name__})"
        found = compare(case["text"], got)
        whole += not found.total()
        faults += found
        if verbose and found.total():
            print(f"  {case['name']}: {dict(+found)}\n    {got[:300]!r}")
    page = PAGE.read_text(encoding="utf-8")
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        read(page)
        seconds.append(time.perf_counter() - start)
    return whole, faults, min(seconds)


def main(names: list[str]) -> None:
    """Print a row for each reader; "-v" prints each case that is not whole."""
    cases = [
        case
        for case in tomllib.loads(CASES.read_text(encoding="utf-8"))["case"]
        if case["format"] == "html" and "encoding" not in case
    ]
    columns = ("lost", "figures", "invented", "doubled", "moved")
    print(f"| reader | whole of {len(cases)} | {' | '.join(columns)} | seconds |\n|---|" + "---:|" * 7)
    chosen = {name for name in names if name != "-v"}
    for make in READERS:
        try:
            read = make() if not chosen or make.__name__ in chosen else None
        except ImportError:
            continue
        if read is not None:
            whole, faults, seconds = measure(read, cases, "-v" in names)
            print(
                f"| {make.__name__} | {whole} | {' | '.join(str(faults[name]) for name in columns)} | {seconds:.3f} |"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
