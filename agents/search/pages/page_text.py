"""The text of a whole web page: its main content, without the menus, footers and scripts around it."""

import logging

import trafilatura

from agents.texts.text import looks_like_markup, visible_text

MAX_CHARACTERS = 200_000  # characters of a page's text that are kept; what answers a question stands in far less

_MIN_CHARACTERS = 200
"""Where less than this of a page is taken for content, all that a reader sees of it is kept: a list, a form, a single line."""

logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # it complains of every page without content


def main_content(page: str) -> str:
    """The main content of an HTML page (trafilatura, recall favoured, tables kept), else all that a reader sees; other text as it is.

    Empty for a page that shows nothing without its scripts.
    """
    if not looks_like_markup(page):
        return page[:MAX_CHARACTERS]
    found = trafilatura.extract(page, favor_recall=True, include_tables=True, include_comments=False, fast=True) or ""
    if len(found) < _MIN_CHARACTERS:
        found = visible_text(page).strip()
    return found[:MAX_CHARACTERS]
