"""Makes turns of the arguments that the evaluator passes; broken input affects its own turn only."""

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, zip_longest
from typing import Any

from PIL import Image

from agents.base_agent import Message
from agents.methods.domains import domain_of_label
from agents.models.picture_files import FORMATS, DecodeElsewhere, decoded_in, decodes_quickly, file_of, reduced_rgb
from agents.runtime.subprocess_worker import SubprocessWorker
from agents.search.provided_context import parse_provided
from agents.texts.injection import without_special_tokens
from agents.texts.text import without_controls
from agents.turn import Turn

_log = logging.getLogger(__name__)

MAX_QUERY = 4_000  # characters of a question, or of a message, that are read; a 75-token answer needs no more
MAX_MESSAGES = 40  # messages of a history that are read, the latest ones and the first; dialogs have at most six turns

MAX_PIXELS = 178_956_970
"""Larger pictures are not decoded: Pillow's own limit against decompression bombs (2 x 2^30 / 12 pixels)."""

KEPT_PIXELS = 25_000_000
"""Larger pictures are made smaller at once: 16 of them at full size would take the memory that models need."""

PHOTO_FORMATS = FORMATS
"""Formats that a photo which was sent as a file may have."""

_ROLES = ("user", "assistant")
_MAX_REASON = 300


Decode = Callable[[Any], Image.Image]  # from what the evaluator passes as an image to a picture; see ``opened``


def opened(image: Any, elsewhere: DecodeElsewhere | None = None) -> Image.Image:
    """The picture as ``to_rgb`` makes it, at most ``KEPT_PIXELS`` large; ValueError where it is none, broken, or above ``MAX_PIXELS``.

    A file that was opened and not decoded yet has to be of one of ``picture_files.FORMATS``; ``elsewhere`` decodes one that may take long.
    """
    if not isinstance(image, Image.Image):
        raise ValueError(f"not a PIL image: {type(image).__name__}")
    pixels = image.width * image.height
    if pixels > MAX_PIXELS:
        raise ValueError(f"{image.width} x {image.height} pixels are more than {MAX_PIXELS}")
    data = file_of(image)
    if elsewhere is not None and data is not None and not decodes_quickly(image, data, KEPT_PIXELS):
        return elsewhere(data)
    return reduced_rgb(image, KEPT_PIXELS)


def decode_in_process(
    worker: SubprocessWorker, data: bytes, seconds: float, max_pixels: int = MAX_PIXELS
) -> Image.Image:
    """Decode a file as ``opened`` does, in a process that is killed when its time is over.

    Raises:
        ValueError: It is no picture, has more pixels than ``max_pixels``, or takes more than ``seconds``.
    """
    return decoded_in(worker, data, max_pixels=max_pixels, kept_pixels=KEPT_PIXELS, seconds=seconds)


def asked(queries: Any) -> list[Any]:
    """The queries of a call as a list: None holds none, an iterable that raises those before."""
    return list(queries) if isinstance(queries, str) else _listed(queries)


def open_turns(queries: Sequence[Any], images: Any, histories: Any, decode: Decode = opened) -> list[Turn]:
    """A turn for each query; images and histories that are missing or too many are taken as missing or left out."""
    count = len(queries)
    return [
        open_turn(query, image, history, decode)
        for query, image, history in zip_longest(queries, _listed(images)[:count], _listed(histories)[:count])
    ]


def open_turn(query: Any, image: Any, history: Any, decode: Decode = opened) -> Turn:
    """A turn from a query, a PIL image and a dialog; what cannot be read is noted and left out."""
    turn = Turn(query=tidy(query), image=None, history=_messages(history))
    turn.question = turn.query
    if image is None:
        return turn
    try:
        turn.image = decode(image)
    except Exception as error:  # noqa: BLE001 - Pillow's decoders raise dozens of kinds on broken files; the question can still be asked
        turn.error = f"image: {type(error).__name__}: {error}"[:_MAX_REASON]
        _log.warning("an image could not be read: %s", turn.error)
    return turn


def add_provided(turns: Sequence[Turn], contexts: Any, domains: Any) -> None:
    """Put the contexts and domains of later evaluators on the turns; unknown domains and lists of other lengths are ignored."""
    provided = _listed(contexts)
    for turn, context, domain in islice(zip_longest(turns, provided, _listed(domains)), len(turns)):
        turn.provided = parse_provided(context) if provided else None
        turn.domain = domain_of_label(domain) if isinstance(domain, str) else None


def tidy(text: Any) -> str:
    """A question or a message without control characters and special tokens, at most ``MAX_QUERY`` characters; ordinary text as it is."""
    if not isinstance(text, str):
        return ""
    return without_special_tokens(without_controls(text[:MAX_QUERY]))


def _messages(history: Any) -> tuple[Message, ...]:
    found = [
        Message(role=message["role"], content=tidy(message["content"]))
        for message in _listed(history)
        if isinstance(message, dict) and message.get("role") in _ROLES and isinstance(message.get("content"), str)
    ]
    return tuple(found if len(found) <= MAX_MESSAGES else [found[0], *found[1 - MAX_MESSAGES :]])


def _listed(value: Any) -> list[Any]:
    """What should be a list; text and what cannot be listed hold nothing, one that raises on the way what came before."""
    found: list[Any] = []
    if value is None or isinstance(value, str | bytes | dict) or not isinstance(value, Iterable):
        return found
    try:
        found.extend(value)
    except Exception:  # noqa: BLE001 - an iterable of the evaluator's may raise anything; what it gave is answered
        _log.exception("an argument ended early, after %d items", len(found))
    return found
