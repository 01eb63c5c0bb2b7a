"""Fitting and cross-validation on features whose answer is known."""

import numpy as np
import pytest

from training.chat_examples import TrainingDataError
from training.logistic import compute_accuracy, compute_rates, cross_validate, fit


def clouds(classes: int, each: int, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(seed)
    centres = 4 * np.eye(classes, 6)
    labels = [f"c{number}" for number in range(classes) for _ in range(each)]
    return np.vstack([rng.normal(centres[number], 0.5, (each, 6)) for number in range(classes)]), labels


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("standardise", [False, True])
def test_what_is_exported_predicts_as_scikit_learn_does(classes: int, standardise: bool) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    features, labels = clouds(classes, 20)
    features[:, 5] = 100 + 1000 * features[:, 5]
    linear = fit(features, labels, strength=1.0, standardise=standardise)
    scaler = StandardScaler() if standardise else FunctionTransformer()
    reference = make_pipeline(scaler, LogisticRegression(C=1.0, class_weight="balanced", max_iter=5000))
    reference.fit(features, labels)
    np.testing.assert_allclose(linear.probabilities(features), reference.predict_proba(features), atol=1e-3)
    assert linear.predict(features) == list(reference.predict(features))


def test_a_constant_feature_does_no_harm() -> None:
    features, labels = clouds(2, 10)
    features[:, 3] = 1.0
    linear = fit(features, labels, strength=1.0, standardise=True)
    assert np.isfinite(linear.coefficients).all()
    assert compute_accuracy(linear.predict(features), labels) == 1.0


def test_no_session_stands_on_both_sides() -> None:
    """Each session has features of its own and nothing else tells the class: only a leak could predict it."""
    rng = np.random.default_rng(0)
    sessions = [f"s{number}" for number in range(40) for _ in range(5)]
    labels = [("left", "right")[number % 2] for number in range(40) for _ in range(5)]
    features = np.repeat(rng.normal(size=(40, 60)), 5, axis=0)
    assert compute_accuracy(fit(features, labels, strength=100.0).predict(features), labels) == 1.0
    assert cross_validate(features, labels, sessions, strength=100.0)["cross_validated"] < 0.75


def test_cross_validation_finds_what_is_there_to_find() -> None:
    features, labels = clouds(3, 20)
    sessions = [f"s{number // 2}" for number in range(60)]
    measured = cross_validate(features, labels, sessions, strength=1.0)
    assert measured["cross_validated"] > 0.95
    assert measured["cross_validated_macro_recall"] > 0.95 and measured["majority"] < 0.5


def test_macro_recall_weighs_every_class_alike() -> None:
    assert compute_rates("x", ["a", "a", "a", "a"], ["a", "a", "a", "b"]) == {"x": 0.75, "x_macro_recall": 0.5}


def test_too_little_to_learn_from_is_said() -> None:
    with pytest.raises(TrainingDataError, match="only: a"):
        fit(np.zeros((3, 2)), ["a", "a", "a"], strength=1.0)
    with pytest.raises(TrainingDataError, match="5 folds"):
        cross_validate(np.zeros((4, 2)), ["a", "b", "a", "b"], ["s", "s", "t", "t"], strength=1.0)
