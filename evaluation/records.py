"""Data classes that the packages of the evaluation exchange: questions, answers, their costs, verdicts; and its errors."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictStr

I_DONT_KNOW = "I don't know"
"""The answer that counts as a miss in both releases of the organiser's evaluation."""

MAX_ANSWER_TOKENS = 75
"""The evaluator cuts every answer at this many Llama-3.2 tokens, the one that begins the text among them (both releases)."""

DEFAULT_REVISION = "v0.1.2"
"""The newest revision of the public data sets that we know."""

REPLIES = "replies"
"""Folder below ``--cache`` of model replies: of judges, and the agent's under ``--reply-cache`` without a folder of its own."""

Key = tuple[str, str]
"""Names a turn: session_id and interaction_id."""


LABELS = ("domain", "query_category", "dynamism", "image_quality")
"""The label columns of a turn."""


@dataclass(frozen=True)
class QuestionTurn:
    """One question of a dialog with its label columns; ``index`` counts from 0 within the session."""

    interaction_id: str
    index: int
    query: str
    ground_truth: str
    domain: str = ""
    query_category: str = ""
    dynamism: str = ""
    image_quality: str | None = None


@dataclass(frozen=True)
class Session:
    """One row of a data set: an image and the questions asked about it.

    Attributes:
        row: Position in the data set, by which the image is fetched.
        image_url: Where to download the image when the row carries none; None for an egocentric image. "" for an image
            that has no address either and counts as no egocentric one (the organiser's releases).
    """

    session_id: str
    turns: tuple[QuestionTurn, ...]
    row: int = 0
    image_url: str | None = None

    @property
    def is_ego(self) -> bool:
        """Whether the image is egocentric: it has no ``image_url``."""
        return self.image_url is None


@dataclass(frozen=True)
class TurnFacts:
    """What the maker of a data set says of a turn (``content_ids.json``); None where nothing is said.

    Attributes:
        same_photo: Whether the picture was made from the very photograph that the image index holds, not from another one.
        answerable: Whether the image and web indices hold what the answer takes.
        source: Where the answer is found: ``kg``, ``web``, ``both``, ``image`` or ``nowhere``.
        hops: Steps from the picture to the answer.
    """

    same_photo: bool | None = None
    answerable: bool | None = None
    source: str | None = None
    hops: int | None = None

    @property
    def one_attribute(self) -> bool | None:
        """Whether one attribute of the entity that is shown answers outright."""
        return None if self.source is None or self.hops is None else self.source == "kg" and self.hops == 1


@dataclass(frozen=True)
class AnsweredTurn:
    """A line of response.jsonl, in the organiser's fields and order.

    ``agent_response`` is the answer after truncation; ``interaction_id_history`` holds the ids of the earlier turns.
    """

    __pydantic_config__ = ConfigDict(coerce_numbers_to_str=True)  # ids of other agents may be numbers

    session_id: str
    interaction_id: str
    turn_idx: int
    is_ego: bool
    image_quality: str | None
    query_category: str
    domain: str
    dynamism: str
    query: StrictStr
    ground_truth: StrictStr
    agent_response: StrictStr
    total_turn_count: int
    interaction_id_history: list[str] = field(default_factory=list)

    @property
    def key(self) -> Key:
        """What names the turn."""
        return self.session_id, self.interaction_id

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready values, in the order of the file."""
        return asdict(self)


def answered(session: Session, turn: QuestionTurn, response: str) -> AnsweredTurn:
    """The line of response.jsonl for ``turn`` of ``session`` answered with ``response``."""
    return AnsweredTurn(
        session_id=session.session_id,
        interaction_id=turn.interaction_id,
        turn_idx=turn.index,
        is_ego=session.is_ego,
        image_quality=turn.image_quality,
        query_category=turn.query_category,
        domain=turn.domain,
        dynamism=turn.dynamism,
        query=turn.query,
        ground_truth=turn.ground_truth,
        agent_response=response,
        total_turn_count=len(session.turns),
        interaction_id_history=[earlier.interaction_id for earlier in session.turns[: turn.index]],
    )


Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class RunLogLine:
    """What asking one turn cost.

    Attributes:
        batch: Number of the batch within its process, from 0, as the agent counts its calls.
        turn: Position within the batch.
        seconds: Wall time of the call divided by the turns in it.
        batch_seconds: Wall time of the call.
        error: Why the answer is "I don't know" instead of what the agent said, or None.
        image_note: Why there was no image, or None.
        reply_hits: Replies of chat models in this call that a reply cache gave; None where the run had no such cache.
        reply_misses: Those that it did not hold.
    """

    session_id: str
    interaction_id: str
    batch: int
    turn: int
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)]
    seconds: Seconds
    batch_seconds: Seconds
    error: str | None
    image_note: str | None
    reply_hits: int | None = None
    reply_misses: int | None = None

    @property
    def key(self) -> Key:
        """What names the turn."""
        return self.session_id, self.interaction_id


@dataclass(frozen=True)
class JudgeItem:
    """What a judge sees of a turn; ``accept`` holds short right answers where the data set gives some."""

    query: str
    ground_truth: str
    response: str
    accept: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """A judge's decision and its words.

    Attributes:
        failed: The judge gave no usable reply, and the answer counts as wrong for that.
    """

    correct: bool
    reason: str = ""
    failed: bool = False


@dataclass(frozen=True)
class JudgedTurn:
    """An answered turn and what was found of it.

    Attributes:
        exact: The answer equals the ground truth, but for case and blanks around it.
        correct: Exact, or the judge says so; together with ``miss`` only under rules that take a right "I don't know" for both.
        semantic: The judge's verdict; None where it was not asked (exact or miss).
        reason: The judge's words.
        judge_failed: The judge gave no usable reply, and the answer counts as wrong for that.
        facts: What the data set says of the turn.
    """

    turn: AnsweredTurn
    exact: bool
    miss: bool
    correct: bool
    semantic: bool | None = None
    reason: str = ""
    judge_failed: bool = False
    facts: TurnFacts = field(default_factory=TurnFacts)

    @property
    def hallucination(self) -> bool:
        """Neither correct nor a miss."""
        return not self.correct and not self.miss

    @property
    def verdict(self) -> str:
        """``correct``, ``miss`` or ``hallucination``."""
        if self.correct:
            return "correct"
        return "miss" if self.miss else "hallucination"


class EvaluationError(RuntimeError):
    """The evaluation cannot go on; the message says why and what to do."""


class JudgeError(EvaluationError):
    """The judge cannot judge (no key, no server, no quota); what was judged so far is kept."""
