"""The forms in which models judge: the JSON of the challenge's judge, and the explanation of the research release's."""

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
    """The structured reply of the challenge's judge."""

    accuracy: bool


def structured_verdict(reply: str) -> Verdict | None:
    """What a JSON object with ``accuracy`` says, text around it aside; None for no verdict."""
    found = _JSON_OBJECT.search(reply)
    said = found.group() if found else reply
    try:
        return Verdict(Accuracy.model_validate_json(said).accuracy, said)
    except ValidationError:
        return None


def explained_verdict(reply: str) -> Verdict | None:
    """What an explanation ends in, read exactly as the research release reads it (evaluation/llm_judge.py); None for no verdict.

    Wrong goes first, wherever "Result: WRONG" stands; the last line may hold the bare word, and "INCORRECT" there counts as "CORRECT".
    """
    last = reply.split("\n")[-1]
    if "Result: WRONG" in reply or "WRONG" in last:
        return Verdict(False, reply.strip())
    return Verdict(True, reply.strip()) if "Result: CORRECT" in reply or "CORRECT" in last else None


def _structured(reply: ChatReply) -> Verdict | None:
    return structured_verdict(reply.text)


def _explained(reply: ChatReply) -> Verdict | None:
    return explained_verdict(reply.text)


FORMS: Mapping[JudgeStyle, ReplyForm[Verdict | None]] = {
    "structured": ReplyForm("JSON: accuracy", _structured),
    "explained": ReplyForm("explanation and verdict", _explained, limit=None),  # the verdict stands at the end
}
