"""The record of a turn: the findings and times of each stage. One line of trace.jsonl.

Read by report, web page, server and calibration. All stages record their results under the same few names, so that these readers can
show any stage, custom ones included. Anything else that a stage records is a note, shown as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import TypeAdapter, ValidationError

from agents.base.files import first_fault, one_line, parse_json, shorten_name

VERSION = 2
"""Version of the record; lines of another version are refused."""

Status = Literal["ran", "reduced", "skipped", "failed", "hung"]

Cause = Literal["time", "hanging", "error"]
"""Why a stage did not run whole: the clock, a thread of an earlier call that still hangs in it, or an error."""


SearchKind = Literal["image", "web"]


class Unanswered(StrEnum):
    """Why a turn ended as "I don't know". The agent declined, or something failed on the way (``is_error``)."""

    NO_EVIDENCE = "no_evidence"  # nothing was found, and the model does not know by itself
    REFUSED = "refused"  # the model says that it does not know, or nothing at all
    WITHHELD = "withheld"  # a rule or the gate withheld the answer
    TIME = "time"  # what would have given the answer was cut short or left out
    MODEL = "model"  # a model failed, or ended without a word of its answer
    BUSY = "busy"  # a model's server was overloaded, broken or not there, however often it was tried
    SEARCH = "search"
    STAGE = "stage"  # a stage raised something else
    PICTURE = "picture"  # the photo could not be read
    AGENT = "agent"  # the agent raised, or returned no text

    @property
    def is_error(self) -> bool:
        """Whether something failed, rather than that the agent declined to answer."""
        return self not in (Unanswered.NO_EVIDENCE, Unanswered.REFUSED, Unanswered.WITHHELD)


DESCRIBES_PICTURE = "describes the picture"
"""Marks a field of ``StageRecord`` to leave out of traces without pictures (``trace.images``)."""

QUOTES_PROMPT = "quotes a prompt"
"""Marks a field of ``Exchange`` to leave out of traces without pictures or without questions: it may reveal both."""


# What an answer rests on, as ``StageRecord.answers`` names it.
OWN_KNOWLEDGE, FROM_EVIDENCE, RECONCILED = "own answer", "from evidence", "reconciled"
DRAFT, CANDIDATE = "draft", "candidate"

_MAX_DIGITS = 3  # of a percentage
_MAX_PULLS = 3  # signals that are named

ORIGINS: Mapping[str, str] = {
    "photo": "the photo",
    "graph": "the knowledge graph",
    "page": "a web page",
    "own": "the model's own knowledge",
    "computed": "a calculation",
}
"""Origins of an answer (``Decision.origin``) in words."""

FOLLOWS_ORDERS = "the answer follows an order found in the evidence"
"""``Decision.ruled_out`` of a candidate that nobody should be shown as an answer."""

UNSURE_NAME = "the picture search is not sure of the name"
"""``Decision.ruled_out`` of a candidate that names what was not surely recognised."""

REQUEST_IMAGES = "request_images"
"""Folder beside a file of records, for the pictures that they name (``trace.requests``): NAME.png."""

_MAX_PIXELS = 1e6  # of a box's edges: a box farther out is no place in a photo


class RecordError(ValueError):
    """A line is no record that can be read; the message says why."""


@dataclass(frozen=True)
class EvidenceFound:
    """A chunk of evidence.

    Attributes:
        source: kg, web, image or step (the result of an earlier step).
        score: The last reranker's, 0 to 1.
        changed: Whether its file changed after ``crag index`` read it.
    """

    text: str
    source: str = ""
    title: str = ""
    url: str = ""
    score: float | None = None
    changed: bool = False


@dataclass(frozen=True)
class BoxFound:
    """A region of the upright photo in pixels, with its name and the detector's confidence, 0 to 1."""

    left: float
    top: float
    right: float
    bottom: float
    label: str = ""
    score: float | None = None

    @property
    def is_drawable(self) -> bool:
        """Whether it has an area, and edges that are numbers a picture can have."""
        edges = (self.left, self.top, self.right, self.bottom)
        return all(abs(edge) <= _MAX_PIXELS for edge in edges) and self.left < self.right and self.top < self.bottom


@dataclass(frozen=True)
class PictureFound:
    """A picture of the image index: the names of the things in it, and its cosine.

    ``left_out`` says why its entity was not considered, however alike the picture is.
    """

    name: str
    score: float
    url: str = ""
    left_out: str = ""


@dataclass(frozen=True)
class Signal:
    """A number that may tell right answers from wrong ones; ``negative``: it is higher for wrong ones."""

    value: float
    negative: bool = False


@dataclass(frozen=True)
class SignalKind:
    """Signal that a stage declares (``Stage.signals``); a gate can be fitted to it and weighs it by its name.

    Attributes:
        name: Name in records and gates. Outside of this project STAGE.NAME keeps it apart from others.
        description: The measured quantity in a few words.
        negative: Whether it is higher for wrong answers.
    """

    name: str
    description: str
    negative: bool = False

    def entry(self, value: float) -> dict[str, Signal]:
        """Return a value of this signal as ``Turn.record`` takes it: ``turn.record(signals=SHARPNESS.entry(0.4))``."""
        return {self.name: Signal(float(value), self.negative)}


@dataclass(frozen=True)
class Decision:
    """Decision on the candidate answer.

    Attributes:
        candidate: The answer, given or withheld; None without one.
        given: Whether it was given.
        reason: Reason for withholding it.
        ruled_out: The unfitted rule that forbids it, if any.
        probability: Probability that it is right, by the gate; None without one, and for a refusal, which is not weighed.
        needed: The probability from which the gate lets an answer pass.
        direct: Whether the question was answered without looking at evidence.
        egocentric: Whether the photo was taken for one of smart glasses.
        origin: Origin of the candidate, a key of ``ORIGINS``; None if no stage and no evidence says it.
        pulls: How far each signal moved the gate's log-odds, the strongest first.
    """

    candidate: str | None
    given: bool
    reason: str | None = None
    ruled_out: str | None = None
    probability: float | None = None
    needed: float | None = None
    direct: bool = False
    egocentric: bool = False
    origin: str | None = None
    pulls: Mapping[str, float] = field(default_factory=dict)

    @property
    def origin_words(self) -> str:
        """Origin of the candidate in words; empty if unknown."""
        return ORIGINS.get(self.origin or "", "")

    @property
    def follows_orders(self) -> bool:
        """Whether it was ruled out because it obeys an order in retrieved text."""
        return self.ruled_out == FOLLOWS_ORDERS

    @property
    def sure(self) -> str:
        """Probability by the gate and the needed one, in words; empty without one."""
        return "" if self.probability is None or self.needed is None else sureness(self.probability, self.needed)

    @property
    def pulled(self) -> str:
        """Signals that pulled hardest the way it was decided, such as ``no entity -0.9, evidence score -0.4``; empty without a gate."""
        pulls = [(name, pull) for name, pull in self.pulls.items() if (pull > 0) == self.given and round(pull, 1)]
        shown = (f"{name.replace('_', ' ').replace('.', ' ')} {pull:+.1f}" for name, pull in pulls[:_MAX_PULLS])
        return "" if self.ruled_out is not None else ", ".join(shown)

    def __str__(self) -> str:
        """Format the decision: ``answered`` or ``abstained: REASON``, with the signals that pulled."""
        pulled = f" ({self.pulled})" if self.pulled else ""
        return f"answered{pulled}" if self.given else f"abstained: {self.reason}{pulled}"


def sureness(probability: float, threshold: float) -> str:
    """Format a probability and its threshold, with enough decimals to tell them apart.

    Example: ``21% sure, 50% needed``.
    """
    digits = 0
    while digits < _MAX_DIGITS and f"{probability:.{digits}%}" == f"{threshold:.{digits}%}":
        digits += 1
    return f"{probability:.{digits}%} sure, {threshold:.{digits}%} needed"


@dataclass(frozen=True)
class SentMessage:
    """A message as the model received it; its pictures, in a file the names of their PNG files."""

    role: str
    content: str
    images: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Exchange:
    """One request to a chat model and its reply.

    Attributes:
        prompt: Name of the template; ``form``: of the requested form of reply (``agents/asking/readers``).
        reply: Reply as it came; ``readable``: whether it keeps that form.
        finish_reason: ``stop``, ``length``, ``abort`` (deadline) or ``error``.
        seconds: Wall time of the batched call that it was part of.
        cached: Whether it came from the reply cache.
        tokens: Number of generated tokens, with the mean and minimum of their probabilities; None if the engine does not report them.
        usage: Number of tokens that a server read and wrote, if it says so.
        began: Unix time at which that call began. ``batch``: number of requests of the call.
        first_token_probs: See ``ChatReply``.
        prompt_cut: Number of tokens taken out of an over-long prompt.
        messages: The request as the model received it: pictures are in words for a model that cannot see. Files contain it, and whole
            replies, if ``trace.requests`` is set.
        read: Lines of text read in the first picture of the request, for a model that cannot see.
        no_answer: Whether there is no reply because the server was busy, silent or not there (``ChatReply.no_answer``).
        is_refusal: Whether there is no reply because the model declines to answer, which is no failure.
    """

    prompt: str
    form: str
    model: str
    reply: Annotated[str, QUOTES_PROMPT] = ""
    finish_reason: str = "stop"
    readable: bool = True
    seconds: float = 0.0
    cached: bool = False
    tokens: int | None = None
    mean_probability: float | None = None
    min_probability: float | None = None
    usage: tuple[int, int] | None = None
    began: float = 0.0
    batch: int = 1
    first_token_probs: Annotated[Mapping[str, float], QUOTES_PROMPT] = field(default_factory=dict)
    prompt_cut: int = 0
    error: str | None = None
    messages: Annotated[tuple[SentMessage, ...], QUOTES_PROMPT] = ()
    max_tokens: int | None = None
    temperature: float = 0.0
    seed: int | None = None
    schema: Mapping[str, Any] | None = None
    read: Annotated[tuple[str, ...], QUOTES_PROMPT] = ()
    no_answer: bool = False
    is_refusal: bool = False


@dataclass(frozen=True)
class StageRecord:
    """Record of one stage on one turn.

    Attributes:
        seconds: Wall time of the stage for the whole batch.
        began: Unix time at which it began.
        cause: Why it is not ``ran``; ``reason`` gives details that may quote an error.
        fault: Kind of failure: of a stage that failed or hung, or of one that ran although all of its searches failed.
        entity: Name of the thing that the photo is taken to show.
        nearest: The most similar thing, if the stage takes the photo to show nothing that was found.
        pictures: Results of image search, best first.
        searches: Searches that it made for this turn, in order; what is searched for in one batch is one search.
        answers: Possible answers by their basis (``OWN_KNOWLEDGE``, ``FROM_EVIDENCE``, ``DRAFT`` ...).
        checks: Results of verifiers, by name.
        signals: Signals by name; see ``Signal``.
        exchanges: Requests to chat models for this turn, in order.
        notes: Anything else, as JSON.
    """

    stage: str
    seconds: float = 0.0
    status: Status = "ran"
    cause: Cause | None = None
    reason: str | None = None
    entity: Annotated[str | None, DESCRIBES_PICTURE] = None
    nearest: Annotated[PictureFound | None, DESCRIBES_PICTURE] = None
    pictures: Annotated[tuple[PictureFound, ...], DESCRIBES_PICTURE] = ()
    boxes: Annotated[tuple[BoxFound, ...], DESCRIBES_PICTURE] = ()
    queries: tuple[str, ...] = ()
    searches: tuple[SearchKind, ...] = ()
    evidence: tuple[EvidenceFound, ...] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    checks: Mapping[str, bool | float | str] = field(default_factory=dict)
    signals: Mapping[str, Signal] = field(default_factory=dict)
    decision: Decision | None = None
    exchanges: tuple[Exchange, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    fault: Unanswered | None = None
    began: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether it ran, whole or with less to do."""
        return self.status in ("ran", "reduced")


def _list_marked_fields(kind: type, mark: str) -> frozenset[str]:
    hints = get_type_hints(kind, include_extras=True)
    return frozenset(name for name, hint in hints.items() if mark in getattr(hint, "__metadata__", ()))


PICTURE_FIELDS = _list_marked_fields(StageRecord, DESCRIBES_PICTURE)
"""Fields of ``StageRecord`` to leave out of traces without pictures."""

QUOTING_FIELDS = _list_marked_fields(Exchange, QUOTES_PROMPT)
"""Fields of ``Exchange`` to leave out of traces without pictures or without questions."""

_LISTED: Mapping[str, Any] = {"pictures": PictureFound, "boxes": BoxFound, "queries": str, "evidence": EvidenceFound}
_NAMED: Mapping[str, Any] = {"answers": str, "checks": bool | int | float | str, "signals": Signal}
_SINGLE: Mapping[str, Any] = {"entity": str, "nearest": PictureFound, "decision": Decision}

FINDINGS = frozenset({*_LISTED, *_NAMED, *_SINGLE})
"""Fields of ``StageRecord`` that a stage fills (``Turn.record``)."""


def finding(name: str, value: Any) -> Any:
    """Convert a value to the type of its field, and check it.

    None and non-finite signals are left out of mappings. The check takes place when a stage reports the
    value: a wrong one would otherwise fail its reader, the last stage or the page, and cost the answer.

    Raises:
        TypeError: There is no such name in ``FINDINGS``, or the value is of another type.
    """
    if name in _LISTED and isinstance(value, tuple | list):
        value = tuple(value)
        expected_type, parts = _LISTED[name], value
    elif name in _NAMED and isinstance(value, Mapping):
        value = {str(key): item for key, item in value.items() if item is not None}
        expected_type, parts = _NAMED[name], tuple(value.values())
    elif name in _SINGLE:
        expected_type, parts = _SINGLE[name], () if value is None else (value,)
    elif name in FINDINGS:
        raise TypeError(f"{name}: {'a mapping' if name in _NAMED else 'a tuple'} is wanted, not {type(value).__name__}")
    else:
        raise TypeError(f"{name}: no finding; known: {', '.join(sorted(FINDINGS))}")
    for part in parts:
        if not isinstance(part, expected_type):
            raise TypeError(
                f"{name}: {getattr(expected_type, '__name__', expected_type)} is wanted, not {type(part).__name__}"
            )
    return {key: item for key, item in value.items() if math.isfinite(item.value)} if name == "signals" else value


@dataclass(frozen=True)
class TurnRecord:
    """A turn from question to answer.

    Attributes:
        query: The query as it was asked; ``question``: rewritten to stand alone.
        seconds: Wall time of the call that it was part of.
        began: Unix time at which that call began.
        batch: Number of that call, counted by whoever writes the file; ``turn``: its place in the call.
        session_id: Session of the data set, if an evaluation asked; with ``interaction_id`` it identifies the turn.
        unanswered: Why the answer is "I don't know"; None for an answered turn (``agents.unanswered``).
        photo: Name of its PNG file. It and ``history``, the earlier messages, are only there if requests are recorded (``trace.requests``).
    """

    query: str = ""
    question: str = ""
    answer: str = ""
    stages: tuple[StageRecord, ...] = ()
    error: str | None = None
    seconds: float = 0.0
    batch: int = 0
    turn: int = 0
    session_id: str = ""
    interaction_id: str = ""
    photo: str | None = None
    history: tuple[SentMessage, ...] = ()
    unanswered: Unanswered | None = None
    began: float = 0.0
    version: int = VERSION

    @property
    def key(self) -> tuple[str, str]:
        """Session and interaction."""
        return self.session_id, self.interaction_id

    @property
    def was_cut_short(self) -> bool:
        """Whether a stage did not run because of the clock: on a slow or busy machine that is no fault of the method."""
        return any(not stage.complete and stage.cause in ("time", "hanging") for stage in self.stages)

    @property
    def entity(self) -> str | None:
        """Entity that the photo is taken to show, by the last stage that decided it; None if that stage recognised nothing."""
        return next((stage.entity for stage in reversed(self.stages) if stage.entity or stage.nearest), None)

    @property
    def nearest(self) -> PictureFound | None:
        """Most similar picture if nothing was recognised."""
        return next((stage.nearest for stage in reversed(self.stages) if stage.entity or stage.nearest), None)

    @property
    def pictures(self) -> tuple[PictureFound, ...]:
        """Results of image search."""
        return next((stage.pictures for stage in reversed(self.stages) if stage.pictures), ())

    @property
    def boxes(self) -> tuple[BoxFound, ...]:
        """Regions of the photo that can be drawn."""
        stage_boxes = (tuple(box for box in stage.boxes if box.is_drawable) for stage in reversed(self.stages))
        return next((boxes for boxes in stage_boxes if boxes), ())

    @property
    def queries(self) -> tuple[str, ...]:
        """Queries of the web search."""
        return next((stage.queries for stage in reversed(self.stages) if stage.queries), ())

    @property
    def searches(self) -> tuple[SearchKind, ...]:
        """Searches of all stages, in order."""
        return tuple(kind for stage in self.stages for kind in stage.searches)

    @property
    def evidence(self) -> tuple[EvidenceFound, ...]:
        """Evidence kept last."""
        return next((stage.evidence for stage in reversed(self.stages) if stage.evidence), ())

    @property
    def decision(self) -> Decision | None:
        """The last stage's."""
        return next((stage.decision for stage in reversed(self.stages) if stage.decision), None)

    @property
    def origin(self) -> str | None:
        """Origin of the given answer in words; None if none was given, or if nothing says it."""
        decision = self.decision
        return (decision.origin_words or None) if decision is not None and decision.given else None

    @property
    def answers(self) -> dict[str, str]:
        """Possible answers by their basis."""
        return {basis: text for stage in self.stages for basis, text in stage.answers.items()}

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Requests and replies of all stages, in order."""
        return tuple(exchange for stage in self.stages for exchange in stage.exchanges)

    @property
    def read(self) -> tuple[str, ...]:
        """Lines of text read in the photo; none if the model itself sees."""
        return next((exchange.read for exchange in self.exchanges if exchange.read), ())

    @property
    def checks(self) -> dict[str, bool | float | str]:
        """Results of all verifiers, by name."""
        return {name: result for stage in self.stages for name, result in stage.checks.items()}

    @property
    def signals(self) -> dict[str, Signal]:
        """Signals of all stages, by name."""
        return {name: signal for stage in self.stages for name, signal in stage.signals.items()}

    def get_note(self, name: str) -> Any:
        """Return the latest note with this name, or None."""
        return next((stage.notes[name] for stage in reversed(self.stages) if name in stage.notes), None)

    def as_json(self) -> dict[str, Any]:
        """Convert the record to plain values, with only those fields of a stage that say something.

        It is written by hand because ``dataclasses.asdict`` takes most of a turn's own time.
        """
        return {
            **vars(self),
            "history": _plain(self.history),
            "stages": [_serialise_stage(stage) for stage in self.stages],
        }


def _serialise_stage(stage: StageRecord) -> dict[str, Any]:
    return {name: _plain(value) for name, value in vars(stage).items() if name in _ALWAYS or not _empty(value)}


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, tuple | list | Mapping) and not value)


def _plain(value: Any) -> Any:
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    if isinstance(value, Exchange):
        return {name: _plain(inner) for name, inner in vars(value).items() if not _empty(inner)}
    return {**vars(value)} if isinstance(value, _PARTS) else value


_ALWAYS = frozenset({"stage", "seconds", "status"})
_PARTS = (EvidenceFound, BoxFound, PictureFound, Signal, Decision, SentMessage)
_RECORD = TypeAdapter(TurnRecord)


def read_record(line: Mapping[str, Any] | str) -> TurnRecord:
    """Parse a line of trace.jsonl.

    Raises:
        RecordError: The line is no record, or one of another version.
    """
    try:
        content = parse_json(line) if isinstance(line, str) else line
    except ValueError as error:
        raise RecordError(f"it is no JSON ({one_line(error)})") from error
    if not isinstance(content, Mapping):
        raise RecordError("it is no JSON object")
    version = content.get("version", 1)
    if version != VERSION:
        version_name = shorten_name(str(version))
        raise RecordError(
            f"it has version {version_name} of the record, this program reads {VERSION}; make the run again"
        )
    try:
        return _RECORD.validate_python(content)
    except ValidationError as error:
        raise RecordError(first_fault(error)) from error
