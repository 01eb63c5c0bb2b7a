"""Which branch a turn should have taken, from a run whose drafts are judged against the ground truth."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.methods.routing import TraceFeatures
from agents.turn import Route
from evaluation.judge.judging import Judge
from evaluation.records import AnsweredTurn, JudgeItem
from evaluation.scores.scoring import is_exact, is_miss
from training.logistic import TrainingError

_RECOGNITION = "simple-recognition"


@dataclass(frozen=True)
class DraftedTurn:
    """A turn of a run with its draft, as the trace has it.

    Attributes:
        answered: Its line of response.jsonl.
        draft: The draft's answer.
        features: What the route stage saw.
    """

    answered: AnsweredTurn
    draft: str
    features: TraceFeatures


def read_trace(path: Path) -> list[dict[str, Any]]:
    """The lines of a trace.

    Raises:
        TrainingError: The file is missing, or a line is no JSON object; names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise TrainingError(f"the trace {path} cannot be read: {error}") from error
    records = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise TrainingError(f"{path}, line {number}: not JSON ({error})") from error
        if not isinstance(record, dict) or not isinstance(record.get("query"), str):
            raise TrainingError(f"{path}, line {number}: no trace of a turn")
        records.append(record)
    return records


def drafted_turns(traces: Sequence[Mapping[str, Any]], answers: Sequence[AnsweredTurn]) -> list[DraftedTurn]:
    """The turns that have a draft and features of it.

    Both files are in the order of asking; an answer without trace (the agent failed there) is passed over.

    Raises:
        TrainingError: The files are not of one run, or the run had no stages ``draft`` and ``route``.
    """
    turns = []
    position = 0
    for number, record in enumerate(traces, 1):
        while position < len(answers) and answers[position].query != record["query"]:
            position += 1
        if position == len(answers):
            raise TrainingError(
                f"trace {number} ({record['query']!r}) has no answer after those before it: traces and answers must come from one run"
            )
        stages = {stage.get("stage"): stage for stage in record.get("stages", ()) if isinstance(stage, dict)}
        draft, features = stages.get("draft", {}).get("draft"), stages.get("route", {}).get("features")
        if isinstance(draft, str) and isinstance(features, dict):
            try:
                turns.append(DraftedTurn(answers[position], draft, TraceFeatures.from_dict(features)))
            except (TypeError, ValueError) as error:
                raise TrainingError(f"trace {number}: {error}") from error
        position += 1
    if not turns:
        raise TrainingError(
            "no trace holds a draft and the router's features; run a preset with the stages draft and route"
        )
    return turns


def observable(turn: DraftedTurn) -> bool:
    """Whether the picture alone holds the answer: the data set calls it recognition, or the question is self-contained."""
    features = turn.features
    asked = features.asks_text or features.asks_calculation or features.asks_visible
    return turn.answered.query_category == _RECOGNITION or (bool(asked) and not features.asks_now)


def is_right(turn: DraftedTurn, judge: Judge, accept: Mapping[str, Sequence[str]]) -> bool:
    """Whether the draft's answer is right; an abstention is not."""
    answered = turn.answered
    if is_miss(turn.draft, "either"):
        return False
    if is_exact(turn.draft, answered.ground_truth):
        return True
    forms = tuple(accept.get(answered.interaction_id, ()))
    return judge.judge(JudgeItem(answered.query, answered.ground_truth, turn.draft, forms)).correct


def label(right: bool, seen: bool) -> Route:
    """``direct`` for a right draft whose answer is observable, ``verify`` for any other right draft, else ``rag``."""
    if not right:
        return "rag"
    return "direct" if seen else "verify"
