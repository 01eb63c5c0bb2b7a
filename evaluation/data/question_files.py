"""Reads files of one's own questions: ``questions.csv`` or ``questions.jsonl``, in a collection or anywhere.

A row is a question. CSV is UTF-8, with comma, semicolon or tab, and its first line names the columns. JSON lines have the same fields.

========== ==================================================================================================================
photo      path relative to the file's folder; empty for a question about pages, and in a dialog after its first question
question   the question
answers    accepted answers: in CSV separated by ``|``, in JSON a list or one text. Empty: the question must not be answered
dialog     questions with the same value are asked one after the other, as one dialog about one photo; may be left out
========== ==================================================================================================================

Ids are made of the rows' contents, not of their places, so that runs before and after a change of the file can be compared.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from agents.base.files import (
    format_not_utf8,
    format_os_error,
    is_below,
    one_line,
    open_table,
    parse_json,
    shorten_name,
    spell_as_file,
)
from agents.models.picture_files import FORMATS
from evaluation.records import EvaluationError

NAMES = ("questions.csv", "questions.jsonl")
SUFFIXES = (".csv", ".jsonl")
PHOTO, QUESTION, ANSWERS, DIALOG = COLUMNS = ("photo", "question", "answers", "dialog")
_REQUIRED = (QUESTION, ANSWERS)
SEPARATOR = "|"
_ALIASES = {"image": PHOTO, "answer": ANSWERS}
_ID_LENGTH = 12
_MAX_TOLD = 30


@dataclass(frozen=True)
class OwnTurn:
    """A question with its accepted answers; none if it must not be answered."""

    interaction_id: str
    question: str
    answers: tuple[str, ...]


@dataclass(frozen=True)
class OwnDialog:
    """Questions asked one after the other, about one photo or about none."""

    session_id: str
    photo: Path | None
    turns: tuple[OwnTurn, ...]


@dataclass(frozen=True)
class _Row:
    """A row of a file, with its place for messages."""

    where: str
    photo: str
    question: str
    answers: tuple[str, ...]
    dialog: str


def find_questions(path: Path) -> Path | None:
    """Return the file of questions that a path names or a folder has, or None.

    Raises:
        EvaluationError: The folder has two.
    """
    if path.is_file():
        return path if path.suffix.lower() in SUFFIXES else None
    files = [file for name in NAMES if (file := path / name).is_file()]
    if len(files) > 1:
        raise EvaluationError(f"{path} has both {' and '.join(NAMES)}; keep the questions in one of them")
    return files[0] if files else None


def require_questions(folder: Path) -> Path:
    """Return the file of questions that a collection has.

    Raises:
        EvaluationError: It has none, or two.
    """
    if not folder.is_dir():
        raise EvaluationError(f"there is no folder {folder}; name the folder of a collection")
    file = find_questions(folder)
    if file is None:
        raise EvaluationError(
            f"{folder} has no questions: write them into {NAMES[0]}, with the columns {', '.join(COLUMNS)} (docs/own_knowledge.md)"
        )
    return file


def read_questions(file: Path) -> list[OwnDialog]:
    """Read a file of questions.

    Returns:
        The dialogs in the order in which they begin. A question without ``dialog`` is a dialog on its own.

    Raises:
        EvaluationError: The file cannot be read, lacks a column or has an unknown one, or rows are malformed. The message has a line
            for each fault, with file and line.
    """
    faults: list[str] = []
    rows = _read_csv(file, faults) if file.suffix.lower() == ".csv" else _read_json_lines(file, faults)
    dialogs: dict[str, list[_Row]] = {}
    alone: dict[tuple[str, str], str] = {}
    for row in rows:
        if not row.question:
            faults.append(f"{row.where}: the question is empty")
        if row.photo and (fault := _find_photo_fault(file.parent, row.photo)):
            faults.append(f"{row.where}: {fault}")
        earlier = dialogs.setdefault(row.dialog or f"\n{row.where}", [])
        if not row.dialog and (first := alone.setdefault((row.photo, row.question.casefold()), row.where)) != row.where:
            faults.append(f"{row.where}: the same question about the same photo as in {first}")
        if earlier and row.photo not in ("", earlier[0].photo):
            faults.append(
                f"{row.where}: dialog {row.dialog!r} is about {earlier[0].photo or 'no photo'}, this row names {row.photo}; "
                "a dialog has one photo, in its first row"
            )
        earlier.append(row)
    if not rows and not faults:
        faults.append(f"{file}: there are no questions")
    if faults:
        more = [f"... and {len(faults) - _MAX_TOLD} more faults"] if len(faults) > _MAX_TOLD else []
        raise EvaluationError("\n".join([*faults[:_MAX_TOLD], *more]))
    return [_make_dialog(file.parent, dialog_rows) for dialog_rows in dialogs.values()]


def _make_dialog(folder: Path, rows: Sequence[_Row]) -> OwnDialog:
    first = rows[0]
    session_id = first.dialog or _make_id(first.photo, first.question)
    turns = tuple(
        OwnTurn(_make_id(session_id, str(index), row.question), row.question, row.answers)
        for index, row in enumerate(rows)
    )
    return OwnDialog(session_id, folder / spell_as_file(folder, first.photo) if first.photo else None, turns)


def _make_id(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_ID_LENGTH]


def _find_photo_fault(folder: Path, name: str) -> str:
    """Return why a photo cannot be used, or ""."""
    spelled = spell_as_file(folder, name)
    path = folder / spelled
    try:
        written = Path(os.path.normpath(folder.resolve() / spelled))  # where the path leads without following links
        if not is_below(path, folder) and not Path(spelled).is_absolute() and path.resolve() != written:
            return f"{shorten_name(name)} is a link that leads out of {folder}; copy what it leads to there"
        if not path.is_file():
            return f"there is no photo {shorten_name(path)}"
        with Image.open(path, formats=FORMATS) as image:
            image.verify()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return f"{shorten_name(name)} cannot be read as a photo ({one_line(error)}); save it as JPEG, PNG or WebP"
    return ""


def _read_csv(file: Path, faults: list[str]) -> list[_Row]:
    rows: list[_Row] = []
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            reader = open_table(stream, _REQUIRED, _name_column)
            faults += _check_columns(f"{file}:1", reader.fieldnames or ())
            if faults:
                return rows
            for cells in reader:
                where = f"{file}:{reader.line_num}"
                if None in cells:
                    faults.append(f"{where}: more cells than columns; put a cell with a separator in it into quotes")
                    continue
                values = {name: value.strip() for name, value in cells.items()}
                if any(values.values()):
                    answers = tuple(filter(None, (part.strip() for part in values[ANSWERS].split(SEPARATOR))))
                    rows.append(_Row(where, values.get(PHOTO, ""), values[QUESTION], answers, values.get(DIALOG, "")))
    except UnicodeDecodeError as error:
        faults.append(format_not_utf8(file, error))
    except OSError as error:
        faults.append(format_os_error(error))
    except csv.Error as error:
        faults.append(f"{file}: it is no CSV ({error})")
    return rows


def _read_json_lines(file: Path, faults: list[str]) -> list[_Row]:
    rows: list[_Row] = []
    for number, line in _read_lines(file, faults):
        where = f"{file}:{number}"
        try:
            record = parse_json(line)
        except ValueError as error:
            faults.append(f"{where}: it is no JSON ({one_line(error)})")
            continue
        if not isinstance(record, Mapping):
            faults.append(f"{where}: a line has to be an object with {', '.join(COLUMNS)}")
            continue
        fields = {_name_column(str(name)): value for name, value in record.items()}
        wrong = [*_check_columns(where, [*fields, *({ANSWERS} - fields.keys())]), *_check_values(where, fields)]
        faults += wrong
        if not wrong:
            entry = fields.get(ANSWERS) or []
            answers = tuple(filter(None, (text.strip() for text in ([entry] if isinstance(entry, str) else entry))))
            texts = [str(fields.get(name) or "").strip() for name in (PHOTO, QUESTION, DIALOG)]
            rows.append(_Row(where, texts[0], texts[1], answers, texts[2]))
    return rows


def _read_lines(file: Path, faults: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the non-empty lines, with their numbers from 1."""
    try:
        content = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        faults.append(format_not_utf8(file, error))
        return
    except OSError as error:
        faults.append(format_os_error(error))
        return
    yield from ((number, line) for number, line in enumerate(content.split("\n"), 1) if line.strip())


def _name_column(name: str) -> str:
    plain = (name or "").strip().lower()
    return _ALIASES.get(plain, plain)


def _check_columns(where: str, names: Sequence[str]) -> list[str]:
    """Return the faults of a header, or of the fields of a line."""
    columns = ", ".join(COLUMNS)
    faults = [f"{where}: unknown column {name!r}; known: {columns}" for name in names if name not in COLUMNS]
    faults += [f"{where}: column {name!r} is there twice" for name in COLUMNS if names.count(name) > 1]
    missing = [name for name in _REQUIRED if name not in names]
    return faults + [f"{where}: the column {name!r} is missing; known: {columns}" for name in missing]


def _check_values(where: str, fields: Mapping[str, Any]) -> list[str]:
    """Return the fields of a JSON line that have another type than they should."""
    faults = [
        f"{where}: {name} has to be a text, not {json.dumps(fields[name])[:60]}"
        for name in (PHOTO, QUESTION, DIALOG)
        if not isinstance(fields.get(name), str | int | None) or isinstance(fields.get(name), bool)
    ]
    answers = fields.get(ANSWERS)
    listed = [] if answers is None else [answers] if isinstance(answers, str) else answers
    if not isinstance(listed, list) or not all(isinstance(answer, str) for answer in listed):
        faults.append(f"{where}: {ANSWERS} has to be a list of texts, or one text")
    return faults
