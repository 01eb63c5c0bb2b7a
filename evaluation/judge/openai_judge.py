"""Judges behind an OpenAI-compatible server: the challenge's structured one and the research release's explained one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import openai
from pydantic import BaseModel, ValidationError
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential_jitter,
)

from agents.secrets import remember, scrubbed
from evaluation.judge.judge_prompts import load_prompt
from evaluation.judge.judging import CHALLENGE_JUDGE, JudgeError, JudgeItem, Verdict
from evaluation.judge.verdict_cache import JudgeCache

Style = Literal["structured", "explained"]
TRIES = 3
"""How often a reply that is no verdict is asked for again (research release)."""

SERVER_TRIES = 6
"""How often a server that is busy or does not answer is tried, with growing pauses."""

TIMEOUT_SECONDS = 60.0
LONGEST_PAUSE = 60.0
_RESULT = re.compile(r"result:\W*(correct|wrong)\b", re.IGNORECASE)
_JSON_OBJECT = re.compile(r"\{[^{}]*\}")
_PASSING = (openai.RateLimitError, openai.APITimeoutError, openai.APIConnectionError, openai.InternalServerError)

Wait = Callable[[RetryCallState], float]


class Accuracy(BaseModel):
    """The structured reply of the challenge's judge."""

    accuracy: bool


class _NoVerdictError(ValueError):
    """The reply holds no verdict."""


def style_of(model: str) -> Style:
    """The style in which a model judges by default: gpt-4o explains (research release), others reply in JSON (challenge)."""
    name = model.rsplit("/", 1)[-1]
    return "explained" if name.startswith("gpt-4o") and "mini" not in name else "structured"


class OpenAIJudge:
    """Asks a chat model; verdicts are cached by the content of the request.

    Args:
        model: Model name, as the server knows it.
        style: ``structured`` or ``explained``; by the model's name where None.
        base_url: Server; ``OPENAI_BASE_URL`` or OpenAI's own where None.
        api_key: ``OPENAI_API_KEY`` where None. A server of one's own often needs none.
        cache: Folder for the judgements; None keeps none.
        wait: Pause before a server is tried again, in tenacity's terms; a ``Retry-After`` of the server is respected.

    Raises:
        JudgeError: There is no key for OpenAI's own server.
    """

    parallel = True

    def __init__(
        self,
        model: str = CHALLENGE_JUDGE,
        *,
        style: Style | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        cache: Path | None = None,
        timeout: float = TIMEOUT_SECONDS,
        wait: Wait | None = None,
    ) -> None:
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        key = api_key or os.environ.get("OPENAI_API_KEY") or ("none" if base_url else None)
        if key is None:
            raise JudgeError(
                f"the judge {model} needs a key: set OPENAI_API_KEY, or use --eval-model None for the rule judge"
            )
        remember(key)
        self.model = model
        self.style: Style = style or style_of(model)
        self.name = f"{model} ({self.style})"
        self._prompt = load_prompt(self.style)
        self._client = openai.OpenAI(api_key=key, base_url=base_url, max_retries=0, timeout=timeout)
        self._cache = JudgeCache(cache) if cache is not None else None
        self._wait = wait or wait_exponential_jitter(initial=1.0, max=LONGEST_PAUSE)

    def judge(self, item: JudgeItem) -> Verdict:
        """Whether the response is right, by the model.

        A reply that is no verdict after 3 tries counts as wrong and is marked as failed (and is not cached).

        Raises:
            JudgeError: The key is refused, the model is unknown, or the server does not answer.
        """
        request = {
            "model": self.model,
            "messages": self._prompt.messages(item),
            "max_tokens": self._prompt.max_tokens,
            "temperature": self._prompt.temperature,
        }
        if self.style == "structured":
            request["response_format"] = _schema()
        key = JudgeCache.key(request)
        cached = self._cache.get(key) if self._cache is not None else None
        if cached is not None:
            return cached
        reply = ""
        for _ in range(TRIES):
            reply = self._complete(request)
            try:
                verdict = self._read(reply)
            except _NoVerdictError:
                continue
            if self._cache is not None:
                self._cache.put(key, verdict)
            return verdict
        return Verdict(False, f"the judge's reply is no verdict: {scrubbed(reply)[:200]!r}", failed=True)

    def _complete(self, request: dict[str, Any]) -> str:
        retrying = Retrying(
            stop=stop_after_attempt(SERVER_TRIES),
            wait=self._pause,
            retry=retry_if_exception_type(_PASSING),
            reraise=True,
        )
        try:
            return retrying(self._complete_once, request)
        except openai.AuthenticationError as error:
            raise JudgeError(f"the judge's server refuses the key (OPENAI_API_KEY): {_message(error)}") from None
        except openai.PermissionDeniedError as error:
            raise JudgeError(f"the key may not use {self.model}: {_message(error)}") from None
        except openai.NotFoundError as error:
            raise JudgeError(f"the judge's server has no model {self.model}: {_message(error)}") from None
        except _PASSING as error:
            raise JudgeError(
                f"the judge's server did not answer after {SERVER_TRIES} tries: {_message(error)}; "
                "what was judged is kept: evaluate again to go on"
            ) from None
        except openai.OpenAIError as error:
            raise JudgeError(f"the judge's server: {_message(error)}") from None

    def _complete_once(self, request: dict[str, Any]) -> str:
        try:
            completion = self._client.chat.completions.create(**request)
        except openai.BadRequestError as error:
            if "response_format" not in request or "response_format" not in str(error):
                raise
            # a server that knows no structured outputs: the prompt asks for the JSON object as well
            without = {name: value for name, value in request.items() if name != "response_format"}
            completion = self._client.chat.completions.create(**without)
        except json.JSONDecodeError:
            return ""  # the server's reply is no JSON at all: asked for again as no verdict
        choices = getattr(completion, "choices", None)
        return (choices[0].message.content or "") if choices else ""

    def _pause(self, state: RetryCallState) -> float:
        pause = self._wait(state)
        error = state.outcome.exception() if state.outcome is not None else None
        if isinstance(error, openai.APIStatusError):
            try:
                asked = float(error.response.headers.get("retry-after", ""))
            except ValueError:
                return pause
            return min(max(pause, asked), LONGEST_PAUSE)
        return pause

    def _read(self, reply: str) -> Verdict:
        if self.style == "explained":
            results = _RESULT.findall(reply)
            if not results:
                raise _NoVerdictError(reply)
            return Verdict(results[-1].lower() == "correct", reply.strip())
        found = _JSON_OBJECT.search(reply)
        try:
            accuracy = Accuracy.model_validate_json(found.group() if found else reply).accuracy
        except ValidationError as error:
            raise _NoVerdictError(reply) from error
        return Verdict(accuracy, found.group() if found else reply)


def _schema() -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"accuracy": {"type": "boolean"}},
        "required": ["accuracy"],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "accuracy", "strict": True, "schema": schema}}


def _message(error: Exception) -> str:
    """The complaint's first line, without the key, which some servers repeat."""
    return scrubbed((str(error).strip().splitlines() or [type(error).__name__])[0])[:300]
