"""Fits the two regressions of the extractive reader and says what they are worth on questions they have not seen.

The first (``candidate``) tells right candidates from wrong ones, the second (``question``) whether the best candidate is right.
The second is fitted to log-odds of questions that the first was not fitted to: else it would take the first for surer than it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import networkx as nx
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, roc_auc_score
from sklearn.model_selection import GroupKFold
from tqdm import tqdm

from agents.models.reader import Weights, best_answer, best_candidate, difficulties, log_odds, weight_names
from training.logistic import Floats, TrainingError
from training.reader_requests import Example

_MOST_ITERATIONS = 5000
_DIGITS = 4
_GIVEN_FROM = 0.5  # confidence; an answer that is likelier right than wrong is worth giving


@dataclass(frozen=True)
class Options:
    """How the regressions are fitted.

    Attributes:
        candidate_strength: Inverse L2 regularisation (scikit-learn's C) of the first.
        question_strength: The same of the second.
        ablated_weight: Weight of a question whose answer has been taken away, against 1 of any other.
        folds: Of the cross-validation, inside and outside.
        seed: Of the folds and the solver.
    """

    candidate_strength: float = 1.0
    question_strength: float = 0.3
    ablated_weight: float = 0.5
    folds: int = 5
    seed: int = 0


@dataclass(frozen=True)
class Scored:
    """What came out for a question.

    Attributes:
        example: The question.
        right: Whether the best candidate is right.
        confidence: Of the best candidate, 0 where there is none.
        candidates: Log-odds of every candidate, with whether it is right.
    """

    example: Example
    right: bool
    confidence: float
    candidates: tuple[tuple[float, bool], ...]


def groups_of(examples: Sequence[Example]) -> list[int]:
    """The group of each example: what shares a session, an entity or a page, directly or through others, is one."""
    graph: nx.Graph[str] = nx.Graph()
    for example in examples:
        nx.add_path(graph, example.asked.about)
        graph.add_nodes_from(example.asked.about)
    parts = sorted(nx.connected_components(graph), key=min)  # sets have no order of their own that lasts
    of = {name: number for number, part in enumerate(parts) for name in part}
    return [of[example.asked.about[0]] for example in examples]


def _splits(groups: Sequence[int], options: Options) -> Iterator[tuple[Floats, Floats]]:
    if len(set(groups)) < options.folds:
        raise TrainingError(f"{options.folds} folds need as many groups of questions; there are {len(set(groups))}")
    splitter = GroupKFold(options.folds, shuffle=True, random_state=options.seed)
    yield from splitter.split(np.zeros((len(groups), 1)), groups=groups)


def _weight(example: Example, options: Options) -> float:
    return options.ablated_weight if example.ablated else 1.0


def _regression(
    rows: Sequence[Sequence[float]],
    right: Sequence[bool],
    weights: Sequence[float],
    names: Sequence[str],
    strength: float,
    seed: int,
) -> dict[str, float]:
    """Weights by name, ``bias`` first; the features stay as they are, as the reader does not scale them."""
    if len(set(right)) < 2:
        raise TrainingError(f"right and wrong answers are needed; of {len(right)} there are {sum(right)} right ones")
    model = LogisticRegression(C=strength, max_iter=_MOST_ITERATIONS, random_state=seed)
    model.fit(np.asarray(rows, float), np.asarray(right, bool), sample_weight=np.asarray(weights, float))
    values = [float(model.intercept_[0]), *(float(value) for value in model.coef_[0])]
    return {name: round(value, _DIGITS) for name, value in zip(names, values, strict=True)}


def fit_candidates(examples: Sequence[Example], options: Options) -> dict[str, float]:
    """The first regression.

    Raises:
        TrainingError: All candidates are alike right or wrong.
    """
    rows, right, weights = [], [], []
    for example in examples:
        for reading, verdicts in zip(example.readings, example.right, strict=True):
            for candidate, ok in zip(reading.candidates, verdicts, strict=True):
                rows.append([float(value) for value in asdict(candidate.features).values()])
                right.append(ok)
                weights.append(_weight(example, options))
    names = weight_names()["candidate"]
    return _regression(rows, right, weights, names, options.candidate_strength, options.seed)


def fit_weights(examples: Sequence[Example], options: Options) -> Weights:
    """Both regressions, the second on log-odds of held-out questions.

    Raises:
        TrainingError: There are too few groups, or all candidates are alike right or wrong.
    """
    rows, right, weights = [], [], []
    for inside, outside in _splits(groups_of(examples), options):
        first = {"candidate": fit_candidates([examples[row] for row in inside], options)}
        for example in (examples[row] for row in outside):
            for reading, verdicts in zip(example.readings, example.right, strict=True):
                if not reading.candidates:
                    continue
                best = best_candidate(reading.candidates, first)
                rows.append([log_odds(best, first), *difficulties(reading.question).values()])
                # By identity: two candidates of equal answer and features may stand in two passages.
                at = next(number for number, candidate in enumerate(reading.candidates) if candidate is best)
                right.append(verdicts[at])
                weights.append(_weight(example, options))
    names = weight_names()["question"]
    second = _regression(rows, right, weights, names, options.question_strength, options.seed)
    return {"candidate": fit_candidates(examples, options), "question": second}


def scored(examples: Sequence[Example], weights: Weights) -> list[Scored]:
    """What the reader would answer with these weights; of several hops it takes the surest, as the stage ``extract`` does."""
    found = []
    for example in examples:
        answers = [best_answer(reading, weights) for reading in example.readings]
        top = max(range(len(answers)), key=lambda at: answers[at].score, default=None)
        right = False
        if top is not None and answers[top].answer:
            candidates = example.readings[top].candidates
            best = best_candidate(candidates, weights)
            right = next(ok for candidate, ok in zip(candidates, example.right[top], strict=True) if candidate is best)
        pairs = tuple(
            (log_odds(candidate, weights), ok)
            for reading, verdicts in zip(example.readings, example.right, strict=True)
            for candidate, ok in zip(reading.candidates, verdicts, strict=True)
        )
        found.append(Scored(example, right, answers[top].score if top is not None else 0.0, pairs))
    return found


def cross_validated(examples: Sequence[Example], options: Options, progress: bool = False) -> list[Scored]:
    """Each example scored by weights fitted without anything of its group, in the order of the examples.

    Raises:
        TrainingError: There are too few groups, or a fold leaves nothing to fit to.
    """
    by_row: dict[int, Scored] = {}
    splits = list(_splits(groups_of(examples), options))
    for inside, outside in tqdm(splits, desc="cross-validation", unit="fold", disable=not progress):
        weights = fit_weights([examples[row] for row in inside], options)
        by_row.update(zip(outside, scored([examples[row] for row in outside], weights), strict=True))
    return [by_row[row] for row in range(len(examples))]


def measures(results: Sequence[Scored]) -> Mapping[str, float]:
    """What the weights are worth.

    Returns:
        - ``questions``: how many; ``answerable``: share with a right candidate.
        - ``accuracy``: share of all whose best candidate is right; ``accuracy_answerable``: of the answerable ones.
        - ``candidate_auc``: of the first regression over all candidates, right against wrong.
        - ``auc``: of the confidence, right best candidates against all else; ``brier``: its mean squared error.
        - ``truthfulness``: +1 for a right and -1 for a wrong answer of a confidence of at least 0.5, mean over all.

        An area under the curve is NaN where there are only right or only wrong ones.
    """
    right = np.array([result.right for result in results])
    confidence = np.array([result.confidence for result in results])
    answerable = np.array([result.example.answerable for result in results])
    pairs = [pair for result in results for pair in result.candidates]
    points = np.where(confidence >= _GIVEN_FROM, np.where(right, 1.0, -1.0), 0.0)
    return {
        "questions": float(len(results)),
        "answerable": float(answerable.mean()),
        "accuracy": float(right.mean()),
        "accuracy_answerable": float(right[answerable].mean()) if answerable.any() else float("nan"),
        "candidate_auc": _auc([ok for _, ok in pairs], [odds for odds, _ in pairs]),
        "auc": _auc(right, confidence),
        "brier": float(brier_score_loss(right, confidence, pos_label=True)),
        "truthfulness": float(points.mean()),
    }


def _auc(right: Sequence[bool] | Floats, scores: Sequence[float] | Floats) -> float:
    return float(roc_auc_score(right, scores)) if len(set(right)) == 2 else float("nan")
