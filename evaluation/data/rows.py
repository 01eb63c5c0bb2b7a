"""Converts rows of both revisions of the data sets into sessions.

v0.1.1 stores ``turns`` and ``answers`` as lists of dicts with string labels. v0.1.2 stores a dict of columns with
integer ClassLabels, and an ``image_quality`` for each turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import datasets

from evaluation.records import LABELS, EvaluationError, QuestionTurn, Session
from evaluation.rules import OURS, Rules


def find_label_features(features: Mapping[str, Any]) -> dict[str, datasets.ClassLabel]:
    """Return the ClassLabels of the label columns of ``turns``; empty for string labels (v0.1.1)."""
    turns = _unwrap_feature(features["turns"], Mapping) or {}
    labels = {column: _unwrap_feature(turns.get(column), datasets.ClassLabel) for column in LABELS}
    return {column: label for column, label in labels.items() if label is not None}


def to_session(
    row: Mapping[str, Any], position: int, labels: Mapping[str, datasets.ClassLabel], rules: Rules = OURS
) -> Session:
    """Convert a row into a session, without its image.

    The rules say which rows are egocentric, and where images have moved.

    Raises:
        EvaluationError: The row has no session_id or its turns lack a query or an interaction_id.
    """
    session_id = row.get("session_id")
    if not session_id:
        raise EvaluationError(f"row {position} of the data set has no session_id; is it a CRAG-MM data set?")
    answers = _to_records(row.get("answers"))
    by_id = {answer.get("interaction_id"): answer.get("ans_full") or "" for answer in answers}
    turns = []
    for index, turn in enumerate(_to_records(row.get("turns"))):
        interaction_id, query = turn.get("interaction_id"), turn.get("query")
        if not interaction_id or query is None:
            raise EvaluationError(f"session {session_id}: turn {index} has no interaction_id or no query")
        turns.append(
            QuestionTurn(
                interaction_id=str(interaction_id),
                index=index,
                query=str(query),
                ground_truth=str(by_id.get(interaction_id, "")),
                domain=_read_label(turn, "domain", labels) or "",
                query_category=_read_label(turn, "query_category", labels) or "",
                dynamism=_read_label(turn, "dynamism", labels) or "",
                image_quality=_read_label(turn, "image_quality", labels),
            )
        )
    url = rules.moved_images.get(session_id, row.get("image_url"))
    if not url and rules.blank_address_is_ego:
        url = None
    return Session(session_id=str(session_id), turns=tuple(turns), row=position, image_url=url)


def _unwrap_feature(feature: Any, kind: type) -> Any:
    """Return the first feature of a type inside of nested lists, or None."""
    while feature is not None and not isinstance(feature, kind):
        feature = getattr(feature, "feature", None)
    return feature


def _to_records(value: Any) -> list[dict[str, Any]]:
    """Convert either layout into a list of dicts."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        columns = {name: cells for name, cells in value.items() if cells is not None}
        try:
            return [dict(zip(columns, record, strict=True)) for record in zip(*columns.values(), strict=True)]
        except ValueError as error:
            lengths = ", ".join(f"{name} {len(cells)}" for name, cells in columns.items())
            raise EvaluationError(f"columns of unequal length in a row: {lengths}") from error
    if not isinstance(value, list) or not all(isinstance(record, Mapping) for record in value):
        raise EvaluationError("the turns or answers of a row are neither a list of structs nor a struct of lists")
    return [dict(record) for record in value]


def _read_label(turn: Mapping[str, Any], column: str, labels: Mapping[str, datasets.ClassLabel]) -> str | None:
    value = turn.get(column)
    if isinstance(value, int) and column in labels:
        return str(labels[column].int2str(value)) if value >= 0 else None  # -1 is "no label" in datasets
    return None if value is None else str(value)
