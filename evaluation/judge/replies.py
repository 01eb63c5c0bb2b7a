"""The forms of judgements by models: the JSON of the challenge's judge, and the explanation of the research release's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import BaseModel, ValidationError

from agents.asking.ask import ReplyForm
from agents.models.base import ChatReply
from evaluation.records import Verdict
from evaluation.rules import JudgeStyle

_JSON_OBJECT = re.compile(r"\{[^{}]*\}")


class Accuracy(BaseModel):
    """Structured reply of the challenge's judge."""

    accuracy: bool


def parse_structured_verdict(reply: str) -> Verdict | None:
    """Parse a JSON object with ``accuracy``, ignoring text around it; None for no verdict."""
    match = _JSON_OBJECT.search(reply)
    json_text = match.group() if match else reply
    try:
        return Verdict(Accuracy.model_validate_json(json_text).accuracy, json_text)
    except ValidationError:
        return None


def parse_explained_verdict(reply: str) -> Verdict | None:
    """Parse the verdict at the end of an explanation, exactly as the research release does.

    That is evaluation/llm_judge.py. Wrong goes first, wherever "Result: WRONG" stands. The last line may hold the bare word, and
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


def _explained(reply: ChatReply) -> Verdict | None:
    return parse_explained_verdict(reply.text)


FORMS: Mapping[JudgeStyle, ReplyForm[Verdict | None]] = {
    "structured": ReplyForm("JSON: accuracy", _structured),
    "explained": ReplyForm("explanation and verdict", _explained, limit=None),  # the verdict stands at the end
}
