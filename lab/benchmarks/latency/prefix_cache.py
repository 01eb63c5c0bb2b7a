"""What an engine with a prefix cache need not read again of a prompt."""

from __future__ import annotations

import bisect
import hashlib
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.models.base import ChatRequest
from agents.models.chat.prompt_fitting import system_into_user
from agents.models.registry import PROPERTIES
from agents.settings.run_config import RunConfig

_PICTURE = "\0{}\1"  # stands for a picture; no text of a prompt holds either sign
_END = "\1"


@dataclass(frozen=True)
class KnownPrefix:
    """Part of a prompt that was read before: its beginning, and pictures that the encoder has seen anywhere."""

    characters: int
    pictures: int  # within that beginning
    encoded: int


class PrefixCache:
    """Prompts that an engine has read, the last ``prompts`` of them.

    vLLM keeps blocks of 16 tokens: its hits end up to 15 tokens earlier than those that are counted here.

    Args:
        prompts: Number of prompts whose keys and values it holds.
        pictures_first: Whether pictures stand before the instructions (``VllmChat``).
    """

    def __init__(self, prompts: int, *, pictures_first: bool = False) -> None:
        self._size, self._pictures_first = prompts, pictures_first
        self._order: deque[str] = deque()
        self._sorted: list[str] = []
        self._seen: set[str] = set()

    def read(self, request: ChatRequest) -> KnownPrefix:
        """Read a prompt; return what of it was known."""
        text, pictures = self._spell(request)
        place = bisect.bisect_left(self._sorted, text)
        # Of sorted texts a neighbour shares the longest beginning.
        shared = max(
            (_shared_beginning(text, other) for other in self._sorted[max(0, place - 1) : place + 1]),
            key=len,
            default="",
        )
        self._keep(text, place)
        overlap = KnownPrefix(
            characters=len(_without_pictures(shared)),
            pictures=shared.count(_END),
            encoded=sum(picture in self._seen for picture in pictures),
        )
        self._seen.update(pictures)
        return overlap

    def _keep(self, text: str, place: int) -> None:
        self._order.append(text)
        self._sorted.insert(place, text)
        if len(self._order) > self._size:
            oldest = self._order.popleft()
            del self._sorted[bisect.bisect_left(self._sorted, oldest)]

    def _spell(self, request: ChatRequest) -> tuple[str, list[str]]:
        """Spell a prompt as one text; return it with the digests of its pictures."""
        messages = request.messages
        if self._pictures_first and any(message.images for message in messages):
            messages = system_into_user(messages) or messages
        parts, pictures = [], []
        for message in messages:
            digests = [hashlib.sha1(each.tobytes(), usedforsecurity=False).hexdigest() for each in message.images]
            pictures += digests
            parts.append(f"{message.role}\n{''.join(map(_PICTURE.format, digests))}{message.content}\n")
        return "".join(parts), pictures


def _shared_beginning(one: str, other: str) -> str:
    places = zip(one, other, strict=False)
    return one[: next((at for at, (left, right) in enumerate(places) if left != right), min(len(one), len(other)))]


def _without_pictures(text: str) -> str:
    """Take the digests of pictures out of a text; half a digest at its end is a picture that is not shared."""
    return "".join(part.split("\0")[0] for part in text.split(_END))


def make_prefix_caches(config: RunConfig, caching: Mapping[str, int]) -> dict[str, PrefixCache]:
    """Make the prefix caches of a profile's engines by role; roles with the same table share one.

    Args:
        config: Preset and profile.
        caching: Roles whose engine has such a cache, with the prompts that it holds.
    """
    cache_by_spec: dict[str, PrefixCache] = {}
    cache_by_role = {}
    for role, prompts in caching.items():
        table: Mapping[str, Any] = config.profile.models[role]
        spec = {name: value for name, value in table.items() if name not in PROPERTIES}
        key = json.dumps(spec, sort_keys=True, default=str)
        if key not in cache_by_spec:
            cache_by_spec[key] = PrefixCache(prompts, pictures_first=bool(spec.get("pictures_first")))
        cache_by_role[role] = cache_by_spec[key]
    return cache_by_role
