"""Checks requests, scales pictures down and fits prompts to what a model takes; shared by the chat adapters."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from agents.models.base import ChatMessage, ChatRequest, ModelError
from agents.models.pixels import rgb_within

GAP = " ... "
_BROKEN = "\ufffd"  # decoded from a part of a character, which may be several tokens
MIN_KEPT = 16  # tokens; with less of the longest message left the prompt no longer says what is asked

FIT_TRIES = 3  # decoding and re-encoding a cut message may move its length by a token or two
MAX_IMAGE_SIDE = 1120  # Llama-3.2-Vision looks at up to 2 x 2 tiles of 560 pixels


class Tokenizer(Protocol):
    """Splits a text into tokens, and joins them again."""

    def encode(self, text: str) -> list[Any]:
        """Return the tokens of a text, without special ones of its own."""

    def decode(self, ids: Sequence[Any], /) -> str:
        """Return the text of tokens."""


def checked_messages(request: ChatRequest, name: str, sees: bool, max_image_side: int) -> tuple[ChatMessage, ...]:
    """Check a request and return its messages, with pictures as RGB within ``max_image_side`` pixels.

    Raises:
        ModelError: The model cannot be asked this.
    """
    if not request.messages:
        raise ModelError("The request has no message.")
    if request.max_tokens < 1:
        raise ModelError("max_tokens must be at least 1.")
    if not sees and any(message.images for message in request.messages):
        raise ModelError(
            f"{name} has no vision: put it behind kind 'composed', name its 'mmproj' (llama-cpp), or send no images."
        )
    return convert_images(request.messages, max_image_side)


def convert_images(messages: Sequence[ChatMessage], max_image_side: int) -> tuple[ChatMessage, ...]:
    """Convert the images of messages to upright RGB whose longer side has at most ``max_image_side`` pixels.

    Raises:
        ModelError: An image cannot be decoded.
    """
    try:
        return tuple(
            replace(message, images=tuple(rgb_within(image, max_image_side) for image in message.images))
            for message in messages
        )
    except (OSError, ValueError) as error:
        raise ModelError(f"Unreadable image: {error}") from error


def cut_longest_user_message(
    messages: Sequence[ChatMessage], excess: int, tokenizer: Tokenizer
) -> tuple[tuple[ChatMessage, ...], int]:
    """Take ``excess`` tokens (and room for a mark of the gap) out of the middle of the longest user message; ModelError for a short one.

    The head and the tail stay: instructions and questions are at either end of a prompt, evidence in its middle. Returns
    the messages with the cut made and the number of tokens removed.
    """
    lengths = {i: tokenizer.encode(message.content) for i, message in enumerate(messages) if message.role == "user"}
    longest = max(lengths, key=lambda i: len(lengths[i]), default=None)
    ids = [] if longest is None else lengths[longest]
    keep = len(ids) - excess - len(tokenizer.encode(GAP))
    if longest is None or keep < MIN_KEPT:
        raise ModelError(f"The prompt is {excess} tokens too long to cut.")
    head = keep // 2
    tail = tokenizer.decode(ids[len(ids) - (keep - head) :]).lstrip(_BROKEN)
    text = tokenizer.decode(ids[:head]).rstrip(_BROKEN) + GAP + tail
    cut = list(messages)
    cut[longest] = replace(cut[longest], content=text)
    return tuple(cut), len(ids) - keep


def system_into_user(messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...] | None:
    """Merge a leading system message into the user message that follows it.

    Returns:
        The merged messages, or None unless the first two are a system and a user message.
    """
    if len(messages) < 2 or messages[0].role != "system" or messages[1].role != "user":
        return None
    user = messages[1]
    return (ChatMessage("user", f"{messages[0].content}\n\n{user.content}", user.images), *messages[2:])
