"""turn_evaluation_results_all.csv, read back: the judged turns of a finished run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from evaluation.files.outputs import ALL_TURNS
from evaluation.records import AnsweredTurn, EvaluationError, TurnFacts
from evaluation.scores.scoring import JudgedTurn


def read_turn_table(run: Path) -> list[JudgedTurn]:
    """The judged turns of the run in a folder, in the order of the table.

    Raises:
        EvaluationError: There is no such table, or it lacks a column.
    """
    path = run / ALL_TURNS
    if not path.is_file():
        raise EvaluationError(f"{path} does not exist; let local_evaluation.py answer and judge there first")
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        return [_judged({str(name): str(cell) for name, cell in row.items()}) for row in table.to_dict("records")]
    except (KeyError, ValueError, pd.errors.ParserError) as error:
        raise EvaluationError(f"{path} is no table of judged turns: {error}") from error


def _judged(row: Mapping[str, str]) -> JudgedTurn:
    turn = AnsweredTurn(
        session_id=row["session_id"],
        interaction_id=row["interaction_id"],
        turn_idx=int(row["turn_idx"]),
        is_ego=row["is_ego"] == "True",
        image_quality=row["image_quality"] or None,
        query_category=row["query_category"],
        domain=row["domain"],
        dynamism=row["dynamism"],
        query=row["query"],
        ground_truth=row["ground_truth"],
        agent_response=row["agent_response"],
        total_turn_count=int(row["total_turn_count"]),
        interaction_id_history=list(ast.literal_eval(row["interaction_id_history"] or "[]")),
    )
    semantic = row["is_semantically_correct"]
    return JudgedTurn(
        turn,
        exact=row["is_exact_match"] == "True",
        miss=row["is_miss"] == "True",
        correct=row["is_correct"] == "True",
        semantic=semantic == "True" if semantic else None,
        reason=row["api_response"],
        facts=TurnFacts(_known(row.get("same_photo", "")), _known(row.get("answerable", ""))),
    )


def _known(cell: str) -> bool | None:
    """A fact of a cell; tables of other data sets leave it empty."""
    return cell == "True" if cell else None
