"""Prompts, reply cache and errors of all judges and graders that ask a chat model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agents.asking.ask import ReplyForm, read
from agents.asking.prompts import PromptError, PromptLibrary
from agents.base.data_folder import data_path
from agents.base.files import one_line
from agents.models.base import ChatModel, ModelError
from agents.models.reply_cache import CachedReplies, ReplyStore
from evaluation.records import JudgeError

PROMPTS = data_path("prompts/judge")
"""Folder of the prompts of judges and graders."""

JUDGE = "judge"
"""Role of the model that reads them."""


def judge_prompts() -> PromptLibrary:
    """Return the prompts of judges and graders."""
    return PromptLibrary(PROMPTS)


def cache_replies(model: ChatModel, folder: Path | None, form: ReplyForm[Any]) -> ChatModel:
    """Wrap a model in a cache of the replies that have the form; no folder, no cache.

    Raises:
        JudgeError: The cache cannot be opened.
    """
    if folder is None:
        return model
    with convert_to_judge_errors():
        return CachedReplies(model, ReplyStore(folder), worth_keeping=lambda reply: read(form, reply).readable)


@contextmanager
def convert_to_judge_errors() -> Iterator[None]:
    """Convert errors of models and prompts into JudgeError, in one line."""
    try:
        yield
    except (ModelError, PromptError) as error:
        raise JudgeError(one_line(error)) from None
