"""The search router of QA-Dragon (section 3.2): features of the draft and its reasoning, and rules over them.

``TrainedRouter`` is the classifier that the paper trains on such features (``python -m training.search_router`` fits it); the rules are its
untrained stand-in.
"""

import re
from typing import ClassVar, Self, cast, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator

from agents.base.linear_head import LinearHead, known_names
from agents.english.question_kinds import classify_question
from agents.methods.token_probabilities import summarise_probabilities
from agents.texts.refusals import admits_ignorance
from agents.texts.text import FIGURE, count_phrases
from agents.turn import Draft, Route

_PLACEHOLDER = re.compile(r"<[a-z_ ]{3,40}>")  # of the draft's prompt
_SPECULATION = (
    *("might", "may be", "may have", "maybe", "perhaps", "possibly", "probably", "likely", "seems", "appears to"),
    *("could be", "could have", "look like", "looks like"),
)
_FALLBACK = ("typically", "generally", "usually", "commonly", "estimate", "estimated", "assume", "assuming")
_QUOTED = re.compile(r"[\"\u201c\u2018'][^\"\u201d\u2019']{2,200}[\"\u201d\u2019']|\b[A-Z]{3,}(?: [A-Z]{2,})*\b")
_CAPITALISED = re.compile(r"(?<!^)(?<![.!?] )\b[A-Z][\w-]+")
_MAX_COUNTED = 3  # hedges: a fourth says no more than the third
_MAX_WORDS = 40  # of an answer
_SELF_CONTAINED_DOMAINS = frozenset({"text understanding", "math and science"})


class TraceFeatures(BaseModel):
    """Features of a draft that the router sees: flags are 0 or 1, counts are capped.

    The paper's groups are answerability flags, answer-task heuristics (from ``answer_number``) and uncertainty patterns (from
    ``speculation``). Token probabilities follow; both are 1 if the model does not report them, and ``has_probabilities`` is then 0.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    has_draft: float = 0.0
    answer_unknown: float = 0.0
    reasoning_unknown: float = 0.0
    failure_pattern: float = 0.0

    answer_number: float = 0.0
    answer_quoted: float = 0.0
    answer_named: float = 0.0
    answer_words: float = 0.0
    object_named: float = 0.0
    object_proper: float = 0.0
    asks_text: float = 0.0
    asks_calculation: float = 0.0
    asks_visible: float = 0.0
    asks_recognition: float = 0.0
    asks_open_world: float = 0.0
    asks_now: float = 0.0
    self_contained_domain: float = 0.0

    speculation: float = 0.0
    fallback: float = 0.0
    steps: float = 0.0

    has_probabilities: float = 0.0
    min_probability: float = 1.0
    mean_probability: float = 1.0


FEATURE_NAMES = tuple(TraceFeatures.model_fields)


def compute_features(question: str, draft: Draft | None, domain: str | None) -> TraceFeatures:
    """Compute the features of a standalone question, its draft and its domain."""
    kind = classify_question(question)
    question_features = {
        "asks_text": kind.text,
        "asks_calculation": kind.calculation,
        "asks_visible": kind.visible,
        "asks_recognition": kind.recognition,
        "asks_open_world": kind.open_world,
        "asks_now": kind.now,
        "self_contained_domain": domain in _SELF_CONTAINED_DOMAINS,
    }
    if draft is None:
        return TraceFeatures(**question_features)
    answer, reasoning = draft.answer, draft.reasoning
    both = f"{reasoning} {answer}"
    probabilities = summarise_probabilities(draft.logprobs)
    return TraceFeatures(
        **question_features,
        has_draft=True,
        answer_unknown=admits_ignorance(answer),
        reasoning_unknown=admits_ignorance(reasoning),
        failure_pattern=_fails(question, answer, both),
        answer_number=bool(set(FIGURE.findall(answer)) - set(FIGURE.findall(question))),
        answer_quoted=bool(_QUOTED.search(answer)),
        answer_named=_names_something(answer, question, draft.object_name),
        answer_words=min(len(answer.split()), _MAX_WORDS),
        object_named=draft.object_name is not None,
        object_proper=any(word[0].isupper() for word in (draft.object_name or "").split()),
        speculation=min(count_phrases(both, _SPECULATION), _MAX_COUNTED),
        fallback=min(count_phrases(both, _FALLBACK), _MAX_COUNTED),
        steps=len(draft.steps),
        has_probabilities=probabilities is not None,
        min_probability=probabilities.minimum if probabilities else 1.0,
        mean_probability=probabilities.mean if probabilities else 1.0,
    )


def _fails(question: str, answer: str, both: str) -> bool:
    """Return whether the draft failed.

    It failed if it is empty, asks back, repeats the question, or contains a placeholder.
    """
    bare_answer = answer.strip(" .?!").lower()
    return (
        not bare_answer
        or answer.rstrip().endswith("?")
        or bare_answer == question.strip(" .?!").lower()
        or _PLACEHOLDER.search(both) is not None
    )


def _names_something(answer: str, question: str, object_name: str | None) -> bool:
    if object_name and object_name.lower() in answer.lower():
        return True
    lower_question = question.lower()
    return any(word.lower() not in lower_question for word in _CAPITALISED.findall(answer))


def route_by_rules(features: TraceFeatures) -> Route:
    """Choose the branch by table 1 of QA-Dragon as rules, in this order.

    0. Without a draft: ``direct`` if the question is self-contained (text, calculation, visible things) and not about the present,
       else ``rag``.
    1. The draft failed ("I don't know", ignorance admitted in the reasoning, a refusal): ``rag``.
    2. Open-world cues: ``rag``. The question is about the present. Or it asks a fact of the world about an object that the draft could not
       name or reasons about in fallback terms ("typically", "assuming").
    3. The question is self-contained, and the draft neither speculates nor falls back: ``direct``.
    4. Otherwise the draft should be checked: ``verify``. So should names of recognised things, because a model that names a wrong species
       sounds no less sure.
    """
    is_in_photo = features.asks_text or features.asks_calculation or features.asks_visible
    self_contained = is_in_photo and not features.asks_open_world
    if not features.has_draft:
        return "direct" if self_contained and not features.asks_now else "rag"
    if features.answer_unknown or features.reasoning_unknown or features.failure_pattern:
        return "rag"
    if features.asks_now or (features.asks_open_world and (not features.object_named or features.fallback)):
        return "rag"
    return "direct" if self_contained and not (features.speculation or features.fallback) else "verify"


class TrainedRouter(LinearHead):
    """A linear head over the features of a draft: ``features`` are names of ``TraceFeatures``, ``classes`` the branches."""

    kind_name: ClassVar[str] = "router"
    remedy: ClassVar[str] = "fit it again with python -m training.search_router"

    features: tuple[str, ...]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        known_names(self.features, FEATURE_NAMES, "features")
        known_names(self.classes, get_args(Route), "branches")
        return self

    def route(self, features: TraceFeatures) -> Route:
        """Return the likeliest branch. A turn without a draft is always ``rag``."""
        if not features.has_draft:
            return "rag"
        values = features.model_dump()
        return cast(Route, self.predict(np.array([[values[name] for name in self.features]]))[0])
