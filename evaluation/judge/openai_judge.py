"""Judges behind an OpenAI-compatible server: the challenge's structured one and the research release's explained one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from agents.secrets import scrubbed
from evaluation.judge.judge_prompts import CHALLENGE_JUDGE, load_prompt
from evaluation.judge.model_server import TIMEOUT_SECONDS, ModelServer, Wait
from evaluation.judge.verdict_cache import VerdictCache
from evaluation.records import JudgeItem, Verdict
from evaluation.rules import Reply

TRIES = 3
"""How often a reply that is no verdict is asked for again (research release)."""

_RESULT = re.compile(r"result:\W*(correct|wrong)\b", re.IGNORECASE)
_JSON_OBJECT = re.compile(r"\{[^{}]*\}")


class Accuracy(BaseModel):
    """The structured reply of the challenge's judge."""

    accuracy: bool


def style_of(model: str) -> Reply:
    """The style in which a model judges by default: gpt-4o explains (research release), others reply in JSON (challenge)."""
    name = model.rsplit("/", 1)[-1]
    return "explained" if name.startswith("gpt-4o") and "mini" not in name else "structured"


class OpenAIJudge:
    """Asks a chat model; verdicts are cached by the content of the request.

    Args:
        model: Model name, as the server knows it.
        style: ``structured`` or ``explained``; by the model's name where None.
        base_url: See ``ModelServer``.
        api_key: See ``ModelServer``.
        cache: Folder for the judgements; None keeps none.
        wait: See ``ModelServer``.

    Raises:
        JudgeError: There is no key for OpenAI's own server.
    """

    parallel = True

    def __init__(
        self,
        model: str = CHALLENGE_JUDGE,
        *,
        style: Reply | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        cache: Path | None = None,
        timeout: float = TIMEOUT_SECONDS,
        wait: Wait | None = None,
    ) -> None:
        self._server = ModelServer(
            model, "--eval-model None for the rule judge", base_url, api_key, timeout=timeout, wait=wait
        )
        self.style: Reply = style or style_of(model)
        self.name = f"{model} ({self.style})"
        self._prompt = load_prompt(self.style)
        self._cache = VerdictCache(cache) if cache is not None else None

    def judge(self, item: JudgeItem) -> Verdict:
        """Whether the response is right, by the model.

        A reply that is no verdict after 3 tries counts as wrong and is marked as failed (and is not cached).

        Raises:
            JudgeError: The key is refused, the model is unknown, or the server does not answer.
        """
        request: dict[str, Any] = {
            "model": self._server.model,
            "messages": self._prompt.render(query=item.query, ground_truth=item.ground_truth, response=item.response),
            "max_tokens": self._prompt.max_tokens,
            "temperature": self._prompt.temperature,
        }
        if self.style == "structured":
            schema = {"type": "object", "properties": {"accuracy": {"type": "boolean"}}, "required": ["accuracy"]}
            strict = {"name": "accuracy", "strict": True, "schema": {**schema, "additionalProperties": False}}
            request["response_format"] = {"type": "json_schema", "json_schema": strict}
        if self._cache is not None and (cached := self._cache.get(request)) is not None:
            return cached
        reply = ""
        for _ in range(TRIES):
            reply = self._server.complete(request)
            verdict = self._read(reply)
            if verdict is not None:
                if self._cache is not None:
                    self._cache.put(request, verdict)
                return verdict
        return Verdict(False, f"the judge's reply is no verdict: {scrubbed(reply)[:200]!r}", failed=True)

    def _read(self, reply: str) -> Verdict | None:
        """The verdict of a reply; None where it holds none."""
        if self.style == "explained":
            results = _RESULT.findall(reply)
            return Verdict(results[-1].lower() == "correct", reply.strip()) if results else None
        found = _JSON_OBJECT.search(reply)
        said = found.group() if found else reply
        try:
            return Verdict(Accuracy.model_validate_json(said).accuracy, said)
        except ValidationError:
            return None
