"""Messages of a request to a server or to llama.cpp, fitted to its limits: without a system message, or with fewer tokens."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.models.base import ChatMessage, ModelError
from agents.models.chat.openai_protocol import message_body
from agents.models.chat.prompt_fitting import FIT_TRIES, cut_longest_user_message, system_into_user

_CHARACTERS = 5
"""Characters per token, above the average of English; for servers that state no numbers, or count pictures with the text."""

_SHARE = 3  # a third of the text is cut if the server does not say by how much it is too long

_MARGIN = 1.05  # factor of the cut: evidence may have more tokens per character than the rest of the prompt

_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+|\d+")
_LIMIT = re.compile(
    r"(?:context[ _](?:length|size|window|of)|model length|limit|allowed|n_ctx|<=|>)\D{0,20}"
    rf"({_NUMBER.pattern})|(?<![\d,])({_NUMBER.pattern})(?: tokens?)? maximum",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Excess:
    """By how much a prompt and its reply exceed a context."""

    tokens: float  # too many
    prompt_tokens: int


@dataclass(eq=False)
class ServerPrompt:
    """Messages of one request, with their pictures converted, and the number of tokens cut out of them."""

    messages: tuple[ChatMessage, ...]
    cut: int = 0  # estimated number of removed tokens
    _tries: int = field(default=0, init=False)
    _bodies: dict[bool, list[dict[str, Any]]] = field(default_factory=dict, init=False)  # encoded pictures are large

    @property
    def has_system(self) -> bool:
        """True if a system message can be merged into the user message that follows it."""
        return system_into_user(self.messages) is not None

    def bodies(self, *, merged: bool) -> list[dict[str, Any]]:
        """Convert the messages to JSON, once for all tries; ``merged``: with the system message at the head of the first user message."""
        if merged not in self._bodies:
            messages = system_into_user(self.messages) if merged else None
            self._bodies[merged] = [message_body(message) for message in messages or self.messages]
        return self._bodies[merged]

    def shorten(self, excess: Excess | None) -> bool:
        """Remove ``excess`` tokens from the middle of the longest user message; a third of it if ``excess`` is None.

        Returns:
            False if the messages are too short to cut, or were cut often enough.
        """
        self._tries += 1
        if self._tries > FIT_TRIES:
            return False
        text = sum(len(message.content) for message in self.messages)
        if excess is None:
            tokens, per_token = text / _CHARACTERS / _SHARE, float(_CHARACTERS)
        else:
            least = _CHARACTERS if any(message.images for message in self.messages) else 1
            tokens, per_token = excess.tokens, max(text / excess.prompt_tokens, least)
        size = math.ceil(per_token)
        pieces = math.ceil(_MARGIN * tokens * per_token / size)
        try:
            self.messages, removed = cut_longest_user_message(self.messages, pieces, _Pieces(size))
        except ModelError:
            return False
        self._bodies.clear()
        self.cut += removed
        return True


def read_excess(complaint: str, reply: int) -> Excess | None:
    """Read by how much a prompt exceeds a server's context.

    Args:
        complaint: The server's message.
        reply: Maximum number of tokens of the reply. Some servers count it, and then name it.

    Returns:
        None if the message does not say.
    """
    match = _LIMIT.search(complaint)
    if match is None:
        return None
    limit = _parse_number(match[1] or match[2])
    numbers = [_parse_number(each) for each in _NUMBER.findall(complaint)]
    if limit not in numbers:  # commas that group no thousands: "[1,4096 maximum]" is read as 1,409 and 6
        return None
    numbers.remove(limit)
    most = max(numbers, default=0)
    total = most if most > limit and reply in numbers else most + reply
    return Excess(total - limit, total - reply) if total > max(limit, reply) else None


def _parse_number(text: str) -> int:
    return int(text.replace(",", ""))


class _Pieces:
    """Tokenizer of a client, which has none: it splits texts into pieces of equal length."""

    def __init__(self, size: int) -> None:
        self._size = size

    def encode(self, text: str) -> list[str]:
        """Split a text into pieces."""
        return [text[start : start + self._size] for start in range(0, len(text), self._size)]

    def decode(self, pieces: Sequence[str]) -> str:
        """Join pieces to a text."""
        return "".join(pieces)
