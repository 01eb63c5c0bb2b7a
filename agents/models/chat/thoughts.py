"""Separates a reasoning model's thoughts from its reply, where the server leaves both in one text."""

import re

_NAMES = "think|thinking|thought|thoughts|reasoning|seed:think"
_OPEN = re.compile(
    rf"\s*(?:<(?:{_NAMES})>|\[THINK\]|◁think▷|<\|channel>thought|<\|START_THINKING\|>|"
    r"(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)|(?-i:analysis(?=[A-Z])))",
    re.IGNORECASE,
)
_CLOSE = re.compile(
    rf"</(?:{_NAMES})>|\[/THINK\]|◁/think▷|<channel\|>|<\|END_THINKING\|>|"
    r"<\|channel\|>final[^<>]*(?:<\|constrain\|>[^<>]*)?<\|message\|>|assistantfinal(?=\S)",
    re.IGNORECASE,
)
"""Marks around thoughts: tags, and those of Magistral, Kimi, Gemma 4, Command and Harmony (gpt-oss; its marks may be lost on the way).

Some chat templates open the tag in the prompt, so that a reply may have the closing tag alone."""

_MARK = r"<\|\w+\|?>|<\w+\|>|</?answer>"
_MARKS = re.compile(_MARK)
_LEADING_MARKS = re.compile(rf"\s*(?:(?:{_MARK})\s*)+")
"""Marks of a chat template that belong to no reply: GLM's boxes and answers, ends of turns."""


def reply_start(text: str) -> int:
    """Return where the reply begins behind the thoughts: 0 without thoughts, ``len(text)`` if they never end."""
    ends = [match.end() for match in _CLOSE.finditer(text)]
    if not ends and _OPEN.match(text):
        return len(text)
    start = ends[-1] if ends else 0
    marks = _LEADING_MARKS.match(text, start)
    return marks.end() if marks else start


def strip_marks(text: str) -> str:
    """Remove the marks of a chat template from a reply."""
    return _MARKS.sub("", text).strip()


def strip_thoughts(text: str) -> str:
    """Return the reply in a whole text, without thoughts and marks."""
    return strip_marks(text[reply_start(text) :])
