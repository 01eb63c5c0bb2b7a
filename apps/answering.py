"""Build the agent for the applications, ask it, and return each answer with its record."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Self

from PIL import Image
from pydantic import Field, model_validator

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Flag
from agents.base.files import format_os_error, one_line
from agents.base.printing import print_error
from agents.base_agent import BaseAgent, Message
from agents.crag_agent import CragAgent
from agents.evidence.lookup import Found, LookupQuery
from agents.record import RecordError, TurnRecord, read_record
from agents.runner.intake import read_picture_file
from agents.search.changed_files import list_changes
from agents.search.reading_report import find_report
from agents.settings.run_config import DEFAULT_SPLIT, RunConfig, preset_names, profile_names
from agents.settings.shared_options import ProbedModelOptions
from agents.time_limits.deadline import CallCancelledError
from apps.outcome import Outcome, build_outcome

_log = logging.getLogger(__name__)

_TIMED = 8  # latest questions whose median time estimates that of the next one

ENDLESS_DIALOG = "limits.seconds_per_dialog=86400"
"""No limit of a dialog's time: people may think as long as they like. ``--set`` brings one back."""


class CannotStartError(RuntimeError):
    """The agent cannot be put together; the message says what to do."""


class PhotoError(ValueError):
    """A photo cannot be used; the message says why."""


class AgentError(RuntimeError):
    """The agent raised its cause; the message names the type alone, because the rest may be private."""


class CancelledError(RuntimeError):
    """The call was cancelled because nobody waits for the answer any more."""


@dataclass(frozen=True)
class Question:
    """One question with its photo, as ``read_photo`` returns it, and the earlier messages of its dialog."""

    text: str
    photo: Image.Image | None = None
    history: Sequence[Message] = ()


@dataclass(frozen=True)
class TakenUp:
    """The index that is searched now.

    Attributes:
        revision: Starts of the revisions of its parts, as ``RunConfig.describe_indices`` writes them.
        is_new: Whether it is another one than before.
        changed: Files of the collection that changed since it was built.
    """

    revision: str
    is_new: bool
    changed: Sequence[str] = ()


@dataclass(frozen=True)
class About:
    """Facts about the agent: preset, profile, the split it searches, the seconds allowed a question, and what was read of a collection."""

    preset: str
    profile: str
    split: str
    seconds: float | None = None
    report: Path | None = None


class Answerer:
    """Asks an agent and, if a trace file is given, appends traces to it. Calls must not overlap.

    A ``CragAgent`` also reports how its answers came about.
    """

    def __init__(
        self,
        agent: BaseAgent,
        trace: Path | None = None,
        about: About | None = None,
        take_up: Callable[[], TakenUp] | None = None,
    ) -> None:
        self._agent = agent
        self.take_up_index = take_up
        """Opens the index that is in the cache now, if it is another one, and has the agent search it; None: it cannot be replaced.
        Callable beside ``answer``, one call at a time. It raises CannotStartError."""
        self.about = about
        self._records: list[Mapping[str, Any]] = []
        self._seconds: deque[float] = deque(maxlen=_TIMED)  # of the latest questions, each its share of its call
        if isinstance(agent, CragAgent):
            agent.trace_to(trace, listen_whole=self._records.extend)

    @property
    def batch_size(self) -> int:
        """Maximum number of questions per call."""
        return self._agent.get_batch_size()

    @property
    def expected(self) -> str:
        """Time per question in words: measured in this process, else the limit, else ""."""
        limit = None if self.about is None else self.about.seconds
        if self._seconds:
            seconds = median(self._seconds)
            return f"about {seconds:.0f} s a question" if seconds >= 1 else "less than a second a question"
        return f"at most {limit:g} s a question" if limit is not None and isfinite(limit) else ""

    def cancel(self) -> None:
        """Make the running call raise CancelledError soon; callable from any thread.

        Only a ``CragAgent`` can be cancelled; other agents answer to the end.
        """
        if isinstance(self._agent, CragAgent):
            self._agent.cancel()

    def answer(self, questions: Sequence[Question], watch: Callable[[str], None] | None = None) -> list[Outcome]:
        """Answer at most ``batch_size`` questions in one call of the agent.

        Args:
            questions: The questions of the batch.
            watch: Called in the call's thread with the next step of a ``CragAgent``, in plain words.

        Raises:
            CancelledError: The call was cancelled.
            AgentError: The agent raised anything else, except for Ctrl-C.
        """
        self._records.clear()
        if isinstance(self._agent, CragAgent):
            self._agent.watch(watch)
        began = time.monotonic()
        try:
            answers = self._agent.batch_generate_response(
                [question.text for question in questions],
                [question.photo for question in questions],
                [list(question.history) for question in questions],
            )
        except KeyboardInterrupt:
            raise
        except CallCancelledError:
            raise CancelledError("the question was cancelled") from None
        except BaseException as error:  # SystemExit, panics of Rust: neither may end a program that others use
            raise AgentError(f"the agent failed ({type(error).__name__})") from error
        if wrong := [type(answer).__name__ for answer in answers if not isinstance(answer, str)]:
            raise AgentError(f"the agent failed (it returned {wrong[0]} instead of text)")
        self._seconds.extend([(time.monotonic() - began) / len(questions)] * len(questions))
        # Agents of other classes have no records; nor has a batch whose records cannot be made.
        records = self._records if len(self._records) == len(answers) else [None] * len(answers)
        return [build_outcome(answer, _parse_record(record)) for answer, record in zip(answers, records, strict=True)]

    def look_up(self, queries: Sequence[LookupQuery], seconds: float) -> list[Found]:
        """Search photos and texts without answering (``CragAgent.look_up``); callable beside ``answer``.

        Raises:
            AgentError: The search raised an exception.
        """
        if not isinstance(self._agent, CragAgent):
            return [Found(off="search")] * len(queries)
        try:
            return self._agent.look_up(queries, seconds)
        except Exception as error:  # foreign pipelines raise anything
            raise AgentError(f"the search failed ({type(error).__name__})") from error


def _parse_record(record: Mapping[str, Any] | None) -> TurnRecord | None:
    """Parse the record of a turn.

    Returns:
        None if a stage wrote a record that cannot be read; the answer is then shown without details.
    """
    try:
        return None if record is None else read_record(record)
    except RecordError as error:
        _log.warning("the record of a turn cannot be read: %s", error)
        return None


def read_photo(path: Path) -> Image.Image:
    """Load a photo upright in 8-bit RGB, as the agent sees it: boxes of a trace are in its pixels.

    Raises:
        PhotoError: The file is missing or cannot be read as a photo.
    """
    try:
        return read_picture_file(path)
    except FileNotFoundError:
        raise PhotoError(f"there is no file {path}; check the path") from None
    except (OSError, ValueError) as error:
        raise PhotoError(f"{path} cannot be read as a photo ({one_line(error)}); try JPEG, PNG or WebP") from error


class AnswererOptions(ProbedModelOptions):
    """Options that choose an agent, the same for every application."""

    group = "agent"

    preset: Annotated[str, Flag(metavar="NAME", suggested=tuple(preset_names()))] = Field(
        "best", description=f"the method: {', '.join(preset_names())}, or the path of a .toml file"
    )
    profile: Annotated[str, Flag(metavar="NAME", suggested=tuple(profile_names()))] = Field(
        "embedded", description=f"the machine: {', '.join(profile_names())}, or the path of a .toml file"
    )
    knowledge: Annotated[Path | None, Flag(names=("--knowledge",), positional=True, metavar="COLLECTION")] = Field(
        None, description="folder of your own photos and pages, indexed by crag index (docs/own_knowledge.md)"
    )
    split: Annotated[str | None, Flag(metavar="NAME")] = Field(
        None,
        description=f"data set whose indices are searched; default: the newest in the cache, else {DEFAULT_SPLIT}",
    )
    cache: CacheOption = Field(DEFAULT_CACHE, description="indices and converted weights")
    no_web: bool = Field(False, description="do not search the web; needs no web index")
    no_images: bool = Field(False, description="do not search images")
    without: Annotated[tuple[str, ...], Flag(metavar="STAGE", repeated=True)] = Field(
        (), description="leave a stage out"
    )
    set: Annotated[tuple[str, ...], Flag(metavar="KEY=VALUE", repeated=True)] = Field(
        (), description="replace a setting"
    )
    trace: Annotated[Path | None, Flag(metavar="FILE")] = Field(
        None, description="append each turn's trace to a file of JSON lines"
    )

    @model_validator(mode="after")
    def _search_one_thing(self) -> Self:
        if self.knowledge is not None and self.split is not None:
            raise ValueError("a collection and --split name two things to search: give one of them")
        return self


def start(options: AnswererOptions, search: Any = None) -> Answerer:
    """Build the agent that the options describe, and load its models.

    Args:
        options: Preset, profile, split and cache.
        search: Search pipeline to use instead of the one that ``open_search`` opens.

    Raises:
        CannotStartError: Something that the agent needs is missing or wrong.
    """
    with _as_cannot_start():
        config, searched = _read_options(options)
        if (why := config.unreachable(**searched, servers=not options.no_probe)) is not None:
            raise CannotStartError(why)
        index = SearchedIndex(options, config.describe_indices(**searched))
        agent = CragAgent.from_config(config, search or config.pipeline(**searched))
        limit = config.settings.limits.seconds_per_turn
        about = About(config.preset, config.profile.name, _name_searched(config, searched), limit, _find_report(config))
        if config.collection_note:
            print_error(config.collection_note)
        take_up = None if search is not None or not index.revision else partial(index.take_up, agent)
        answerer = Answerer(agent, options.trace, about, take_up)
        loaded = agent.warm_up(blank_turn=False)
    if loaded.fault is not None:
        raise CannotStartError(f"profile {options.profile!r} cannot be used: {loaded.fault}")
    return answerer


class SearchedIndex:
    """The index that an agent searches, by its revision."""

    def __init__(self, options: AnswererOptions, revision: str) -> None:
        self._options, self.revision = options, revision

    def take_up(self, agent: CragAgent) -> TakenUp:
        """Open the index that is in the cache now, if it is another one, and have the agent search it.

        Raises:
            CannotStartError: It cannot be opened; the agent goes on with the one before.
        """
        with _as_cannot_start():
            config, searched = _read_options(self._options)
            revision = config.describe_indices(**searched)
            if is_new := revision != self.revision:
                has_changed = config.has_changed
                agent.search_in(config.pipeline(**searched), has_changed)
                self.revision = revision
            changed = () if config.collection is None else list_changes(config.collection, config.cache)
        return TakenUp(revision, is_new, changed)


def open_search(options: AnswererOptions) -> Any:
    """Open the search pipeline of the agent that the options describe.

    Raises:
        CannotStartError: An index or a model is missing.
    """
    with _as_cannot_start():
        config, searched = _read_options(options)
        return config.pipeline(**searched)


def _read_options(options: AnswererOptions) -> tuple[RunConfig, dict[str, Any]]:
    """Return the configuration and the arguments of its search."""
    config = RunConfig.read(
        options.preset,
        options.profile,
        without=options.without,
        overrides=[ENDLESS_DIALOG, *options.set],
        chat_model=options.model_name,
        base_url=options.base_url,
        server=options.server,
        cache=options.cache,
        knowledge=options.knowledge,
    )
    split = _choose_split(config, options)
    web, images = not options.no_web, not options.no_images
    if web and images:
        web = _can_search_pages(config, split)
    return config, config.plan_search(split, web=web, images=images)


@contextmanager
def _as_cannot_start() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CannotStartError(format_os_error(error)) from error
    except (RuntimeError, ValueError) as error:  # SearchError, SettingsError, ModelError and related errors
        raise CannotStartError(str(error)) from error


def _name_searched(config: RunConfig, searched: Mapping[str, Any]) -> str:
    """Return the name of the searched split or collection."""
    return str(searched["split"]) if config.collection is None else config.collection.name


def _find_report(config: RunConfig) -> Path | None:
    """Return the report of what `crag index` read of a collection, if there is one."""
    report = None if config.collection is None else find_report(config.cache, config.collection.split)
    return report if report is not None and report.is_file() else None


def _choose_split(config: RunConfig, options: AnswererOptions) -> str:
    """Return the requested split, else the newest one in the cache; name the others on standard error."""
    if options.split is not None:
        return options.split
    if config.collection is not None:
        return config.collection.split
    splits = config.splits(web=options.no_images)
    if len(splits) > 1 and not (options.no_web and options.no_images):
        print_error(f"searching {splits[0]}, the newest; --split takes {', '.join(splits[1:])} too")
    return splits[0] if splits else DEFAULT_SPLIT


def _can_search_pages(config: RunConfig, split: str) -> bool:
    """Return whether to search pages of a split; print a note on standard error if the cache has only its photos."""
    if config.collection is not None or not config.has_photos_alone(split):
        return True
    print_error(f"{split} has no index of pages: only its photos are searched")
    return False
