"""Judges behind an OpenAI-compatible server: the challenge's structured one and the research release's explained one."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from agents.runtime.files import well_formed, write_whole
from agents.runtime.secrets import scrubbed
from evaluation.judge.judge_prompts import load_prompt
from evaluation.judge.model_server import ModelServer, NoAnswerError, RequestError
from evaluation.judge.organiser_prompt import read_organiser
from evaluation.judge.spending import Spending, price_of
from evaluation.records import JudgeError, JudgeItem, Verdict
from evaluation.rules import JudgeStyle

TRIES = 3
"""How often a reply is asked for that holds a verdict (starter kit)."""

GIVE_UP_AFTER = 5
"""After this many judgements in a row without an answer of the server the others are not asked for: they fail too, and at once."""

_JSON_OBJECT = re.compile(r"\{[^{}]*\}")


class Accuracy(BaseModel):
    """The structured reply of the challenge's judge."""

    accuracy: bool


def style_of(model: str) -> JudgeStyle:
    """The style in which a model judges by default: gpt-4o explains (research release), others reply in JSON (challenge)."""
    name = model.rsplit("/", 1)[-1]
    return "explained" if name.startswith("gpt-4o") and "mini" not in name else "structured"


def explained_verdict(reply: str) -> bool | None:
    """What an explanation ends in, read exactly as the research release reads it (evaluation/llm_judge.py); None for no verdict.

    Wrong goes first, wherever "Result: WRONG" stands; the last line may hold the bare word, and "INCORRECT" there counts as "CORRECT".
    """
    last = reply.split("\n")[-1]
    if "Result: WRONG" in reply or "WRONG" in last:
        return False
    return True if "Result: CORRECT" in reply or "CORRECT" in last else None


_VERDICT = TypeAdapter(Verdict)


class VerdictCache:
    """Verdicts by the content of the request that led to them; safe to use from several threads and processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, request: Mapping[str, Any]) -> Verdict | None:
        """The verdict of a request, or None where it was not judged yet or its file is not readable."""
        try:
            return _VERDICT.validate_json(self._path(request).read_bytes())
        except (OSError, ValidationError):
            return None

    def put(self, request: Mapping[str, Any], verdict: Verdict) -> None:
        """Keep a verdict."""
        write_whole(self._path(request), json.dumps(asdict(verdict), ensure_ascii=False))

    def _path(self, request: Mapping[str, Any]) -> Path:
        """By the SHA-256 of the request: model, style, messages and sampling settings."""
        key = hashlib.sha256(well_formed(json.dumps(request, sort_keys=True, ensure_ascii=False)).encode()).hexdigest()
        return self._folder / key[:2] / f"{key}.json"


class OpenAIJudge:
    """Asks a chat model; verdicts are cached by the content of the request. See ``ModelServer`` for what is not named here.

    Args:
        style: ``structured`` or ``explained``; by the model's name where None.
        cache: Folder for the judgements; None keeps none.
        organiser: Checkout of the organiser's code, whose words are used in place of ours.
        server: How long the server is waited for, in ``ModelServer``'s arguments.

    Raises:
        JudgeError: There is no key for OpenAI's own server, or the checkout has no such words, or in the other style.
    """

    parallel = True

    def __init__(
        self,
        model: str,
        *,
        style: JudgeStyle | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        cache: Path | None = None,
        organiser: Path | None = None,
        spending: Spending | None = None,
        **server: Any,
    ) -> None:
        self.spending = spending or Spending(price_of(model))
        self._server = ModelServer(
            model,
            "--eval-model None for the rule judge",
            base_url,
            api_key,
            spending=self.spending,
            **server,
        )
        theirs = read_organiser(organiser) if organiser is not None else None
        if theirs is not None and style not in (None, theirs.style):
            raise JudgeError(f"--organiser {organiser}: its judge is {theirs.style}, not {style}")
        self.style: JudgeStyle = theirs.style if theirs is not None else style or style_of(model)
        self._prompt = theirs or load_prompt(self.style)
        self.name = f"{model} ({self.style}; {self._prompt.words})"
        self._cache = VerdictCache(cache) if cache is not None else None
        self._lock = threading.Lock()
        self._failures = 0

    def judge(self, item: JudgeItem) -> Verdict:
        """Whether the response is right, by the model.

        Where the server gives no verdict in 3 tries, or no answer, the answer counts as wrong; that is marked as failed and not
        kept, so that the next run asks again. After 5 judgements in a row without an answer the server is not asked any more, nor after
        5 minutes without any (``model_server.PATIENCE_SECONDS``).

        Raises:
            JudgeError: The key is refused, the model is unknown, or what may be spent is spent.
        """
        request: dict[str, Any] = {
            "model": self._server.model,
            "messages": self._prompt.render(query=item.query, ground_truth=item.ground_truth, response=item.response),
            **self._prompt.settings,
        }
        if self._cache is not None and (cached := self._cache.get(request)) is not None:
            self.spending.add_kept(cached.tokens)
            return cached
        if self._failures >= GIVE_UP_AFTER:
            reason = f"not asked: the judge's server did not answer {GIVE_UP_AFTER} times in a row"
            return Verdict(False, reason, failed=True)
        try:
            verdict = self._ask(request)
        except RequestError as error:
            self._count(no_answer=isinstance(error, NoAnswerError))
            return Verdict(False, str(error), failed=True)
        self._count(no_answer=False)
        if self._cache is not None and not verdict.failed:
            self._cache.put(request, verdict)
        return verdict

    def _ask(self, request: dict[str, Any]) -> Verdict:
        read = written = 0
        text = ""
        for _ in range(TRIES):
            reply = self._server.ask(request)
            text, read, written = reply.text, read + reply.tokens[0], written + reply.tokens[1]
            verdict = self._read(text)
            if verdict is not None:
                return replace(verdict, tokens=(read, written))
        return Verdict(False, f"the judge's reply is no verdict: {scrubbed(text)[:200]!r}", failed=True)

    def _count(self, *, no_answer: bool) -> None:
        with self._lock:
            self._failures = self._failures + 1 if no_answer else 0

    def _read(self, reply: str) -> Verdict | None:
        """The verdict of a reply; None where it holds none."""
        if self.style == "explained":
            right = explained_verdict(reply)
            return None if right is None else Verdict(right, reply.strip())
        found = _JSON_OBJECT.search(reply)
        said = found.group() if found else reply
        try:
            return Verdict(Accuracy.model_validate_json(said).accuracy, said)
        except ValidationError:
            return None
