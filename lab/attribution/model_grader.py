"""A grader behind an OpenAI-compatible server, as in MAVIS (section 4: GPT-4.1). Its grades are cached."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from agents.asking.ask import Answer, Ask, Question, ReplyForm, put
from agents.models.base import ChatReply
from evaluation.judge.asking import cache_replies, convert_to_judge_errors, judge_prompts
from evaluation.judge.server import JudgeServer
from evaluation.records import JudgeError
from lab.attribution.mavis import Document, LongAnswer, Sentence

T = TypeVar("T")

GRADER = "gpt-4.1"
"""The paper's evaluator."""

TRIES = 3
_GRADE = re.compile(r"\"?grade\"?\s*[:=]\s*\"?(0\.5|0|1)(?:\.0)?\b", re.IGNORECASE)
_BARE = re.compile(r"^\W*(0\.5|0|1)(?:\.0)?\W*$")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s*")


def _grade(reply: ChatReply) -> float | None:
    match = _GRADE.search(reply.text) or _BARE.match(reply.text)
    return float(match[1]) if match else None


def _facts(reply: ChatReply) -> tuple[str, ...]:
    lines = (_BULLET.sub("", line).strip() for line in reply.text.splitlines())
    return tuple(line for line in lines if line)


GRADE = ReplyForm("grade", _grade)
FACTS = ReplyForm("facts, one a line", _facts, lambda said, _: bool(said))


class ModelGrader:
    """Grader that asks a chat model; without a grade after 3 tries it gives 0.

    Args:
        model: Name of the model.
        cache: Folder of its replies; None: no cache.
        base_url: See ``JudgeServer``, for errors too.
    """

    def __init__(self, model: str = GRADER, *, cache: Path | None = None, base_url: str | None = None) -> None:
        server = JudgeServer(model, "--grader rule", base_url)
        self._models = {form.name: cache_replies(server, cache, form) for form in (FACTS, GRADE)}
        self._prompts = judge_prompts()
        self.name = model

    def facts(self, truth: str) -> tuple[str, ...]:
        """Return the atomic facts of a ground truth, one a line of the reply, or else the whole truth."""
        return self._answer(Ask("atomic_facts", FACTS), {"ground_truth": truth}).value or (truth,)

    def completeness(self, fact: str, answer: LongAnswer) -> float:
        """See ``Grader.completeness``."""
        return self._grade("grade_completeness", query=answer.question, fact=fact, response=answer.text)

    def relevance(self, sentence: Sentence, answer: LongAnswer) -> float:
        """See ``Grader.relevance``. Without a photo the model gets the ground truth instead."""
        photo = answer.photo()
        values = {"query": answer.question, "ground_truth": answer.truth if photo is None else None, "image": photo}
        return self._grade("grade_relevance", sentence=sentence.text, **values)

    def support(self, sentence: Sentence, documents: Sequence[Document], answer: LongAnswer) -> float:
        """See ``Grader.support``."""
        del answer
        return self._grade("grade_support", sentence=sentence.text, documents=documents)

    def _grade(self, prompt: str, **values: Any) -> float:
        for attempt in range(TRIES):
            grade = self._answer(Ask(prompt, GRADE), values, seed=attempt).value
            if grade is not None:
                return grade
        return 0.0

    def _answer(self, ask: Ask[T], values: dict[str, Any], **sampling: Any) -> Answer[T]:
        """Ask the model one question.

        Raises:
            JudgeError: The model gave no answer.
        """
        question = Question(ask, values, sampling=sampling)
        with convert_to_judge_errors():
            (answer,) = put([question], self._prompts, lambda _: self._models[ask.form.name])
        if answer.failed:
            raise JudgeError(answer.error)
        return answer
