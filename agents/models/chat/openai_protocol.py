"""Request bodies and streamed replies of the OpenAI chat-completions protocol, shared by the adapters that speak it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, dropwhile
from typing import Any

from agents.models.base import (
    FIRST_TOKEN_ALTERNATIVES,
    ChatMessage,
    ChatReply,
    ChatRequest,
    FinishReason,
    sum_first_token_probs,
)
from agents.models.chat.thoughts import reply_start, strip_marks
from agents.models.pixels import jpeg_data_url, pad_sides

MIN_IMAGE_SIDE = 28
"""Smallest side in pixels of a sent picture: some servers fail on smaller ones, which Qwen's towers cannot cut into patches."""

_BROKEN = ("abort", "error")  # ends of a reply that the server itself gave up
_CUT = ("length", "max_tokens")
_END_TOKEN = re.compile(r"(?:<[^<>\s]+>)?")  # ``<|eot_id|>``, ``</s>``; some servers leave its text out


def message_body(message: ChatMessage) -> dict[str, Any]:
    """Convert a message of ``checked_messages`` to JSON, with its pictures before the text."""
    if not message.images:
        return {"role": message.role, "content": message.content}
    pictures = [
        {"type": "image_url", "image_url": {"url": jpeg_data_url(pad_sides(image, MIN_IMAGE_SIDE))}}
        for image in message.images
    ]
    return {"role": message.role, "content": [*pictures, {"type": "text", "text": message.content}]}


def request_body(request: ChatRequest, thoughts: int = 0) -> dict[str, Any]:
    """Convert the settings of a request to JSON, without its messages.

    Settings that the request leaves open are left out. ``thoughts`` are tokens beside those of the reply.
    """
    if request.exact is not None:
        return {**request.exact, **({} if request.seed is None else {"seed": request.seed})}
    body: dict[str, Any] = {"max_tokens": request.max_tokens + thoughts, "temperature": request.temperature}
    if request.stop:
        body["stop"] = list(request.stop)
    if request.seed is not None:
        body["seed"] = request.seed
    if request.logprobs:
        body |= {"logprobs": True, "top_logprobs": FIRST_TOKEN_ALTERNATIVES}
    if request.schema is not None:
        schema = {"name": "reply", "schema": dict(request.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


@dataclass(frozen=True)
class _Token:
    """A generated token: its text, its log-probability, and the likeliest tokens in its place."""

    text: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...]


@dataclass
class StreamedReply:
    """One request, and its reply so far."""

    request: ChatRequest
    thoughts: int = 0  # tokens that it may have for thoughts, beside those of the reply
    more_tokens: str = "choose a model that does not reason first"  # how it gets more of them
    empty_error: str = ""  # error of a reply without a word; "" for engines whose empty replies are the model's own
    texts: list[str] = field(default_factory=list)
    tokens: list[_Token] = field(default_factory=list)
    refusal: str = ""  # the words with which the model declines to answer
    thought: bool = False  # whether thoughts came apart from the text
    called: bool = False  # whether the model calls a tool, although it is offered none
    chunks: int = 0  # pieces of text
    finish: FinishReason | None = None
    error: str | None = None  # why there will be no reply
    no_answer: bool = False  # whether that is because the server did not answer
    usage: tuple[int, int] | None = None  # tokens read and written
    prompt_cut: int = 0  # tokens taken out of the prompt, which was too long for the server

    def clear(self) -> None:
        """Forget the partial reply: the request is sent again."""
        self.texts.clear()
        self.tokens.clear()
        self.refusal, self.thought, self.called, self.chunks = "", False, False, 0
        self.finish = self.usage = None

    def take(self, choice: Mapping[str, Any]) -> None:
        """Add one entry of a chunk's ``choices``."""
        delta = choice.get("delta") or {}
        if text := _text(delta.get("content")):
            self.texts.append(text)
            self.chunks += 1
        self.refusal += delta.get("refusal") or ""
        thoughts = bool(delta.get("reasoning_content") or delta.get("reasoning"))  # the field's name differs by server
        self.thought = self.thought or thoughts
        self.called = self.called or bool(delta.get("tool_calls") or delta.get("function_call"))
        if text or not thoughts:  # log-probabilities of thoughts are none of the reply
            self.tokens += _read_tokens(choice.get("logprobs"))
        ending = choice.get("finish_reason")
        if ending and ending not in _BROKEN:
            self.finish = "length" if ending in _CUT else "stop"
            if ending == "content_filter" and self.texts:
                self.finish = "abort"
            elif ending == "content_filter":
                self.refusal = self.refusal or "the server's content filter withheld it"

    def take_whole(self, completion: Mapping[str, Any]) -> None:
        """Take in the reply to an unstreamed request.

        A completion without ``choices`` adds no text and no end.
        """
        usage = completion.get("usage")
        self.usage = (usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0) if usage else None
        for choice in (completion.get("choices") or ())[:1]:
            self.take({**choice, "delta": choice.get("message")})
            if not choice.get("finish_reason"):
                self.finish = "stop"

    def reply(self) -> ChatReply:
        """Build the reply from the parts so far, without thoughts; it ends in ``abort`` if its end is still missing."""
        if self.error is not None:
            return ChatReply("", "error", error=self.error, no_answer=self.no_answer)
        whole = "".join(self.texts)
        start = reply_start(whole)
        is_exact = self.request.exact is not None and not start
        text = whole if is_exact else strip_marks(_cut(whole[start:].lstrip(), self.request.stop))
        if not text.strip():
            if self.refusal:
                message = f"the model declines to answer: {self.refusal}"
                return ChatReply("", "error", error=message, usage=self.usage, fault="refusal")
            if self.finish == "length" and (start or not whole):
                return ChatReply("", "error", error=self._out_of_tokens(), usage=self.usage, fault="tokens")
            if self.finish == "stop" and (start or not whole.strip()) and (error := self._explain_silence(start)):
                return ChatReply("", "error", error=error, usage=self.usage, fault="empty")
        tokens = self._reply_tokens(start) if self.request.logprobs else []
        first = tokens[0].alternatives if tokens else ()
        return ChatReply(
            text,
            self.finish or "abort",
            tuple(token.logprob for token in tokens) or None,
            first_token_probs=sum_first_token_probs((text, math.exp(logprob)) for text, logprob in first),
            usage=self.usage,
            prompt_cut=self.prompt_cut,
        )

    def _explain_silence(self, start: int) -> str:
        if self.called:
            return "the model calls a tool in place of an answer: turn off the tools that the server adds"
        if self.thought or start:
            return "the reply is thoughts alone: turn thoughts off, or the reasoning parser of the server"
        return self.empty_error

    def _reply_tokens(self, start: int) -> list[_Token]:
        """Return the tokens of the reply, as the engines in this process count them: without the token that ends it."""
        tokens = _tokens_from(self.tokens, start)
        if self.finish == "stop" and tokens and _END_TOKEN.fullmatch(tokens[-1].text):
            is_text = bool(tokens[-1].text) and "".join(self.texts).endswith(tokens[-1].text)
            tokens = tokens if is_text else tokens[:-1]
        return _tokens_until(tokens, self.request.stop) if self.request.exact is None else tokens

    def _out_of_tokens(self) -> str:
        went = "into thoughts" if self.thought or self.texts else "by without a word"
        limit = self.request.max_tokens + self.thoughts
        return f"{limit} tokens went {went}, and none is left for the answer: {self.more_tokens}"


def _text(content: Any) -> str:
    """Return the text of a message. Some servers send a list of parts; thoughts among them are left out."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return content or ""


def _cut(text: str, stops: Sequence[str]) -> str:
    """Strip a text and end it before the first of the strings that end a reply, for servers that do not know them."""
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(places, default=len(text))].strip()


def _read_tokens(logprobs: Any) -> list[_Token]:
    """Read the tokens of a chunk; those of another form than OpenAI's, or without a number, are left out."""
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    return [
        _Token(
            str(token.get("token", "")),
            float(token["logprob"]),
            tuple(
                (str(it["token"]), float(it["logprob"]))
                for it in token.get("top_logprobs") or ()
                if it.get("logprob") is not None
            ),
        )
        for token in content or ()
        if token.get("logprob") is not None
    ]


def _tokens_from(tokens: Sequence[_Token], start: int) -> list[_Token]:
    """Return the tokens of the reply: those from a place of the text on, without blank ones before its first word.

    Parts of a character are tokens whose texts are longer or shorter than it, so that the place is looked for in the tokens' own text.
    """
    if not start:
        return list(tokens)
    place = reply_start("".join(token.text for token in tokens)) or start
    ends = accumulate(len(token.text) for token in tokens)
    reply_tokens = [token for token, end in zip(tokens, ends, strict=True) if end > place]
    return list(dropwhile(lambda token: not token.text.strip(), reply_tokens))


def _tokens_until(tokens: Sequence[_Token], stops: Sequence[str]) -> list[_Token]:
    """Return the tokens up to the first of the strings that end a reply, which is part of it."""
    whole = "".join(token.text for token in tokens)
    last = min((place + len(stop) for stop in stops if (place := whole.find(stop)) >= 0), default=len(whole) + 1)
    starts = accumulate((len(token.text) for token in tokens), initial=0)
    return [token for token, begin in zip(tokens, starts, strict=False) if begin < last]
