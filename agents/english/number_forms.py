"""Numbers in words as figures."""

from __future__ import annotations

import re

from text_to_num import alpha2digit, text2num

NUMBER_WORD = (  # that text2num reads
    "(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|"
    "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|billion)"
)
_ONE = re.compile(r"^(?P<about>\W*(?:about )?)one(?= [a-z]+(?:\W*$| and\b))", re.IGNORECASE)  # not "one of the oldest"
_IN_PARTS = re.compile(r"\b(?:half|halves|thirds?|quarters|fifths?)\b|\d \d", re.IGNORECASE)


def replace_number_words(text: str) -> str:
    """Replace number words ("three weeks", "one month") by figures, unless the text contains a figure or parts of a number."""
    if any(letter.isdigit() for letter in text):
        return text
    figures = alpha2digit(_ONE.sub(r"\g<about>1", text), "en", threshold=2)
    return text if _IN_PARTS.search(figures) else figures


def parse_number_words(words: str) -> str | None:
    """Convert number words to a figure ("two hundred": 200); None for other words."""
    try:
        return str(text2num(words.lower(), "en"))
    except ValueError:
        return None
