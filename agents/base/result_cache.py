"""Cache of results by their inputs, so that nothing is computed twice."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class ResultCache(Generic[Key, Value]):
    """The latest results by key, at most ``limit`` of them; several threads may ask.

    A library's cache has a result for each call. Models are called for a batch, of which some results are known.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._results: OrderedDict[Key, Value] = OrderedDict()
        self._lock = Lock()

    def get_all(self, keys: Iterable[Key], compute: Callable[[Sequence[Key]], Mapping[Key, Value]]) -> dict[Key, Value]:
        """Return results by key.

        Args:
            keys: Keys of the wanted results; a key may occur more than once.
            compute: Called once with all distinct unknown keys, if there are any. Keys missing from its result are missing from ours
                too, and are computed again on the next call.
        """
        distinct = list(dict.fromkeys(keys))
        with self._lock:
            results = {key: self._results[key] for key in distinct if key in self._results}
        unknown = [key for key in distinct if key not in results]
        if unknown:
            results |= compute(unknown)
        with self._lock:
            for key, value in results.items():
                self._results[key] = value
                self._results.move_to_end(key)
            while len(self._results) > self._limit:
                self._results.popitem(last=False)
        return results
