"""Fits a gate to judged candidates, and estimates its truthfulness on unseen photos by nested cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from agents.base.linear_head import convert_rows
from agents.methods.gate import Gate
from evaluation.records import EvaluationError
from evaluation.scores.scoring import session_interval
from evaluation.studies.decisions import BoolArray, FloatArray, IntArray, Turns

STRENGTHS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Inverse strengths of the L2 penalty that are tried (scikit-learn's C). Some hundred turns bear no weaker penalty."""

BREAK_EVEN = 0.5
"""Threshold for a perfect probability: a right answer scores 1, a wrong one -1, an abstention 0."""

Part = IntArray | slice
"""Positions of candidates."""

ALL = slice(None)


class Truthfulness(NamedTuple):
    """A truthfulness, -1 to 1, with its 95% bootstrap interval over sessions."""

    mean: float
    low: float
    high: float


def measure_truthfulness(turns: Turns, points: FloatArray, run: str | None = None) -> Truthfulness:
    """Average the points of all turns, or of those of one run; whole sessions are resampled for the interval."""
    part = np.ones_like(turns.gate_decides) if run is None else turns.run == run
    points, (_, session) = points[part], np.unique(turns.session[part], return_inverse=True)
    sums = np.column_stack([np.bincount(session, weights=points), np.bincount(session).astype(np.float64)])
    low, high = session_interval(sums, lambda total, size: total / size)
    return Truthfulness(float(points.mean()), low, high)


def select_usable(turns: Turns) -> list[str]:
    """Return the signals that have several values over the candidates of this run."""
    finite_values = {name: values[turns.gate_decides & np.isfinite(values)] for name, values in turns.signals.items()}
    return [name for name, values in finite_values.items() if len(np.unique(values)) > 1]


def auroc(turns: Turns, values: FloatArray) -> float | None:
    """Compute the AUROC of right against wrong candidates.

    Args:
        turns: The candidates.
        values: A value that is higher for candidates that are more likely right, NaN if unknown, shape (candidates,).

    Returns:
        The AUROC; None if the candidates with a value are all right or all wrong.
    """
    finite = np.isfinite(values)
    right = turns.right[finite]
    return float(roc_auc_score(right, values[finite])) if len(np.unique(right)) == 2 else None


def signal_auroc(turns: Turns, name: str) -> float | None:
    """Compute the AUROC of one signal, sign-corrected (see ``auroc``)."""
    values = turns.signal(name)[turns.gate_decides]
    return auroc(turns, -values if name in turns.negative_signals else values)


def choose_threshold(probability: FloatArray, points: FloatArray) -> float:
    """Return the threshold with the highest sum of points; of several the nearest to one half."""
    values = np.unique(probability)
    cuts = np.concatenate([[0.0, BREAK_EVEN, 1.0], (values[1:] + values[:-1]) / 2])
    sums = np.array([points[probability >= cut].sum() for cut in cuts])
    best = cuts[sums >= sums.max() - 1e-9]
    return float(best[np.abs(best - BREAK_EVEN).argmin()])


class SignedRegression(LogisticRegression):  # type: ignore[misc]  # scikit-learn is untyped
    """Logistic regression with sign constraints: a signal whose weight has the wrong sign gets weight 0.

    With few candidates a worthless signal gets a weight of either sign, but the meaning of each is known beforehand.

    Args:
        signs: 1 for a column that is higher for correct answers, -1 for one that is lower.
        C: Inverse strength of the L2 penalty.
    """

    def __init__(self, signs: tuple[float, ...] = (), C: float = 1.0) -> None:  # noqa: N803 - scikit-learn's name
        super().__init__(C=C)
        self.signs = signs

    def fit(self, matrix: FloatArray, right: BoolArray, sample_weight: FloatArray | None = None) -> SignedRegression:
        """Fit on standardised signals, and again without those of the wrong sign until none is left."""
        signs = np.asarray(self.signs)
        mask = np.ones(len(signs))
        while True:
            super().fit(matrix * mask, right, sample_weight)
            wrong = (self.coef_[0] * signs < 0) & (mask > 0)
            if not wrong.any():
                self.coef_[0] *= mask
                return self
            mask[wrong] = 0.0


def fit(turns: Turns, names: Sequence[str], folds: int, seed: int, part: Part = ALL) -> tuple[Gate, Gate, Gate]:
    """Fit a gate with the strength and thresholds that cross-validation chooses.

    The strength has the lowest held-out log loss. A missing value counts as the mean, which is neutral after standardising.

    Args:
        turns: The candidates.
        names: Signals that are weighed.
        folds: Parts of the cross-validation.
        seed: Seed of the division into parts.
        part: Candidates that are fitted to.

    Returns:
        The gate with the threshold at one half; with the one that is best on held-out probabilities; and with two of these, one for photos
        of smart glasses and one for all others.

    Raises:
        EvaluationError: Right or wrong candidates are about too few photos.
    """
    matrix, right, glasses = turns.matrix(names)[part], turns.right[part], turns.is_egocentric_candidate[part]
    signs = tuple(-1.0 if name in turns.negative_signals else 1.0 for name in names)
    fill, scale = SimpleImputer(keep_empty_features=True), StandardScaler()
    models = {
        strength: Pipeline([("fill", fill), ("scale", scale), ("regress", SignedRegression(signs, strength))])
        for strength in STRENGTHS
    }
    try:
        splits = _split(turns, folds, seed, part)
        tried = {
            strength: cross_val_predict(model, matrix, right, cv=splits, method="predict_proba")[:, 1]
            for strength, model in models.items()
        }
    except ValueError as error:  # without some part all others are right, or all wrong
        raise _too_few_error(turns, folds) from error
    strength = min(tried, key=lambda one: float(log_loss(right, tried[one])))
    probability, points = tried[strength], np.where(right, 1.0, -1.0)
    regression = models[strength].fit(matrix, right)["regress"]
    gate = Gate(
        features=tuple(names),
        coefficients=convert_rows(regression.coef_),
        intercept=(float(regression.intercept_[0]),),
        mean=convert_rows(scale.mean_[None])[0],
        scale=convert_rows(scale.scale_[None])[0],
        threshold=BREAK_EVEN,
        fitted_on={"strength": strength},
    )
    of_glasses, of_others = (choose_threshold(probability[each], points[each]) for each in (glasses, ~glasses))
    return (
        gate,
        gate.model_copy(update={"threshold": choose_threshold(probability, points)}),
        gate.model_copy(update={"threshold": of_others, "threshold_egocentric": of_glasses}),
    )


def cross_validate(
    turns: Turns, names: Sequence[str], *, folds: int = 5, repeats: int = 5
) -> tuple[FloatArray, FloatArray]:
    """Decide each candidate by gates fitted on those about other photos (nested cross-validation), in several divisions into folds.

    Returns:
        Mean probability of each candidate, shape (candidates,), and mean points of every turn with each of the thresholds of ``fit``, shape
        (3, turns).

    Raises:
        EvaluationError: Right or wrong candidates are about too few photos.
    """
    if min(_count_photos(turns)) < folds:
        raise _too_few_error(turns, folds)
    probability, points = np.zeros((repeats, len(turns.right))), np.zeros((3, len(turns.points)))
    for repeat in range(repeats):
        is_given = np.zeros((3, len(turns.right)), np.bool_)
        for others, held_out in _split(turns, folds, repeat):
            gates = fit(turns, names, folds, repeat, others)
            probability[repeat, held_out] = predict_probability(turns, gates[0], held_out)
            is_given[:, held_out] = [apply_gate(turns, gate, held_out) for gate in gates]
        points += np.array([turns.score(each) for each in is_given]) / repeats
    return probability.mean(axis=0), points


def study_gate(turns: Turns, *, folds: int, repeats: int) -> tuple[Gate, FloatArray, FloatArray]:
    """Fit a gate, and estimate by cross-validation over photos what it earns on others.

    Its threshold is one half, or the fitted one if that earns more on held-out photos. Photos of smart glasses get one of their own if that
    gains beyond chance.

    Returns:
        The gate; its held-out probability of each candidate; its held-out points of every turn.

    Raises:
        EvaluationError: No signal differs between candidates, or right or wrong candidates are about too few photos.
    """
    names = select_usable(turns)
    if not names:
        raise EvaluationError("no signal differs from one candidate of these runs to another; nothing can be fitted")
    probability, points = cross_validate(turns, names, folds=folds, repeats=repeats)
    chosen = int(points[1].mean() > points[0].mean())
    if measure_truthfulness(turns, points[2] - points[chosen]).low > 0:
        chosen = 2
    return fit(turns, names, folds, 0)[chosen], probability, points[chosen]


def predict_probability(turns: Turns, gate: Gate, part: Part = ALL) -> FloatArray:
    """Compute a gate's probability of each candidate, shape (candidates,); a missing signal counts as its mean."""
    return np.asarray(gate.probabilities(turns.matrix(gate.features)[part])[:, 1], np.float64)


def apply_gate(turns: Turns, gate: Gate, part: Part = ALL) -> BoolArray:
    """Return which candidates a gate gives, shape (candidates,)."""
    glasses = turns.is_egocentric_candidate[part]
    minimum = np.where(glasses, gate.minimum(egocentric=True), gate.minimum(egocentric=False))
    is_given: BoolArray = predict_probability(turns, gate, part) >= minimum
    return is_given


def _split(turns: Turns, folds: int, seed: int, part: Part = ALL) -> list[tuple[IntArray, IntArray]]:
    """Divide candidates into parts that keep those about one photo together and have right and wrong ones each, if there are enough.

    Raises:
        ValueError: There are not enough for two parts.
    """
    right, groups = turns.right[part], turns.groups[part]
    parts = min(folds, *(len(np.unique(groups[kind])) for kind in (right, ~right)))
    return list(StratifiedGroupKFold(parts, shuffle=True, random_state=seed).split(groups, right, groups))


def _count_photos(turns: Turns) -> tuple[int, int]:
    """Count the photos that right candidates are about, and those of wrong ones."""
    return len(np.unique(turns.groups[turns.right])), len(np.unique(turns.groups[~turns.right]))


def _too_few_error(turns: Turns, folds: int) -> EvaluationError:
    """Return the error of a fit without enough candidates, with an estimate of how many dialogs would do."""
    of_right, of_wrong = _count_photos(turns)
    num_right, dialogs = int(turns.right.sum()), len(np.unique(turns.photo))
    tally = f"{num_right} candidates are right (in {of_right} dialogs) and {len(turns.right) - num_right} wrong (in {of_wrong})"
    if of_wrong == 0:
        return EvaluationError(
            f"nothing is to be withheld: {tally}. To give every candidate: --set finalise.gate=null. Add questions that must not be "
            "answered, to see whether that holds for them too"
        )
    enough = -(-dialogs * folds // max(1, min(of_right, of_wrong)))
    return EvaluationError(
        f"too few questions for a gate: {tally}; both have to be in {folds} dialogs about different photos. With questions like "
        f"these that takes about {enough} dialogs, and here are {dialogs}; hard ones and those that must not be answered help most"
    )
