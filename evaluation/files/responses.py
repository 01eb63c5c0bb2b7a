"""response.jsonl: one answered turn a line, appended as answers are made, read back for resuming and for judging."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evaluation.records import REQUIRED_FIELDS, AnsweredTurn, EvaluationError


class JsonLinesWriter:
    """Appends JSON objects to a file; what was flushed survives a kill of the process and of the machine."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8", newline="\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one line."""
        self._file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def sync(self) -> None:
        """Flush to disk (called once a batch)."""
        self._file.flush()
        os.fsync(self._file.fileno())


def repair(path: Path) -> list[dict[str, Any]]:
    """Read a JSON-lines file that may have been cut off while a line was written, and drop that line from it.

    Returns:
        The objects of the whole lines; empty where there is no file.

    Raises:
        EvaluationError: A line before the last one is broken: the file was damaged, not cut off.
    """
    if not path.exists():
        return []
    data = path.read_bytes()
    records = []
    kept = 0
    lines = data.splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            kept += len(line)
            continue
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError("not a JSON object")
        except ValueError as error:
            if number == len(lines) and not line.endswith(b"\n"):
                break
            raise EvaluationError(f"{path}, line {number}: {error}") from error
        records.append(record)
        kept += len(line)
    complete = data[:kept]
    if complete and not complete.endswith(b"\n"):
        complete += b"\n"  # the object is whole, only its line break was lost
    if complete != data:
        part = path.with_name(path.name + ".part")
        part.write_bytes(complete)
        part.replace(path)
    return records


def read_responses(path: Path) -> list[AnsweredTurn]:
    """Saved answers, for judging them again.

    Only session_id, interaction_id, query, ground_truth and agent_response are required; turn_idx defaults to the
    position within the session, total_turn_count to the number of its lines.

    Raises:
        EvaluationError: The file is missing or empty, or a line is not such an object; names the line.
    """
    if not path.is_file():
        raise EvaluationError(f"{path} does not exist")
    records: list[tuple[int, dict[str, Any]]] = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise EvaluationError(f"{path}, line {number}: not JSON ({error})") from error
        _check(record, path, number)
        records.append((number, record))
    if not records:
        raise EvaluationError(f"{path} holds no answers")
    return _typed(records, path)


def _check(record: Any, path: Path, number: int) -> None:
    if not isinstance(record, dict):
        raise EvaluationError(f"{path}, line {number}: not a JSON object")
    missing = [name for name in REQUIRED_FIELDS if record.get(name) is None]
    if missing:
        raise EvaluationError(f"{path}, line {number}: missing {', '.join(missing)}")
    wrong = [name for name in REQUIRED_FIELDS if not isinstance(record[name], str)]
    if wrong:
        raise EvaluationError(f"{path}, line {number}: {', '.join(wrong)} must be text")


def _typed(records: Sequence[tuple[int, dict[str, Any]]], path: Path) -> list[AnsweredTurn]:
    seen: dict[str, int] = {}
    session_lines: dict[str, list[str]] = {}
    totals: dict[str, int] = {}
    for _, record in records:
        totals[record["session_id"]] = totals.get(record["session_id"], 0) + 1
    turns = []
    for number, record in records:
        interaction_id, session_id = record["interaction_id"], record["session_id"]
        if interaction_id in seen:
            raise EvaluationError(
                f"{path}, line {number}: {interaction_id} stands in line {seen[interaction_id]} already"
            )
        seen[interaction_id] = number
        earlier = session_lines.setdefault(session_id, [])
        try:
            turns.append(
                AnsweredTurn(
                    session_id=session_id,
                    interaction_id=interaction_id,
                    turn_idx=int(_given(record, "turn_idx", len(earlier))),
                    is_ego=_flag(_given(record, "is_ego", False)),
                    image_quality=_text_or_none(record.get("image_quality")),
                    query_category=str(_given(record, "query_category", "")),
                    domain=str(_given(record, "domain", "")),
                    dynamism=str(_given(record, "dynamism", "")),
                    query=record["query"],
                    ground_truth=record["ground_truth"],
                    agent_response=record["agent_response"],
                    total_turn_count=int(_given(record, "total_turn_count", totals[session_id])),
                    interaction_id_history=[
                        str(item) for item in _given(record, "interaction_id_history", list(earlier))
                    ],
                )
            )
        except (TypeError, ValueError) as error:
            raise EvaluationError(f"{path}, line {number}: {error}") from error
        earlier.append(interaction_id)
    return turns


def _given(record: Mapping[str, Any], name: str, default: Any) -> Any:
    value = record.get(name)
    return default if value is None else value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


def _flag(value: Any) -> bool:
    if isinstance(value, str):
        if value.lower() in {"true", "1"}:
            return True
        if value.lower() in {"false", "0", ""}:
            return False
        raise ValueError(f"is_ego must be true or false, not {value!r}")
    return bool(value)
