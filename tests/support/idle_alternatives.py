"""Count the alternatives of regular expressions, and the words of tables, that no recorded turn needs.

An alternative is needed if a recorded match goes through it. Inside a negative lookaround, where no match leaves a trace, it is needed if
switching it off changes a match. The same alternative of the same group, put into several expressions of a module, counts once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Any

_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?#[^)]*\)|(?P<open>\((?:\?(?:P<\w+>|<?[=!]|[a-zA-Z-]*:|>))?)|[)|]|.", re.DOTALL
)
_PLAIN = re.compile(r"[\w' -]+")

Key = tuple[str, str]  # an alternative: the text of its group, and its own


@dataclass(frozen=True)
class Alternative:
    """An alternative of an expression: its key, where its text begins and ends, and whether it is inside a negative lookaround."""

    key: Key
    start: int
    end: int
    is_negative: bool


def split_alternatives(pattern: str) -> list[Alternative]:
    """Split an expression into the alternatives of all its groups that have several."""
    found: list[Alternative] = []
    # For each open group: where it begins, where its alternatives begin, and whether it is inside a negative lookaround.
    groups = [(0, [0], False)]

    def close(end: int) -> None:
        start, begins, is_negative = groups.pop()
        if len(begins) > 1:
            ends = [*(begin - 1 for begin in begins[1:]), end]
            found.extend(
                Alternative((pattern[start:end], pattern[begin:stop]), begin, stop, is_negative)
                for begin, stop in zip(begins, ends, strict=True)
            )

    for token in _TOKEN.finditer(pattern):
        if token["open"]:
            is_negative = groups[-1][2] or token["open"] in ("(?!", "(?<!")
            groups.append((token.end(), [token.end()], is_negative))
        elif token[0] == "|":
            groups[-1][1].append(token.end())
        elif token[0] == ")":
            close(token.start())
    close(len(pattern))
    return found


@dataclass(eq=False)
class Recorder:
    """Stands for a compiled expression, and notes the texts that it is applied to."""

    pattern: re.Pattern[str]
    calls: set[tuple[str, str, int]] = field(default_factory=set)  # method, text, position

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pattern, name)

    def _note(self, method: str, text: str, at: int = 0) -> None:
        self.calls.add((method, text, at))

    def search(self, text: str, at: int = 0) -> Any:
        """Apply ``search``."""
        self._note("search", text, at)
        return self.pattern.search(text, at)

    def match(self, text: str, at: int = 0) -> Any:
        """Apply ``match``."""
        self._note("match", text, at)
        return self.pattern.match(text, at)

    def fullmatch(self, text: str, at: int = 0) -> Any:
        """Apply ``fullmatch``."""
        self._note("fullmatch", text, at)
        return self.pattern.fullmatch(text, at)

    def finditer(self, text: str) -> Any:
        """Apply ``finditer``."""
        self._note("finditer", text)
        return self.pattern.finditer(text)

    def findall(self, text: str) -> Any:
        """Apply ``findall``."""
        self._note("finditer", text)
        return self.pattern.findall(text)

    def sub(self, new: Any, text: str, count: int = 0) -> Any:
        """Apply ``sub``."""
        self._note("finditer", text)
        return self.pattern.sub(new, text, count=count)

    def split(self, text: str) -> Any:
        """Apply ``split``."""
        self._note("finditer", text)
        return self.pattern.split(text)

    @cached_property
    def alternatives(self) -> list[Alternative]:
        """The alternatives of the expression."""
        return split_alternatives(self.pattern.pattern)

    def find_needed(self) -> set[Key]:
        """Return the keys of the alternatives that a recorded match goes through, or that would change one."""
        marked, source = "", self.pattern.pattern
        positive = [one for one in self.alternatives if not one.is_negative]
        # An empty group at the end of an alternative says whether a match went through it. It is named, since numbers may shift.
        ends: dict[int, list[int]] = {}
        for number, one in enumerate(positive):
            ends.setdefault(one.end, []).append(number)
        at = 0
        for end in sorted(ends):
            marked += source[at:end] + "".join(f"(?P<_{number}>)" for number in reversed(ends[end]))
            at = end
        compiled = re.compile(marked + source[at:], self.pattern.flags & ~re.UNICODE)
        index = {number: compiled.groupindex[f"_{number}"] for number in range(len(positive))}
        needed: set[Key] = set()
        for regs in (match.regs for call in self.calls for match in _matches(compiled, call)):
            needed.update(positive[number].key for number, group in index.items() if regs[group][0] >= 0)
        return needed | self._find_negative(needed)

    def _find_negative(self, needed: set[Key]) -> set[Key]:
        """Return the keys of alternatives of negative lookarounds without which another text would match, or another part of one."""
        by_key: dict[Key, list[Alternative]] = {}
        for one in self.alternatives:
            if one.is_negative and one.key not in needed:
                by_key.setdefault(one.key, []).append(one)
        return {key for key, ones in by_key.items() if self._changes_without(key[1], ones)}

    def _changes_without(self, own: str, ones: list[Alternative]) -> bool:
        plain = own.lower() if _PLAIN.fullmatch(own) else ""
        calls = [call for call in self.calls if plain in call[1].lower()]
        if not calls:
            return False
        source = self.pattern.pattern
        for one in sorted(ones, key=lambda one: -one.start):
            source = source[: one.start] + "(?!)" + source[one.start :]
        without = re.compile(source, self.pattern.flags & ~re.UNICODE)
        return any(_spans(without, call) != _spans(self.pattern, call) for call in calls)


def _matches(pattern: re.Pattern[str], call: tuple[str, str, int]) -> Iterable[re.Match[str]]:
    method, text, at = call
    if method == "finditer":
        return pattern.finditer(text)
    match = getattr(pattern, method)(text, at)
    return () if match is None else (match,)


def _spans(pattern: re.Pattern[str], call: tuple[str, str, int]) -> list[Any]:
    return [match.regs for match in _matches(pattern, call)]


def list_words(value: Any) -> Iterator[str]:
    """Yield the words of a table: a set, a tuple or a mapping of plain words."""
    members = [*value, *value.values()] if isinstance(value, dict) else value
    if isinstance(value, dict | frozenset | set | tuple | list) and members:
        texts = [one for one in members if isinstance(one, str)]
        if all(_PLAIN.fullmatch(text) for text in texts):
            yield from texts


class Watch:
    """Records what the expressions of some modules are applied to, in all modules of the agent that use them."""

    def __init__(self, names: Iterable[str]) -> None:
        self.modules = [sys.modules[name] for name in names]
        self.recorders: dict[int, Recorder] = {}
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Watch:
        for module in self.modules:
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):  # what another test asked is asked again
                    value.cache_clear()
            for value in _own(module).values():
                self._wrap(value)
        for module in [one for name, one in sys.modules.items() if name.startswith("agents.")]:
            for name, value in list(vars(module).items()):
                if (new := self._replace(value)) is not value:
                    setattr(module, name, new)
                    self._undo.append(lambda module=module, name=name, value=value: setattr(module, name, value))  # type: ignore[misc]
        return self

    def __exit__(self, *_: object) -> None:
        for undo in self._undo:
            undo()

    def _wrap(self, value: Any) -> None:
        if isinstance(value, re.Pattern):
            self.recorders.setdefault(id(value), Recorder(value))
        elif isinstance(value, tuple | list):
            for one in value:
                self._wrap(one)
        elif isinstance(value, dict):
            self._wrap(list(value.values()))

    def _replace(self, value: Any) -> Any:
        if isinstance(value, re.Pattern):
            return self.recorders.get(id(value), value)
        if type(value) in (tuple, list):
            new = [self._replace(one) for one in value]
            return value if all(a is b for a, b in zip(new, value, strict=True)) else type(value)(new)
        if type(value) is dict:
            changed = {key: self._replace(one) for key, one in value.items()}
            return value if all(changed[key] is value[key] for key in value) else changed
        return value

    def list_idle(self, words: set[str], text: str) -> dict[str, tuple[list[Key], int]]:
        """Return the idle alternatives and words of each module, and how many there are in all.

        Args:
            words: Words of the recorded texts, in lower case.
            text: All recorded texts, in lower case, for entries of several words.
        """
        idle: dict[str, tuple[list[Key], int]] = {}
        for module in self.modules:
            keys: dict[Key, bool] = {}
            for name, value in _own(module).items():
                for word in list_words(value):
                    keys[name, word] = word.lower() in (words if re.fullmatch(r"\w+", word) else text)
            recorders = {id(one): one for value in _own(module).values() for one in self._list_recorders(value)}
            for recorder in recorders.values():
                keys |= {one.key: False for one in recorder.alternatives if one.key not in keys}
                keys |= dict.fromkeys(recorder.find_needed(), True)
            idle[module.__name__] = ([key for key, is_needed in keys.items() if not is_needed], len(keys))
        return idle

    def _list_recorders(self, value: Any) -> Iterator[Recorder]:
        if isinstance(value, re.Pattern):
            yield self.recorders[id(value)]
        elif isinstance(value, tuple | list | dict):
            for one in value.values() if isinstance(value, dict) else value:
                yield from self._list_recorders(one)


def _own(module: ModuleType) -> dict[str, Any]:
    """Return the values that a module defines itself, by their names."""
    source = module.__loader__.get_source(module.__name__) or ""  # type: ignore[union-attr]
    return {name: value for name, value in vars(module).items() if re.search(rf"^{name}(?::[^\n=]*)? =", source, re.M)}
