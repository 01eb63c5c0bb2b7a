"""Fits the search router (QA-Dragon, section 3.2) to a run whose drafts are judged.

    python -m training.search_router --traces trace.jsonl --responses response.jsonl --out presets/heads/search_router.json

The run must have the stages draft and route. Its drafts, not its final answers, are judged against the ground truth: a right draft
is ``direct`` where its answer is observable (the category simple-recognition, or text, sums and counts of the picture) and
``verify`` elsewhere; a wrong draft or an abstention is ``rag``. Several runs: give both options once for each.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from agents.launch import DEFAULT_CACHE
from agents.linear_head import Floats
from agents.methods.routing import FEATURE_NAMES, RuleRouter
from agents.methods.trained_router import TrainedRouter
from agents.turn import Route
from evaluation.data.crag_dataset import read_accept
from evaluation.files.responses import read_responses
from evaluation.judge.judging import choose_judge
from evaluation.records import EvaluationError
from training.data_hash import training_hash
from training.draft_labels import DraftedTurn, drafted_turns, is_right, label, observable, read_trace
from training.logistic import TrainingError, accuracy, cross_validate, fit, macro_recall


def matrix(turns: Sequence[DraftedTurn]) -> Floats:
    """Shape (turns, features), columns in the order of ``FEATURE_NAMES``."""
    return np.array([[turn.features.as_dict()[name] for name in FEATURE_NAMES] for turn in turns], dtype=np.float64)


def train(
    turns: Sequence[DraftedTurn],
    labels: Sequence[Route],
    *,
    trained_on: str,
    strength: float = 1.0,
    folds: int = 5,
    seed: int = 0,
    progress: bool = False,
) -> TrainedRouter:
    """The router fitted to all turns; its accuracy is that of cross-validation, sessions kept together.

    Raises:
        TrainingError: There are too few sessions or branches.
    """
    values = matrix(turns)
    sessions = [turn.answered.session_id for turn in turns]
    held_out = cross_validate(
        values, labels, sessions, strength=strength, standardise=True, folds=folds, seed=seed, progress=progress
    )
    rules = [RuleRouter().route(turn.features) for turn in turns]
    measured = {
        "cross_validated": accuracy(held_out.predicted, labels),
        "cross_validated_macro_recall": macro_recall(held_out.predicted, labels),
        "majority": accuracy(held_out.majority, labels),
        "rules": accuracy(rules, labels),
        "rules_macro_recall": macro_recall(rules, labels),
    }
    head = fit(values, labels, strength=strength, standardise=True, seed=seed)
    rows = [(turn.answered.interaction_id, turn.draft, route) for turn, route in zip(turns, labels, strict=True)]
    return TrainedRouter(
        **head.model_dump(include={"classes", "coefficients", "intercept", "mean", "scale"}),
        features=FEATURE_NAMES,
        fitted_on={"data": trained_on, "examples": len(turns), "training_hash": training_hash(rows)},
        accuracy={name: round(value, 4) for name, value in measured.items()},
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.search_router",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--traces", type=Path, action="append", required=True, help="trace of a run (JSON lines)")
    parser.add_argument("--responses", type=Path, action="append", required=True, help="answers of the same run")
    parser.add_argument("--dataset", type=Path, help="folder with accept.json, for the rule judge")
    parser.add_argument(
        "--eval-model", help='judge of the drafts; "None" is the rule judge (default: as the evaluation)'
    )
    parser.add_argument("--out", type=Path, required=True, help="where the router goes (JSON)")
    parser.add_argument("--strength", type=float, default=1.0, help="inverse L2 regularisation C (default: 1)")
    parser.add_argument("--folds", type=int, default=5, help="folds of the cross-validation (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="of folds and solver (default: 0)")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="folder of kept judgements")
    parser.add_argument("--no-progress", action="store_true", help="no progress bars")
    return parser


def run(arguments: argparse.Namespace) -> None:
    """Read, judge, fit, write and report.

    Raises:
        EvaluationError, TrainingError: Something is missing; the message says what.
    """
    if len(arguments.traces) != len(arguments.responses):
        raise TrainingError(f"{len(arguments.traces)} traces for {len(arguments.responses)} files of answers")
    progress = not arguments.no_progress
    accept = read_accept([arguments.dataset]) if arguments.dataset is not None else {}
    judge = choose_judge(arguments.eval_model, cache=arguments.cache)
    turns = [
        turn
        for trace, answers in zip(arguments.traces, arguments.responses, strict=True)
        for turn in drafted_turns(read_trace(trace), read_responses(answers))
    ]
    judged = tqdm(turns, desc=f"drafts judged by {judge.name}", unit="draft", disable=not progress)
    labels = [label(is_right(turn, judge, accept), observable(turn)) for turn in judged]
    counts = ", ".join(f"{count} {route}" for route, count in Counter(labels).most_common())
    router = train(
        turns,
        labels,
        trained_on=f"{', '.join(path.parent.name for path in arguments.responses)} (drafts judged by {judge.name})",
        strength=arguments.strength,
        folds=arguments.folds,
        seed=arguments.seed,
        progress=progress,
    )
    router.save(arguments.out)
    print(f"{len(turns)} drafts: {counts}")
    for what, value in router.accuracy.items():
        print(f"  {what:32s}{value:7.1%}")
    print(f"router: {arguments.out}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    try:
        run(_parser().parse_args(arguments))
    except (EvaluationError, TrainingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
