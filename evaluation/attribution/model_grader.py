"""A grader behind an OpenAI-compatible server, as in MAVIS (section 4: GPT-4.1); a grade that was given once is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from evaluation.attribution.mavis import GRADES, Document, LongAnswer, Sentence
from evaluation.judge.judge_prompts import load_prompt
from evaluation.judge.model_server import ModelServer

GRADER = "gpt-4.1"
"""The evaluator of the paper."""

TRIES = 3
_GRADE = re.compile(r"\"?grade\"?\s*[:=]\s*\"?(0\.5|0|1)(?:\.0)?\b", re.IGNORECASE)
_BARE = re.compile(r"^\W*(0\.5|0|1)(?:\.0)?\W*$")


class ModelGrader:
    """Asks a chat model for each grade; a reply that is no grade after 3 tries counts 0. See ``ModelServer`` for arguments and errors."""

    def __init__(self, model: str = GRADER, base_url: str | None = None, api_key: str | None = None) -> None:
        self._server = ModelServer(model, "--grader rule", base_url, api_key)
        self.name = model
        self._ask = cache(self._complete)

    def facts(self, truth: str) -> tuple[str, ...]:
        """The atomic facts of a ground truth, one a line of the reply; the truth as a whole where there is none."""
        reply = self._ask("atomic_facts", json.dumps({"ground_truth": truth}))
        lines = (re.sub(r"^\s*(?:[-*•]|\d+[.)])\s*", "", line).strip() for line in reply.splitlines())
        return tuple(line for line in lines if line) or (truth,)

    def completeness(self, fact: str, answer: LongAnswer) -> float:
        """See ``Grader.completeness``."""
        return self._grade("grade_completeness", query=answer.question, fact=fact, response=answer.text)

    def relevance(self, sentence: Sentence, answer: LongAnswer) -> float:
        """See ``Grader.relevance``; the picture is known by what the ground truth says of it."""
        return self._grade("grade_relevance", query=answer.question, ground_truth=answer.truth, sentence=sentence.text)

    def support(self, sentence: Sentence, documents: Sequence[Document], answer: LongAnswer) -> float:
        """See ``Grader.support``."""
        del answer
        shown = [{"title": document.title, "text": document.text} for document in documents]
        return self._grade("grade_support", sentence=sentence.text, documents=shown)

    def _grade(self, prompt: str, **values: Any) -> float:
        for attempt in range(TRIES):
            reply = self._ask(prompt, json.dumps(values, ensure_ascii=False), attempt)
            found = _GRADE.search(reply) or _BARE.match(reply)
            if found and float(found[1]) in GRADES:
                return float(found[1])
        return 0.0

    def _complete(self, name: str, values: str, attempt: int = 0) -> str:
        prompt = load_prompt(name)
        messages = prompt.render(**json.loads(values))
        return self._server.ask({"model": self.name, "messages": messages, **prompt.settings, "seed": attempt}).text
