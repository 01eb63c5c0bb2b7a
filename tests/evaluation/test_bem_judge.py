"""The judge of answer equivalence, over a tiny checkpoint of the class and the layout that a real one has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from evaluation.judge.bem_judge import CUT, BemJudge
from evaluation.judge.judging import BatchJudge, choose_judge, judge_turns
from evaluation.records import JudgeError, JudgeItem
from tests.evaluation.worlds import judged
from tests.models.tiny_rankers import save_bem

ANSWER, TRUTH, QUESTION = "red car", "the red car in paris", "what is it?"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bem(tmp_path_factory.mktemp("bem"))


def by_hand(checkpoint: Path, answer: str, reference: str, question: str) -> float:
    """P(label 1) of ``[CLS] answer [SEP] reference [SEP] question [SEP]``, put together token by token."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint).eval()
    first = ["[CLS]", *tokenizer.tokenize(answer), "[SEP]"]
    second = [*tokenizer.tokenize(reference), "[SEP]", *tokenizer.tokenize(question), "[SEP]"]
    ids = torch.tensor([tokenizer.convert_tokens_to_ids([*first, *second])])
    types = torch.tensor([[0] * len(first) + [1] * len(second)])
    with torch.inference_mode():
        logits = model(input_ids=ids, token_type_ids=types).logits
    return float(logits.softmax(-1)[0, 1])


def test_probabilities_are_those_of_the_published_layout_in_any_batch(checkpoint: Path) -> None:
    triples = [
        (ANSWER, TRUTH, QUESTION),
        ("a tower of iron stands in paris", "tree", "how tall?"),
        (ANSWER, TRUTH, QUESTION),
        ("", "cat", ""),
    ]
    probabilities = BemJudge(str(checkpoint)).probabilities(triples)
    assert probabilities == pytest.approx([by_hand(checkpoint, *each) for each in triples], abs=1e-5)
    assert len({round(value, 4) for value in probabilities}) == 3


def test_a_separator_in_an_answer_opens_no_segment(checkpoint: Path) -> None:
    judge = BemJudge(str(checkpoint))
    with_separator, plain = judge.probabilities([("red [SEP] car", TRUTH, QUESTION), ("red   car", TRUTH, QUESTION)])
    assert with_separator == pytest.approx(plain)


def test_the_best_of_truth_and_short_answers_decides(checkpoint: Path, tmp_path: Path) -> None:
    references = ["cat", "dog", "tower of iron", "tree", "blue", "metres", "paris", "car", "in", "how tall"]
    triples = [(ANSWER, reference, QUESTION) for reference in references]
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    middle = torch.tensor(BemJudge(str(checkpoint)).probabilities(triples)).logit().mean()
    with torch.no_grad():
        model.classifier.bias[1] -= middle  # so that it says both yes and no
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(checkpoint).save_pretrained(tmp_path)
    judge = BemJudge(str(tmp_path))
    chances = judge.probabilities(triples)
    assert max(chances) >= CUT > min(chances)
    likely, unlikely = references[chances.index(max(chances))], references[chances.index(min(chances))]
    item = JudgeItem(QUESTION, unlikely, ANSWER)
    wrong, right = judge.judge_batch([item, replace(item, accept=(likely,))])
    assert not wrong.correct and f"{min(chances):.3f}" in wrong.reason
    assert right.correct and f"{max(chances):.3f}" in right.reason
    assert judge.judge(item) == wrong


def test_all_answers_go_through_in_batches(checkpoint: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    judge = choose_judge(f"bem:{checkpoint}", cache=tmp_path)
    assert isinstance(judge, BatchJudge) and judge.name.startswith(f"bem:{checkpoint.name} ")
    sizes: list[int] = []
    one = judge.judge_batch
    monkeypatch.setattr(judge, "judge_batch", lambda items: sizes.append(len(items)) or one(items))
    turns = [turn.turn for number in range(40) for turn in judged("h", f"s{number}")]
    judged_turns = judge_turns(turns, judge)
    assert sizes == [32, 8]
    assert len({turn.correct for turn in judged_turns}) == 1 and "P(equivalent)" in judged_turns[0].reason


def test_what_is_no_such_checkpoint_is_told(tmp_path: Path) -> None:
    item = JudgeItem(QUESTION, TRUTH, ANSWER)
    with pytest.raises(JudgeError, match="write bem:PATH"):
        choose_judge("bem", cache=tmp_path)
    with pytest.raises(JudgeError, match=r"nowhere.*answer-equivalence-bem"):
        BemJudge(str(tmp_path / "nowhere")).judge(item)
    with pytest.raises(JudgeError, match=r"3 labels.*two labels"):
        BemJudge(str(save_bem(tmp_path / "three", labels=3))).judge(item)
