"""Replies of deterministic requests on disk, so that a repeated table, an ablation or a resumed run pays only for new requests.

A request is deterministic at temperature 0 or with a seed. A reply is found by all that it depends on: the model, the messages,
the pixels of the pictures and every setting of the request. Replies cut by a deadline and errors are never kept.
"""

import hashlib
import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import diskcache

from agents.base.files import format_os_error, parse_json
from agents.base.no_pickles import PlainDisk
from agents.base.sqlite_faults import DAMAGED, get_kind
from agents.models.base import ChatModel, ChatReply, ChatRequest, ModelError, check_replies
from agents.models.pixels import pixels_digest
from agents.time_limits.deadline import NO_DEADLINE, Deadline

FORMAT = 3  # counts up when keys or entries change their meaning; entries of another format are never found
CACHED_ENDS = frozenset({"stop", "length"})  # ends of a reply (``FinishReason``) that another run would reach as well

_OF_THE_CALL = frozenset(
    {"received", "cached", "read", "no_answer", "fault"}
)  # say how a reply was come by, not what it is
_FIELDS = frozenset(field.name for field in fields(ChatReply)) - _OF_THE_CALL
_FAULTS = (sqlite3.Error, diskcache.Timeout, OSError)  # a full disk, a locked or damaged database

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReplyCounts:
    """Deterministic requests so far: ``hits`` took no call of the model, ``misses`` were asked."""

    hits: int = 0
    misses: int = 0


class ReplyStore:
    """Replies by key in an SQLite file that survives a kill. Processes may share the folder.

    Raises:
        ModelError: The file cannot be opened.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counts = ReplyCounts()  # of this process
        self._lock = threading.Lock()
        try:
            # Nothing is evicted.
            self._cache = diskcache.Cache(
                str(folder), disk=PlainDisk, eviction_policy="none", cull_limit=0, size_limit=2**62
            )
        except _FAULTS as error:
            raise ModelError(f"The reply cache {folder} cannot be opened{_explain(error)}.") from error

    def count(self, hits: int, misses: int) -> None:
        """Add to the counts."""
        with self._lock:
            self.counts = ReplyCounts(self.counts.hits + hits, self.counts.misses + misses)

    def get(self, key: str) -> ChatReply | None:
        """Look up the reply stored under a key.

        Returns:
            The reply, or None if there is none or its entry cannot be read (which is logged).
        """
        try:
            entry = self._cache.get(key)
            return None if entry is None else decode_reply(entry)
        except (*_FAULTS, ValueError) as error:
            _log.warning("reply cache %s: entry %s is asked for again: %s", self.folder, key[:12], error)
            return None

    def put(self, key: str, reply: ChatReply) -> None:
        """Keep a reply; one that cannot be written is lost to later runs alone (which is logged)."""
        try:
            self._cache.set(key, encode_reply(reply))
        except _FAULTS as error:
            _log.warning("reply cache %s: entry %s could not be written: %s", self.folder, key[:12], error)


class CachedReplies:
    """A ``ChatModel`` that asks another one only for replies that the store lacks.

    A model's ``fingerprint``, if it has one, names its weights and each option of the engine that changes replies; ``options`` identify
    the others. Complete replies are kept, and taken from the store, if they are ``worth_keeping``.
    """

    def __init__(
        self,
        model: ChatModel,
        store: ReplyStore,
        options: str = "",
        worth_keeping: Callable[[ChatReply], bool] = lambda _: True,
    ) -> None:
        self.name = model.name
        self._model, self._store, self._worth_keeping = model, store, worth_keeping
        self._identity = getattr(model, "fingerprint", None) or f"{model.name} {options}"

    @property
    def max_image_side(self) -> int | None:
        """Longer side in pixels to which the model scales pictures down; None if it does not say."""
        return getattr(self._model, "max_image_side", None)

    @property
    def box_fault(self) -> str:
        """Reason why the model's boxes are not to be used; "" if none is known."""
        return getattr(self._model, "box_fault", "")

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """Answer from the store, and ask the model for the rest; see ``ChatModel.chat``.

        Raises:
            ModelError: The model failed as a whole, or gave another number of replies than requests.
        """
        # By key; by position where a request has none.
        places = [self._key(request) or position for position, request in enumerate(requests)]
        keys = {place for place in places if isinstance(place, str)}
        replies_by_place: dict[str | int, ChatReply] = {
            key: reply for key in keys if (reply := self._store.get(key)) is not None and self._worth_keeping(reply)
        }
        new_requests = {
            place: request for place, request in zip(places, requests, strict=True) if place not in replies_by_place
        }
        replies = self._model.chat(list(new_requests.values()), deadline) if new_requests else []
        replies = check_replies(self.name, replies, len(new_requests))
        for place, reply in zip(new_requests, replies, strict=True):
            replies_by_place[place] = reply
            if isinstance(place, str) and reply.finish_reason in CACHED_ENDS and self._worth_keeping(reply):
                self._store.put(place, reply)
        misses = sum(isinstance(place, str) for place in new_requests)
        self._store.count(sum(isinstance(place, str) for place in places) - misses, misses)
        return [replies_by_place[place] for place in places]

    def _key(self, request: ChatRequest) -> str | None:
        """Return the key of a request; None if its reply is not deterministic or a picture cannot be read."""
        if request.temperature != 0.0 and request.seed is None:
            return None
        try:
            return request_key(self._identity, request)
        except ValueError:  # the model says what is wrong with the picture
            return None


def _explain(error: Exception) -> str:
    """Return why the file cannot be opened and what to do; only a damaged one is to be deleted."""
    if isinstance(error, OSError):
        return f": {format_os_error(error)}"
    is_damaged = get_kind(error) in DAMAGED
    advice = "delete the folder or name another one" if is_damaged else "name a folder that this user may write"
    return f" ({error}): {advice}"


def request_key(model: str, request: ChatRequest) -> str:
    """SHA-256 of the model's identity and all of the request, pictures by mode, size and pixels; ValueError for a broken picture.

    The pixels are those that the models see (upright RGB: palettes and EXIF rotation count).
    """
    content = {
        "format": FORMAT,
        "model": model,
        **vars(request),
        "messages": [
            {**vars(message), "images": [f"{image.mode} {pixels_digest(image)}" for image in message.images]}
            for message in request.messages
        ],
    }
    # Not sorted: the order of a schema's properties is the order in which they are generated.
    return hashlib.sha256(json.dumps(content, default=_plain).encode("ascii")).hexdigest()


def encode_reply(reply: ChatReply) -> bytes:
    """Encode a reply's content as JSON."""
    content = {name: value for name, value in sorted(vars(reply).items()) if name in _FIELDS}
    return json.dumps(content, default=_plain).encode("ascii")


def decode_reply(entry: Any) -> ChatReply:
    """Decode the reply of a cache entry.

    Raises:
        ValueError: The entry is not a complete reply that may be kept.
    """
    if not isinstance(entry, bytes):
        raise ValueError(f"an entry of type {type(entry).__name__}")
    content = parse_json(entry)
    if not isinstance(content, dict) or set(content) != _FIELDS:
        raise ValueError("not the fields of a reply")
    if not isinstance(content["text"], str) or content["finish_reason"] not in CACHED_ENDS:
        raise ValueError("not a finished reply")
    for name in ("logprobs", "usage"):
        if isinstance(content[name], list):
            content[name] = tuple(content[name])
    return ChatReply(**content, cached=True)


def _plain(value: Any) -> Any:
    """Convert values that JSON lacks: mappings that are no dict, and numbers of numpy.

    Raises:
        TypeError: The value is of any other type.
    """
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} in a request or a reply")
