"""What a stage is, what it is given, and how one is found by its name."""

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast

from PIL import Image
from pydantic import Field

from agents.asking.ask import Answer, Ask, Question, put
from agents.asking.prompts import PromptLibrary
from agents.base.named import ImportPath, import_module, import_object, look_up
from agents.english.step_plans import remove_qualifier
from agents.evidence.passages import CHARACTERS_PER_TOKEN
from agents.evidence.shown import DEFAULT_TOKENS, select_chunks
from agents.methods.thing_regions import find_small_things
from agents.models.base import ModelError
from agents.models.vision.boxes import crop
from agents.models.vision.montage import montage
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Limits, SettingsError, Table
from agents.record import SignalKind
from agents.search.gateway import SearchGateway
from agents.texts.text import has_words
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from agents.turn import Evidence, LabelledPicture, Turn

STAGES = Path(__file__).resolve().parent / "stages"

PAPERS: Mapping[str, tuple[str, ...]] = {
    "qa_dragon": ("domain", "draft"),
    "cruise": ("summarise", "dual_answer", "consistency", "chain_of_verification"),
    "core_mmrag": (
        *("entries", "parametric_answer", "choose_entry", "entry_answer", "reconcile"),
        *("four_steps", "entries_answer"),
    ),
    "coherence": ("coherence", "modality_answers"),
    "mavis": ("documents", "knowledge", "cited_answer"),
    "nvidia": ("relevance",),
}
"""The names of the stages in each module of ``agents/papers``; a module is imported when one of them is asked for."""

_MAX_NAMED = 5  # entities that a single fact may name

PHOTO_LABEL = "Photo"  # label above the question's photo on a sheet of several pictures

Kind = Literal["ordinary", "answers", "verifies", "decides"]
Cosine = Annotated[float, Field(ge=-1, le=1)]
T = TypeVar("T")


class StageOptions(Table):
    """The settings of a stage: the table of a preset that has the stage's name."""


@dataclass(frozen=True)
class Context:
    """All that a stage may use besides its options and the turns."""

    models: ModelSet
    search: SearchGateway
    prompts: PromptLibrary
    deadline: Deadline = NO_DEADLINE  # when the stage has to end
    # Of the profile and the preset
    limits: Limits = Limits()  # noqa: RUF009 - it is frozen
    stages: tuple[str, ...] = ()  # names of all stages of the preset
    fetch: bool = False  # whether pages and pictures missing in the caches may be fetched
    collection: str = ""  # name of the searched collection of the user's own; "" for a split
    today: date | None = None  # date that prompts name; None: the machine's
    short: bool = False  # there is less time than the stage would like: it does less, as its ``when_short`` says
    # Maps max_tokens to a reduced limit; None: as the prompt says
    shorten: Callable[[int], int] | None = None
    guarded: bool = True  # ``guard.injection`` of the preset
    gathering: "tuple[Stage, ...]" = ()  # the preset's stages before this one that find, cut and rank evidence (``Stage.gathers``)
    widen: int = 1  # factor of how much the searches fetch, for a repeated search

    def put(self, questions: Sequence[Question[T]], deadline: Deadline | None = None) -> list[Answer[T]]:
        """Ask chat models, with one batched call to each, by the stage's deadline or an earlier one, and return their answers.

        Raises:
            ModelError: As for ``ask.put``.
        """
        today = (self.today or date.today()).isoformat()
        occasion = {"collection": self.collection, "languages": self.search.languages, "today": today}
        questions = [replace(each, values={**occasion, **each.values}) for each in questions]
        # Each role is looked up when its turn comes, so that a stage that was given up meanwhile asks no further model.
        return put(
            questions, self.prompts, lambda role: self.models.chat(role), deadline or self.deadline, self.shorten
        )

    def ask_each(
        self, ask: Ask[T], turns: Sequence[Turn], values: Callable[[Turn], Mapping[str, Any]] = lambda turn: turn.values
    ) -> list[tuple[Turn, Answer[T]]]:
        """Ask one prompt about each turn, filled in with ``values`` of the turn, and pair the turns with the answers; see ``put``."""
        answers = self.put([Question(ask, values(turn), (turn,)) for turn in turns])
        return list(zip(turns, answers, strict=True))

    def gather(self, turns: Sequence[Turn], widen: int = 1) -> None:
        """Search for turns made of parts of a question, then cut and rank the hits, as the preset does for whole questions.

        Args:
            turns: Turns made by the calling stage, with their ``queries``; their ``web_hits`` and ``evidence`` are filled.
            widen: Factor of the results and entities that the preset's searches take, for a search that found too little before.
        """
        within = replace(self, widen=widen)
        for stage in self.gathering:
            stage.run(turns, within)

    def search_facts(self, turn_questions: Sequence[tuple[Turn, str]]) -> list[Turn]:
        """Gather evidence for single facts, each a question or query on its own; see ``gather``.

        Returns:
            A turn a fact, with its evidence. The hits of picture search belong to it if the fact names it, recognised or not.
        """
        parts = []
        for turn, question in turn_questions:
            part = Turn(
                question, turn.image, provided=turn.provided, question=question, needs_image=False, queries=(question,)
            )
            part.views, part.image_hits = turn.views, turn.image_hits
            found = {entity.name: entity for hit in turn.hits for entity in hit.entities}
            named = (it for name, it in found.items() if has_words(question, remove_qualifier(name)))
            part.entities = tuple(itertools.islice(named, _MAX_NAMED))
            parts.append(part)
        self.gather(parts)
        searched = {id(turn): turn for (turn, _), part in zip(turn_questions, parts, strict=True) if part.searches}
        for turn in searched.values():
            turn.count_search("web")
        for (turn, _), part in zip(turn_questions, parts, strict=True):
            turn.note(search_error=part.get_note("search_error"))
            turn.mark_fault(part.fault)
        return parts

    def evidence(self, turn: Turn, k: int, first: Sequence[Evidence] = ()) -> tuple[Evidence, ...]:
        """Return the chunks of a turn that a prompt shows, within the profile's budget of tokens (``agents/evidence/shown.py``).

        Those of ``first`` come before the best ``k`` and are not counted.
        """
        return select_chunks(turn.evidence, k, self.limits.evidence_tokens, first)

    def measure_budget(self, share: float) -> int:
        """Return a share of the profile's budget of evidence in characters, or of a budget of ``DEFAULT_TOKENS`` without one."""
        return int(share * (self.limits.evidence_tokens or DEFAULT_TOKENS)) * CHARACTERS_PER_TOKEN

    def show(self, photo: Image.Image | None, others: Sequence[tuple[str, Image.Image]]) -> dict[str, Any]:
        """Return how a prompt shows the question's photo and further pictures with their labels, as arguments of ``Prompt.request``.

        Returns:
            ``image``, ``images``, and ``sheet``: the label of the photo if ``image`` is a sheet, because ``limits.pictures`` allows fewer
            pictures; else None.
        """
        pictures = [*([(PHOTO_LABEL, photo)] if photo is not None else []), *others]
        if self.limits.pictures is not None and len(pictures) > self.limits.pictures:
            return {"image": montage(pictures), "images": (), "sheet": PHOTO_LABEL}
        return {"image": photo, "images": tuple(picture for _, picture in others), "sheet": None}

    def show_turn(self, turn: Turn) -> dict[str, Any]:
        """Return the values of a turn for a prompt, its photo beside its close-ups and the graph's picture of the entity.

        Returns:
            ``Turn.values``, what ``show`` returns, ``parts``: the labels of the close-ups, and ``pictured``: the name of the entity whose
            picture is shown, else None.
        """
        pictured = [turn.entity_picture] if turn.entity_picture is not None else []
        shown = self.show(turn.image, [*turn.close_ups, *pictured])
        labels = [label for label, _ in turn.close_ups]
        return {**turn.values, **shown, "parts": labels, "pictured": pictured[0][0] if pictured else None}

    def find_entity_picture(self, turn: Turn) -> LabelledPicture | None:
        """Return the most alike picture of a turn's entity, with its name, if the picture cache has it."""
        hits = sorted((hit for view in turn.views for hit in view.hits), key=lambda hit: -hit.score)
        urls = [hit.url for hit in hits if hit.url and any(it.name == turn.entity_name for it in hit.entities)]
        pictures = self.search.pictures(urls[:1], deadline=self.deadline) if urls else {}
        return next(((turn.entity_name or "", picture) for picture in pictures.values()), None)


def crop_close_ups(turn: Turn, share: float) -> tuple[LabelledPicture, ...]:
    """Crop the small things of a look (``find_small_things``), each with its phrase.

    Args:
        turn: A turn with its boxes.
        share: Share of the photo's area from which a thing is large enough as it is; 0: none is cropped.
    """
    look, image = turn.look, turn.image
    if not share or image is None or look is None:
        return ()
    small = find_small_things(look.things, turn.regions, *image.size, share)
    return tuple((thing.phrase, crop(image, region.box)) for thing, region in small)


class Lease:
    """Models and search lent to a stage until it is given up: while it still runs in its thread, others may be inside models and search."""

    def __init__(self) -> None:
        self._ended = threading.Event()

    def lend(self, part: T) -> T:
        """Return a stand-in for models or search that passes everything on, and raises ModelError once the lease has ended."""
        return cast(T, _Lent(part, self._ended))

    def end(self) -> None:
        """End it, for every context that uses it."""
        self._ended.set()


class _Lent:
    def __init__(self, part: Any, ended: threading.Event) -> None:
        self._part, self._ended = part, ended

    def __getattr__(self, name: str) -> Any:
        if self._ended.is_set():
            raise ModelError("the stage was given up, because it took too long")
        return getattr(self._part, name)


class Stage(ABC):
    """One step from a question to its answer; its class declares all that is known of it."""

    Options: ClassVar[type[StageOptions]] = StageOptions  # its settings; ``options`` has those of the preset
    name: ClassVar[str]  # its name in presets and traces; if the class says none, that of the module that defines it
    fills: ClassVar[tuple[str, ...]] = ()  # the fields of ``Turn`` that it fills or replaces
    # ``answers``: without it there is nothing to give, so the stages before it leave it its least time. ``verifies``:
    # without it the preset's rule may not let the answer pass, so a share of every call is kept for it. ``decides``: it
    # gives the answer and cannot be left out
    kind: ClassVar[Kind] = "ordinary"
    # Names by which ``--without`` leaves it out together with others
    groups: ClassVar[tuple[str, ...]] = ()
    # Which search the preset needs because of it
    searches: ClassVar[Literal["image", "web", "both"] | None] = None
    # Seconds below which the stage is skipped; 0: never
    min_seconds: float = 0.0
    # Seconds below which it does less. Both count until its own times are known (``agents.runner.guard.Estimates``)
    wanted_seconds: float = 0.0
    # Replaces ``wanted_seconds`` if the options make the stage ask a model
    seconds_to_ask: ClassVar[float | None] = None
    # Message to people while it runs; "": its name
    doing: ClassVar[str] = ""
    when_short: ClassVar[str] = ""  # what it does with less time, besides shorter replies
    # Whether it finds, cuts or ranks evidence: then it serves parts of questions too (``Context.gather``)
    gathers: ClassVar[bool] = False
    # What it may ask chat models, where its options do not change that (``list_asks``)
    asks: ClassVar[tuple[Ask[Any], ...]] = ()
    # Roles of the models that it uses besides chat models, likewise (``roles``)
    model_roles: ClassVar[tuple[str, ...]] = ()
    # Keys of its trace that may describe the picture, for traces without pictures
    picture_notes: ClassVar[frozenset[str]] = frozenset()
    # Numbers that it records (``Turn.record``) and that a gate may weigh
    signals: ClassVar[tuple[SignalKind, ...]] = ()

    options: StageOptions

    def __init_subclass__(cls) -> None:
        if "name" not in cls.__dict__:
            cls.name = cls.__module__.rpartition(".")[2]

    def __init__(self, options: StageOptions | None = None) -> None:
        self.options = options if options is not None else self.Options()
        if self.seconds_to_ask is not None and self.list_asks():
            self.wanted_seconds = self.seconds_to_ask

    @abstractmethod
    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Work on the turns of one batch.

        A stage picks the turns that concern it, makes one batched call to each model it needs and fills its own fields of the turns.
        A failure of one turn alone is noted on that turn; an exception means that the stage could not work at all, and the agent
        goes on without it.
        """

    def needs(self) -> tuple[str, ...]:
        """Stages that have to run before it; the ones that a preset does not name are put right before it."""
        return ()

    def list_asks(self) -> tuple[Ask[Any], ...]:
        """List the prompts that the stage may ask chat models, each with its form of reply.

        The front matter of a prompt names the role that reads it.
        """
        return self.asks

    def roles(self) -> tuple[str, ...]:
        """Roles of the models that it uses besides chat models."""
        return self.model_roles

    def pictures(self) -> int:
        """Return the maximum number of pictures that one prompt shows because of it, besides the question's own."""
        return 0


def stage_names() -> list[str]:
    """List the stages of this project: the modules of ``agents/stages``, and those of one paper alone (``PAPERS``)."""
    return sorted([*itertools.chain.from_iterable(PAPERS.values()), *(path.stem for path in STAGES.glob("[!_]*.py"))])


@cache
def stage_class(reference: str) -> type[Stage]:
    """Import a stage: a module of ``agents/stages``, one of ``PAPERS``, or ``package.module:ClassName``.

    Raises:
        SettingsError: There is no such stage.
    """
    place = look_up(reference, "stage", SettingsError, choices=stage_names(), attribute="ClassName")
    if isinstance(place, ImportPath):
        stage_type: type[Stage] = import_object(place, reference, "stage", SettingsError, Stage)
        return stage_type
    paper = next((paper for paper, names in PAPERS.items() if place in names), None)
    path = f"agents.papers.{paper}" if paper else f"agents.stages.{place}"
    module = import_module(path, reference, "stage", SettingsError)
    [own] = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Stage) and value.__module__ == path and value.name == place
    ]
    return own


def list_groups(stages: Iterable[type[Stage]]) -> dict[str, tuple[str, ...]]:
    """Return the names of the stages of each group."""
    members: dict[str, list[str]] = {}
    for stage in stages:
        for group in stage.groups:
            members.setdefault(group, []).append(stage.name)
    return {group: tuple(names) for group, names in members.items()}


@cache
def stage_groups() -> dict[str, tuple[str, ...]]:
    """Return the groups of the stages of this project."""
    return list_groups(map(stage_class, stage_names()))
