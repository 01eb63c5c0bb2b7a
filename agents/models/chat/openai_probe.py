"""Tests the abilities of a server with a few small requests, so that nothing has to fail in a run first."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import time
from dataclasses import dataclass

from openai.types import Model
from PIL import Image

from agents.base.box_forms import BoxForm
from agents.models.base import ChatMessage, ChatReply, ChatRequest, ModelError
from agents.models.chat.box_check import check_boxes
from agents.models.chat.dialect import LIMIT, NEW_LIMIT
from agents.models.chat.error_bodies import clean_message
from agents.models.chat.loop_thread import within
from agents.models.chat.openai_chat import BASE_VARIABLE, OpenAIChat
from agents.models.chat.server_errors import UnknownModelError
from agents.time_limits.deadline import Deadline

SECONDS = 120.0
"""Longest time that a probe takes; a model may have to be loaded first."""

REPLY, PICTURES, BOXES, SCHEMA, LOGPROBS, STREAMING, TEMPERATURE, LIMIT_KEPT, THOUGHTS, CONTEXT = (
    "reply",
    "pictures",
    "boxes",
    "schema",
    "log-probabilities",
    "streaming",
    "temperature",
    "limit of tokens",
    "thoughts",
    "context",
)
"""What is found out."""

_COLOURS = ("red", "green", "blue", "yellow", "white", "black")
_TEST_COLOUR = "yellow"
_SIZE = (64, 64)
_QUESTION = f"Which colour is this picture: {', '.join(_COLOURS)}? Reply with JSON alone: " + '{"colour": "..."}'
_BLIND_QUESTION = f"Which colour is a ripe lemon: {', '.join(_COLOURS)}? Reply with JSON alone: " + '{"colour": "..."}'
_COUNT = "Count from 1 to 30, with commas."
_SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": list(_COLOURS)}},
    "required": ["colour"],
    "additionalProperties": False,
}
_BLIND = "choose a model that sees, or write a profile whose chat model is told the photo in words (docs/models.md)"
_PLAIN = (
    (STREAMING, "stream", "a reply unfinished at the deadline is lost"),
    (TEMPERATURE, "temperature", "answers differ from run to run"),
)
"""Parameters that a server may refuse, and the cost of a refusal."""
_TOKENS, _FEW_TOKENS = 32, 8
_THOUGHTS = 2048
"""Tokens for thoughts of a probe whose model ends inside them without a budget."""
_LISTING_SECONDS = 10.0
_LIST_PREFIX = "models/"  # before each name in Gemini's list; it takes names without
_MAX_LISTED = 12  # models of a server in a message

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Finding:
    """One thing that a server can or cannot; ``can`` is None if that could not be found out, ``fatal`` if nothing works without it."""

    name: str
    can: bool | None
    detail: str
    cure: str = ""
    fatal: bool = False


@dataclass(frozen=True)
class Probe:
    """Abilities of a server's model, found in ``requests`` requests."""

    model: str
    address: str
    findings: tuple[Finding, ...]
    requests: int
    seconds: float

    @property
    def fault(self) -> str | None:
        """Reason why the profile cannot use the model, and what to do; None if it can."""
        faults = [f"{finding.detail}: {finding.cure}" for finding in self.findings if finding.fatal]
        return f"{self.model} at {self.address}: {'; '.join(faults)}" if faults else None

    @property
    def lacks(self) -> bool:
        """Whether the model cannot do something."""
        return any(finding.can is False for finding in self.findings)

    @property
    def summary(self) -> str:
        """One line about the model's missing abilities."""
        lacking = [f"{finding.name} ({finding.detail})" for finding in self.findings if finding.can is False]
        text = f"lacks {', '.join(lacking)}; crag probe says what to do" if lacking else "has all needed features"
        return f"{self.model} at {self.address} {text}"


@dataclass(frozen=True)
class _Listing:
    """The server's list of its models: their names, and the context of ours."""

    names: tuple[str, ...] = ()
    context: int | None = None
    trained: int | None = (
        None  # tokens that the model was trained for, where the server does not say what it was started with
    )


def probe(chat: OpenAIChat, *, sees: bool, thorough: bool = True, boxes: BoxForm = "none") -> Probe:
    """Ask a server for a picture's colour in a request with all features in use; parameters that it refuses are remembered for the run.

    Args:
        chat: The model.
        sees: Whether it is shown pictures.
        boxes: Form of its boxes, which four more requests check; wrong ones are not used by this process.
        thorough: Whether a second request finds out if the limit of tokens is kept, and a third call asks for the context.

    Raises:
        ModelError: There is no key, server or model, or it answers not even a plain question; the message says what to do.
    """
    if not chat.base_url and not os.environ.get(BASE_VARIABLE) and not chat.key:
        raise ModelError(
            f"{chat.name} needs a key: set {chat.api_key_env}, or name a server of your own with --base-url (or {BASE_VARIABLE})"
        )
    began, before = time.monotonic(), chat.requests
    findings: list[Finding] = []
    colour = _TEST_COLOUR if sees else None
    reply = _ask(chat, colour)
    asking = chat
    if reply.fault == "tokens":
        asking, first = dataclasses.replace(chat, reasoning_tokens=chat.reasoning_tokens + _THOUGHTS), reply
        reply = _ask(asking, colour)
        findings.append(_thinks_too_long(first, asking.reasoning_tokens, is_enough=reply.fault != "tokens"))
    has_ended = reply.fault != "tokens"
    if has_ended and sees and reply.finish_reason == "error":
        plain = _ask(asking, None)
        if plain.finish_reason != "error":
            findings.append(Finding(PICTURES, False, f"the model takes no picture ({reply.error})", _BLIND, fatal=True))
        reply = plain
    elif has_ended and sees:
        findings.append(_judge_picture(asking, reply))
    if has_ended and sees and boxes != "none" and not any(finding.fatal for finding in findings):
        findings.append(_judge_boxes(asking, boxes))
    if has_ended:
        findings += _judge_reply(chat, reply)
    if thorough:
        findings += [_judge_limit(chat), _judge_context(_list_models(chat))]
    requests = chat.requests - before + (asking.requests if asking is not chat else 0)
    return Probe(chat.name, chat.address, tuple(findings), requests, time.monotonic() - began)


def _ask(chat: OpenAIChat, colour: str | None) -> ChatReply:
    """Ask for the colour of a picture of this colour; None: of a lemon, without a picture.

    Raises:
        ModelError: No reply came, or the server has no such model.
    """
    pictures = () if colour is None else (Image.new("RGB", _SIZE, colour),)
    message = ChatMessage("user", _BLIND_QUESTION if colour is None else _QUESTION, pictures)
    request = ChatRequest((message,), max_tokens=_TOKENS, schema=_SCHEMA, logprobs=True)
    try:
        (reply,) = chat.chat([request], Deadline(SECONDS))
    except UnknownModelError:
        listed = _list_models(chat).names
        if not listed or chat.name in {name.removeprefix(_LIST_PREFIX) for name in listed}:
            raise
        has = ", ".join(listed[:_MAX_LISTED]) + (", ..." if len(listed) > _MAX_LISTED else "")
        raise ModelError(
            f"the server at {chat.address} has no model {chat.name!r}; it has: {has}; choose one with --model-name"
        ) from None
    if reply.no_answer or reply.finish_reason == "abort":
        why = reply.error or f"no reply in {SECONDS:.0f} s: look at the server's log"
        raise ModelError(
            f"no model answers at {chat.address}: {why.rstrip('.')}. Mend that, or name another server with --base-url (or {BASE_VARIABLE})"
        )
    return reply


def _thinks_too_long(reply: ChatReply, tried: int, *, is_enough: bool) -> Finding:
    """Describe a model that ended in its thoughts, and whether it ended in a reply with more tokens for them."""
    detail = (reply.error or "").partition(":")[0]
    budget = tried if is_enough else 4 * tried
    cure = f"give it tokens for them with --reasoning-tokens {budget} (reasoning_tokens in [models.chat])"
    detail += "" if is_enough else f"; {tried} more are not enough"
    return Finding(THOUGHTS, False, detail, f"{cure}, or turn thoughts off at the server", fatal=True)


def _judge_picture(chat: OpenAIChat, reply: ChatReply) -> Finding:
    """Judge the named colour. After a wrong one a picture of a third colour is shown, so that one guess is never right."""
    named = _find_colour(reply)
    if named is None:
        return Finding(PICTURES, False, f"named no colour of a {_TEST_COLOUR} picture", f"if it is blind: {_BLIND}")
    detail = f"named a {_TEST_COLOUR} picture {named}"
    if named == _TEST_COLOUR:
        return Finding(PICTURES, True, detail)
    other = next(colour for colour in _COLOURS if colour not in (_TEST_COLOUR, named))
    again = _find_colour(_ask(chat, other))
    detail += f" and a {other} picture {again or 'by no colour'}"
    return Finding(PICTURES, True, detail) if again == other else Finding(PICTURES, False, detail, _BLIND, fatal=True)


def _find_colour(reply: ChatReply) -> str | None:
    return next((colour for colour in _COLOURS if colour in reply.text.lower()), None)


def _judge_boxes(chat: OpenAIChat, form: BoxForm) -> Finding:
    """Check boxes on drawn pictures, and remember whether they are to be used."""
    check = check_boxes(chat, form, chat.max_image_side, SECONDS)
    chat.dialect.box_fault = "" if check.is_passed else check.detail
    return Finding(BOXES, check.is_passed, check.detail, "" if check.is_passed else check.cure)


def _judge_reply(chat: OpenAIChat, reply: ChatReply) -> list[Finding]:
    if reply.finish_reason == "error":
        why, cure = str(reply.error), "look at the server's log"
        if reply.fault == "empty":
            why, _, cure = why.partition(": ")
        return [Finding(REPLY, False, f"none to a plain question ({why})", cure, fatal=True)]
    refused = chat.dialect.refused
    findings = [_judge_schema(reply, refused), _judge_logprobs(reply, refused)]
    for name, parameter, cost in _PLAIN:
        cure = f"none needed; {cost}"
        findings.append(Finding(name, False, "refused", cure) if parameter in refused else Finding(name, True, "taken"))
    return findings


def _judge_schema(reply: ChatReply, refused: frozenset[str]) -> Finding:
    cure = "none needed: replies are read without one; a current vLLM or llama.cpp keeps to it"
    if "response_format" in refused:
        return Finding(SCHEMA, False, "refused", cure)
    try:
        is_kept = json.loads(reply.text).keys() == {"colour"}
    except (ValueError, AttributeError):
        is_kept = False
    return Finding(SCHEMA, True, "kept") if is_kept else Finding(SCHEMA, False, "accepted and not kept", cure)


def _judge_logprobs(reply: ChatReply, refused: frozenset[str]) -> Finding:
    cure = "none needed; gates and checks that need them say nothing (docs/calibration.md)"
    if reply.logprobs is None:
        return Finding(LOGPROBS, False, "refused" if "logprobs" in refused else "accepted and not given", cure)
    if reply.first_token_probs is None:
        return Finding(LOGPROBS, False, "of the reply's tokens alone, without alternatives", cure)
    return Finding(LOGPROBS, True, f"with {len(reply.first_token_probs)} alternatives")


def _judge_limit(chat: OpenAIChat) -> Finding:
    plain = dataclasses.replace(chat, reasoning_tokens=0)
    (reply,) = plain.chat([ChatRequest((ChatMessage("user", _COUNT),), max_tokens=_FEW_TOKENS)], Deadline(SECONDS))
    chat.requests += plain.requests
    name = NEW_LIMIT if LIMIT in chat.dialect.refused else LIMIT
    if reply.finish_reason == "length" or reply.fault == "tokens":
        return Finding(LIMIT_KEPT, True, name)
    if reply.finish_reason == "stop" and len(reply.text) > 4 * _FEW_TOKENS:
        return Finding(LIMIT_KEPT, False, f"{name} is ignored", "limit replies at the server; long ones take longer")
    return Finding(LIMIT_KEPT, None, reply.error or f"{name}; the reply ended before it")


def _judge_context(listing: _Listing) -> Finding:
    if listing.context is None and listing.trained is not None:
        detail = f"the server does not say; the model was trained for {listing.trained} tokens, and may be started with fewer"
        return Finding(CONTEXT, None, detail)
    if listing.context is None:
        return Finding(CONTEXT, None, "the server does not say")
    return Finding(CONTEXT, True, f"{listing.context} tokens")


async def _fetch_models(chat: OpenAIChat) -> list[Model]:
    async with chat.open_client(_LISTING_SECONDS) as client:
        return [model async for model in client.models.list()]


def _list_models(chat: OpenAIChat) -> _Listing:
    """Ask the server which models it has; it need not say."""
    try:
        models = within(_fetch_models(chat), 2 * _LISTING_SECONDS, "openai-models")
    except Exception as error:  # noqa: BLE001 - what it is asked for makes a message better, and there is one already
        _log.info("%s does not list its models: %s", chat.address, clean_message(error))
        return _Listing()
    ours = next((model for model in models if chat.name in (model.id, model.id.removeprefix(_LIST_PREFIX))), None)
    extra = (ours.model_extra or {}) if ours is not None else {}
    context, trained = extra.get("max_model_len"), (extra.get("meta") or {}).get("n_ctx_train")  # of vLLM, of llama.cpp
    names = tuple(str(model.id) for model in models)
    return _Listing(names, int(context) if context else None, int(trained) if trained else None)
