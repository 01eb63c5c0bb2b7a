"""Fit the search router (QA-Dragon, section 3.2) to a run whose drafts are judged.

    python -m training.search_router results/val_qa_dragon --dataset .cache/datasets --out presets/heads/search_router.json

RUN is the folder of a run with the stages draft and route, or has such folders. Its drafts, not its final answers, are judged against
the ground truth. A right draft is ``direct`` if its answer is observable (the category simple-recognition, or text, sums and counts of
the picture), and ``verify`` otherwise. A wrong draft or an abstention is ``rag``. Runs over public_test are refused.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, ValidationError

from agents.base.command_options import Flag
from agents.base.files import first_fault
from agents.base.printing import print_error, print_text
from agents.methods.routing import FEATURE_NAMES, TraceFeatures, TrainedRouter, route_by_rules
from agents.record import DRAFT
from agents.turn import Route
from evaluation.files.manifest import read_manifest
from evaluation.files.responses import RESPONSES, read_responses
from evaluation.files.run_dataset import SelectAccept, make_accept_selector
from evaluation.files.traces import TRACE, read_traces
from evaluation.judge.judging import Judge, choose_judge, judge_turns
from evaluation.records import AnsweredTurn
from training.chat_examples import TrainingDataError
from training.command_line import JudgedOptions, run_command
from training.logistic import compute_rates, cross_validate, describe_training_data, fit, save
from training.public_test import check_split

_RECOGNITION = "simple-recognition"
_STRENGTH = 1.0  # inverse L2 regularisation


@dataclass(frozen=True)
class DraftedTurn:
    """A turn of a run with its draft as the agent's answer, and the features that the route stage saw."""

    answered: AnsweredTurn
    features: TraceFeatures

    @property
    def is_observable(self) -> bool:
        """Whether the picture alone has the answer.

        Either the data set calls it recognition, or the question is self-contained.
        """
        features = self.features
        is_self_contained = features.asks_text or features.asks_calculation or features.asks_visible
        return self.answered.query_category == _RECOGNITION or (bool(is_self_contained) and not features.asks_now)


def read_drafted_turns(run: Path) -> list[DraftedTurn]:
    """Read the turns of a run that have a draft and features of it.

    Raises:
        TrainingDataError: The run had no stages ``draft`` and ``route``, or their features are not the router's.
        EvaluationError: The answers or the records cannot be read.
    """
    records = read_traces(run / TRACE, is_required=True)
    turns = []
    for answer in read_responses(run / RESPONSES):
        record = records.get(answer.key)
        draft = record.answers.get(DRAFT) if record is not None else None
        features = record.get_note("features") if record is not None else None
        if draft is not None and features is not None:
            try:
                trace_features = TraceFeatures.model_validate(features)
            except ValidationError as error:
                raise TrainingDataError(
                    f"{run / TRACE}, interaction {answer.interaction_id}: {first_fault(error)}"
                ) from error
            turns.append(DraftedTurn(replace(answer, agent_response=draft), trace_features))
    if not turns:
        raise TrainingDataError(
            "no trace has a draft and the router's features; run a preset with the stages draft and route"
        )
    return turns


def label_turns(turns: Sequence[DraftedTurn], judge: Judge, accept: SelectAccept = lambda _: {}) -> list[Route | None]:
    """Label each turn by its judged draft.

    Returns:
        ``direct`` for a right draft whose answer is observable, ``verify`` for any other right draft, None for one that the judge failed
        on, else ``rag``.
    """
    drafts = [turn.answered for turn in turns]
    judged = judge_turns(drafts, judge, accept=accept(drafts), progress=sys.stderr.isatty())
    return [
        None
        if judged_turn.judge_failed
        else ("direct" if turn.is_observable else "verify")
        if judged_turn.correct
        else "rag"
        for turn, judged_turn in zip(turns, judged, strict=True)
    ]


def train(turns: Sequence[DraftedTurn], labels: Sequence[Route], trained_on: str) -> TrainedRouter:
    """Fit the router to all turns; its accuracy is cross-validated, with sessions kept together.

    Raises:
        TrainingDataError: There are too few sessions or branches.
    """
    rows = [turn.features.model_dump() for turn in turns]
    values = np.array([[row[name] for name in FEATURE_NAMES] for row in rows], dtype=np.float64)
    sessions = [turn.answered.session_id for turn in turns]
    measured = cross_validate(values, labels, sessions, strength=_STRENGTH, standardise=True)
    by_rules = [route_by_rules(turn.features) for turn in turns]
    head = fit(values, labels, strength=_STRENGTH, standardise=True)
    answers = [(turn.answered.interaction_id, turn.answered.agent_response) for turn in turns]
    return TrainedRouter(
        **head.model_dump(include={"classes", "coefficients", "intercept", "mean", "scale"}),
        features=FEATURE_NAMES,
        fitted_on=describe_training_data(
            trained_on, [(*row, route) for row, route in zip(answers, labels, strict=True)]
        ),
        accuracy={**measured, **compute_rates("rules", by_rules, labels)},
    )


class SearchRouterOptions(JudgedOptions):
    """Options of the runs that the router is fitted to."""

    runs: Annotated[tuple[Path, ...], Flag(positional=True, metavar="RUN")] = Field(
        description="folder of a run, or of several"
    )
    dataset: Path | None = Field(None, description="local data sets, for the accept forms of the rule judge")


def run(options: SearchRouterOptions) -> None:
    """Read the runs, judge their drafts, fit, write and report.

    Raises:
        EvaluationError, TrainingDataError: Something is missing; the message says what.
    """
    runs = [path.parent for place in options.runs for path in sorted([*place.glob(TRACE), *place.glob(f"*/{TRACE}")])]
    if not runs:
        raise TrainingDataError(f"there is no {TRACE} in {' or '.join(map(str, options.runs))}")
    for run in runs:
        check_split(read_manifest(run), run)
    judge = choose_judge(options.eval_model, cache=options.cache)
    turns: list[DraftedTurn] = []
    routes: list[Route | None] = []
    for run in runs:
        drafted = read_drafted_turns(run)
        turns += drafted
        routes += label_turns(drafted, judge, make_accept_selector(run, options.dataset, options.cache))
    labelled = [(turn, route) for turn, route in zip(turns, routes, strict=True) if route]
    if len(labelled) < len(turns):
        print_error(f"{len(turns) - len(labelled)} drafts are left out, because the judge gave no usable reply")
    turns, labels = [turn for turn, _ in labelled], [route for _, route in labelled]
    names = ", ".join(run.name for run in runs)
    router = train(turns, labels, f"{names} (drafts judged by {judge.name})")
    counts = ", ".join(f"{count} {route}" for route, count in Counter(labels).most_common())
    print_text(f"{len(turns)} drafts: {counts}")
    save(router, options.out, "router")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_command(run, SearchRouterOptions, arguments, __doc__)


if __name__ == "__main__":
    raise SystemExit(main())
