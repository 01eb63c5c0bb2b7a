"""Labels that a person gave to answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from evaluation.records import AnsweredTurn, EvaluationError, Key

_RIGHT = frozenset({"correct", "right", "1", "1.0", "true", "yes", "perfect", "acceptable", "0.5"})
_WRONG = frozenset({"wrong", "incorrect", "hallucination", "0", "0.0", "-1", "-1.0", "false", "no"})
_NEITHER = frozenset({"missing", "miss", ""})


def read_labels(path: Path, turns: Sequence[AnsweredTurn]) -> dict[Key, bool]:
    """Labels by hand of these turns; those that say that the answer is missing are left out.

    Raises:
        EvaluationError: The file cannot be read, lacks a column, or has a label that is not known, or an interaction_id of two sessions.
    """
    try:
        if path.suffix == ".jsonl":
            table = pd.read_json(path, lines=True, dtype=False)
        else:
            table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError, pd.errors.ParserError) as error:
        raise EvaluationError(f"{path} cannot be read: {error}") from error
    rows = [{str(name): str(cell) for name, cell in row.items()} for row in table.to_dict("records")]
    by_id: dict[str, list[Key]] = {}
    for turn in turns:
        by_id.setdefault(turn.interaction_id, []).append(turn.key)
    found: dict[Key, bool] = {}
    for number, row in enumerate(rows, 1):
        if "interaction_id" not in row or "label" not in row:
            raise EvaluationError(f"{path} needs the columns interaction_id and label")
        label = row["label"].strip().lower()
        if label not in _RIGHT | _WRONG | _NEITHER:
            raise EvaluationError(f"{path}, label {number}: {row['label']!r} is neither correct nor wrong nor missing")
        keys = [key for key in by_id.get(row["interaction_id"], []) if row.get("session_id", key[0]) == key[0]]
        if len(keys) > 1:
            raise EvaluationError(
                f"{path}, label {number}: {row['interaction_id']} is a turn of several sessions; add session_id"
            )
        if keys and label not in _NEITHER:
            found[keys[0]] = label in _RIGHT
    if not found:
        raise EvaluationError(f"{path} holds no label of these answers")
    return found
