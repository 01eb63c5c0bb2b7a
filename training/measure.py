"""What a model's replies to recorded questions are worth: greedy replies, judged, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.models.base import ChatModel
from evaluation.judge.judging import Judge, judge_turns
from evaluation.scores.scoring import bootstrap_intervals, score
from training.chat_examples import Example
from training.collect import ANSWERING, answer_in, answered_by


def measure(model: ChatModel, examples: Sequence[Example], judge: Judge) -> dict[str, Any]:
    """Rates of the model's replies to the questions among the examples, 0 to 1 (truthfulness -1 to 1).

    Every question is asked with the evidence and the dialog of the recorded run, in one batched call.
    """
    asked = [example for example in examples if example.stage in ANSWERING]
    if not asked:
        return {"questions": 0}
    replies = model.chat([example.request() for example in asked])
    accept = {example.interaction_id: example.accept for example in asked}
    turns = [answered_by(example, answer_in(reply.text)) for example, reply in zip(asked, replies, strict=True)]
    judged = judge_turns(turns, judge, accept=accept)
    scores = score(judged)
    return {
        "questions": scores.total,
        "accuracy": scores.accuracy,
        "missing": scores.missing,
        "hallucination": scores.hallucination_rate,
        "truthfulness": scores.truthfulness_score,
        "intervals": {name: list(interval) for name, interval in bootstrap_intervals(judged).items()},
        "judge": judge.name,
    }
