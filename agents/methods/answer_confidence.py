"""How likely an extracted answer is right: a logistic regression over what is known of question, picture and evidence.

The reader knows only its passages. Whether the picture was recognised, or the question compares two things that one sentence cannot
answer, is known elsewhere; the regression puts both together. It is fitted by ``python -m training.answer_confidence`` on a run's traces.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agents.methods.question_kinds import question_kind
from agents.turn import Turn

_JOINT = re.compile(
    r"\b(?:these (?:two|three|four)|both|which of|which one|than|together|altogether|in total|add|sum|if (?:i|you|she|he|the)|"
    r"how much change|"
    r"how many more|difference|older|newer|taller|heavier|bigger|longer|enough)\b",
    re.IGNORECASE,
)
_YES_NO = re.compile(
    r"^(?:and |so |but )?(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|should)\b", re.IGNORECASE
)


class ConfidenceError(ValueError):
    """A confidence file is missing or malformed; the message names it."""


@dataclass(frozen=True)
class AnswerFeatures:
    """What speaks for or against an answer, as numbers.

    Attributes:
        reader: The reader's own score, 0 to 1.
        evidence: Best score of the reranked chunks.
        entity: Cosine of the picture that named the entity; 1 where the question does not need the picture.
        attribute: Whether the answer stands in an attribute of the entity.
        printed: Whether it was read in the picture.
        hop: Whether the question was bridged by an attribute.
        joint: Whether the question compares or adds up several things.
        yes_no: Whether the question asks for yes or no.
        recognition: Whether it asks what something is.
        printed_asked: Whether it asks for what is written in the picture, or a sum of it.
        now: Whether it asks about the present moment.
        words: Logarithm of the number of words of the answer.
        follow_up: Whether it is a later turn of a dialog.
    """

    reader: float
    evidence: float
    entity: float
    attribute: float
    printed: float
    hop: float
    joint: float
    yes_no: float
    recognition: float
    printed_asked: float
    now: float
    words: float
    follow_up: float


def answer_features(turn: Turn) -> AnswerFeatures | None:
    """The features of a turn's candidate answer; None where it has none."""
    candidate = turn.candidate
    if candidate is None:
        return None
    kind = question_kind(turn.question)
    source = candidate.evidence.source if candidate.evidence is not None else None
    return AnswerFeatures(
        reader=candidate.confidence or 0.0,
        evidence=max((chunk.score or 0.0 for chunk in turn.ranked or ()), default=0.0),
        entity=turn.entity_score if turn.needs_image else 1.0,
        attribute=float(source == "kg"),
        printed=float(source == "image"),
        hop=float(bool(turn.hops)),
        joint=float(_JOINT.search(turn.question) is not None),
        yes_no=float(_YES_NO.search(turn.question) is not None),
        recognition=float(kind.recognition),
        printed_asked=float(kind.text or kind.calculation or kind.visible),
        now=float(kind.now),
        words=math.log1p(len(candidate.text.split())),
        follow_up=float(bool(turn.history)),
    )


class ConfidenceHead(BaseModel):
    """A fitted logistic regression, as it lies in a JSON file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weights: dict[str, float]
    bias: float
    fitted_on: str = ""
    note: str = ""

    @classmethod
    def load(cls, path: Path) -> ConfidenceHead:
        """Read a file.

        Raises:
            ConfidenceError: It is missing, malformed, or was fitted on other features.
        """
        try:
            head = cls.model_validate_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise ConfidenceError(
                f"there is no confidence file {path}; python -m training.answer_confidence makes one"
            ) from error
        except (ValidationError, UnicodeDecodeError) as error:
            raise ConfidenceError(f"confidence file {path} is malformed: {error}") from error
        known = set(AnswerFeatures.__dataclass_fields__)
        if set(head.weights) != known:
            raise ConfidenceError(
                f"confidence file {path} was fitted on other features than {', '.join(sorted(known))}; fit it anew"
            )
        return head

    def save(self, path: Path) -> None:
        """Write the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.model_dump(), indent=1) + "\n", encoding="utf-8")

    def probability(self, features: AnswerFeatures | Mapping[str, float]) -> float:
        """How likely the answer is right, 0 to 1."""
        values = asdict(features) if isinstance(features, AnswerFeatures) else features
        logit = self.bias + sum(weight * values[name] for name, weight in self.weights.items())
        return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, logit))))
