"""Answers that repeat the prompt: a small model may give a line that it was told for what it was asked."""

import re
from collections.abc import Iterable

_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+")
_RUN = 5  # words in a row that an answer has from a prompt by more than chance; of no right answer of the mini set any has four
_LABEL_WORDS = 4  # of a label, such as "The conversation so far:"; shorter ones are phrases that answers have too
_MIN_WORDS = 3  # of a shorter sentence, which counts only if it is all of the answer: "Information" may be one


def repeats_prompt(answer: str, wording: Iterable[str]) -> bool:
    """Return whether an answer is a sentence of the prompt, has a label of it, or is for at least half the prompt's own words.

    Words with a figure among them do not count: they are facts of an example, which may be true for once.

    Args:
        answer: The answer.
        wording: The prompt's literal texts, without the filled-in values (``Prompt.wording``).
    """
    words = _list_words(answer)
    lines = [line for text in wording for line in text.splitlines()]
    parts = [part.strip() for line in lines for part in (line, *_SENTENCE.split(line))]
    if len(words) >= _MIN_WORDS and not _has_figure(words) and words in map(_list_words, parts):
        return True
    text = " ".join(answer.casefold().split())
    labels = (part.casefold() for part in parts if part.endswith(":") and len(part.split()) >= _LABEL_WORDS)
    if any(label in text for label in labels):
        return True
    runs = {run for line in lines for run in _list_runs(_list_words(line)) if not _has_figure(run)}
    repeated = {place + offset for place, run in enumerate(_list_runs(words)) if run in runs for offset in range(_RUN)}
    return bool(repeated) and 2 * len(repeated) >= len(words)


def _has_figure(words: Iterable[str]) -> bool:
    return any(word[0].isdigit() for word in words)


def _list_words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _list_runs(words: list[str]) -> list[tuple[str, ...]]:
    return [tuple(words[start : start + _RUN]) for start in range(len(words) - _RUN + 1)]
