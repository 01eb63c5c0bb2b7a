"""Tables and scores of a judged run, in the organiser's names and columns, and a reader of the judged turns."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from agents.base.files import write_whole
from evaluation.commands import summarise_error
from evaluation.files.manifest import read_json, write_json
from evaluation.files.responses import RESPONSES, parse_turn, read_responses
from evaluation.files.run_log import read_run_log
from evaluation.records import AnsweredTurn, EvaluationError, JudgedTurn, Key, RunLogLine, TurnFacts
from evaluation.rules import OURS, Rules
from evaluation.scores.scoring import scores_dictionary, select_ego

ALL_TURNS = "turn_evaluation_results_all.csv"
EGO_TURNS = "turn_evaluation_results_ego.csv"
SCORES = "scores_dictionary.json"
ACCEPTED = "accepted_answers"
"""Key under ``about`` in the scores: the number of turns whose accepted answers the judge knew."""

JUDGE_FAILED = "judge_failed"
ORGANISER_COLUMNS = (
    "session_id", "interaction_id", "turn_idx", "is_ego", "image_quality", "query_category", "domain", "dynamism",
    "query", "ground_truth", "agent_response", "total_turn_count", "interaction_id_history",
    "is_exact_match", "is_correct", "is_miss", "is_semantically_correct", "api_response",
)  # fmt: skip
FACTS = ("same_photo", "answerable", "source", "hops", "identity")
"""Facts of a turn that the table has; the searches that an answer needs (``TurnFacts.steps``) stay with the data set."""

OUR_COLUMNS = (
    "is_hallucination", "seconds", "batch_seconds", "error", "image_note", *FACTS, JUDGE_FAILED, "error_cause",
)  # fmt: skip
COLUMNS = ORGANISER_COLUMNS + OUR_COLUMNS


def build_turn_table(
    turns: Sequence[JudgedTurn], costs: Mapping[Key, RunLogLine] | None = None, rules: Rules = OURS
) -> pd.DataFrame:
    """Build the table of judged turns, a row each.

    ``seconds``, ``error`` and ``image_note`` are empty without a run log. By the rules of a release the table has only the
    organiser's columns, sorted by session and turn; ``judge_failed`` follows them if the judge failed on any turn.
    """
    if rules.organiser_tables:
        return _build_organiser_table(turns, rules)
    rows = []
    for judged in turns:
        cost = (costs or {}).get(judged.turn.key)
        verdicts = (judged.exact, judged.correct, judged.miss, judged.semantic, judged.reason, judged.hallucination)
        spent = [getattr(cost, name, None) for name in ("seconds", "batch_seconds", "error", "image_note")]
        facts = [getattr(judged.facts, name) for name in FACTS]
        rows.append(
            (*judged.turn.to_dict().values(), *verdicts, *spent, *facts, judged.judge_failed, judged.turn.error_cause)
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _build_organiser_table(turns: Sequence[JudgedTurn], rules: Rules) -> pd.DataFrame:
    """Build the organiser's table.

    Exact answers are semantically correct; answers without a judgement are not. ``api_response`` is the reply as a dictionary. A failed
    judgement would read as a verdict of wrong, so a table with one has the column ``judge_failed`` too.
    """
    rows = []
    for judged in sorted(turns, key=lambda judged: (judged.turn.session_id, judged.turn.turn_idx)):
        reply: dict[str, Any] = {"accuracy": judged.semantic, "eval_result": judged.reason}
        if rules.judge_reply == "structured":
            del reply["eval_result"]
        answered = judged.semantic is not None and judged.reason and not judged.judge_failed
        verdicts = (judged.exact, judged.correct, judged.miss, judged.exact or bool(judged.semantic))
        rows.append((*judged.turn.to_dict().values(), *verdicts, reply if answered else None, judged.judge_failed))
    table = pd.DataFrame(rows, columns=[*ORGANISER_COLUMNS, JUDGE_FAILED])
    return table if table[JUDGE_FAILED].any() else table.drop(columns=JUDGE_FAILED)


def write_outputs(
    output_dir: Path,
    turns: Sequence[JudgedTurn],
    about: Mapping[str, Any],
    costs: Mapping[Key, RunLogLine] | None = None,
    rules: Rules = OURS,
) -> dict[str, Any]:
    """Write both turn tables and the scores of a run.

    Args:
        output_dir: Folder of the run.
        turns: Judged turns.
        about: Settings, versions and judge of the answers.
        costs: Run log by turn.
        rules: Rules of the scores and tables.

    Returns:
        The content of scores_dictionary.json.
    """
    (output_dir / SCORES).unlink(missing_ok=True)  # it names the judge of the tables, which is about to change
    for name, some in ((ALL_TURNS, turns), (EGO_TURNS, select_ego(turns))):
        write_whole(output_dir / name, build_turn_table(some, costs, rules).to_csv(index=False), durable=True)
    scores = scores_dictionary(turns, about, rules)
    write_json(output_dir / SCORES, scores)
    return scores


def read_about(run: Path) -> dict[str, Any]:
    """Return the settings, versions and judge of the run in a folder; empty if unknown."""
    about = read_json(run / SCORES).get("about")
    return about if isinstance(about, dict) else {}


def read_turn_table(run: Path) -> list[JudgedTurn]:
    """Read the judged turns of the run in a folder, in the order of the table.

    Raises:
        EvaluationError: There is no such table, or it lacks a column.
    """
    path = run / ALL_TURNS
    if path.is_dir():
        raise EvaluationError(f"{path} is a folder, not a table of judged turns; move it away")
    if not path.is_file():
        raise EvaluationError(f"{path} does not exist; let local_evaluation.py answer and judge there first")
    try:
        with path.open("rb") as file:  # pandas writes a carriage return in a text as it is, and would end the row there
            ends = None if file.readline().endswith(b"\r\n") else "\n"
        table = pd.read_csv(path, dtype=str, keep_default_na=False, lineterminator=ends)
        turns = [_parse_row({str(name): str(cell) for name, cell in row.items()}) for row in table.to_dict("records")]
    except _MALFORMED as error:
        raise EvaluationError(f"{path} is no table of judged turns: {summarise_error(error)}") from error
    return turns if "error_cause" in table else _add_causes(turns, read_run_log(run))


def read_own_table(run: Path) -> list[JudgedTurn]:
    """Read the judged turns of the run in a folder, which have to be its answers as they are now.

    Raises:
        EvaluationError: See ``read_turn_table``; or the answers were judged as other ones, or never.
    """
    turns, answers = read_turn_table(run), run / RESPONSES
    if answers.is_file() and not is_table_of(turns, read_responses(answers)):
        raise EvaluationError(
            f"{run / ALL_TURNS} is a table of other answers than those of {RESPONSES} beside it; judge these again with "
            f"local_evaluation.py --mode evaluate --output-dir {run}"
        )
    return turns


def is_table_of(table: Iterable[JudgedTurn], answers: Iterable[AnsweredTurn]) -> bool:
    """Return whether each of the answers was judged as it is now, with its question and truth."""
    seen = {judged.turn.key: _list_judged_texts(judged.turn) for judged in table}
    return all(seen.get(turn.key) == _list_judged_texts(turn) for turn in answers)


def _list_judged_texts(turn: AnsweredTurn) -> tuple[str, str, str]:
    return turn.query, turn.ground_truth, turn.agent_response


def _add_causes(turns: Sequence[JudgedTurn], costs: Mapping[Key, RunLogLine]) -> list[JudgedTurn]:
    """Add the causes of errors, which tables in the organiser's columns do not have."""
    causes = {key: line.error_cause for key, line in costs.items()}
    return [replace(judged, turn=replace(judged.turn, error_cause=causes.get(judged.turn.key))) for judged in turns]


_MALFORMED = (
    KeyError,
    TypeError,
    ValueError,
    OverflowError,
    SyntaxError,
    MemoryError,
    RecursionError,
    pd.errors.ParserError,
)
"""Errors of reading a malformed table, and of ``ast.literal_eval`` on a list of ids in it."""


def _parse_row(row: Mapping[str, str]) -> JudgedTurn:
    history = ast.literal_eval(row["interaction_id_history"] or "[]")
    exact, miss = row["is_exact_match"] == "True", row["is_miss"] == "True"
    # The organiser's tables have a verdict on these too, which no judge made.
    semantic = None if exact or miss else _parse_optional_bool(row["is_semantically_correct"])
    return JudgedTurn(
        parse_turn({**row, "image_quality": row["image_quality"] or None, "interaction_id_history": history}),
        exact=exact,
        miss=miss,
        correct=row["is_correct"] == "True",
        semantic=semantic,
        reason=row["api_response"],
        judge_failed=row.get(JUDGE_FAILED) == "True",
        facts=TurnFacts(
            _parse_optional_bool(row.get("same_photo", "")),
            _parse_optional_bool(row.get("answerable", "")),
            row.get("source") or None,
            int(float(row["hops"])) if row.get("hops") else None,  # pandas makes floats of a column with gaps
            _parse_optional_bool(row.get("identity", "")),
        ),
    )


def _parse_optional_bool(cell: str) -> bool | None:
    """Parse an optional boolean cell.

    Returns:
        None for an empty cell: the judge was not asked, or the data set states nothing.
    """
    return cell == "True" if cell else None
