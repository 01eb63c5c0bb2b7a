"""The forms of judgements by models: the JSON of the challenge's judge, and the explanation of the research release's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from json import JSONDecoder

from pydantic import BaseModel

from agents.asking.ask import ReplyForm
from agents.base.files import parse_json
from agents.models.base import ChatReply
from evaluation.records import Verdict
from evaluation.rules import JudgeStyle

_DECODER = JSONDecoder()
_VERDICTS = {"CORRECT": True, "WRONG": False}
_BEFORE_VERDICT: Sequence[list[str]] = (
    [],
    ["RESULT"],
    ["BOXED"],
    ["RESULT", "BOXED"],
)  # as models that were trained on sums write it
_NEARLY = re.compile(r"""(["'])accuracy\1\s*:\s*(true|false)\b""", re.IGNORECASE)
_MAX_OBJECTS = 200
"""Most opening braces of a reply at which an object is looked for."""


class Accuracy(BaseModel):
    """Structured reply of the challenge's judge."""

    accuracy: bool


def parse_structured_verdict(reply: str) -> Verdict | None:
    """Parse the JSON object with ``accuracy``, ignoring text around it; None for no verdict, or for two that differ.

    If there is none, the field is looked for: local judges write Python, a comma too many, or a reason that is cut.
    """
    verdicts = list(_find_verdicts(reply))
    verdicts = verdicts or [Verdict(said.lower() == "true", reply.strip()) for _, said in _NEARLY.findall(reply)]
    return verdicts[0] if len({verdict.correct for verdict in verdicts}) == 1 else None


def parse_kit_verdict(reply: str) -> Verdict | None:
    """Parse the JSON object exactly as the starter kit does (local_evaluation.py): nothing may be around it.

    Returns:
        None for no verdict.
    """
    with suppress(ValueError):
        return Verdict(Accuracy.model_validate(parse_json(reply)).accuracy, reply.strip())
    return None


def _find_verdicts(reply: str) -> Iterator[Verdict]:
    """Yield a verdict for each JSON object with ``accuracy``, those inside other objects too."""
    end = 0
    for brace in islice(re.finditer(r"\{", reply), _MAX_OBJECTS):
        if brace.start() < end:  # inside an object that was read
            continue
        with suppress(ValueError, RecursionError):
            content, after = _DECODER.raw_decode(reply, brace.start())
            accuracy = Accuracy.model_validate(content).accuracy
            end = after
            yield Verdict(accuracy, reply[brace.start() : after])


def parse_explained_verdict(reply: str) -> Verdict | None:
    """Parse the last line of an explanation, which must be the bare verdict: "Result: CORRECT" or "WRONG", in any case and marks.

    Returns:
        None for any other last line, such as "Result: INCORRECT", "NOT CORRECT" or "PARTIALLY CORRECT".
    """
    words = [word.upper() for word in re.findall(r"\w+", reply.strip().rstrip("`").rstrip().rpartition("\n")[2])]
    right = _VERDICTS.get(words[-1]) if words and words[:-1] in _BEFORE_VERDICT else None
    return None if right is None else Verdict(right, reply.strip())


def parse_release_verdict(reply: str) -> Verdict | None:
    """Parse the verdict at the end of an explanation, exactly as the research release does.

    That is evaluation/llm_judge.py. Wrong goes first, wherever "Result: WRONG" stands. The last line may have the bare word, and
    "INCORRECT" there counts as "CORRECT".

    Returns:
        None for no verdict.
    """
    last = reply.split("\n")[-1]
    if "Result: WRONG" in reply or "WRONG" in last:
        return Verdict(False, reply.strip())
    return Verdict(True, reply.strip()) if "Result: CORRECT" in reply or "CORRECT" in last else None


def _structured(reply: ChatReply) -> Verdict | None:
    return parse_structured_verdict(reply.text)


def _as_the_kit(reply: ChatReply) -> Verdict | None:
    return parse_kit_verdict(reply.text)


def _explained(reply: ChatReply) -> Verdict | None:
    return parse_explained_verdict(reply.text)


def _as_the_release(reply: ChatReply) -> Verdict | None:
    return parse_release_verdict(reply.text)


FORMS: Mapping[JudgeStyle, ReplyForm[Verdict | None]] = {
    "structured": ReplyForm("JSON: accuracy", _structured),
    "explained": ReplyForm("explanation and verdict", _explained, limit=None),  # the verdict is at the end
}

EXACT_FORMS: Mapping[JudgeStyle, ReplyForm[Verdict | None]] = {
    "structured": ReplyForm("JSON: accuracy", _as_the_kit),
    "explained": ReplyForm("explanation and verdict", _as_the_release, limit=None),
}
"""The forms as the starter kit and the research release read them."""
