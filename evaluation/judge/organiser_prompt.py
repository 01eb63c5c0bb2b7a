"""The organiser's words for the judge, read from a checkout of its code: parsed, never run, and never shipped with ours.

Both releases hand the model a list of two messages: a system message, and a user message that is an f-string of the question, the ground
truth and the answer. The starter kit writes the first as a return value, the research release as constants of another file.
"""

from __future__ import annotations

import ast
import hashlib
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agents.asking.prompts import FrontMatter
from agents.models.base import ChatMessage, ChatRequest
from evaluation.judge.asking import JUDGE, convert_to_judge_errors, judge_prompts
from evaluation.records import JudgeError
from evaluation.rules import JudgeStyle

_PLACES = {
    "query": "query",
    "question": "query",
    "ground_truth": "ground_truth",
    "agent_response": "response",
    "prediction": "response",
}
"""Our names of the organiser's variables."""

_VALUE_NAMES = {"query", "ground_truth", "response"}
_DEEPEST = 20
"""Most references followed from one expression to the next."""

_MAX_BYTES = 1_000_000
EXPLAINED_SETTINGS: Mapping[str, Any] = {"max_tokens": 1024, "temperature": 0.0}
"""Settings that the research release sends besides (evaluation/llm_judge.py, evaluation/config.py)."""

_Pieces = tuple[tuple[Literal["text", "value"], str], ...]
"""A message in pieces: text, and names of ``_VALUE_NAMES`` for the judged values."""


@dataclass(frozen=True)
class OrganiserPrompt:
    """The organiser's words, as a template that asks a judge.

    Attributes:
        style: Form of reply that they ask for.
        reply: Name and description of the class that a structured reply has to fit, "" for none.
        words: Their origin, for reports: file within the checkout, and the first digits of their SHA-256.
    """

    system: str
    user: _Pieces
    style: JudgeStyle
    words: str
    reply: tuple[str, str] = ("", "")

    @property
    def settings(self) -> FrontMatter:
        """Role of the judge, and the settings that the release sends besides the messages."""
        return FrontMatter(model=JUDGE, exact=self._exact())

    def _exact(self) -> dict[str, Any]:
        """Return the settings, with the schema that the openai library makes of a class.

        Its name and docstring become name and description of the schema.
        """
        if self.style == "explained":
            return dict(EXPLAINED_SETTINGS)
        with convert_to_judge_errors():
            settings = deepcopy(judge_prompts()["structured"].settings.exact or {})
        name, description = self.reply
        if name:
            strict = settings["response_format"]["json_schema"]
            strict["name"] = strict["schema"]["title"] = name
            strict["schema"]["description"] = description
            if not description:
                del strict["schema"]["description"]
        return settings

    def request(self, **values: Any) -> ChatRequest:
        """Return the chat request for query, ground_truth and response."""
        user = "".join(text if kind == "text" else str(values[text]) for kind, text in self.user)
        return ChatRequest((ChatMessage("system", self.system), ChatMessage("user", user)), exact=self._exact())


_Names = ChainMap[str, ast.AST]
"""Values by name, looked up in the function, then in its file, then in all files; a function has the name NAME()."""


def read_organiser(checkout: Path) -> OrganiserPrompt:
    """Read the judge's words from a checkout of the starter kit or of the research release.

    Raises:
        JudgeError: There is no such folder, or no judge's messages that can be read without running code.
    """
    if not checkout.is_dir():
        raise JudgeError(f"--organiser {checkout}: there is no such folder")
    trees = dict(_parse_files(checkout))
    names = {file: _map_names(tree) for file, tree in trees.items()}
    for file, tree in trees.items():
        for system, user in _find_messages(tree):
            text = _evaluate_text(system, ChainMap({}, names[file], *names.values()))
            style = _recognise_style(text)
            if text is not None and style is not None:
                digest = hashlib.sha256(repr((text, user)).encode()).hexdigest()[:8]
                words = f"the organiser's words, {file.relative_to(checkout).as_posix()}, SHA-256 {digest}"
                return OrganiserPrompt(text, user, style, words, _find_reply_class(trees.values()))
    raise JudgeError(f"--organiser {checkout}: no judge's messages found in its Python files")


def _find_reply_class(trees: Iterable[ast.Module]) -> tuple[str, str]:
    """Return name and docstring of the class that a request names as its ``response_format``.

    Returns:
        "" for a missing name or docstring.
    """
    nodes = [node for tree in trees for node in ast.walk(tree)]
    class_names = [
        keyword.value.id
        for node in nodes
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "response_format" and isinstance(keyword.value, ast.Name)
    ]
    classes = (node for node in nodes if isinstance(node, ast.ClassDef) and node.name in class_names)
    return next(((node.name, ast.get_docstring(node) or "") for node in classes), ("", ""))


def _parse_files(checkout: Path) -> Iterator[tuple[Path, ast.Module]]:
    for file in sorted(checkout.rglob("*.py"), key=lambda file: (len(file.parts), file)):
        hidden = any(part.startswith(".") for part in file.relative_to(checkout).parts)
        try:
            if not hidden and file.stat().st_size <= _MAX_BYTES:
                yield file, ast.parse(file.read_bytes())
        except (
            OSError,
            SyntaxError,
            ValueError,
            RecursionError,
            MemoryError,
        ):  # deeply nested files raise the last two
            continue  # the judge's words are not in a broken file


def _map_names(tree: ast.AST) -> dict[str, ast.AST]:
    """Map the names in a file to their first values."""
    names: dict[str, ast.AST] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names.setdefault(f"{node.name}()", node)
        for name, value in _list_assignments(node):
            names.setdefault(name, value)
    return names


def _list_assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names and attributes that a statement assigns, with the value."""
    if isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets, value = [node.target], node.value
    else:
        return
    for target in targets:
        if isinstance(target, ast.Name):
            yield target.id, value
        elif isinstance(target, ast.Attribute):
            yield target.attr, value


def _find_messages(tree: ast.AST) -> Iterator[tuple[ast.expr, _Pieces]]:
    """Yield the system and user message of each list whose user message has all judged values."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.List):
            continue
        by_role = {}
        for item in node.elts:
            if isinstance(item, ast.Dict):
                pairs = zip(item.keys, item.values, strict=True)
                named = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
                role = named.get("role")
                if isinstance(role, ast.Constant) and "content" in named:
                    by_role[role.value] = named["content"]
        user = by_role.get("user")
        if "system" in by_role and isinstance(user, ast.JoinedStr) and (pieces := _split_pieces(user)) is not None:
            yield by_role["system"], pieces


def _split_pieces(text: ast.JoinedStr) -> _Pieces | None:
    pieces: list[tuple[Literal["text", "value"], str]] = []
    for part in text.values:
        if isinstance(part, ast.Constant):
            pieces.append(("text", str(part.value)))
        elif isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name) and part.value.id in _PLACES:
            pieces.append(("value", _PLACES[part.value.id]))
        else:
            return None
    return tuple(pieces) if {name for kind, name in pieces if kind == "value"} == _VALUE_NAMES else None


def _evaluate_text(node: ast.AST, names: _Names, depth: int = 0) -> str | None:
    """Evaluate an expression of literals, their names and sums, and functions that return them.

    Returns:
        The text; None for any other expression.
    """
    if depth > _DEEPEST:
        return None
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [_evaluate_text(side, names, depth + 1) for side in (node.left, node.right)]
        return None if None in sides else "".join(map(str, sides))
    if isinstance(node, ast.Name | ast.Attribute):
        value = names.get(node.id if isinstance(node, ast.Name) else node.attr)
        return None if value is None or value is node else _evaluate_text(value, names, depth + 1)
    return _evaluate_call(node, names, depth) if isinstance(node, ast.Call) else None


def _evaluate_call(node: ast.Call, names: _Names, depth: int) -> str | None:
    function = node.func
    if not isinstance(function, ast.Name | ast.Attribute) or node.args or node.keywords:
        return None
    name = function.id if isinstance(function, ast.Name) else function.attr
    if name == "strip" and isinstance(function, ast.Attribute):
        text = _evaluate_text(function.value, names, depth + 1)
        return None if text is None else text.strip()
    definition = names.get(f"{name}()")
    if definition is None:
        return None
    inside: dict[str, ast.AST] = dict(
        pair for statement in ast.walk(definition) for pair in _list_assignments(statement)
    )
    returns = [statement.value for statement in ast.walk(definition) if isinstance(statement, ast.Return)]
    if len(returns) != 1 or returns[0] is None:
        return None
    return _evaluate_text(returns[0], ChainMap(inside, *names.maps[1:]), depth + 1)


def _recognise_style(system: str | None) -> JudgeStyle | None:
    if system is None:
        return None
    return "explained" if "Result:" in system else "structured" if "accuracy" in system else None
