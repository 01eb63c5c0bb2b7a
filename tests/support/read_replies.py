"""The forms of replies that readers know, and the values that they made of replies: as JSON, and whether they repeat the prompt."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

import agents.asking.readers
import agents.papers
from agents.asking.ask import ReplyForm
from agents.texts.refusals import refuses
from agents.turn import IDK, Candidate

_SHORT = 4  # characters of a word that any reply may share with its prompt
_ARGUMENTS = {"int": 5, "str": "queries"}  # of functions that make forms


def list_forms() -> Iterator[ReplyForm[Any]]:
    """Yield every form that a module of readers or a paper defines, and one of each function that makes forms."""
    packages = (agents.asking.readers, agents.papers)
    names = [f"{each.__name__}.{info.name}" for each in packages for info in pkgutil.iter_modules(each.__path__)]
    for module in map(importlib.import_module, names):
        for value in vars(module).values():
            if isinstance(value, ReplyForm):
                yield value
            elif inspect.isfunction(value) and "ReplyForm[" in str(value.__annotations__.get("return", "")):
                parameters = inspect.signature(value).parameters.values()
                yield value(
                    *(_ARGUMENTS[str(getattr(each.annotation, "__name__", each.annotation))] for each in parameters)
                )


def as_json(value: Any) -> Any:
    """Convert what was read from a reply to JSON.

    An answer becomes its text, and a refusal "I don't know".
    """
    if isinstance(value, Candidate):
        return IDK if refuses(value.text) else value.text
    if is_dataclass(value):
        return {name: as_json(part) for name, part in vars(value).items() if part is not None and name != "logprobs"}
    if isinstance(value, Mapping):
        return {name: as_json(part) for name, part in value.items()}
    return [as_json(part) for part in value] if isinstance(value, tuple | list) else value


def is_copied(read: Any, template: str) -> bool:
    """Return whether a value parsed from a reply is copied from its prompt's template, as from an example."""
    if isinstance(read, list | dict):
        return any(is_copied(each, template) for each in (read.values() if isinstance(read, dict) else read))
    if not isinstance(read, str) or len(read) <= _SHORT or refuses(read):
        return False
    return re.search(rf"\b{re.escape(read.lower())}\b", template.lower()) is not None
