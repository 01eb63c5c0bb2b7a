"""Agents put together for a run: the one module of the evaluation that knows ``agents.launch``; all others know ``BaseAgent``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from agents import launch
from agents.base_agent import BaseAgent
from agents.settings import SettingsError
from evaluation.records import EvaluationError
from evaluation.run.options import reply_cache

PRESETS = launch.PRESETS
"""Folder of the presets."""

ROOT = launch.ROOT
"""The repository's root, below which the paths in presets are."""

BuildAgent = Callable[..., BaseAgent]
"""Takes what ``agents.launch.build_agent`` takes."""


@dataclass(frozen=True)
class LaunchedAgent:
    """An agent and what a run asks of it beside answers.

    Attributes:
        warm_up: Loads its models; does nothing when called again.
        trace_to: Has it write its traces to a file from now on.
        models: Role to name of the models that it has loaded.
        replies: Hits and misses so far of its reply cache; None where it has none.
    """

    agent: BaseAgent
    warm_up: Callable[[], object] = lambda: None
    trace_to: Callable[[Path], object] = lambda _: None
    models: Callable[[], dict[str, str]] = dict
    replies: Callable[[], tuple[int, int]] | None = None


def launched(options: argparse.Namespace, build: BuildAgent | None = None) -> LaunchedAgent:
    """The agent of a command line; ``prepare`` comes first.

    Args:
        build: Puts it together instead of ``agents.launch.build_agent``.

    Raises:
        EvaluationError: A model or an index is missing, or a setting is wrong.
    """
    web, images = not options.suppress_web_search_api, not options.suppress_image_search_api
    with _as_evaluation_errors():
        folder = reply_cache(options)
        replies = launch.open_replies(folder) if folder is not None else None
        agent = (build or launch.build_agent)(
            options.preset,
            options.profile,
            launch.build_pipeline(options.profile, split=options.split, web=web, images=images, cache=options.cache),
            without=options.without,
            overrides=options.set,
            cache=options.cache,
            replies=replies,
        )
    return LaunchedAgent(
        agent,
        cache(partial(launch.warm_up, agent, blank_turn=False)),
        partial(launch.trace_to, agent),
        partial(launch.model_names, agent),
        (lambda: (replies.counts.hits, replies.counts.misses)) if replies is not None else None,
    )


def prepare(options: argparse.Namespace) -> dict[str, Any]:
    """Tell Hugging Face's libraries, which must not have been imported yet, where their cache is.

    Returns:
        What the run is made with, for run.json and the report.

    Raises:
        EvaluationError: The preset, the profile, a stage to leave out or a setting is unknown.
    """
    with _as_evaluation_errors():
        settings = launch.settings_of(options.preset, options.profile, without=options.without, overrides=options.set)
        launch.prepare(options.cache, options.profile)
    return {
        "preset": options.preset,
        "profile": options.profile,
        "without": ", ".join(options.without),
        "set": ", ".join(options.set),
        "web_search": not options.suppress_web_search_api,
        "image_search": not options.suppress_image_search_api,
        "settings": launch.digest(settings),
    }


def presets() -> list[str]:
    """The presets that can be run."""
    return launch.preset_names()


def settings_table(preset: str, profile: str) -> dict[str, Any]:
    """A preset's settings as plain values, for commands that run it in several ways.

    Raises:
        EvaluationError: There is no such preset or profile, or it is malformed.
    """
    with _as_evaluation_errors():
        return launch.settings_of(preset, profile).model_dump(mode="json")


@contextmanager
def _as_evaluation_errors() -> Iterator[None]:
    from agents.models.base import ModelError
    from agents.search.hits import SearchError

    try:
        yield
    except (ModelError, SearchError, SettingsError) as error:
        raise EvaluationError(str(error)) from error
