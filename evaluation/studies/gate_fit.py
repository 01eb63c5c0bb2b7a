"""Fits a gate to judged candidates, and estimates its truthfulness on unseen photos by nested cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from agents.base.linear_head import convert_rows
from agents.methods.gate import CLASSES, Gate
from evaluation.records import EvaluationError
from evaluation.scores.scoring import session_interval
from evaluation.studies.decisions import BoolArray, FloatArray, Turns

STRENGTHS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Inverse strengths of the L2 penalty that are tried (scikit-learn's C). Some hundred turns bear no weaker penalty."""

BREAK_EVEN = 0.5
"""Threshold for a perfect probability: a right answer scores 1, a wrong one -1, an abstention 0."""


MIN_OWN = 20
"""Answers from a model's own knowledge, below which nothing is fitted to them: with fewer, one more wrong answer turns the result."""


def _too_few_error(right: BoolArray, groups: npt.NDArray[np.int64], folds: int) -> EvaluationError:
    """Return the error of a fit without enough candidates.

    It estimates how many photos give each part right and wrong ones.
    """
    counts, photos = [len(np.unique(groups[kind])) for kind in (right, ~right)], len(np.unique(groups))
    message = "a gate cannot be fitted: right candidates and wrong ones must each stand in dialogs about several photos"
    more = f"about {-(-photos * folds // min(counts))} photos like these" if min(counts) else "there is one kind alone"
    return EvaluationError(
        f"{message}, for {folds} folds in {folds} or more; here in {counts[0]} and {counts[1]} of {photos}; take a larger run ({more})"
    )


@dataclass(frozen=True)
class Truthfulness:
    """A truthfulness, -1 to 1, with its 95% bootstrap interval over sessions."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class HeldOut:
    """Out-of-fold predictions and scores of a gate, averaged over repeated divisions into folds.

    Attributes:
        probability: Probability of being right, shape (candidates,).
        auroc: Mean over the divisions.
        at_half: Points of every turn with the threshold at one half.
        at_fitted: Points of every turn with a threshold that was fitted on the other photos too.
        at_both: The same with two such thresholds, one for photos of smart glasses and one for all others.
    """

    probability: FloatArray
    auroc: float
    at_half: FloatArray
    at_fitted: FloatArray
    at_both: FloatArray


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


def auroc(turns: Turns, values: FloatArray) -> tuple[float, int]:
    """Compute the AUROC of right against wrong candidates.

    Args:
        turns: The candidates.
        values: A value that is higher for candidates that are more likely right, NaN if unknown, shape (candidates,).

    Returns:
        The AUROC, NaN if the candidates with a value are all right or all wrong; and their number.
    """
    finite = np.isfinite(values)
    right = turns.right[finite]
    if len(np.unique(right)) < 2:
        return float("nan"), int(finite.sum())
    return float(roc_auc_score(right, values[finite])), int(finite.sum())


def signal_auroc(turns: Turns, name: str) -> tuple[float, int]:
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


@dataclass(frozen=True)
class Fit:
    """A regression with the strength and thresholds that cross-validation over the same photos chose.

    Attributes:
        threshold: Threshold of all candidates.
        thresholds: Thresholds of the candidates about photos of smart glasses, and of the others.
    """

    model: Pipeline
    strength: float
    threshold: float
    thresholds: tuple[float, float]


def fit(
    matrix: FloatArray,
    right: BoolArray,
    groups: npt.NDArray[np.int64],
    names: Sequence[str],
    folds: int,
    seed: int,
    is_egocentric: BoolArray | None = None,
    negative_signals: Collection[str] = (),
) -> Fit:
    """Fit the regression with the strength and thresholds that cross-validation chooses.

    The strength has the lowest held-out log loss. The thresholds are best on its held-out probabilities.

    Args:
        matrix: Signals, shape (candidates, signals).
        right: Whether each candidate is right, shape (candidates,).
        groups: Photo of each candidate, shape (candidates,).
        names: Names of the signals.
        folds: Parts of the cross-validation.
        seed: Seed of the division into parts.
        is_egocentric: Which candidates are about photos of smart glasses, shape (candidates,); None: none of them.
        negative_signals: Signals that are higher for wrong candidates.

    Raises:
        EvaluationError: Right or wrong candidates are about fewer than two photos.
    """
    splits = list(_make_splitter(right, groups, folds, seed).split(matrix, right, groups))
    tried = {strength: np.zeros(len(right)) for strength in STRENGTHS}
    try:
        for others, held_out in splits:
            preparation = _make_preparation().fit(matrix[others])
            train, test = preparation.transform(matrix[others]), preparation.transform(matrix[held_out])
            for strength, probability in tried.items():
                regression = _make_regression(strength, names, negative_signals).fit(train, right[others])
                probability[held_out] = regression.predict_proba(test)[:, 1]
    except ValueError as error:  # without some part all others are right, or all wrong
        raise _too_few_error(right, groups, folds) from error
    strength = min(tried, key=lambda one: float(log_loss(right, tried[one])))
    points = np.where(right, 1.0, -1.0)
    glasses = np.zeros_like(right) if is_egocentric is None else is_egocentric
    thresholds = tuple(choose_threshold(tried[strength][part], points[part]) for part in (glasses, ~glasses))
    threshold = choose_threshold(tried[strength], points)
    return Fit(
        _make_model(strength, names, negative_signals).fit(matrix, right),
        strength,
        threshold,
        (thresholds[0], thresholds[1]),
    )


def cross_validate(turns: Turns, names: Sequence[str], *, folds: int = 5, repeats: int = 5) -> HeldOut:
    """Decide each candidate by a gate fitted on those about other photos (nested cross-validation).

    Weights, strength and threshold come from the other photos.

    Raises:
        EvaluationError: Right or wrong candidates are about too few photos.
    """
    matrix, right, groups, glasses = turns.matrix(names), turns.right, turns.groups, turns.is_egocentric_candidate
    probability, areas = np.zeros(len(right)), []
    at_half, at_fitted, at_both = (np.zeros(len(turns.points)) for _ in range(3))
    for repeat in range(repeats):
        once, threshold, thresholds = np.zeros(len(right)), np.zeros(len(right)), np.zeros(len(right))
        for others, held_out in _make_splitter(right, groups, folds, repeat).split(matrix, right, groups):
            rows = matrix[others], right[others], groups[others]
            try:
                fitted = fit(*rows, names, folds, repeat, glasses[others], turns.negative_signals)
            except EvaluationError as error:  # it counts the photos of this part
                raise _too_few_error(right, groups, folds) from error
            once[held_out] = fitted.model.predict_proba(matrix[held_out])[:, 1]
            threshold[held_out] = fitted.threshold
            thresholds[held_out] = np.where(glasses[held_out], *fitted.thresholds)
        probability += once / repeats
        areas.append(float(roc_auc_score(right, once)))
        at_half += turns.score(once >= BREAK_EVEN) / repeats
        at_fitted += turns.score(once >= threshold) / repeats
        at_both += turns.score(once >= thresholds) / repeats
    return HeldOut(probability, float(np.mean(areas)), at_half, at_fitted, at_both)


def make_gate(
    fitted: Fit, names: Sequence[str], threshold: float, about: dict[str, object], egocentric: float | None = None
) -> Gate:
    """Make the gate of a fit, as it is written.

    Args:
        fitted: The fit.
        names: Names of its signals.
        threshold: Least probability of a given candidate.
        about: Origin of the fit.
        egocentric: Threshold for photos of smart glasses; None: the same.
    """
    scaler, regression = fitted.model["scale"], fitted.model["regress"]
    return Gate(
        classes=CLASSES,
        features=tuple(names),
        coefficients=convert_rows(regression.coef_),
        intercept=(float(regression.intercept_[0]),),
        mean=convert_rows(scaler.mean_[None])[0],
        scale=convert_rows(scaler.scale_[None])[0],
        threshold=threshold,
        threshold_egocentric=egocentric,
        fitted_on=about,
    )


def predict_probability(turns: Turns, probability: Callable[[dict[str, float]], float]) -> FloatArray:
    """Compute a gate's probability of each candidate, shape (candidates,)."""
    signals = {name: values[turns.gate_decides] for name, values in turns.signals.items()}
    return np.array(
        [
            probability({name: float(values[place]) for name, values in signals.items()})
            for place in range(len(turns.right))
        ]
    )


def apply_gate(turns: Turns, gate: Gate) -> BoolArray:
    """Return which candidates a gate gives, shape (candidates,)."""
    minimum = np.where(turns.is_egocentric_candidate, gate.minimum(egocentric=True), gate.minimum(egocentric=False))
    is_given: BoolArray = predict_probability(turns, gate.probability) >= minimum
    return is_given


def fit_white_box_line(turns: Turns) -> dict[str, float]:
    """Fit the line of QA-Dragon's white-box verifier (section 3.7.2).

    A logistic regression over the lowest and the mean token probability gives their weights. The threshold is where a right answer is as
    likely as a wrong one.

    Raises:
        EvaluationError: The traces hold no token probabilities, or all of these candidates are right or all wrong.
    """
    minimum, mean = turns.signal("min_probability"), turns.signal("mean_probability")
    finite = turns.gate_decides & ~turns.direct & np.isfinite(minimum) & np.isfinite(mean)
    right = turns.points[finite] > 0
    if len(np.unique(right)) < 2:
        raise EvaluationError("the white-box line needs right and wrong candidates that have token probabilities")
    fitted = LogisticRegression().fit(np.column_stack([minimum[finite], mean[finite]]), right)
    return {
        "verify.weight_min": round(float(fitted.coef_[0][0]), 4),
        "verify.weight_mean": round(float(fitted.coef_[0][1]), 4),
        "verify.white_box_threshold": round(-float(fitted.intercept_[0]), 4),
    }


def fit_own_knowledge(turns: Turns) -> dict[str, float | str]:
    """Fit whether a model's own knowledge may be given where no evidence answers, and from which probability of the check.

    The probability is the one from which such answers earn most points, the lowest of several. For a model without probabilities all
    answers that the check approved count.

    Returns:
        Settings of the stage ``cross_check``: ``never`` where own knowledge earns nothing.

    Raises:
        EvaluationError: Fewer than ``MIN_OWN`` answers come from the model's own knowledge.
    """
    own = turns.gate_decides & (turns.signal("cross_check.own") == 1)
    if own.sum() < MIN_OWN:
        raise EvaluationError(
            f"own knowledge needs {MIN_OWN} answers that come from it, and here are {own.sum()}: make the runs with "
            "--set cross_check.own_knowledge=checked --set cross_check.own_minimum=null, on more questions"
        )
    probability, points = turns.signal("p_yes")[own], turns.points[own]
    finite = np.isfinite(probability)
    if not finite.all():
        return {"cross_check.own_knowledge": "checked" if points.sum() > 0 else "never"}
    levels = np.unique(probability)
    earned = np.array([points[probability >= level].sum() for level in levels])
    if earned.max() <= 0:
        return {"cross_check.own_knowledge": "never"}
    return {"cross_check.own_knowledge": "checked", "cross_check.own_minimum": round(float(levels[earned.argmax()]), 4)}


def fit_algorithm1_confidences(turns: Turns) -> dict[str, float]:
    """Fit tau_low and tau_high of Algorithm 1 of CRUISE (section 3.4).

    Each is the confidence from which consistent answers earn most points. Of several the highest is taken, and 1, certainty, if none earns
    any: candidates of confidence 1 pass even then. Without context at least the confidence with context is required, if any candidates have
    context.

    Raises:
        EvaluationError: No candidate was checked for consistency and by the chain of verification.
    """
    confidence, no_context = turns.signal("chain_confidence"), turns.signal("no_evidence")
    checked = turns.gate_decides & (turns.signal("agreement") == 1) & np.isfinite(confidence)
    if not checked.any():
        raise EvaluationError(
            "Algorithm 1 needs candidates with a consistency and a confidence of the chain of verification"
        )

    def minimum(part: BoolArray) -> float:
        levels = np.unique(confidence[part])
        earned = np.array([turns.points[part & (confidence >= level)].sum() for level in levels])
        return float(levels[earned == earned.max()][-1]) if earned.max(initial=0.0) > 0 else 1.0

    grounded = checked & (no_context == 0)
    low, high = minimum(grounded), minimum(checked & (no_context == 1))
    return {"finalise.algorithm1.low": low, "finalise.algorithm1.high": max(low, high) if grounded.any() else high}


def _make_preparation() -> Pipeline:
    """Build the steps before the regression; missing values become the mean, which is neutral after standardising."""
    return Pipeline([("impute", SimpleImputer(keep_empty_features=True)), ("scale", StandardScaler())])


def _make_regression(strength: float, names: Sequence[str], negative_signals: Collection[str]) -> SignedRegression:
    return SignedRegression(tuple(-1.0 if name in negative_signals else 1.0 for name in names), strength)


def _make_model(strength: float, names: Sequence[str], negative_signals: Collection[str]) -> Pipeline:
    regression = _make_regression(strength, names, negative_signals)
    return Pipeline([*_make_preparation().steps, ("regress", regression)])


def _make_splitter(right: BoolArray, groups: npt.NDArray[np.int64], folds: int, seed: int) -> StratifiedGroupKFold:
    """Return parts that keep the candidates about one photo together and have right and wrong candidates each, if there are enough."""
    possible = min(folds, len(np.unique(groups[right])), len(np.unique(groups[~right])))
    if possible < 2:
        raise _too_few_error(right, groups, folds)
    return StratifiedGroupKFold(possible, shuffle=True, random_state=seed)
