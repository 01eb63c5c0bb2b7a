"""Data classes that the packages of the evaluation exchange: questions, answers, costs, verdicts. And the errors of the evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictStr

from agents.record import Unanswered

I_DONT_KNOW = "I don't know"
"""The answer that counts as a miss in both releases of the organiser's evaluation."""

MAX_ANSWER_TOKENS = 75
"""The evaluator cuts every answer at this many Llama-3.2 tokens, the one that begins the text among them (both releases)."""

DEFAULT_REVISION = "v0.1.2"
"""Newest known revision of the public data sets."""

REPLIES = "replies"
"""Folder of model replies below ``--cache``: the judges', and the agent's if ``--reply-cache`` names no folder."""

Key = tuple[str, str]
"""Identifies a turn: session_id and interaction_id."""


LABELS = ("domain", "query_category", "dynamism", "image_quality")
"""Label columns of a turn."""


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
        image_url: Address of the image, for rows that carry none. None marks an egocentric image. "" marks an image without an
            address that does not count as egocentric (the organiser's releases).
    """

    session_id: str
    turns: tuple[QuestionTurn, ...]
    row: int = 0
    image_url: str | None = None

    @property
    def is_ego(self) -> bool:
        """Whether the image is egocentric, which means that it has no ``image_url``."""
        return self.image_url is None


ANSWER_KINDS = ("its name", "one attribute", "anything else")
"""Kinds of answers that are reported apart."""


@dataclass(frozen=True)
class GoldStep:
    """A search that an answer needs: ``target`` is the name of a thing in the graph (``image``) or the URL of a page (``web``)."""

    search: Literal["image", "web"]
    target: str


@dataclass(frozen=True)
class TurnFacts:
    """Facts that a data set states about a turn (``content_ids.json``); None for unknown ones.

    Attributes:
        same_photo: Whether the image index has the picture's source photograph.
        answerable: Whether the image and web indices answer the question.
        source: Where the answer is found: ``kg``, ``web``, ``both``, ``image`` or ``nowhere``.
        hops: Steps from the picture to the answer.
        identity: Whether the name of the depicted thing is an accepted answer.
        steps: Searches that the answer needs, in order.
    """

    same_photo: bool | None = None
    answerable: bool | None = None
    source: str | None = None
    hops: int | None = None
    identity: bool | None = None
    steps: tuple[GoldStep, ...] | None = None

    @property
    def one_attribute(self) -> bool | None:
        """Whether one attribute of the depicted entity is the answer; None if unknown."""
        return None if self.source is None or self.hops is None else self.source == "kg" and self.hops == 1

    @property
    def answer_kind(self) -> str | None:
        """Kind of the answer, one of ``ANSWER_KINDS``; None if unknown."""
        if self.identity:
            return ANSWER_KINDS[0]
        if self.one_attribute:
            return ANSWER_KINDS[1]
        return None if self.identity is None and self.one_attribute is None else ANSWER_KINDS[2]


@dataclass(frozen=True)
class AnsweredTurn:
    """A line of response.jsonl, in the organiser's fields and order.

    ``agent_response`` is the answer after truncation; ``interaction_id_history`` has the ids of the earlier turns.
    ``error_cause`` names the failure of a turn without an answer (a value of ``agents.record.Unanswered``); its text is "I don't know".
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
    error_cause: str | None = None

    @property
    def key(self) -> Key:
        """Identifier of the turn."""
        return self.session_id, self.interaction_id

    def to_dict(self) -> dict[str, Any]:
        """Return the organiser's fields as JSON-ready values, in the order of the file."""
        return {name: value for name, value in asdict(self).items() if name != "error_cause"}

    def to_line(self) -> dict[str, Any]:
        """Return the line of response.jsonl: the organiser's fields, and the cause of an error."""
        return self.to_dict() | ({} if self.error_cause is None else {"error_cause": self.error_cause})


def make_answered_turn(session: Session, turn: QuestionTurn, response: str) -> AnsweredTurn:
    """Make the line of response.jsonl for a turn of a session and the response to it."""
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


def index_questions(sessions: Iterable[Session]) -> dict[Key, AnsweredTurn]:
    """Index the turns of sessions by key, as lines of response.jsonl without an answer."""
    turns = (make_answered_turn(session, turn, "") for session in sessions for turn in session.turns)
    return {turn.key: turn for turn in turns}


def has_question(turn: AnsweredTurn, question: AnsweredTurn | None) -> bool:
    """Return whether a saved answer has the words and the truth of a data set's question, if there is one."""
    return question is not None and (turn.query, turn.ground_truth) == (question.query, question.ground_truth)


def count_strange(turns: Iterable[AnsweredTurn], questions: Mapping[Key, AnsweredTurn]) -> tuple[int, int]:
    """Count the saved answers to unknown questions, and those whose question has other words or another truth."""
    sources = [(turn, questions.get(turn.key)) for turn in turns]
    num_unknown = sum(question is None for _, question in sources)
    return num_unknown, sum(not has_question(*each) for each in sources) - num_unknown


def place_turn(turn: AnsweredTurn, question: AnsweredTurn) -> AnsweredTurn:
    """Copy turn index, dialog length and the egocentric flag from the data set's question.

    Answers without labels are in any order, and "not egocentric" is only their default.
    """
    return replace(turn, is_ego=question.is_ego, turn_idx=question.turn_idx, total_turn_count=question.total_turn_count)


_DECLINED = frozenset(cause.value for cause in Unanswered if not cause.is_error)

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class RunLogLine:
    """Cost of asking one turn.

    Attributes:
        batch: Number of the batch within its process, from 0, as the agent counts its calls.
        turn: Position within the batch.
        seconds: Wall time of the call divided by the turns in it.
        batch_seconds: Wall time of the call.
        error: Why "I don't know" replaced the agent's answer, or None.
        cause: Why the answer is "I don't know", a value of ``agents.record.Unanswered``; None for an answered turn, and for
            one that an agent without records declines.
        image_note: Why there was no image, or None.
        reply_hits: Chat model replies of this call that came from a reply cache; None for a run without one.
        reply_misses: Replies that the cache did not have.
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
    cause: str | None = None

    @property
    def error_cause(self) -> str | None:
        """Cause of an error; None for other turns."""
        return None if self.cause in _DECLINED else self.cause

    @property
    def key(self) -> Key:
        """Identifier of the turn."""
        return self.session_id, self.interaction_id


@dataclass(frozen=True)
class JudgeItem:
    """Input of a judge for one turn; ``accept`` has short right answers if the data set has some."""

    query: str
    ground_truth: str
    response: str
    accept: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """Decision of a judge with its reason.

    Attributes:
        failed: Whether the judge gave no usable reply, so that the answer counts as wrong.
    """

    correct: bool
    reason: str = ""
    failed: bool = False


@dataclass(frozen=True)
class JudgedTurn:
    """An answered turn with its verdict.

    Attributes:
        exact: Whether the answer equals the ground truth but for case and surrounding blanks.
        correct: Whether the answer is exact or the judge calls it right. Together with ``miss`` only under rules that count a right
            "I don't know" as both.
        semantic: The judge's verdict; None if it was not asked (exact or miss).
        reason: The judge's words.
        judge_failed: Whether the judge gave no usable reply, so that the answer counts as wrong.
        facts: Facts of the data set about the turn.
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
        """Whether the answer is neither correct nor a miss."""
        return not self.correct and not self.miss

    @property
    def verdict(self) -> str:
        """``error``, ``unjudged``, ``correct``, ``miss`` or ``hallucination``.

        Scores count an error by its text, and an unjudged answer as wrong.
        """
        if self.turn.error_cause is not None:
            return "error"
        if self.judge_failed:
            return "unjudged"
        if self.correct:
            return "correct"
        return "miss" if self.miss else "hallucination"


class EvaluationError(RuntimeError):
    """Failure that ends the evaluation; the message says why and what to do.

    Attributes:
        exit_status: Exit status of a command that it ends.
    """

    exit_status = 2


class JudgeError(EvaluationError):
    """Failure of the judge (no key, no server, no quota); earlier judgements are kept."""


class NoVerdictError(JudgeError):
    """Failure of a judge that can be asked, and judges nothing."""

    exit_status = 1
