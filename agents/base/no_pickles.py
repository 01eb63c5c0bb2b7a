"""Storage of a diskcache folder that never unpickles: a folder may come from somebody else, and a pickle runs whatever it names."""

from typing import Any

import diskcache
from diskcache.core import MODE_BINARY, MODE_RAW, MODE_TEXT

_PLAIN = (MODE_RAW, MODE_BINARY, MODE_TEXT)


class PickleError(ValueError):
    """An entry is a pickle, or would have to become one."""


class PlainDisk(diskcache.Disk):  # type: ignore[misc]  # diskcache is untyped
    """Disk that keeps text, bytes and numbers as they are and refuses all else (CVE-2025-69872)."""

    def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> Any:
        """Return the value of an entry. Raises: PickleError for a pickle, which is not looked at."""
        if mode not in _PLAIN:
            raise PickleError("a pickle, which may run code when it is read; it was left alone")
        return super().fetch(mode, filename, value, read)

    def get(self, key: Any, raw: bool) -> Any:
        """Return the key of an entry. Raises: PickleError for a pickle."""
        if not raw:
            raise PickleError("a pickled key, which may run code when it is read; it was left alone")
        return super().get(key, raw)

    def put(self, key: Any) -> tuple[Any, bool]:
        """Return the stored form of a key. Raises: PickleError for a key that needs a pickle."""
        _check("key", key)
        stored: tuple[Any, bool] = super().put(key)
        return stored

    def store(self, value: Any, read: bool, key: Any = diskcache.UNKNOWN) -> tuple[int, int, str | None, Any]:
        """Return the row in which a value is stored. Raises: PickleError for a value that needs a pickle."""
        if not read:
            _check("value", value)
        stored: tuple[int, int, str | None, Any] = super().store(value, read, key=key)
        return stored


def _check(noun: str, content: Any) -> None:
    """Raise PickleError for values that diskcache would pickle: any other type, subclasses, and integers of more than 64 bits."""
    plain = type(content) in (bytes, str, float) or (type(content) is int and -(2**63) <= content < 2**63)
    if not plain:
        raise PickleError(f"a {noun} of type {type(content).__name__} cannot be stored; use text, bytes or a number")
