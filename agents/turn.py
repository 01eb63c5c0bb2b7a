"""The state of one question on its way through the stages. ``Stage.fills`` names the fields that a stage sets."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from statistics import fmean
from typing import Any, Literal

from PIL import Image

from agents.base_agent import Message
from agents.models.base import Box, Detection
from agents.record import Cause, Exchange, PictureFound, SearchKind, Signal, StageRecord, Status, Unanswered, finding
from agents.search.hits import Entity, ImageHit, WebHit
from agents.search.provided_context import ProvidedContext
from agents.texts.page_structure import Piece

IDK = "I don't know"  # the abstention of the challenge: it scores 0, a wrong answer -1

EGOCENTRIC = (960, 1280)
"""Pixels of the photos of smart glasses as the research release passes them; task 2's winner (NVIDIA) tells them by it."""

Source = Literal["kg", "web", "step", "photo"]

Position = Literal["left", "right", "top", "bottom", "middle"]  # a place that a question names


Origin = Literal["photo", "graph", "page", "own", "computed"]
"""Origin of an answer: the photo, the image knowledge graph, a web page, the model's own knowledge, or a calculation by code."""


@dataclass(frozen=True)
class SubFinding:
    """One step of the decomposed question, and whether the answer holds for it."""

    question: str
    supported: bool


@dataclass(frozen=True)
class ChainOfVerification:
    """Verdict of the verifier on an answer."""

    confidence: float | None = None  # 0 to 1; None where it cannot be read
    reasoning: str = ""  # why
    findings: tuple[SubFinding, ...] = ()  # the sub-questions with their findings, as far as the reply goes


Fault = Literal["no such document", "not supported"]


@dataclass(frozen=True)
class DroppedCitation:
    """A removed citation, and why."""

    number: int
    fault: Fault


@dataclass(frozen=True)
class CitedSentence:
    """A sentence of an answer and the documents that it cites; after a check, those that passed it or were found for it."""

    text: str  # without markers
    citations: tuple[int, ...] = ()  # in the order in which it names them, each once
    dropped: tuple[DroppedCitation, ...] = ()  # those that failed the check
    found: bool = False  # whether the citations were found afterwards instead of written by the model


@dataclass(frozen=True)
class CutPage:
    """A page cut along its structure."""

    name: str
    url: str
    pieces: tuple[Piece, ...]  # in reading order


@dataclass(frozen=True)
class Evidence:
    """One chunk that may answer the question."""

    text: str  # the chunk as the models read it, free of markup
    source: Source  # the image knowledge graph, a web page, an earlier step that a model answered, or text in the photo
    title: str  # entity or page name
    url: str = ""  # of the page or of the entity's picture
    retrieval: float = 0.0  # cosine of the search that found it, 0 to 1
    score: float | None = None  # score by the last reranker, 0 to 1; None before reranking
    key: str | None = None  # attribute name, for a chunk made of one attribute
    value: str | None = None  # its value, where a prompt shows all attributes of an entity as one passage
    beside: bool = False  # whether it comes from a full page, outside of the passage that the search returned
    # The page that it is from, which a prompt may show more of (``agents/evidence/growth.py``), and the pieces that it has of it
    page: CutPage | None = field(default=None, compare=False, repr=False)
    places: tuple[int, ...] = ()

    def with_score(self, score: float) -> Evidence:
        """Copy the chunk with a reranker's score."""
        return replace(self, score=score)


@dataclass(frozen=True)
class Candidate:
    """A possible answer."""

    text: str  # the answer
    confidence: float | None  # how far its model trusts it, 0 to 1 (mean token probability); None where it cannot say
    # Natural log-probabilities of the generated tokens, where the model gives them
    logprobs: tuple[float, ...] | None = None
    # Probability that the reply would have begun with "I don't know"; None where the model gives no alternatives, or
    # reasons first
    idk: float | None = None
    reasoning: str = ""  # the model's reasoning; empty where it answers at once
    drafted: bool = False  # whether it is the draft, which no evidence was shown to
    computed: bool = False  # whether code worked it out from a calculation in the photo, without a model
    stepwise: bool = False  # whether several steps led to it, each with evidence of its own
    origin: Origin | None = None  # its origin, where known


@dataclass(frozen=True)
class Draft:
    """The model's answer to the question from the picture alone, with its reasoning (QA-Dragon, section 3.1.2)."""

    steps: tuple[str, ...]  # the reasoning, a sentence a step
    # The exact object the question is about, as the first step names it; None where it names none
    object_name: str | None
    answer: str  # the provisional answer
    # Natural log-probabilities of the generated tokens, where the model gives them
    logprobs: tuple[float, ...] | None = None

    @property
    def reasoning(self) -> str:
        """The steps as one text."""
        return " ".join(self.steps)


Route = Literal["direct", "verify", "rag"]
"""The branches of QA-Dragon (table 1): give the draft, verify it against evidence, or answer from evidence."""


@dataclass(frozen=True)
class Tools:
    """Which searches a question needs (QA-Dragon, section 3.3)."""

    image: bool = True
    text: bool = True


Needs = Literal["picture", "entity", "web", "both", "now"]
"""Needs of a question: nothing but the picture, to know what is shown, a fact of the world about what is known already, both, or news.

A model that sees tells three of them: ``picture``, ``both`` (a search) and ``now``.
"""


@dataclass(frozen=True)
class Thing:
    """A thing in the picture that a question is about, as a first look names it."""

    phrase: str  # a few words that tell it from the rest of the picture
    position: Position | None = None  # its place, where that tells it from others like it
    name: str | None = None  # its exact name, where it is recognised or can be read
    box: Box | None = (
        None  # in pixels of the picture, where a vision model draws one that its place does not contradict
    )


@dataclass(frozen=True)
class Look:
    """Result of a first look at picture and question."""

    needs: Needs | None  # None where it does not say
    things: tuple[Thing, ...] = ()  # the one that the question is mostly about comes first
    queries: tuple[str, ...] = ()  # for the web, a fact each, understandable without the picture
    question: str | None = None  # the standalone question, where it depends on the dialog
    by_model: bool = False  # whether a model that sees looked; no rule over words decides then

    @property
    def object(self) -> str | None:
        """Phrase of the first thing."""
        return self.things[0].phrase if self.things else None

    @property
    def name(self) -> str | None:
        """Exact name of the first thing."""
        return self.things[0].name if self.things else None

    @property
    def names(self) -> tuple[str, ...]:
        """Exact names of all things that have one, each once."""
        return tuple(dict.fromkeys(thing.name for thing in self.things if thing.name))


@dataclass(frozen=True)
class Target:
    """Topic of a question."""

    objects: tuple[str, ...] = ()  # names of the objects that could matter, at most three words each
    phrase: str | None = None  # the one that the question is about; None where it says none
    position: Position | None = None  # left, right, top, bottom or middle, where the question says it
    kind: str | None = None  # kind of the thing that the question points at (``agents/english/thing_kinds.toml``)


@dataclass(frozen=True)
class View:
    """The whole image (``region`` None) or a crop of it, and the pictures that a search with it found."""

    region: Detection | None
    hits: tuple[ImageHit, ...]


@dataclass(frozen=True)
class Verification:
    """Results of the verifiers on the candidate answer; None if one was not asked or could not tell."""

    white_box: bool | None = None  # by the probabilities of its tokens (QA-Dragon, section 3.7.2)
    model: bool | None = None  # by a model that reads answer and evidence (same section)
    reason: str = ""  # why the model says so
    # Probability of its yes against its no, where it replies with one word and gives alternatives
    p_yes: float | None = None
    draft: bool | None = None  # whether the answer agrees with the draft made before any search


@dataclass(frozen=True)
class SourceVotes:
    """Votes of the sources, each asked alone: for the candidate, and for the other answer that most of them agree on."""

    supporting: int = 0
    opposing: int = 0
    rival: str | None = None  # that other answer

    @property
    def lead(self) -> int:
        """Votes by which the candidate is ahead of the best other answer; negative if it is behind."""
        return self.supporting - self.opposing


@dataclass(frozen=True)
class KnowledgeEntry:
    """An entry of the knowledge base as CoRe-MMRAG (section 3.1) sees it: a picture V and a text T about the thing in it."""

    title: str  # name of the entity
    text: str  # what is known of it
    url: str  # of the picture
    entity: Entity  # the entity as the image knowledge graph has it
    visual: float = 0.0  # cosine of the picture to the question's picture
    textual: float = 0.0  # the reranker's score of the text against the question
    image: Image.Image | None = None  # the picture; None where it is not available


LabelledPicture = tuple[str, Image.Image]
"""A picture that a prompt shows beside the photo, with the name of the thing in it."""


@dataclass
class Turn:
    """One question of a batch, from the evaluator's three arguments to the answer.

    The first block is given, the rest is filled by the stages (``python -m agents.stages`` lists them). ``trace`` holds one entry a stage.
    A stage replaces fields and never changes their values in place, so that a snapshot stays as it is.
    """

    query: str
    image: Image.Image | None
    history: tuple[Message, ...] = ()
    provided: ProvidedContext | None = None  # the evaluator's own hits (research release)

    question: str = ""  # the standalone query
    needs_image: bool = True
    is_named: bool = False  # whether evidence stands for the photo in prompts, because it says what it shows
    pointing: str = ""  # the thing that an earlier question of the dialog pointed at, if this one is still about it
    domain: str | None = None  # given where the evaluator says it
    look: Look | None = None
    draft: Draft | None = None
    route: Route = "rag"
    needs_external: bool | None = None
    real_time: bool | None = None
    tools: Tools = Tools()
    summary: str = (
        ""  # a sentence on the picture with the question in mind, or the text in it that the question is about
    )
    target: Target = Target()
    regions: tuple[Detection, ...] = ()  # boxes worth a search of their own, best first
    views: tuple[View, ...] = ()  # the whole image and each region
    image_hits: tuple[ImageHit, ...] = ()  # fused over the views
    entity: Entity | None = None  # the entity the question is taken to be about
    entity_score: float = 0.0  # cosine of the hit that named the entity
    nearest: PictureFound | None = None  # the most similar entity where nothing was recognised
    alike: tuple[PictureFound, ...] = ()  # hits of picture search in the photo and its crops, the best of each first
    entities: tuple[Entity, ...] = ()  # those recognised, best first, where the question is about several objects
    sure_entities: tuple[Entity, ...] = ()  # of all that is recognised, what is so surely
    hops: tuple[str, ...] = ()  # a multi-hop question with the thing it goes through named
    queries: tuple[str, ...] = ()
    web_hits: tuple[WebHit, ...] = ()
    evidence: tuple[Evidence, ...] = ()  # best first; each reranker replaces it by its selection
    knowledge: Mapping[Evidence, str] = field(default_factory=dict)  # what a document says taken by itself
    entries: tuple[KnowledgeEntry, ...] = ()  # best picture first
    chosen: KnowledgeEntry | None = None  # the entry that picture and text together point to
    close_ups: tuple[LabelledPicture, ...] = ()  # enlarged parts of the photo that answer and check are shown
    entity_picture: LabelledPicture | None = None  # the knowledge graph's picture of the entity, likewise
    shown: tuple[Evidence, ...] = ()  # the chunks that the candidate was made from, which verifiers read too
    parametric: Candidate | None = None  # the answer without any evidence
    candidate: Candidate | None = None
    consistent: bool | None = None  # whether candidate and parametric answer agree
    chain: ChainOfVerification | None = None
    verification: Verification = Verification()
    votes: SourceVotes | None = (
        None  # of the sources, each asked alone; None where there is one source or none was asked
    )
    cited: tuple[CitedSentence, ...] | None = None  # the given sentences; None where none were checked
    answer: str = IDK

    error: str | None = None
    records: list[StageRecord] = field(default_factory=list)
    _notes: dict[str, Any] = field(default_factory=dict, repr=False)
    _findings: dict[str, Any] = field(default_factory=dict, repr=False)
    _exchanges: list[Exchange] = field(default_factory=list, repr=False)
    _fault: Unanswered | None = field(default=None, repr=False)

    def snapshot(self) -> Turn:
        """Copy the turn as it is now.

        Setting an attribute of one does not change the other. Pictures and evidence are shared.
        """
        clone = copy.copy(self)
        clone.records, clone._notes, clone._findings = list(self.records), dict(self._notes), dict(self._findings)
        clone._exchanges = list(self._exchanges)
        return clone

    @property
    def asked_without_picture(self) -> bool:
        """True if no picture came with the question; one that could not be read, or that the evaluator searched with, did."""
        return self.image is None and self.error is None and self.provided is None

    @property
    def egocentric(self) -> bool:
        """Whether the picture is one of smart glasses, by its size."""
        return self.image is not None and self.image.size == EGOCENTRIC

    @property
    def hits(self) -> tuple[ImageHit, ...]:
        """Pictures that the searches with the photo and its crops found; one may be in it several times."""
        return (*self.image_hits, *(hit for view in self.views for hit in view.hits))

    def shown_entities(self, minimum: float = -1.0) -> tuple[Entity, ...]:
        """Return the entities that the picture is taken to show, from a cosine of ``minimum`` on.

        The cosine is that of the entity's best picture.
        """
        entities = self.entities or ((self.entity,) if self.entity is not None else ())
        return tuple(entity for entity in entities if self.measure_cosine(entity) >= minimum)

    def measure_cosine(self, entity: Entity) -> float:
        """Return the cosine of the entity's best picture; -1 without one."""
        if self.entity is not None and entity.name == self.entity.name:
            return self.entity_score
        named = [hit.score for hit in self.hits if any(other.name == entity.name for other in hit.entities)]
        return max(named, default=-1.0)

    def measure_lead(self, entity: Entity) -> float | None:
        """Return how far the entity's best picture leads the mean of the other entities' pictures that the same search found.

        A photo of something that the graph lacks is about as like several of its pictures, whatever their cosines. The search that found
        the entity with the highest cosine counts.

        Returns:
            A difference of cosines; infinite if all of several pictures are the entity's; None if it was found alone, or not at all.
        """
        best: tuple[float, float] | None = None
        for hits in [view.hits for view in self.views] or [self.image_hits]:
            own = [hit.score for hit in hits if any(other.name == entity.name for other in hit.entities)]
            others = [hit.score for hit in hits if all(other.name != entity.name for other in hit.entities)]
            if own and len(hits) > 1:
                score = max(own)
                best = max(best or (-1.0, 0.0), (score, score - fmean(others) if others else inf))
        return None if best is None else best[1]

    def names_shown(self, minimum: float = -1.0) -> tuple[str, ...]:
        """Names of the things in the picture: of the entities found (see ``shown_entities``), else what a first look says."""
        names = tuple(entity.name for entity in self.shown_entities(minimum))
        things = self.look.things if self.look is not None else ()
        if len(things) > 1 and len(names) < len(things):
            return tuple(dict.fromkeys((*names, *(thing.name for thing in things if thing.name))))
        return names or tuple(thing.name or thing.phrase for thing in things[:1])

    @property
    def grounded_question(self) -> str:
        """Question with the names of the things shown, if it is about the picture."""
        return self.naming(self.names_shown())

    def naming(self, names: Sequence[str]) -> str:
        """Add names to a question about the picture, except those that it contains already."""
        added = [name for name in names if name.lower() not in self.question.lower()]
        return f"{self.question} ({', '.join(added)})" if added and self.is_about_photo else self.question

    @property
    def is_about_photo(self) -> bool:
        """Whether the question is about something in its photo; a look that names no thing says that it is not."""
        is_elsewhere = self.look is not None and self.look.by_model and not self.look.things
        return self.needs_image and not (is_elsewhere and self.look is not None and self.look.needs != "picture")

    @property
    def entity_name(self) -> str | None:
        """Name of the entity that the question is taken to be about."""
        return None if self.entity is None else self.entity.name

    def search_text(self, *, entity: bool, summary: bool, minimum: float = -1.0) -> str:
        """Build the text for searches and rerankers: the question, with what is asked for (CRUISE, eq. 2).

        Args:
            entity: Whether to add the name of the thing shown.
            summary: Whether the summary is added.
            minimum: Cosine from which an entity is named.
        """
        question = self.naming(self.names_shown(minimum)) if entity else self.question
        return f"{question} {self.summary}" if summary and self.summary else question

    @property
    def values(self) -> dict[str, Any]:
        """Values of the turn that any prompt may show, as arguments of ``Prompt.request``."""
        image = None if self.is_named else self.image
        inputs: dict[str, Any] = {"image": image, "question": self.question, "history": self.history}
        recognised = [(entity.name, round(self.measure_cosine(entity), 2)) for entity in self.shown_entities()]
        named = self.look.names if self.look is not None else ()
        shown = {entity for entity, _ in recognised}
        return {
            **inputs,
            "entity": self.entity_name,
            "recognised": recognised,
            "alike": [(it.name, round(it.score, 2)) for it in self.alike if it.name not in shown],
            "by_eye": [name for name in named if name not in shown],
            "evidence": self.shown,
            "queries": self.queries,
            "entries": self.entries,
        }

    def choose(self, index: int) -> None:
        """Choose an entry; the entity that it shows becomes the entity of the question."""
        self.chosen = self.entries[index]
        self.entity, self.entity_score = self.chosen.entity, self.chosen.visual

    @property
    def evidence_questions(self) -> tuple[str, ...]:
        """Questions that evidence is ranked against: hops, else the question with its entity; and the queries of a look.

        A reranker that reads the question alone cannot know the findings of a look, such as the title of a book.
        """
        queries = self.look.queries if self.look is not None else ()
        return (*(self.hops or (self.grounded_question,)), *queries)

    def record(self, **findings: Any) -> None:
        """Record the findings of the running stage, by the fields of ``StageRecord``: report, page, server and calibration show it.

        Answers, checks and signals add to those that the stage recorded before; of other fields the last value counts.

        Raises:
            TypeError: A name is not one of ``FINDINGS``, or a value has another type.
        """
        for name, value in findings.items():
            field_value = finding(name, value)
            self._findings[name] = (
                {**self._findings.get(name, {}), **field_value} if isinstance(field_value, Mapping) else field_value
            )

    def count_search(self, kind: SearchKind) -> None:
        """Record that the running stage searched for this turn, with one or several queries at once."""
        self._findings["searches"] = (*self.searches, kind)

    @property
    def searches(self) -> tuple[SearchKind, ...]:
        """Searches that the running stage made for this turn."""
        made: tuple[SearchKind, ...] = self._findings.get("searches", ())
        return made

    def note(self, **notes: Any) -> None:
        """Note anything else that the running stage saw or chose: JSON, or pictures, which a trace of requests names."""
        self._notes.update(notes)

    def get_note(self, name: str) -> Any:
        """Return the running stage's note under a name, or None."""
        return self._notes.get(name)

    def keep(self, exchange: Exchange) -> None:
        """Record a request of the running stage to a chat model for this turn."""
        self._exchanges.append(exchange)

    @property
    def fault(self) -> Unanswered | None:
        """Kind of the failure in the running stage."""
        return self._fault

    def mark_fault(self, fault: Unanswered | None) -> None:
        """Record that what the running stage needs for this turn failed, though the stage itself goes on; None changes nothing."""
        self._fault = fault or self._fault

    @property
    def signals(self) -> dict[str, Signal]:
        """Signals of the stages that may separate right answers from wrong ones."""
        closed = (signal for record in self.records for signal in record.signals.items())
        return {**dict(closed), **self._findings.get("signals", {})}

    def close_stage(
        self,
        stage: str,
        seconds: float,
        status: Status = "ran",
        cause: Cause | None = None,
        reason: str | None = None,
        fault: Unanswered | None = None,
        began: float = 0.0,
    ) -> None:
        """Append the record of a stage that has ended or did not run (``StageRecord``)."""
        notes = {name: value for name, value in self._notes.items() if value is not None}
        exchanges = tuple(self._exchanges)
        closed = StageRecord(
            stage,
            round(seconds, 4),
            status,
            cause,
            reason,
            **self._findings,
            exchanges=exchanges,
            notes=notes,
            fault=fault or self._fault,
            began=round(began, 4),
        )
        self.records.append(closed)
        self._notes, self._findings, self._exchanges, self._fault = {}, {}, [], None


def select_with_image(turns: Sequence[Turn]) -> list[tuple[Turn, Image.Image]]:
    """Select the turns whose question needs their image, each with the image; skip those without one."""
    return [(turn, turn.image) for turn in turns if turn.needs_image and turn.image is not None]
