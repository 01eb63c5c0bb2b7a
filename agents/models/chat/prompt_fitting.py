"""Checks requests, scales pictures down and truncates prompts to the model's context; shared by the adapters to in-process engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agents.models.base import ChatMessage, ChatRequest, ModelError
from agents.models.pixels import rgb_within

if TYPE_CHECKING:  # it takes torch, which a client of a server does without
    from agents.models.chat.chat_template import ChatTemplate

GAP = " ... "
_BROKEN = "\ufffd"  # decoded from a part of a character, which may be several tokens
MIN_KEPT = 16  # tokens; with less of the longest message left the prompt no longer says what is asked

FIT_TRIES = 3  # decoding and re-encoding a cut message may move its length by a token or two
MAX_IMAGE_SIDE = 1120  # Llama-3.2-Vision looks at up to 2 x 2 tiles of 560 pixels


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
    messages: Sequence[ChatMessage], excess: int, template: ChatTemplate
) -> tuple[tuple[ChatMessage, ...], int]:
    """Take ``excess`` tokens (and room for a mark of the gap) out of the middle of the longest user message; ModelError for a short one.

    The head and the tail stay: instructions and questions stand at either end of a prompt, evidence in its middle. The tokenizer of
    ``template`` counts. Returns the messages with the cut made and the number of tokens removed.
    """
    lengths = {i: template.encode(message.content) for i, message in enumerate(messages) if message.role == "user"}
    longest = max(lengths, key=lambda i: len(lengths[i]), default=None)
    ids = [] if longest is None else lengths[longest]
    keep = len(ids) - excess - len(template.encode(GAP))
    if longest is None or keep < MIN_KEPT:
        raise ModelError(f"The prompt is {excess} tokens too long to cut.")
    head = keep // 2
    tail = template.decode(ids[len(ids) - (keep - head) :]).lstrip(_BROKEN)
    text = template.decode(ids[:head]).rstrip(_BROKEN) + GAP + tail
    cut = list(messages)
    cut[longest] = replace(cut[longest], content=text)
    return tuple(cut), len(ids) - keep
