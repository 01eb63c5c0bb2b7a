"""The judge of answer equivalence (BEM): a small classifier decides whether an answer means the same as the ground truth."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from agents.models.base import ModelError
from agents.models.pretrained import Pretrained, deduplicate
from evaluation.records import JudgeError, JudgeItem, Verdict

CUT = 0.5
"""Probability from which two answers are equivalent (Encyclopedic-VQA's evaluation, which CoRe-MMRAG follows)."""

EQUIVALENT = 1
"""Label of equivalent answers (Bulian et al., "Tomayto, Tomahto", 2022)."""

MAX_TOKENS = 512


class BemJudge:
    """BERT matching (Bulian et al., 2022) over a sequence-classification checkpoint of two labels.

    The checkpoint is loaded at the first judgement. It reads ``[CLS] answer [SEP] reference [SEP] question [SEP]`` with the answer as the
    first segment, as ``kortukov/answer-equivalence-bem`` does. An answer is right if it is equivalent to the ground truth or to one of the
    short right answers.

    Args:
        path: Checkpoint folder, or a model id of the hub.
    """

    parallel = False
    batch = 32

    def __init__(self, path: str) -> None:
        self._checkpoint = Pretrained(path, device="auto")
        self.name = f"bem:{self._checkpoint.name} (right from P(equivalent) {CUT} on)"

    def judge(self, item: JudgeItem) -> Verdict:
        """Judge one answer; see ``judge_batch``."""
        return self.judge_batch([item])[0]

    def judge_batch(self, items: Sequence[JudgeItem]) -> list[Verdict]:
        """Judge answers in few passes, every pair of answer and reference once.

        Raises:
            JudgeError: The checkpoint cannot be loaded, or has another number of labels.
        """
        pairs = [(item.response, truth, item.query) for item in items for truth in (item.ground_truth, *item.accept)]
        probabilities = iter(self.probabilities(pairs))
        best = [max(next(probabilities) for _ in (item.ground_truth, *item.accept)) for item in items]
        return [Verdict(value >= CUT, f"P(equivalent) {value:.3f}") for value in best]

    def probabilities(self, answers: Sequence[tuple[str, str, str]]) -> list[float]:
        """Return P(equivalent), 0 to 1, of each answer, reference and question.

        Raises:
            JudgeError: See ``judge_batch``.
        """
        import torch

        tokenizer, model = self._loaded
        unique_answers, places = deduplicate(answers)
        sides = [self._sides(*each, separator=tokenizer.sep_token) for each in unique_answers]
        values = [0.0] * len(unique_answers)
        for rows in self._checkpoint.passes([len(one) + len(other) for one, other in sides]):
            first, second = zip(*(sides[row] for row in rows), strict=True)
            inputs = self._checkpoint.tokenize(tokenizer, [*first], MAX_TOKENS, text_pair=[*second])
            with torch.inference_mode():
                probability = model(**inputs).logits.float().softmax(-1)[:, EQUIVALENT]
            for row, value in zip(rows, probability.tolist(), strict=True):
                values[row] = value
        return [values[place] for place in places]

    @staticmethod
    def _sides(answer: str, reference: str, question: str, separator: str) -> tuple[str, str]:
        """Return the two segments; a separator written out in a text is replaced by a blank."""
        answer, reference, question = (text.replace(separator, " ") for text in (answer, reference, question))
        return answer, f"{reference} {separator} {question}"

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        try:
            tokenizer, model = self._checkpoint.load("the judge", "AutoTokenizer", "AutoModelForSequenceClassification")
        except ModelError as error:
            raise JudgeError(
                f"{error} BEM takes the folder of a checkpoint of two labels, or its id of the hub, such as "
                "bem:kortukov/answer-equivalence-bem"
            ) from error
        labels = model.config.num_labels
        if labels != 2 or tokenizer.sep_token is None:
            raise JudgeError(
                f"{self._checkpoint.path} is no BEM: it has {labels} labels and the separator {tokenizer.sep_token!r}, where two labels "
                "and a separator are needed; name a checkpoint of answer equivalence"
            )
        return tokenizer, model
