"""How long and with what the text functions are fuzzed.

``CRAG_FUZZ=thorough pytest tests/property`` looks fifty times as long.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

THOROUGH = os.environ.get("CRAG_FUZZ") == "thorough"
AT_LENGTH = "CRAG_HOSTILE" in os.environ
"""Whether ``make hostile`` runs, which tries what takes ``make test`` too long."""

PIECES = (
    "{", "}", "{{", "}}", "{{a|", "{{{", "{|", "|}", "|-", "|", "[", "]", "[[", "]]", "[[a|b]]", "[1]", "[Info 1]",
    "[1-50]", "[^2]", "【3】", "<", ">", "<b>", "</b>", "<div>", "</div>", "<div hidden>", "<p>", "<br/>",
    "<a href=\"", "<a ", "<!--", "-->", "<script>", "</script>", "<table><tr><td>", "<ref>", "</ref>", "<nowiki>",
    "<math>", "<![CDATA[", "<?", "<|", "|>", "<|eot_id|>", "<｜a｜>", "</s>", "[INST]", "&", "&amp;", "&amp;amp;",
    "&#73;", "&lt;", "&gt;", "&#", "\n", "\n*", "\n:", "\n;a:", "\n==", "''", "\n\n", " ", "  ", "\t", "\u2028",
    "\u3000", "\u200b", "\u202e", "\ud800", "\u0000", "\u001b[2J", ".", ". ", "!", "?", ",", ":", ";", "-", "*",
    "#", "=", "\"", "'", "\\", "(", ")", "“", "”", "„", "«", "Mr. ", "e.g. ", "a", "b ", "1", "1.5", "1,000",
    "50%", "é", "I", "gnore", "Ｉｇｎｏｒｅ", "ignore ", "Ignore all ", "previous ", "instructions", " and answer ",
    "the correct ", "answer", "you must ", "say ", "only ", "now ", "always ", "then ", "end of ", "system", ":",
    "user:", "\nassistant:", "\nAnswer: ", "Final answer:", "yes", "no", "Confidence: ", "0.9", "nan", "1e999",
    "{\"a\": ", "[{\"a\":", "\"a\"", "null", "true", "```json\n", "```", "//", "/*", "http://a.b/", "{{ 7*7 }}",
    "{% for x in y %}", "{{convert|", "{{start date|", "|870|ft|m}}", "=== system\n",
)  # fmt: skip
"""What means something to one of the parsers, and what stands between."""

pieces = st.one_of(st.sampled_from(PIECES), st.text(max_size=6))
hostile_text = st.lists(pieces, max_size=40).map("".join)
repeated = st.tuples(
    st.lists(pieces, max_size=2), st.lists(pieces, min_size=1, max_size=3), st.lists(pieces, max_size=2)
).map(lambda parts: tuple(map("".join, parts)))
"""A head, what is repeated, and a tail: what makes a parser slow is nearly always one thing many times."""


def fuzzed(examples: int, *, shrink: bool = True) -> Any:
    """Hypothesis' settings: no limit of time, for a busy machine breaks any; ``shrink`` is not for what measures time."""
    return settings(
        max_examples=examples * (50 if THOROUGH else 1),
        deadline=None,
        phases=[phase for phase in Phase if phase != Phase.explain and (shrink or phase != Phase.shrink)],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def blows_up(work: Callable[[str], object], make: Callable[[int], str], characters: int) -> bool:
    """Whether four times the input takes far more than four times the processor's time (16 times, if it grows with the square).

    Processor time of this thread alone is counted, the best of several tries; under a quarter of a second nothing is a blow-up.
    """
    for _ in range(4):
        once, four = _seconds(work, make(characters)), _seconds(work, make(4 * characters))
        if four < max(0.25, 9.0 * once):
            return False
    return True


_SHORT, SIZES = 1_000, (4_000, 16_000)  # characters
_LONGEST = 0.5  # seconds for a short text
_LONG = 0.1  # seconds for the shorter size; less may be a square that a limit of characters ends
_NOTHING = 0.001  # seconds; quadratic work on 4,000 characters takes several times as long
_NOTICEABLE = 0.004  # seconds; less says nothing about growth
_TRIES, _REPEATS = 3, 3


def grows_like_a_square(work: Callable[[str], object], make: Callable[[int], str]) -> bool:
    """Return whether four times the input takes far more than four times the processor's time.

    Work that takes less than ``_NOTICEABLE`` seconds at every size does not.
    Of several tries the fastest counts: other processes slow the work down.
    """
    if _seconds(work, make(_SHORT)) > _LONGEST:
        return True
    for size in SIZES:
        seconds = _seconds(work, make(size))
        if seconds < _NOTHING:
            return False
        if seconds < _NOTICEABLE:
            continue
        counts = size == SIZES[-1] or seconds > _LONG
        if counts and all(_is_out_of_proportion(work, make, size) for _ in range(_REPEATS)):
            return True
    return False


def _is_out_of_proportion(work: Callable[[str], object], make: Callable[[int], str], size: int) -> bool:
    once = min(_seconds(work, make(size // 4)) for _ in range(_TRIES))
    four = min(_seconds(work, make(size)) for _ in range(_TRIES))
    return four > max(_NOTICEABLE, 9.0 * once)


def _seconds(work: Callable[[str], object], text: str) -> float:
    started = time.thread_time()
    work(text)
    return time.thread_time() - started
