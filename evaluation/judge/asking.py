"""What all judges and graders share that ask a chat model: their prompts, the cache of their replies, and their errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agents.asking.ask import ReplyForm, read
from agents.asking.prompts import PromptError, PromptLibrary
from agents.base.files import one_line
from agents.models.base import ChatModel, ModelError
from agents.models.reply_cache import CachedReplies, ReplyStore
from evaluation.records import JudgeError

PROMPTS = Path(__file__).resolve().parents[2] / "prompts" / "judge"
"""What judges and graders are asked."""

JUDGE = "judge"
"""The role that reads them."""


def judge_prompts() -> PromptLibrary:
    """The prompts of judges and graders."""
    return PromptLibrary(PROMPTS)


def kept(model: ChatModel, folder: Path | None, form: ReplyForm[Any]) -> ChatModel:
    """The model with a cache of those replies that keep the form; None for no cache. JudgeError where it cannot be opened."""
    if folder is None:
        return model
    with as_judge_errors():
        return CachedReplies(model, ReplyStore(folder), worth_keeping=lambda reply: read(form, reply).readable)


@contextmanager
def as_judge_errors() -> Iterator[None]:
    """Errors of models and prompts as JudgeError, in a line."""
    try:
        yield
    except (ModelError, PromptError) as error:
        raise JudgeError(one_line(error)) from None
