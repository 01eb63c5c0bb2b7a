"""Image input for a text-only chat model: each image is described in words by a recogniser and an OCR reader."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from PIL import Image

from agents.base.result_cache import ResultCache
from agents.models.base import (
    ChatMessage,
    ChatModel,
    ChatReply,
    ChatRequest,
    Describe,
    ModelError,
    OcrReader,
    Recogniser,
)
from agents.models.chat.prompt_fitting import convert_images
from agents.models.pixels import picture_key
from agents.time_limits.deadline import NO_DEADLINE, Deadline


@dataclass(frozen=True)
class _Description:
    """Findings in a picture: its description and its lines of text."""

    text: str
    lines: tuple[str, ...] = ()


_CACHE_SIZE = 256  # descriptions of pictures
_LABELS = 5  # classes that a picture is described by
_NOTHING = "nothing was recognised in it."


class ComposedVisionChat:
    """A ``ChatModel`` that replaces each image of a request by its description, then asks a text-only model."""

    def __init__(self, text: ChatModel, recogniser: Recogniser, ocr: OcrReader, describe: Describe) -> None:
        self.name = f"{text.name} + {recogniser.name} + {ocr.name}"
        self._text, self._recogniser, self._ocr, self._describe = text, recogniser, ocr, describe
        self._cache: ResultCache[str, _Description] = ResultCache(_CACHE_SIZE)

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """Answer all requests: one pass over the recogniser, one over the OCR, one over the language model."""
        conversions = [_convert_images(request) for request in requests]
        sound = [each for each in conversions if isinstance(each, ChatRequest)]
        answered = iter(self._answer(sound, deadline) if sound else [])
        return [
            next(answered) if isinstance(each, ChatRequest) else ChatReply("", "error", error=str(each))
            for each in conversions
        ]

    def _answer(self, requests: Sequence[ChatRequest], deadline: Deadline) -> list[ChatReply]:
        descriptions = self._descriptions(requests)
        described_messages = (
            tuple(_describe_images(message, descriptions) for message in request.messages) for request in requests
        )
        blind = [
            replace(request, messages=messages) for request, messages in zip(requests, described_messages, strict=True)
        ]
        replies = self._text.chat(blind, deadline)
        read = [_list_lines(request, descriptions) for request in requests]
        return [
            replace(reply, received=request, read=lines)
            for request, reply, lines in zip(blind, replies, read, strict=True)
        ]

    def _descriptions(self, requests: Sequence[ChatRequest]) -> dict[int, _Description]:
        """Describe each image object of the batch, by its ``id``; the requests keep the objects alive.

        Several stages show the same photo, so its words are kept for the next one.
        """
        images: dict[int, Image.Image] = {
            id(image): image for request in requests for message in request.messages for image in message.images
        }
        keys = {number: picture_key(image) for number, image in images.items()}
        pictures = {key: images[number] for number, key in keys.items()}
        descriptions = self._cache.get_all(
            pictures, lambda unknown: self._look({key: pictures[key] for key in unknown})
        )
        return {number: descriptions[key] for number, key in keys.items()}

    def _look(self, pictures: Mapping[str, Image.Image]) -> dict[str, _Description]:
        labels = self._recogniser.recognise(list(pictures.values()), k=_LABELS)
        lines = self._ocr.read(list(pictures.values()))
        return {
            key: _Description(self._describe(named, read).strip(), tuple(line.text for line in read))
            for key, named, read in zip(pictures, labels, lines, strict=True)
        }


def _convert_images(request: ChatRequest) -> ChatRequest | ModelError:
    """Return the request with its images as RGB in full size, or why one of them cannot be decoded."""
    try:
        return replace(request, messages=convert_images(request.messages, sys.maxsize))
    except ModelError as error:
        return error


def _list_lines(request: ChatRequest, descriptions: dict[int, _Description]) -> tuple[str, ...]:
    images = [image for message in request.messages for image in message.images]
    return descriptions[id(images[0])].lines if images else ()


def _describe_images(message: ChatMessage, descriptions: dict[int, _Description]) -> ChatMessage:
    texts = [text for image in message.images if (text := descriptions[id(image)].text)]
    if len(message.images) > 1:  # a prompt that shows several pictures speaks of them by their number
        texts = [
            f"Picture {number}: {descriptions[id(image)].text or _NOTHING}"
            for number, image in enumerate(message.images, 1)
        ]
    return replace(message, content="\n\n".join([*texts, message.content]), images=())
