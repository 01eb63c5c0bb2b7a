"""Fits the confidence of extracted answers (``agents/methods/answer_confidence.py``) to runs whose candidates are judged.

    python -m training.answer_confidence --run results/validation/single-turn --run results/validation/multi-turn \\
        --dataset .cache/datasets --out presets/heads/confidence_embedded.json

The runs must have the stage confidence. Every candidate is judged, also those that the run abstained from. The report says what the
fitted confidence is worth on sessions it has not seen: the truthfulness at the best threshold of the other folds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

from agents.launch import DEFAULT_CACHE
from agents.methods.answer_confidence import AnswerFeatures, ConfidenceHead
from evaluation.choose_judge import choose_judge
from evaluation.datasets import read_accept
from evaluation.judge import Judge, JudgeItem
from evaluation.records import AnsweredTurn, EvaluationError
from evaluation.responses import read_responses
from evaluation.traces import TRACE
from training.draft_labels import read_trace
from training.logistic import Floats, TrainingError

NAMES = tuple(AnswerFeatures.__dataclass_fields__)


@dataclass(frozen=True)
class Example:
    """A turn of a run: the features of its candidate, and whether that is right; no features where it had no candidate."""

    session: str
    features: Mapping[str, float] | None
    right: bool


def examples(
    traces: Sequence[Mapping[str, Any]],
    answers: Sequence[AnsweredTurn],
    judge: Judge,
    accept: Mapping[str, Sequence[str]],
) -> list[Example]:
    """The turns of a run, matched to their answers by query in the order of asking.

    Raises:
        TrainingError: A turn of the trace has no answer.
    """
    waiting: dict[str, list[AnsweredTurn]] = {}
    for answer in answers:
        waiting.setdefault(answer.query, []).append(answer)
    found = []
    for trace in tqdm(traces, desc=f"candidates judged by {judge.name}", unit="turn", disable=None):
        if not waiting.get(trace["query"]):
            raise TrainingError(f"the trace asks {trace['query']!r}, which the answers of the run do not hold")
        answer = waiting[trace["query"]].pop(0)
        stages = {stage["stage"]: stage for stage in trace.get("stages", ())}
        features = stages.get("confidence", {}).get("answer_features")
        candidate = stages.get("finalise", {}).get("candidate") or ""
        right = False
        if features is not None and candidate:
            item = JudgeItem(answer.query, answer.ground_truth, candidate, tuple(accept.get(answer.interaction_id, ())))
            right = judge.judge(item).correct
        found.append(Example(answer.session_id, features, right))
    return found


def fit(values: Floats, right: Floats, strength: float) -> Any:
    """A standardised logistic regression, unweighted, so that its probabilities are those of being right."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=2000)).fit(values, right)


def best_threshold(probabilities: Floats, right: Floats) -> float:
    """The threshold that maximises the sum of +1 for right and -1 for wrong answers at or above it."""
    order = np.argsort(-probabilities)
    gains = np.cumsum(np.where(right[order] > 0, 1, -1))
    if len(gains) == 0 or gains.max() <= 0:
        return 1.0
    return float(probabilities[order][int(np.argmax(gains))])


def train(turns: Sequence[Example], strength: float, folds: int) -> tuple[ConfidenceHead, float, dict[str, float]]:
    """The head fitted to all turns, the threshold that is best for it, and what cross-validation over sessions says.

    Raises:
        TrainingError: There are too few sessions, or all candidates are alike right or wrong.
    """
    rows = [turn for turn in turns if turn.features is not None]
    values = np.array([[turn.features[name] for name in NAMES] for turn in rows if turn.features is not None])
    right = np.array([float(turn.right) for turn in rows])
    sessions = [turn.session for turn in rows]
    if len(set(sessions)) < folds or len(set(right)) < 2:
        raise TrainingError(f"{len(rows)} candidates of {len(set(sessions))} sessions are too few to fit to")
    held_out = np.zeros(len(rows))
    score = 0
    for inside, outside in GroupKFold(folds).split(values, right, sessions):
        model = fit(values[inside], right[inside], strength)
        held_out[outside] = model.predict_proba(values[outside])[:, 1]
        threshold = best_threshold(model.predict_proba(values[inside])[:, 1], right[inside])
        given = held_out[outside] >= threshold
        score += int(np.where(right[outside][given] > 0, 1, -1).sum())
    model = fit(values, right, strength)
    scaler, regression = model[0], model[1]
    weights = regression.coef_[0] / scaler.scale_
    head = ConfidenceHead(
        weights={name: round(float(weight), 5) for name, weight in zip(NAMES, weights, strict=True)},
        bias=round(float(regression.intercept_[0] - (weights * scaler.mean_).sum()), 5),
    )
    probabilities = np.array([head.probability(turn.features) for turn in rows if turn.features is not None])
    measured = {
        "turns": float(len(turns)),
        "right candidates": float(right.mean()),
        "AUROC of the reader's score": float(roc_auc_score(right, values[:, NAMES.index("reader")])),
        "AUROC, cross-validated": float(roc_auc_score(right, held_out)),
        "truthfulness, cross-validated": score / len(turns),
    }
    return head, best_threshold(probabilities, right), measured


def run(options: argparse.Namespace) -> None:
    """Read, judge, fit, write and report.

    Raises:
        EvaluationError, TrainingError: Something is missing; the message says what.
    """
    judge = choose_judge(options.eval_model, cache=options.cache)
    accept = read_accept([options.dataset]) if options.dataset is not None else {}
    turns = [
        turn
        for folder in options.run
        for turn in examples(read_trace(folder / TRACE), read_responses(folder / "response.jsonl"), judge, accept)
    ]
    head, threshold, measured = train(turns, options.strength, options.folds)
    note = ", ".join(f"{name} {value:.3f}" for name, value in measured.items())
    head = head.model_copy(update={"fitted_on": options.fitted_on, "note": note})
    head.save(options.out)
    for name, value in measured.items():
        print(f"  {name:32s}{value:8.3f}")
    print(f"confidence: {options.out}; best threshold on all of it: finalise.min_confidence = {threshold:.3f}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m training.answer_confidence",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--run", type=Path, action="append", required=True, help="output folder of a run; may be given several times"
    )
    parser.add_argument("--dataset", type=Path, help="folder with accept.json, for the rule judge")
    parser.add_argument(
        "--eval-model", help='judge of the candidates; "None" is the rule judge (default: as the evaluation)'
    )
    parser.add_argument("--out", type=Path, required=True, help="where the fitted head goes (JSON)")
    parser.add_argument("--fitted-on", default="", help="what to write into the file as its source")
    parser.add_argument(
        "--strength", type=float, default=0.3, help="inverse L2 regularisation C (default: %(default)s)"
    )
    parser.add_argument("--folds", type=int, default=5, help="folds of the cross-validation (default: %(default)s)")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="folder of kept judgements")
    try:
        run(parser.parse_args(arguments))
    except (EvaluationError, TrainingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
