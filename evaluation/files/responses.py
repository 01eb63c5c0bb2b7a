"""response.jsonl: one answered turn a line, appended as answers are made, read back for resuming and for judging."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from evaluation.records import AnsweredTurn, EvaluationError, Key

RESPONSES = "response.jsonl"


class JsonLinesWriter:
    """Appends JSON objects to a file; what was flushed survives a kill of the process and of the machine."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8", newline="\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one line."""
        self._file.write(_line(record))

    def sync(self) -> None:
        """Flush to disk (called once a batch)."""
        self._file.flush()
        os.fsync(self._file.fileno())


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"


def repair(path: Path) -> list[dict[str, Any]]:
    """Read a JSON-lines file that may have been cut off while a line was written, and drop that line from it; [] for no file.

    Raises:
        EvaluationError: A line before the last one is broken: the file was damaged, not cut off.
    """
    if not path.exists():
        return []
    *whole, rest = path.read_bytes().split(b"\n")
    records = []
    for number, line in enumerate(whole, 1):
        if line.strip():
            try:
                records.append(json_object(line))
            except ValueError as error:
                raise EvaluationError(f"{path}, line {number}: {error}") from error
    if rest:
        with suppress(ValueError):  # where the object is whole only its line break was lost
            records.append(json_object(rest))
            whole.append(rest)
        _replace(path, b"".join(line + b"\n" for line in whole))
    return records


def json_object(line: bytes) -> dict[str, Any]:
    """The JSON object of a line; ValueError where it holds none."""
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from error
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    return record


def rewrite(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Put these lines in place of the file's, whose folder is made where it is missing; a kill leaves the one or the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, "".join(map(_line, records)).encode())


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def read_responses(path: Path) -> list[AnsweredTurn]:
    """Saved answers, for judging them again.

    Only session_id, interaction_id, query, ground_truth and agent_response are required; turn_idx defaults to the
    position within the session, total_turn_count to the number of its lines. Ids that are numbers become text.

    Raises:
        EvaluationError: The file is missing or empty, or a line is not such an object; names the line.
    """
    if not path.is_file():
        raise EvaluationError(f"{path} does not exist")
    lines = {}
    turns: list[AnsweredTurn] = []
    seen: dict[Key, int] = {}
    sessions: dict[str, list[str]] = {}
    number = 0
    try:
        for number, text in enumerate(path.read_bytes().split(b"\n"), 1):
            if text.strip():
                lines[number] = {name: value for name, value in json_object(text).items() if value is not None}
        totals = Counter(str(line.get("session_id")) for line in lines.values())
        for number, line in lines.items():
            session = str(line.get("session_id"))
            earlier = sessions.setdefault(session, [])
            place = {
                "turn_idx": len(earlier),
                "total_turn_count": totals[session],
                "interaction_id_history": [*earlier],
            }
            is_ego = line.get("is_ego") or False  # the organiser's empty text
            turn = turn_of({**_ABSENT, **place, **line, "is_ego": is_ego})
            if turn.key in seen:
                raise ValueError(f"{turn.interaction_id} stands in line {seen[turn.key]} already")
            seen[turn.key] = number
            earlier.append(turn.interaction_id)
            turns.append(turn)
    except ValueError as error:
        raise EvaluationError(f"{path}, line {number}: {error}") from error
    if not turns:
        raise EvaluationError(f"{path} holds no answers")
    return turns


_TURN = TypeAdapter(AnsweredTurn)
_ABSENT = {"image_quality": None, "query_category": "", "domain": "", "dynamism": ""}


def turn_of(values: Mapping[str, Any]) -> AnsweredTurn:
    """The turn of these fields, other ones aside; numbers and truth values may be text. ValueError where one is missing or malformed."""
    try:
        return _TURN.validate_python(values)
    except ValidationError as error:
        problems = error.errors()
        missing = [str(problem["loc"][0]) for problem in problems if problem["type"] == "missing"]
        if missing:
            raise ValueError(f"missing {', '.join(missing)}") from error
        name, kind = problems[0]["loc"][0], problems[0]["type"]
        raise ValueError(
            f"{name} must be text" if kind == "string_type" else f"{name}: {problems[0]['msg']}"
        ) from error
