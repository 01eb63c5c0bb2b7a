"""Makes turns of the arguments that the evaluator passes; broken input affects its own turn only."""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from PIL import Image, ImageFile

from agents.base_agent import Message
from agents.methods.domains import find_domain
from agents.models.picture_files import (
    FORMATS,
    KEPT_PIXELS,
    MAX_PIXELS,
    DecodeElsewhere,
    decode_at_once,
    decoded_in,
    read_file,
    read_picture_file,
    reduced_rgb,
)
from agents.models.picture_files import PictureTooLargeError as PictureTooLargeError
from agents.models.picture_files import TakesLongError as TakesLongError
from agents.search.provided_context import parse_provided
from agents.texts.injection import without_special_tokens
from agents.texts.text import without_controls
from agents.time_limits.subprocess_worker import SubprocessWorker
from agents.turn import Turn

_log = logging.getLogger(__name__)

MAX_QUERY = 4_000  # characters of a question, or of a message, that are read; a 75-token answer needs no more
MAX_MESSAGES = 40  # messages of a history that are read, the latest ones and the first; dialogs have at most six turns

PHOTO_FORMATS = FORMATS
"""Formats that a photo which was sent as a file may have."""

_FILE = b"file "  # what the identity of a file begins with
_MAX_OPENED = 256
_OPENED_PIXELS = 4 * KEPT_PIXELS  # 300 MB

_ROLES = ("user", "assistant")
_MAX_REASON = 300


Decode = Callable[
    [Any, Turn], Image.Image
]  # from what the evaluator passes as a turn's image to a picture; see ``decode_image``


def decode_image(image: Any, elsewhere: DecodeElsewhere | None = None) -> Image.Image:
    """Convert a picture with ``to_rgb`` and reduce it to at most ``KEPT_PIXELS``.

    A file that was opened but not decoded yet has to be of one of ``picture_files.FORMATS``.

    Args:
        image: The picture as the evaluator passed it.
        elsewhere: Decodes a file that may take long; None: it is decoded here.

    Raises:
        ValueError: The value is no picture, the picture is broken, or it has more than ``MAX_PIXELS``.
    """
    if not isinstance(image, Image.Image):
        raise ValueError(f"not a PIL image: {type(image).__name__}")
    pixels = image.width * image.height
    if pixels > MAX_PIXELS:
        raise ValueError(f"{image.width} x {image.height} pixels are more than {MAX_PIXELS}")
    data = read_file(image)
    if elsewhere is None or data is None:
        return reduced_rgb(image, KEPT_PIXELS)
    try:
        return decode_photo_at_once(data)
    except TakesLongError:
        return elsewhere(data)


def photo_id(image: Any) -> bytes:
    """Return what recognises an undecoded picture, a file by its content; empty for a decoded one.

    Raises:
        ValueError: It is a file of a format that is not decoded.
    """
    if type(image) is Image.Image or not isinstance(image, Image.Image):
        return b""
    data = read_file(image)
    if data is not None:
        return _FILE + hashlib.sha256(data).digest()
    if isinstance(image, ImageFile.ImageFile):
        return b""
    return f"{type(image).__qualname__} {image.size} {image.mode}".encode()


class OpenedPhotos:
    """Pictures that took long to decode, and errors of those that could not be, by dialog; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._cache: OrderedDict[bytes, Image.Image | str] = OrderedDict()

    def get(self, key: bytes) -> Image.Image | None:
        """Return the picture, or None if it is not known.

        Raises:
            ValueError: It could not be decoded.
        """
        cached = self._cache.get(key)
        if isinstance(cached, str):
            raise ValueError(cached)
        return cached

    def keep(self, key: bytes, result: Image.Image | Exception) -> None:
        """Remember a picture, or in words an error: its traceback would hold the file and all that was opened of it."""
        self._cache.pop(key, None)
        if isinstance(result, Exception):
            kind = "" if type(result) is ValueError else f"{type(result).__name__}: "
            self._cache[key] = f"{kind}{result}"[:_MAX_REASON]
        else:
            self._cache[key] = result
        while len(self._cache) > 1 and (len(self._cache) > _MAX_OPENED or self._pixels() > _OPENED_PIXELS):
            self._cache.popitem(last=False)

    def _pixels(self) -> int:
        return sum(each.width * each.height for each in self._cache.values() if isinstance(each, Image.Image))


def is_file(identity: bytes) -> bool:
    """Return whether ``photo_id`` recognises a file: the same content is the same picture."""
    return identity.startswith(_FILE)


def read_photo_file(path: Path) -> Image.Image:
    """Decode a user's file as ``decode_image`` does, within limits of bytes, pixels and time.

    Raises:
        ValueError: The file is too large, holds no picture, or one that is too large or takes too long.
        OSError: The file cannot be read.
    """
    return read_picture_file(path)


def decode_photo_at_once(data: bytes, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Decode a file as ``decode_image`` does, if that is sure to be quick.

    Raises:
        TakesLongError: The file may take long.
        PictureTooLargeError: Its picture has more than ``max_pixels``.
        ValueError: It holds no picture, or a broken one.
    """
    return decode_at_once(data, max_pixels=max_pixels, kept_pixels=KEPT_PIXELS)


def decode_in_process(
    worker: SubprocessWorker, data: bytes, seconds: float, max_pixels: int = MAX_PIXELS
) -> Image.Image:
    """Decode a file as ``decode_image`` does, in a process that is killed when its time is over.

    Raises:
        ValueError: It is no picture, has more pixels than ``max_pixels``, or takes more than ``seconds``.
    """
    return decoded_in(worker, data, max_pixels=max_pixels, kept_pixels=KEPT_PIXELS, seconds=seconds)


def as_list(queries: Any) -> list[Any]:
    """Coerce the queries of a call to a list.

    Returns:
        An empty list for None; if an iterable raises, the queries before that.
    """
    return list(queries) if isinstance(queries, str) else _coerce_to_list(queries)


def _open(image: Any, _: Turn) -> Image.Image:
    return decode_image(image)


def open_turns(queries: Sequence[Any], images: Any, histories: Any, decode: Decode = _open) -> list[Turn]:
    """Open a turn for each query, with its image and its history.

    Missing images and histories count as None, and surplus ones are left out; either is logged.
    """
    columns = [
        _fit_to(len(queries), argument, noun) for argument, noun in ((images, "images"), (histories, "histories"))
    ]
    return [open_turn(query, image, history, decode) for query, image, history in zip_longest(queries, *columns)]


def _fit_to(count: int, argument: Any, noun: str) -> list[Any]:
    """Return at most ``count`` items of an argument; another number of them is logged, unless there is no argument."""
    items = _coerce_to_list(argument)
    if argument is not None and len(items) != count:
        _log.warning(
            "%d queries came with %d %s: each takes the one at its place, and those without are asked without",
            count,
            len(items),
            noun,
        )
    return items[:count]


def open_turn(query: Any, image: Any, history: Any, decode: Decode = _open) -> Turn:
    """Open a turn from a query, a PIL image and a dialog.

    What cannot be read is noted and left out.
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
    provided = _coerce_to_list(contexts)
    for turn, context, domain in islice(zip_longest(turns, provided, _coerce_to_list(domains)), len(turns)):
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
    items = _coerce_to_list(history)
    messages = [message for each in items if (message := _message(each)) is not None]
    if len(messages) < len(items) or not (history is None or _is_list(history)):
        _log.warning(
            'a history is read in part: %d of its messages are {"role": "user" or "assistant", "content": TEXT}, %d are not',
            len(messages),
            len(items) - len(messages),
        )
    return tuple(messages if len(messages) <= MAX_MESSAGES else [messages[0], *messages[1 - MAX_MESSAGES :]])


def _message(value: Any) -> Message | None:
    """Return a message of a dialog; None for anything else, also for what raises when it is read."""
    try:
        if not isinstance(value, dict) or value.get("role") not in _ROLES or not isinstance(value.get("content"), str):
            return None
        return Message(role=value["role"], content=tidy(value["content"]))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a class of the evaluator's may raise anything; the other messages can be read
        _log.warning("a message of a history cannot be read: %s: %s", type(error).__name__, error)
        return None


def _coerce_to_list(value: Any) -> list[Any]:
    """Coerce a value to a list.

    Returns:
        [] for text and non-iterables; the items so far if iterating raises.
    """
    items: list[Any] = []
    if not _is_list(value):
        return items
    try:
        items.extend(value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - an iterable of the evaluator's may raise anything; what it gave is answered
        _log.exception("an argument ended early, after %d items", len(items))
    return items


def _is_list(value: Any) -> bool:
    """Return whether a value holds items of a batch: text and a mapping do not."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | dict)
