"""Makes turns of the arguments that the evaluator passes; broken input affects its own turn only."""

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, zip_longest
from typing import Any

from PIL import Image

from agents.base_agent import Message
from agents.methods.domains import find_domain
from agents.models.picture_files import FORMATS, MAX_PIXELS, check_format, reduced_rgb
from agents.models.picture_files import KEPT_PIXELS as KEPT_PIXELS
from agents.models.picture_files import PictureTooLargeError as PictureTooLargeError
from agents.models.picture_files import TakesLongError as TakesLongError
from agents.models.picture_files import decode_at_once as decode_at_once
from agents.models.picture_files import decoded_in as decoded_in
from agents.models.picture_files import read_picture_file as read_picture_file
from agents.search.provided_context import parse_provided
from agents.texts.injection import without_special_tokens
from agents.texts.text import without_controls
from agents.turn import Turn

_log = logging.getLogger(__name__)

MAX_QUERY = 4_000  # characters of a question, or of a message, to read; a 75-token answer needs no more
MAX_MESSAGES = 40  # messages of a history to read, the latest ones and the first; dialogs have at most six turns

PHOTO_FORMATS = FORMATS
"""Formats allowed for a photo sent as a file."""

_ROLES = ("user", "assistant")
_MAX_REASON = 300


Decode = Callable[[Any, Turn], Image.Image]  # from the evaluator's image of a turn to a picture


def decode_image(image: Any) -> Image.Image:
    """Convert a picture with ``to_rgb`` and reduce it to at most ``KEPT_PIXELS``.

    A file that was opened but not decoded yet has to be of one of ``picture_files.FORMATS``.

    Raises:
        ValueError: The value is no picture, the picture is broken, or it has more than ``MAX_PIXELS``.
    """
    if not isinstance(image, Image.Image):
        raise ValueError(f"not a PIL image: {type(image).__name__}")
    if image.width * image.height > MAX_PIXELS:
        raise ValueError(f"{image.width} x {image.height} pixels are more than {MAX_PIXELS}")
    check_format(image)
    return reduced_rgb(image, KEPT_PIXELS)


def _decode(image: Any, _: Turn) -> Image.Image:
    return decode_image(image)


def open_turns(queries: Sequence[Any], images: Any, histories: Any, decode: Decode = _decode) -> list[Turn]:
    """Open a turn for each query, with its image and its history.

    Missing images and histories count as None, and surplus ones are left out; either is logged.
    """
    columns = [
        _fit_to(len(queries), argument, noun) for argument, noun in ((images, "images"), (histories, "histories"))
    ]
    return [open_turn(query, image, history, decode) for query, image, history in zip_longest(queries, *columns)]


def _fit_to(count: int, argument: Any, noun: str) -> list[Any]:
    """Return at most ``count`` items of an argument; another number of them is logged, unless there is no argument."""
    items = as_list(argument)
    if argument is not None and len(items) != count:
        _log.warning(
            "%d queries came with %d %s: each takes the one at its place, and those without are asked without",
            count,
            len(items),
            noun,
        )
    return items[:count]


def open_turn(query: Any, image: Any, history: Any, decode: Decode = _decode) -> Turn:
    """Open a turn from a query, a PIL image and a dialog.

    Unreadable parts are noted and left out.
    """
    turn = Turn(query=tidy(query), image=None, history=_messages(history))
    turn.question = turn.query
    if image is None:
        return turn
    try:
        turn.image = decode(image, turn)
    except Exception as error:  # noqa: BLE001 - Pillow's decoders raise dozens of kinds on broken files; the question can still be asked
        turn.error = f"image: {type(error).__name__}: {error}"[:_MAX_REASON]
        _log.warning("an image could not be read: %s", turn.error)
    return turn


def add_provided(turns: Sequence[Turn], contexts: Any, domains: Any) -> None:
    """Put the contexts and domains of later evaluators on the turns; unknown domains and lists of other lengths are ignored."""
    provided = as_list(contexts)
    for turn, context, domain in islice(zip_longest(turns, provided, as_list(domains)), len(turns)):
        turn.provided = parse_provided(context) if provided else None
        turn.domain = find_domain(domain) if isinstance(domain, str) else None


def tidy(text: Any) -> str:
    """Remove control characters and special tokens from a question or a message.

    Ordinary text stays as it is, up to ``MAX_QUERY`` characters.
    """
    if not isinstance(text, str):
        return ""
    return without_special_tokens(without_controls(text[:MAX_QUERY]))


def _messages(history: Any) -> tuple[Message, ...]:
    items = as_list(history)
    messages = [message for each in items if (message := _message(each)) is not None]
    if len(messages) < len(items) or not (history is None or _is_list(history)):
        _log.warning(
            'a history is read in part: %d of its messages are {"role": "user" or "assistant", "content": TEXT}, %d are not',
            len(messages),
            len(items) - len(messages),
        )
    return tuple(messages if len(messages) <= MAX_MESSAGES else [messages[0], *messages[1 - MAX_MESSAGES :]])


def _message(value: Any) -> Message | None:
    """Return a message of a dialog; None for anything else."""
    if not isinstance(value, dict) or value.get("role") not in _ROLES or not isinstance(value.get("content"), str):
        return None
    return Message(role=value["role"], content=tidy(value["content"]))


def _is_list(value: Any) -> bool:
    """Return whether a value has items of a batch: text and a mapping do not."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | dict)


def as_list(value: Any) -> list[Any]:
    """Coerce an argument of a call to a list; [] for text, a mapping and non-iterables."""
    return list(value) if _is_list(value) else []
