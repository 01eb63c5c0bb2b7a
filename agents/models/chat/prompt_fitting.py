"""Fits a prompt into a model's context by cutting the middle out of its longest user message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agents.models.base import ChatMessage

GAP = " ... "
KEEP_AT_LEAST = 16  # tokens; with less of the longest message left the prompt no longer says what is asked

Encode = Callable[[str], Sequence[int]]
Decode = Callable[[Sequence[int]], str]


def cut_longest_user_message(
    messages: Sequence[ChatMessage], excess: int, encode: Encode, decode: Decode
) -> tuple[tuple[ChatMessage, ...], int] | None:
    """Take ``excess`` tokens (and room for a mark of the gap) out of the middle of the longest user message.

    The head and the tail stay: instructions and questions stand at either end of a prompt, evidence in its middle.

    Args:
        messages: The whole prompt.
        excess: Tokens by which the prompt is too long, more than 0.
        encode: Text to token ids, without special tokens.
        decode: Token ids to text.

    Returns:
        The messages with the cut made and the number of tokens removed; None where the message is too short for it.
    """
    lengths = {i: encode(message.content) for i, message in enumerate(messages) if message.role == "user"}
    if not lengths:
        return None
    longest = max(lengths, key=lambda i: len(lengths[i]))
    ids = list(lengths[longest])
    keep = len(ids) - excess - len(encode(GAP))
    if keep < KEEP_AT_LEAST:
        return None
    head = keep // 2
    text = decode(ids[:head]) + GAP + decode(ids[len(ids) - (keep - head) :])
    cut = list(messages)
    cut[longest] = replace(cut[longest], content=text)
    return tuple(cut), len(ids) - keep
