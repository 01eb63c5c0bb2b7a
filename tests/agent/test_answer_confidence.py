"""The confidence of an extracted answer: the formula by hand, the file, the stage."""

import json
import math
from pathlib import Path

import pytest

from agents.methods.answer_confidence import AnswerFeatures, ConfidenceError, ConfidenceHead, answer_features
from agents.settings import PRESETS, Settings
from agents.stages.confidence import Confidence
from agents.turn import Candidate, Evidence
from tests.agent.scripted import context, turn
from training.answer_confidence import Example, best_threshold, train

NAMES = tuple(AnswerFeatures.__dataclass_fields__)


def features(**values: float) -> AnswerFeatures:
    return AnswerFeatures(**{**dict.fromkeys(NAMES, 0.0), **values})


def test_the_probability_is_the_logistic_of_the_weighted_sum() -> None:
    head = ConfidenceHead(weights={**dict.fromkeys(NAMES, 0.0), "reader": 2.0, "joint": -1.0}, bias=0.5)
    assert head.probability(features(reader=1.0, joint=1.0)) == pytest.approx(1 / (1 + math.exp(-1.5)))
    assert head.probability(features(reader=1e9)) == pytest.approx(1.0)


def test_a_turn_is_described_by_question_picture_and_evidence() -> None:
    chunk = Evidence("330 m", "kg", "Eiffel Tower", score=0.7)
    asked = turn("Which of these two is taller?", entity_score=0.8, ranked=(chunk,))
    assert answer_features(asked) is None
    asked.candidate = Candidate("330 m", 0.6, "extract", evidence=chunk)
    found = answer_features(asked)
    assert found is not None
    assert (found.reader, found.evidence, found.entity, found.attribute, found.joint, found.yes_no) == (
        0.6,
        0.7,
        0.8,
        1.0,
        1.0,
        0.0,
    )
    assert found.words == pytest.approx(math.log(3))


def test_the_stage_replaces_the_readers_score_only_where_a_head_is_named() -> None:
    asked = turn("How tall is this?", candidate=Candidate("330 m", 0.6, "extract"))
    Confidence().run([asked], context(Settings.model_validate({"stages": ["finalise"]})))
    assert asked.candidate is not None
    assert asked.candidate.confidence == 0.6


@pytest.mark.parametrize("path", sorted((PRESETS / "heads").glob("confidence_*.json")), ids=lambda path: path.stem)
def test_shipped_heads_fit_the_features(path: Path) -> None:
    assert 0 <= ConfidenceHead.load(path).probability(features(reader=0.5)) <= 1


@pytest.mark.parametrize("text", ["", "{}", json.dumps({"weights": {"reader": 1}, "bias": 0})])
def test_a_malformed_head_names_its_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "head.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfidenceError, match="head"):
        ConfidenceHead.load(path)
    with pytest.raises(ConfidenceError, match="answer_confidence"):
        ConfidenceHead.load(tmp_path / "nothing.json")


def test_the_threshold_maximises_right_minus_wrong() -> None:
    import numpy as np

    probabilities, right = np.array([0.9, 0.8, 0.7, 0.6]), np.array([1.0, 1.0, 0.0, 0.0])
    assert best_threshold(probabilities, right) == 0.8
    assert best_threshold(np.array([0.9]), np.array([0.0])) == 1.0


def test_training_finds_what_makes_answers_right() -> None:
    turns = [
        Example(f"s{index}", {**dict.fromkeys(NAMES, 0.5), "entity": (index % 10) / 10}, right=index % 10 >= 5)
        for index in range(200)
    ]
    head, threshold, measured = train(turns, strength=1.0, folds=5)
    assert head.weights["entity"] > 0
    assert 0 < threshold < 1
    assert measured["AUROC, cross-validated"] > 0.95
    assert measured["truthfulness, cross-validated"] > 0.4
