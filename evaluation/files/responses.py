"""response.jsonl: one answered turn a line, appended as answers are made, read back for resuming and for judging."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, StrictStr, ValidationError

from evaluation.records import AnsweredTurn, EvaluationError, Key

RESPONSES = "response.jsonl"


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
        self._file.write(_json_line(record))

    def sync(self) -> None:
        """Flush to disk (called once a batch)."""
        self._file.flush()
        os.fsync(self._file.fileno())


def repair(path: Path) -> list[dict[str, Any]]:
    """Read a JSON-lines file that may have been cut off while a line was written, and drop that line from it; [] for no file.

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
        _replace(path, complete)
    return records


def rewrite(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Put these lines in place of the file's; a kill leaves the one or the other."""
    _replace(path, "".join(_json_line(record) for record in records).encode())


def _json_line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"


def _replace(path: Path, data: bytes) -> None:
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(data)
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
    lines = [
        (number, _line(line, path, number))
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1)
        if line.strip()
    ]
    if not lines:
        raise EvaluationError(f"{path} holds no answers")
    totals = Counter(line.session_id for _, line in lines)
    sessions: dict[str, list[str]] = {}
    seen: dict[Key, int] = {}
    turns = []
    for number, line in lines:
        key = (line.session_id, line.interaction_id)
        if key in seen:
            raise EvaluationError(f"{path}, line {number}: {line.interaction_id} stands in line {seen[key]} already")
        seen[key] = number
        earlier = sessions.setdefault(line.session_id, [])
        by_place = {
            "turn_idx": len(earlier),
            "total_turn_count": totals[line.session_id],
            "interaction_id_history": [*earlier],
        }
        given = line.model_dump(exclude_none=True)
        turns.append(AnsweredTurn(**{"image_quality": None, **by_place, **given}))
        earlier.append(line.interaction_id)
    return turns


class _Line(BaseModel):
    """A line of response.jsonl; what is None or absent gets a default."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    session_id: str
    interaction_id: str
    query: StrictStr
    ground_truth: StrictStr
    agent_response: StrictStr
    turn_idx: int | None = None
    is_ego: bool = False
    image_quality: str | None = None
    query_category: str = ""
    domain: str = ""
    dynamism: str = ""
    total_turn_count: int | None = None
    interaction_id_history: list[str] | None = None


def _line(text: bytes, path: Path, number: int) -> _Line:
    try:
        record = json.loads(text)
        if not isinstance(record, dict):
            raise EvaluationError(f"{path}, line {number}: not a JSON object")
        record["is_ego"] = record.get("is_ego") or False  # the organiser's empty text
        return _Line.model_validate({name: value for name, value in record.items() if value is not None})
    except ValidationError as error:
        missing = [str(problem["loc"][0]) for problem in error.errors() if problem["type"] == "missing"]
        first = error.errors()[0]
        what = (
            f"{first['loc'][0]} must be text"
            if first["type"] == "string_type"
            else f"{first['loc'][0]}: {first['msg']}"
        )
        what = f"missing {', '.join(missing)}" if missing else what
        raise EvaluationError(f"{path}, line {number}: {what}") from error
    except ValueError as error:
        raise EvaluationError(f"{path}, line {number}: not JSON ({error})") from error
