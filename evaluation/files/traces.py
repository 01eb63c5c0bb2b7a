"""trace.jsonl: the record of each turn (``agents.record``). The evaluation that asked writes it; others read it."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.base.files import append_lines, one_line, write_whole
from agents.record import RecordError, TurnRecord, read_record
from evaluation.files.responses import parse_json_object
from evaluation.records import EvaluationError, Key

TRACE = "trace.jsonl"
"""Name of the file, beside the answers in the output folder."""

log = logging.getLogger(__name__)


def append_records(path: Path, keys: Sequence[Key], records: Sequence[Mapping[str, Any]], batch: int) -> None:
    """Append the records of a call with the ids of their turns.

    Nothing is written for an agent without records. A full disk loses records, not answers.
    """
    if len(records) != len(keys):
        return
    lines = [
        {**record, "batch": batch, "session_id": session, "interaction_id": interaction}
        for (session, interaction), record in zip(keys, records, strict=True)
    ]
    try:
        append_lines(path, (json.dumps(line, ensure_ascii=False) for line in lines))
    except OSError as error:
        log.warning("the trace of batch %d cannot be written to %s: %s", batch, path, error)


def drop_other_records(path: Path, keys: Collection[Key]) -> None:
    """Remove the records of all turns but these from a file; lines that cannot be read stay."""
    lines = path.read_bytes().split(b"\n") if path.is_file() else []
    remaining = [line for line in lines if _is_record_of(line, keys)]
    if len(remaining) < len(lines):
        write_whole(path, b"\n".join(remaining), durable=True)


def _is_record_of(line: bytes, keys: Collection[Key]) -> bool:
    try:
        record = parse_json_object(line)
    except ValueError:
        return True
    return (str(record.get("session_id")), str(record.get("interaction_id"))) in keys


def read_traces(path: Path, *, is_required: bool = False) -> dict[Key, TurnRecord]:
    """Read the records of a file by session and interaction, the latest of each turn.

    Unreadable lines are left out with one warning: the last line of a killed run, or all of a run of another version.

    Args:
        path: The file; a missing one has no records.
        is_required: Raise an error if no line can be read.

    Raises:
        EvaluationError: ``is_required``, and no line of the file can be read.
    """
    records: dict[Key, TurnRecord] = {}
    faults: list[RecordError] = []
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        if line.strip():
            try:
                record = read_record(line.decode("utf-8", errors="replace"))
            except RecordError as error:
                faults.append(error)
            else:
                records[record.key] = record
    if faults and records:
        log.warning("%s: %d lines are left out; of the first: %s", path, len(faults), faults[0])
    elif faults:
        message = f"{path} holds no record that can be read: {faults[0]}"
        if is_required:
            raise EvaluationError(message)
        log.warning("%s", message)
    return records


def find_failing_stages(records: Iterable[TurnRecord]) -> dict[str, str]:
    """Return the stages that failed or hung on every turn on which they were tried, each with its first message."""
    failed: dict[str, str] = {}
    ran: set[str] = set()
    for record in records:
        for stage in record.stages:
            if stage.complete:
                ran.add(stage.stage)
            elif stage.status != "skipped":
                failed.setdefault(stage.stage, one_line(stage.reason or stage.status))
    return {name: reason for name, reason in failed.items() if name not in ran}


def read_all_traces(folders: Iterable[Path]) -> dict[Key, TurnRecord]:
    """Read the records of several runs over different turns."""
    return {key: record for folder in folders for key, record in read_traces(folder / TRACE).items()}
