"""Ways in which servers of the chat-completions protocol fail, as handlers of a real HTTP server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from werkzeug import Response

from tests.support.chat_server import streamed
from tests.support.server_dialects import BODIES, FORMS, send

Body = Mapping[str, Any]


def error(status: int, message: str, **more: Any) -> Response:
    """Return an error in the protocol's form."""
    return Response(
        json.dumps({"error": {"message": message, "type": "invalid_request_error", **more}}),
        status=status,
        content_type="application/json",
    )


def whole(message: Mapping[str, Any], finish: str = "stop", logprobs: Any = None) -> Response:
    """Return a reply in one piece."""
    full_message = {"role": "assistant", "content": None, **message}
    choices = [{"index": 0, "message": full_message, "finish_reason": finish, "logprobs": logprobs}]
    head = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}
    return Response(json.dumps(head), content_type="application/json")


def pieces(*deltas: Mapping[str, Any], finish: str = "stop", logprobs: Any = None) -> Response:
    """Return a reply as a stream."""
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choices = [{"index": 0, "delta": delta, "finish_reason": None, "logprobs": logprobs} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish, "logprobs": None})
    lines = [f"data: {json.dumps({**head, 'choices': [choice]})}\n\n" for choice in choices]
    return Response("".join(lines) + "data: [DONE]\n\n", content_type="text/event-stream")


def page(status: int) -> Response:
    """Return the page of a proxy in front of the server."""
    text = "<!DOCTYPE html><html><head><style>b{}</style></head><body><h1>Bad gateway</h1>nginx</body></html>"
    return Response(text, status=status, content_type="text/html")


def shows_pictures(body: Body) -> bool:
    """Whether a request shows a picture."""
    return any(isinstance(message["content"], list) for message in body["messages"])


def refuse(*names: str, **renamed: str) -> Callable[[Body], Response]:
    """Return a server that refuses parameters, one at a time, as OpenAI does for models that reason."""

    def answer(body: Body) -> Response:
        for name in (*names, *renamed):
            if name in body:
                instead = f" Use '{renamed[name]}' instead." if name in renamed else ""
                message = f"Unsupported parameter: '{name}' is not supported with this model.{instead}"
                return error(400, message, param=name, code="unsupported_parameter")
        return streamed("yes") if body.get("stream") else whole({"content": "yes"})

    return answer


def error_in_stream(message: str, code: int | str | None = None) -> Response:
    """Return an error behind status 200, as gateways send it once a stream has begun."""
    return Response(
        f"data: {json.dumps({'error': {'message': message, 'code': code}})}\n\n", content_type="text/event-stream"
    )


FAILURES: dict[str, Callable[[Body], Response]] = {
    "no credit": lambda _: error(429, "You exceeded your current quota", code="insufficient_quota"),
    "always busy": lambda _: error(429, "Rate limit reached", code="rate_limit_exceeded"),
    "broken": lambda _: error(500, "on fire"),
    "page of a proxy": lambda _: page(502),
    "page with 200": lambda _: page(200),
    "cut connection": lambda _: Response(pieces({"content": "y"}).data[:60], content_type="text/event-stream"),
    "no choices": lambda _: Response(
        json.dumps({"id": "1", "object": "chat.completion", "choices": []}), content_type="application/json"
    ),
    "bad JSON": lambda _: Response('{"choices": [', content_type="application/json"),
    "error with 200": lambda _: Response('{"error": {"message": "upstream is down"}}', content_type="application/json"),
    "error in the stream": lambda _: error_in_stream("upstream is down"),
    "no code in the stream": lambda _: error_in_stream("overloaded", 0),
    "busy in the stream": lambda _: error_in_stream("Provider is overloaded", 529),
    "too long": lambda _: error(
        400,
        "This model's maximum context length is 4096 tokens, max_tokens and messages ask for 9000",
        param="messages",
    ),
    "blind": lambda body: error(400, "m is not a multimodal model") if shows_pictures(body) else streamed("yes"),
    "blind, in the stream": lambda body: (
        error_in_stream("This model does not support image input", 400) if shows_pictures(body) else streamed("yes")
    ),
    "blind, by llama.cpp": lambda body: (
        error(500, "image input is not supported - hint: you may need to provide the mmproj")
        if shows_pictures(body)
        else streamed("yes")
    ),
    "blind, by a router": lambda body: (
        error(404, "No endpoints found that support image input") if shows_pictures(body) else streamed("yes")
    ),
    "declines": lambda _: pieces({"content": None, "refusal": "I'm sorry, "}, {"refusal": "I cannot help."}),
    "filters the prompt, by Azure": lambda _: send(*BODIES["Azure"]["filtered"]),
    "filters": lambda _: pieces({"content": None}, finish="content_filter"),
    "thinks on": lambda _: pieces({"reasoning_content": "Let me see."}, {"reasoning": "Hmm"}, finish="length"),
    "thinks in tags": lambda _: pieces({"content": "<think>Let me "}, {"content": "see"}, finish="length"),
    "thinks unseen": lambda _: whole({"content": ""}, finish="length"),
    "thinks alone": lambda _: whole({"content": None, "reasoning_content": "It is 330 m tall."}),
    "thinks alone, in the stream": lambda _: pieces({"reasoning": "It is"}, {"reasoning": " 330 m tall."}),
    "thinks alone, in tags": lambda _: pieces({"content": "<think>It is 330 m tall."}),
    "says nothing": lambda _: whole({"content": "\n"}),
    "calls a tool": lambda _: whole(
        {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "search", "arguments": "{}"}}]},
        "tool_calls",
    ),
    "thinks, by a refusal": lambda _: error(
        400, "Could not finish the message because max_tokens or model output limit was reached. Please try again."
    ),
}
"""Servers that give no answer, by what is wrong with them."""

NO_SYSTEM: dict[str, Callable[[], Response]] = {
    "Gemma's template, by vLLM": lambda: error(400, "System role not supported"),
    "a template, by llama.cpp": lambda: error(500, "Jinja Exception: Only user and assistant roles are supported!"),
    "Google": lambda: error(400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
    "a model that reasons": lambda: error(
        400,
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        param="messages[0].role",
    ),
    "beside a picture": lambda: error(400, "Prompting with images is incompatible with system messages."),
    "by its form": lambda: error(422, "body -> messages -> 0 -> role: Input should be 'user' or 'assistant'"),
}
"""Ways in which a server refuses a system message."""


def refuse_system(way: str) -> Callable[[Body], Response]:
    """Return a server that takes no system message."""

    def answer(body: Body) -> Response:
        return NO_SYSTEM[way]() if any(each["role"] == "system" for each in body["messages"]) else streamed("yes")

    return answer


CONTEXTS: dict[str, str] = {
    "OpenAI": "This model's maximum context length is {limit} tokens. However, you requested {total} tokens ({prompt} in the messages, "
    "{reply} in the completion). Please reduce the length of the messages or completion.",
    "vLLM, the prompt": "The decoder prompt (length {prompt}) is longer than the maximum model length of {limit}. Make sure that "
    "`max_model_len` is no smaller than the number of text tokens plus multimodal tokens.",
    "vLLM, the reply": "'max_tokens' or 'max_completion_tokens' is too large: {reply}. This model's maximum context length is {limit} "
    "tokens and your request has {prompt} input tokens ({reply} > {limit} - {prompt}).",
    "llama.cpp": "request ({prompt} tokens) exceeds the available context size ({limit} tokens), try increasing it",
    "SGLang": "Requested token count exceeds the model's maximum context length of {limit} tokens. You requested a total of {total} "
    "tokens: {prompt} tokens from the input messages and {reply} tokens for the completion.",
    "TGI": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {limit}. Given: {prompt} `inputs` tokens and "
    "{reply} `max_new_tokens`",
    "Mistral": "Prompt contains {prompt} tokens and 0 draft tokens, too large for model with {limit} maximum context length",
    "Gemini": "The input token count ({prompt}) exceeds the maximum number of tokens allowed ({limit}).",
    "Anthropic": "prompt is too long: {prompt} tokens > {limit} maximum",
    "a range": "The input tokens exceed the limit [1,{limit}].",
    "a range and its maximum": "The prompt exceeds the range of [1,{limit} maximum].",
    "digits in twos": "The prompt exceeds the context length of 1,00,000 tokens.",
    "without numbers": "Please reduce the length of the messages: the prompt exceeds the context window.",
}
"""How servers say that a prompt is longer than their context."""


def limit_context(
    way: str, limit: int, characters: float = 4.3, picture: int = 0, form: str = "OpenAI"
) -> Callable[[Body], Response]:
    """Return a server with a context of so many tokens, of so many characters each, and so many for a picture."""

    def answer(body: Body) -> Response:
        texts = [text for message in body["messages"] for text in list_texts(message)]
        prompt = round(sum(map(len, texts)) / characters) + 8 + picture * shows_pictures(body)
        reply = body["max_tokens"]
        if prompt + reply <= limit:
            return streamed("yes")
        message = CONTEXTS[way].format(prompt=prompt, limit=limit, reply=reply, total=prompt + reply)
        return send(400, FORMS[form](400, message))

    return answer


def list_texts(message: Mapping[str, Any]) -> list[str]:
    """Return the texts of a message."""
    content = message["content"]
    return [content] if isinstance(content, str) else [part["text"] for part in content if part["type"] == "text"]
