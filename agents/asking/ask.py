"""The main act of the agent: fill in a prompt, ask the model that reads it, read the reply, and keep what was said.

Stages, judges, training and the lab all ask through ``put``: one call to each model for a whole batch.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from agents.asking.prompts import FrontMatter
from agents.methods.token_probabilities import summarise_probabilities
from agents.models.base import ChatModel, ChatReply, ChatRequest, check_replies
from agents.record import Exchange, SentMessage
from agents.time_limits.deadline import NO_DEADLINE, Deadline

T = TypeVar("T")

MAX_READ = 8_000
"""Characters of a reply to read; an endless one must not take endless time. No prompt allows more than 1,000 tokens."""


def _is_something(value: Any, _: ChatReply) -> bool:
    return value is not None


@dataclass(frozen=True)
class ReplyForm(Generic[T]):
    """A form of reply (``agents/asking/readers``).

    Attributes:
        name: Name of the form in the record of a turn.
        read: Parses a reply. It never raises, and reads as much as possible of a broken reply.
        is_valid: Returns whether the parsed value is all that the prompt asked for.
        limit: Number of characters that ``read`` and ``is_valid`` see; None: all.
    """

    name: str
    read: Callable[[ChatReply], T]
    is_valid: Callable[[T, ChatReply], bool] = _is_something
    limit: int | None = MAX_READ


@dataclass(frozen=True)
class Ask(Generic[T]):
    """A prompt, by the name of its template, and the form of its reply; the template's front matter names the role that reads it."""

    prompt: str
    form: ReplyForm[T]


class Template(Protocol):
    """Template that a question fills in: a ``Prompt``, or words that come from elsewhere."""

    @property
    def settings(self) -> FrontMatter:
        """Which model reads it, and how."""

    def request(self, **values: Any) -> ChatRequest:
        """Fill the template with values and return the chat request."""


class Templates(Protocol):
    """Templates by name: a ``PromptLibrary``."""

    def __getitem__(self, name: str, /) -> Template:
        """Return the template with this name."""


class Recorder(Protocol):
    """Keeps exchanges: a turn."""

    def keep(self, exchange: Exchange) -> None:
        """Add an exchange to those of the running stage."""


@dataclass(frozen=True)
class Question(Generic[T]):
    """One prompt to be filled in.

    Attributes:
        values: Values and pictures of the template, as arguments of ``Prompt.request``.
        recorders: Those whose records hold the exchange.
        sampling: Settings of the request in place of the template's (``temperature``, ``seed``).
    """

    ask: Ask[T]
    values: Mapping[str, Any]
    recorders: tuple[Recorder, ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer(Generic[T]):
    """Result of a question.

    Attributes:
        value: The reader's value, also of a broken reply.
        readable: Whether the reply keeps the requested form.
    """

    reply: ChatReply
    value: T
    readable: bool

    @property
    def text(self) -> str:
        """The reply as it came."""
        return self.reply.text

    @property
    def failed(self) -> bool:
        """Whether there is no reply at all; ``error`` says why."""
        return self.reply.finish_reason == "error"

    @property
    def error(self) -> str | None:
        """Why there is no reply."""
        return self.reply.error


def put(
    questions: Sequence[Question[T]],
    prompts: Templates,
    model: Callable[[str], ChatModel],
    deadline: Deadline = NO_DEADLINE,
    shorten: Callable[[int], int] | None = None,
) -> list[Answer[T]]:
    """Ask chat models and return the answers in the order of the questions.

    The model of a prompt's own role answers it. All questions of one role go into one batched call.

    Args:
        questions: Questions to ask, each with its prompt and its form of reply.
        prompts: Templates by the names of the prompts.
        model: The chat model of a role.
        deadline: When the models have to be done.
        shorten: Maps the ``max_tokens`` of a prompt to a reduced limit; None: as the prompt says.

    Raises:
        ModelError: A model cannot answer at all; a request that fails alone gets an answer that has ``failed``.
        PromptError: A template is missing or malformed.
    """
    filled = [_fill(question, prompts, shorten) for question in questions]
    places: dict[str, list[int]] = {}
    for place, (prompt, _) in enumerate(filled):
        places.setdefault(prompt.settings.model, []).append(place)
    answers: dict[int, Answer[T]] = {}
    for role, own in places.items():
        chat = model(role)
        began, started = time.time(), time.perf_counter()
        requests = [filled[place][1] for place in own]
        replies = check_replies(chat.name, chat.chat(requests, deadline), len(own))
        seconds = time.perf_counter() - started
        for place, reply in zip(own, replies, strict=True):
            question = questions[place]
            answer = answers[place] = read(question.ask.form, reply)
            if question.recorders:
                times = {"began": round(began, 4), "seconds": round(seconds, 4), "batch": len(own)}
                exchange = _exchange(question, chat.name, filled[place][1], answer, times)
                for recorder in question.recorders:
                    recorder.keep(exchange)
    return [answers[place] for place in range(len(questions))]


def read(form: ReplyForm[T], reply: ChatReply) -> Answer[T]:
    """Read the beginning of a reply, up to the form's limit; a longer one counts as cut off there."""
    beginning = _cut(reply, form.limit)
    value = form.read(beginning)
    return Answer(reply, value, reply.finish_reason != "error" and form.is_valid(value, beginning))


def _cut(reply: ChatReply, limit: int | None) -> ChatReply:
    """Return a reply with no more than ``limit`` characters."""
    if limit is None or len(reply.text) <= limit:
        return reply
    ending = "length" if reply.finish_reason == "stop" else reply.finish_reason
    return dataclasses.replace(reply, text=reply.text[:limit], finish_reason=ending)


def _fill(
    question: Question[T], prompts: Templates, shorten: Callable[[int], int] | None
) -> tuple[Template, ChatRequest]:
    prompt = prompts[question.ask.prompt]
    request = prompt.request(**question.values)
    changes = dict(question.sampling)
    if shorten is not None:
        changes["max_tokens"] = shorten(request.max_tokens)
    return prompt, dataclasses.replace(request, **changes) if changes else request


def _exchange(
    question: Question[T], model: str, request: ChatRequest, answer: Answer[T], times: Mapping[str, Any]
) -> Exchange:
    reply = answer.reply
    sent_request = reply.received or request
    statistics = summarise_probabilities(reply.logprobs)
    return Exchange(
        prompt=question.ask.prompt,
        form=question.ask.form.name,
        model=model,
        reply=reply.text,
        finish_reason=reply.finish_reason,
        readable=answer.readable,
        cached=reply.cached,
        tokens=len(reply.logprobs) if reply.logprobs is not None else None,
        usage=reply.usage,
        mean_probability=statistics.mean if statistics else None,
        min_probability=statistics.minimum if statistics else None,
        first_token_probs=reply.first_token_probs or {},
        prompt_cut=reply.prompt_cut,
        error=reply.error,
        messages=tuple(SentMessage(each.role, each.content, each.images) for each in sent_request.messages),
        max_tokens=sent_request.max_tokens,
        temperature=sent_request.temperature,
        seed=sent_request.seed,
        schema=sent_request.schema,
        read=reply.read,
        no_answer=reply.no_answer,
        is_refusal=reply.fault == "refusal",
        **times,
    )
