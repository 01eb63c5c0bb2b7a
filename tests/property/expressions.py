"""Find the regular expressions of a package, and build the inputs that make a backtracking engine slow."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from re import _parser  # type: ignore[attr-defined]  # the only tree of an expression that Python offers
from types import ModuleType
from typing import Any

UNITS = (
    " ", "\n", "\t", "\r\n", " \n", "(", "[", "{", "<", "]", ")", "[1]", "[1", "1", "1 ", "1.", "1,", "\n1. ", '"', "'", "“", "«",
    "*", "#", "-", "_", ".", ";", ",", "; ", ":", "a", "a ", "A ", "é", "the ",
)  # fmt: skip
"""What is repeated: blanks, line ends, brackets, digits, quotes, marks and words."""

FEW_UNITS = (" ", "\n", "1", "a", "a ", "(", ".", '"')
"""What is repeated behind the beginnings of an expression."""

_METHODS = "match|fullmatch|search|finditer|findall|sub|split"
_ANCHORED = {"match", "fullmatch"}


@dataclass(frozen=True)
class Expression:
    """A compiled expression of a module, and the methods by which the module applies it."""

    name: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]

    def work(self, text: str) -> None:
        """Apply the expression as the module does; look for every match where that is unknown."""
        data = text.encode() if isinstance(self.pattern.pattern, bytes) else text
        if not self.methods or self.methods - _ANCHORED:
            for _ in self.pattern.finditer(data):
                pass
        else:
            for method in self.methods:
                getattr(self.pattern, method)(data)


def expressions(package: ModuleType) -> Iterator[Expression]:
    """Yield each compiled expression that a module of the package defines, those in tuples and mappings too."""
    for module_info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module_info.name.endswith("__main__"):
            module = importlib.import_module(module_info.name)
            source = Path(str(module.__file__)).read_text(encoding="utf-8")
            for name, value in vars(module).items():
                if f"{name}:" in source or f"{name} =" in source:  # defined here, not imported
                    caller = name if isinstance(value, re.Pattern) else _loop_variable(name, source)
                    methods = frozenset(re.findall(rf"\b{caller}\.({_METHODS})\(", source))
                    for number, each in enumerate(_members(value)):
                        if isinstance(each, re.Pattern):
                            yield Expression(
                                f"{module_info.name}.{name}" + f"[{number}]" * (each is not value), each, methods
                            )


def _loop_variable(name: str, source: str) -> str:
    """Return the variable by which a loop applies the members of a collection."""
    match = re.search(rf"for (?:\w+, )?(\w+) in {name}\b", source)
    return match[1] if match else name


def _members(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else [value]


def heads(pattern: re.Pattern[Any]) -> set[str]:
    """Return texts that lead an expression up to each of its unlimited repetitions; the empty text is one."""
    beginnings = {""}
    _shortest(_parser.parse(pattern.pattern, pattern.flags), "", beginnings)
    return beginnings


def _shortest(tree: Any, before: str, beginnings: set[str]) -> str:
    """Return the shortest text that a part of an expression matches, and add the texts before its repetitions to ``beginnings``."""
    text = ""
    for operation, argument in tree:
        kind = str(operation)
        if kind == "LITERAL":
            text += chr(argument)
        elif kind == "NOT_LITERAL":
            text += "!" if chr(argument) != "!" else "?"
        elif kind == "ANY":
            text += "a"
        elif kind == "IN":
            text += _character(argument)
        elif kind == "SUBPATTERN":
            text += _shortest(argument[3], before + text, beginnings)
        elif kind == "ATOMIC_GROUP":
            text += _shortest(argument, before + text, beginnings)
        elif kind == "BRANCH":
            first, *_ = [_shortest(each, before + text, beginnings) for each in argument[1]]  # every branch is walked
            text += first
        elif kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, inner = argument
            if most > 20:
                beginnings.add(before + text)
            once = _shortest(inner, before + text, beginnings)
            text += once * least
    return text


_OF_CATEGORY = {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a", "CATEGORY_NOT_DIGIT": "a"}


def _character(members: Any) -> str:
    kinds = {str(operation) for operation, _ in members}
    if "NEGATE" in kinds:
        return next(each for each in "a1!\t" if not any(each in _sample(member) for member in members))
    return _sample(members[0])[0]


def _sample(member: Any) -> str:
    operation, argument = member
    kind = str(operation)
    if kind == "LITERAL":
        return chr(argument)
    if kind == "RANGE":
        return "".join(map(chr, range(argument[0], argument[1] + 1)))
    return _OF_CATEGORY.get(str(argument), "!") if kind == "CATEGORY" else ""


def inputs(pattern: re.Pattern[Any]) -> Iterator[Callable[[int], str]]:
    """Yield makers of texts of so many characters: each head, a unit many times, and an end that does not match."""
    for head in sorted(heads(pattern)):
        for unit in (*FEW_UNITS, head) if head else UNITS:
            yield lambda length, head=head, unit=unit: f"{head}{unit * (length // len(unit))}\x01"  # type: ignore[misc]
