"""Builds the agent for the applications, asks it, and returns each answer with its record."""

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from PIL import Image
from pydantic import Field

from agents.asking.record import RecordError, TurnRecord, read_record
from agents.base_agent import BaseAgent, Message
from agents.crag_agent import CragAgent
from agents.intake import opened
from agents.runtime.files import told
from agents.settings.command_options import Flag
from agents.settings.run_config import DEFAULT_CACHE, RunConfig, preset_names, profile_names
from agents.settings.shared_options import ModelOptions
from apps.outcome import Outcome, outcome_of

_log = logging.getLogger(__name__)

_DEFAULT_SPLIT = "validation"  # of the organiser's indices

ENDLESS_DIALOG = "limits.seconds_per_dialog=86400"
"""The limit of a dialog's time means nothing to people; ``--set`` brings one back."""


class CannotStartError(RuntimeError):
    """The agent cannot be put together; the message says what to do."""


class PhotoError(ValueError):
    """A photo cannot be used; the message says why."""


class AgentError(RuntimeError):
    """The agent raised something, its cause; the message names its type alone, for the rest may hold what nobody should read."""


@dataclass(frozen=True)
class Question:
    """One question: the photo as ``read_photo`` gives it (or None), and the dialog before it, user and assistant in turn."""

    text: str
    photo: Image.Image | None = None
    history: Sequence[Message] = ()


class Answerer:
    """Asks an agent (a ``CragAgent`` tells how its answers came about) and appends traces to a file, if any; calls must not overlap."""

    def __init__(self, agent: BaseAgent, trace: Path | None = None) -> None:
        self._agent = agent
        self._records: list[Mapping[str, Any]] = []
        if isinstance(agent, CragAgent):
            agent.trace_to(trace, self._records.extend)

    @property
    def batch_size(self) -> int:
        """The most questions of one call."""
        return self._agent.get_batch_size()

    def answer(self, questions: Sequence[Question]) -> list[Outcome]:
        """Answer at most ``batch_size`` questions in one call of the agent; AgentError for whatever it raises, but for Ctrl-C."""
        self._records.clear()
        try:
            answers = self._agent.batch_generate_response(
                [question.text for question in questions],
                [question.photo for question in questions],
                [list(question.history) for question in questions],
            )
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit, panics of Rust: neither may end a program that others use
            raise AgentError(f"the agent failed ({type(error).__name__})") from error
        # No records: no trace, or one that could not be written.
        told = self._records if len(self._records) == len(answers) else [None] * len(answers)
        return [outcome_of(answer, _read(record)) for answer, record in zip(answers, told, strict=True)]


def _read(record: Mapping[str, Any] | None) -> TurnRecord | None:
    """The record; None where a stage wrote one that cannot be read: the answer is shown without details then."""
    try:
        return None if record is None else read_record(record)
    except RecordError as error:
        _log.warning("the record of a turn cannot be read: %s", error)
        return None


def read_photo(path: Path) -> Image.Image:
    """A photo from a file, upright, 8-bit RGB, as the agent sees it: a trace's boxes are pixels of it; PhotoError where there is none."""
    try:
        with Image.open(path) as photo:
            return opened(photo)
    except FileNotFoundError:
        raise PhotoError(f"there is no file {path}") from None
    except Exception as error:
        raise PhotoError(f"{path} cannot be read as a photo: {type(error).__name__}: {error}") from error


class AnswererOptions(ModelOptions):
    """The options that choose an agent, the same for every application."""

    group = "who answers"

    preset: Annotated[str, Flag(metavar="NAME", suggested=tuple(preset_names()))] = Field(
        "best", description=f"the method: {', '.join(preset_names())}, or the path of a .toml file"
    )
    profile: Annotated[str, Flag(metavar="NAME", suggested=tuple(profile_names()))] = Field(
        "embedded", description=f"the machine: {', '.join(profile_names())}, or the path of a .toml file"
    )
    split: Annotated[str | None, Flag(metavar="NAME")] = Field(
        None,
        description=f"whose indices are searched; not given: those in the cache, of several the last prepared, else {_DEFAULT_SPLIT}",
    )
    cache: Path = Field(DEFAULT_CACHE, description="indices and converted weights")
    no_web: bool = Field(False, description="no web search; takes no web index")
    no_images: bool = Field(False, description="no image search")
    without: Annotated[tuple[str, ...], Flag(metavar="STAGE", repeated=True)] = Field(
        (), description="leave a stage out"
    )
    set: Annotated[tuple[str, ...], Flag(metavar="KEY=VALUE", repeated=True)] = Field(
        (), description="replace a setting"
    )
    trace: Annotated[Path | None, Flag(metavar="FILE")] = Field(
        None, description="append each turn's trace to a file of JSON lines"
    )


def start(options: AnswererOptions) -> Answerer:
    """The agent that options ask for, its models loaded; CannotStartError where anything it takes is missing or wrong."""
    try:
        config = RunConfig.read(
            options.preset,
            options.profile,
            without=options.without,
            overrides=[ENDLESS_DIALOG, *options.set],
            chat_model=options.model_name,
            base_url=options.base_url,
            cache=options.cache,
        )
        searched: dict[str, Any] = {
            "split": _split(config, options),
            "web": not options.no_web,
            "images": not options.no_images,
        }
        if (why := config.unreachable(**searched)) is not None:
            raise CannotStartError(why)
        pipeline = config.pipeline(**searched)
        agent = CragAgent.from_config(config, pipeline)
        answerer = Answerer(agent, options.trace)
        loaded = agent.warm_up(blank_turn=False)
    except OSError as error:
        raise CannotStartError(told(error)) from error
    except (RuntimeError, ValueError) as error:  # SearchError, SettingsError, ModelError and related errors
        raise CannotStartError(str(error)) from error
    if loaded.fault is not None:
        raise CannotStartError(f"profile {options.profile!r} cannot be used: {loaded.fault}")
    return answerer


def _split(config: RunConfig, options: AnswererOptions) -> str:
    """The split that is asked for, else one that the cache has indices of; of several it is said which."""
    if options.split is not None:
        return options.split
    found = config.splits(web=not options.no_web)
    if len(found) > 1 and not (options.no_web and options.no_images):
        print(f"searching {found[0]}, the last prepared; --split takes {', '.join(found[1:])} too", file=sys.stderr)
    return found[0] if found else _DEFAULT_SPLIT
