"""response.jsonl: one answered turn a line. It is appended to while answers are made, and read for resuming and for judging."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from agents.base.files import annotate_os_error, open_private, parse_json, shorten_name, well_formed, write_whole
from evaluation.records import AnsweredTurn, EvaluationError, Key

RESPONSES = "response.jsonl"

DATA_SET_FOLDERS = ("single-turn", "multi-turn")
"""Folders of a run over both data sets."""


class JsonLinesWriter:
    """Writer that appends JSON objects to a file; flushed lines survive a kill of process or machine.

    If the disk is full, the OSError names the file (``agents.base.files.annotate_os_error``). Earlier lines stay.
    """

    def __init__(self, path: Path) -> None:
        self._doing = f"writing {path}"
        with annotate_os_error(self._doing):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open_private(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with annotate_os_error(self._doing):
            self._file.close()

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one line."""
        with annotate_os_error(self._doing):
            self._file.write(_format_line(record))

    def sync(self) -> None:
        """Flush to disk (called once a batch)."""
        with annotate_os_error(self._doing):
            self._file.flush()
            os.fsync(self._file.fileno())


def _format_line(record: Mapping[str, Any]) -> str:
    return well_formed(json.dumps(record, ensure_ascii=False)) + "\n"


def repair(path: Path) -> list[dict[str, Any]]:
    """Read the lines of a file and prepare it for appending (see ``cut_tail``).

    Raises:
        EvaluationError: See ``read_lines``.
    """
    records = read_lines(path)
    cut_tail(path)
    return records


def cut_tail(path: Path) -> None:
    """Remove the last line of a JSON-lines file if it is incomplete. This takes no room on a full disk."""
    content = path.read_bytes() if path.exists() else b""
    if content and not content.endswith(b"\n"):
        end = content.rfind(b"\n") + 1
        with annotate_os_error(f"repairing {path}"), path.open("r+b") as file:
            if _parse_or_none(content[end:]) is None:
                file.truncate(end)
            else:  # only its line break was lost
                file.seek(0, os.SEEK_END)
                file.write(b"\n")
            file.flush()
            os.fsync(file.fileno())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the objects of a JSON-lines file, leaving out an incomplete last line.

    The last line is incomplete if a writer was killed, or is still writing.

    Returns:
        The objects; [] if there is no file.

    Raises:
        EvaluationError: A line before the last one is broken: the file was damaged, not cut off.
    """
    if not path.exists():
        return []
    *whole, rest = path.read_bytes().split(b"\n")
    records = _parse_lines(path, whole)
    last = _parse_or_none(rest)
    return records if last is None else [*records, last]


def read_all_lines(path: Path) -> list[dict[str, Any]]:
    """Read the objects of a JSON-lines file that no run appends to: an incomplete last line is an error, too.

    Raises:
        OSError: The file cannot be read.
        EvaluationError: A line is broken.
    """
    return _parse_lines(path, path.read_bytes().split(b"\n"))


def _parse_lines(path: Path, lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """Parse the non-blank lines of a file.

    Raises:
        EvaluationError: A line is broken.
    """
    records = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                records.append(parse_json_object(line))
            except ValueError as error:
                raise EvaluationError(f"{path}, line {number}: {error}") from error
    return records


def _parse_or_none(line: bytes) -> dict[str, Any] | None:
    try:
        return parse_json_object(line)
    except ValueError:
        return None


def parse_json_object(line: bytes) -> dict[str, Any]:
    """Parse a line into a JSON object whose texts are well-formed (``agents.base.files.parse_json``).

    Raises:
        ValueError: The line has no JSON object.
    """
    try:
        record = parse_json(line)
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from error
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    return record


def rewrite(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Replace the lines of a file, making its folder if missing; a kill leaves either version whole."""
    write_whole(path, "".join(map(_format_line, records)), durable=True)


def read_responses(path: Path) -> list[AnsweredTurn]:
    """Read saved answers, for judging them again.

    Only session_id, interaction_id, query, ground_truth and agent_response are required. turn_idx defaults to the
    position within the session, total_turn_count to the number of its lines. Numeric ids become text.

    Raises:
        EvaluationError: The file is missing, a folder or empty, or a line is malformed; the message names the line.
    """
    if path.is_dir():
        inside = f", such as {path / RESPONSES}" if (path / RESPONSES).is_file() else ""
        raise EvaluationError(f"{path} is a folder; name a file of saved answers{inside}")
    if not path.is_file():
        raise EvaluationError(f"{shorten_name(path)} does not exist")
    lines = {}
    turns: list[AnsweredTurn] = []
    seen: dict[Key, int] = {}
    sessions: dict[str, list[str]] = {}
    number = 0
    try:
        for number, text in enumerate(path.read_bytes().split(b"\n"), 1):
            if text.strip():
                lines[number] = {name: value for name, value in parse_json_object(text).items() if value is not None}
        totals = Counter(str(line.get("session_id")) for line in lines.values())
        for number, line in lines.items():
            session = str(line.get("session_id"))
            earlier = sessions.setdefault(session, [])
            place = {
                "turn_idx": len(earlier),
                "total_turn_count": totals[session],
                "interaction_id_history": [*earlier],
            }
            is_ego = line.get("is_ego") or False  # the organiser's files may hold an empty text
            turn = parse_turn({**_ABSENT, **place, **line, "is_ego": is_ego})
            if turn.key in seen:
                raise ValueError(f"{turn.interaction_id} is in line {seen[turn.key]} already; keep one of the lines")
            seen[turn.key] = number
            earlier.append(turn.interaction_id)
            turns.append(turn)
    except ValueError as error:
        raise EvaluationError(f"{path}, line {number}: {error}") from error
    if not turns:
        raise EvaluationError(f"{path} contains no answers; run local_evaluation.py first")
    return turns


def find_run_files(run: Path, name: str) -> list[Path]:
    """Find the file of a run by its name: in the folder itself, else in those below it, one for each data set.

    Raises:
        EvaluationError: The folder has one of its own, and those of a run over both data sets.
    """
    own, below = run / name, sorted(run.glob(f"*/{name}"))
    both = [path for path in below if path.parent.name in DATA_SET_FOLDERS]
    if own.is_file() and both:
        named = ", ".join(map(shorten_name, (own, *both)))
        raise EvaluationError(f"{shorten_name(run)} has two runs; name one of {named}")
    return [own] if own.is_file() else below


def find_records(answers: Path) -> Path | None:
    """Return the folder whose run.json, run log and traces are of these answers.

    Returns:
        None for a file of another name than a run gives its answers, beside which the records of another run may be.
    """
    return answers.parent if answers.name == RESPONSES else None


def refuse_repeated(turns: Mapping[Path, Iterable[AnsweredTurn]]) -> None:
    """Check that the files, or folders, of one run share no turn.

    Raises:
        EvaluationError: Two of them hold the same turn, as those of several runs over the same questions do.
    """
    seen: dict[Key, Path] = {}
    for place, some in turns.items():
        for turn in some:
            if (earlier := seen.setdefault(turn.key, place)) is not place:
                session, interaction = turn.key
                shared = f"turn {interaction} of session {session}"
                raise EvaluationError(
                    f"{shorten_name(earlier)} and {shorten_name(place)} both have {shared}: they are several runs, not one over both "
                    "data sets; name each alone"
                )


_TURN = TypeAdapter(AnsweredTurn)
_ABSENT = {"image_quality": None, "query_category": "", "domain": "", "dynamism": ""}


def parse_turn(values: Mapping[str, Any]) -> AnsweredTurn:
    """Parse the fields of an answered turn, ignoring others; numbers and truth values may be text.

    An ``error_cause`` must be non-empty text; any other is dropped.

    Raises:
        ValueError: A field is missing or malformed.
    """
    error = values.get("error_cause")
    values = {**values, "error_cause": error if isinstance(error, str) and error else None}
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
