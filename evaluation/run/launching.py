"""Builds the agent of a run. The only module of the evaluation that imports the agent's settings; all others use ``BaseAgent``."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.base.cluster import Placed
from agents.base.named import ImportPath, canonical, imported, look_up
from agents.base_agent import BaseAgent
from agents.crag_agent import CragAgent
from agents.profiles.profile import PRESETS, ROOT, SettingsError
from agents.settings.presets import MODELS
from agents.settings.run_config import RunConfig, preset_names
from agents.time_limits.deadline import CallCancelledError
from evaluation.judge.local_judge import LocalJudge, YesOrNo, load_cut
from evaluation.records import REPLIES, EvaluationError
from evaluation.run.calls import Answering, CallResult, ReplyCounts
from evaluation.run.options import PROVIDED, RunOptions
from evaluation.run.provided_evidence import ProvidedEvidence, gold_entries, read_full_queries

if TYPE_CHECKING:
    from agents.models.base import ChatModel
    from agents.profiles.model_set import ModelSet

__all__ = [
    "MODELS",
    "PRESETS",
    "ROOT",
    "LaunchedAgent",
    "RunConfig",
    "gate_models",
    "launched",
    "local_judge",
    "prepare",
    "preset_names",
    "settings_table",
    "shared_search",
    "yes_or_no",
]  # fmt: skip

BuildAgent = Callable[..., BaseAgent]
"""Takes what ``CragAgent.from_config`` takes."""

NOT_OURS = "built as the organiser builds it: no preset is applied, and of the profile the search alone"
"""Said of an agent that is not derived from ``CragAgent``, in run.json under ``built``."""


@dataclass(frozen=True)
class LaunchedAgent:
    """An agent, or several that answer as one, and what a run asks of it beside answers.

    Attributes:
        warm_up: Loads its models; does nothing when called again.
        listen: Has it tell its records (``Listen``), ``pictures`` being a folder for those of requests; None where it keeps none, or
            brings them with each reply.
        models: Role to name of the models that it has loaded.
        replies: Hits and misses so far of its reply cache; None where it has none.
        evidence: Searches in its place; None where it searches itself.
        keep_up: Makes a call, again where the search that it shares with others was lost meanwhile.
    """

    agent: BaseAgent | Answering
    warm_up: Callable[[], object] = lambda: None
    listen: Callable[..., object] | None = None
    models: Callable[[], dict[str, str]] = dict
    replies: ReplyCounts | None = None
    evidence: ProvidedEvidence | None = None
    keep_up: Callable[[Callable[[], CallResult]], CallResult] = lambda ask: ask()


def agent_class(reference: str) -> type[BaseAgent]:
    """The class that ``--agent`` names.

    Raises:
        EvaluationError: It cannot be imported, is no ``BaseAgent``, or cannot be built with what it would get.
    """
    place = look_up(reference, "agent", EvaluationError, attribute="ClassName")
    assert isinstance(place, ImportPath)
    agent: type[BaseAgent] = imported(place, reference, "agent", EvaluationError, BaseAgent)
    if inspect.isabstract(agent):
        missing = ", ".join(sorted(agent.__abstractmethods__))
        raise EvaluationError(f"agent {reference!r} cannot be built: it does not define {missing}")
    passed = ["settings", "models", "prompts"] if issubclass(agent, CragAgent) else []
    try:
        inspect.signature(agent).bind(**dict.fromkeys(["search_pipeline", *passed]))
    except TypeError as error:
        raise EvaluationError(
            f"agent {reference!r} cannot be built: its __init__ gets {', '.join(['search_pipeline', *passed])}, and has {error}"
        ) from error
    return agent


def _builder(agent: type[BaseAgent]) -> BuildAgent:
    if issubclass(agent, CragAgent):
        return agent.from_config
    # Its parameters are those of the starter kit's agents, which ``BaseAgent`` leaves to each
    return lambda _, search_pipeline, **__: agent(search_pipeline=search_pipeline)


def launched(
    options: RunOptions, config: RunConfig, build: BuildAgent | None = None, search: Any = None
) -> LaunchedAgent:
    """The agent of a command line; ``build`` takes the place of the one that ``--agent`` names.

    Args:
        search: The actor that searches for it (``shared_search``); None: it opens the indices itself.

    Raises:
        EvaluationError: A model or an index is missing, or a setting is wrong.
        GoneError: The actor has died for good.
    """
    from agents.models.reply_cache import ReplyStore

    web, images = not options.suppress_web_search_api, not options.suppress_image_search_api
    with _as_evaluation_errors():
        folder = options.reply_folder
        replies = ReplyStore(folder) if folder is not None else None
        wanted: dict[str, Any] = {"split": options.split, "web": web, "images": images}
        ours = build is None and issubclass(agent_class(options.agent), CragAgent)
        if search is not None:
            from agents.search.shared_search import SharedSearch

            pipeline: Any = SharedSearch(search)
        else:
            pipeline = _opened(options, config, check=ours)
        evidence = _provided(options, pipeline, images=images, web=web) if options.calls == PROVIDED else None
        searched = pipeline if evidence is None else None
        agent = (build or _builder(agent_class(options.agent)))(config, searched, replies=replies)
    counts = (lambda: (replies.counts.hits, replies.counts.misses)) if replies is not None else None
    if not isinstance(agent, CragAgent):  # one of another make has no trace and nothing to warm up
        return LaunchedAgent(agent, replies=counts, evidence=evidence)
    # Where replies may all be known no server is asked.
    reach = partial(config.unreachable, **wanted, servers=replies is None) if ours else lambda: None
    warm_up = partial(_warm_up, agent, reach)
    listen = partial(agent.trace_to, None)
    made = LaunchedAgent(agent, warm_up, listen, agent.models.names, counts, evidence)
    if search is None:
        return made
    return replace(made, keep_up=partial(pipeline.kept_up, cancel=agent.cancel, cancelled=CallCancelledError))


def shared_search(options: RunOptions, build: BuildAgent | None) -> tuple[type[Placed], Sequence[Any]] | None:
    """The actor of Ray that searches for all replicas of a machine, and what it is made with.

    None where nothing is searched, or the agent is of another make: it may take from the organiser's pipeline whatever there is.
    """
    if options.suppress_web_search_api and options.suppress_image_search_api:
        return None
    if build is None and not issubclass(agent_class(options.agent), CragAgent):
        return None
    from agents.search.shared_search import SearchActor

    threads = min(options.replicas or 1, os.cpu_count() or 1)
    return SearchActor, (partial(_search_of, options, check=build is None), threads, str(Path.cwd()))


def _search_of(options: RunOptions, *, check: bool) -> Any:
    config, _ = prepare(options)
    with _as_evaluation_errors():
        return _opened(options, config, check=check)


def _opened(options: RunOptions, config: RunConfig, *, check: bool) -> Any:
    """The pipeline of a command line; with ``check`` EvaluationError where a hub that it is fetched from is out of reach."""
    web, images = not options.suppress_web_search_api, not options.suppress_image_search_api
    wanted: dict[str, Any] = {"split": options.split, "web": web, "images": images}
    if check and (why := config.unreachable(**wanted, models=False)) is not None:
        raise EvaluationError(why)
    return config.pipeline(**wanted)


def _warm_up(agent: CragAgent, unreachable: Callable[[], str | None]) -> None:
    """Raises EvaluationError where a model cannot be loaded or reached: before the first question, and only where there is one left."""
    fault = unreachable() or agent.warm_up(blank_turn=False).fault
    if fault is not None:
        raise EvaluationError(f"the models cannot be used: {fault}")


def _provided(options: RunOptions, pipeline: Any, **searches: bool) -> ProvidedEvidence:
    queries = read_full_queries(options.full_query_path) if options.full_query_path is not None else None
    return ProvidedEvidence(pipeline, **searches, full_queries=queries, gold=_gold_entries(options, pipeline))


def _gold_entries(options: RunOptions, pipeline: Any) -> dict[str, dict[str, Any]] | None:
    """Look up the entry of each question's true entity in the pipeline's graph; None unless ``--gold-entity`` is given."""
    if not options.gold_entity or options.diagnostics is None:
        return None
    from evaluation.data.diagnostics import load_diagnostics

    known = load_diagnostics(options.diagnostics, options.split, options.dataset, options.cache).annotations
    return gold_entries({interaction: each.entity for interaction, each in known.items()}, pipeline.crag_image_kg.kg)


def prepare(options: RunOptions) -> tuple[RunConfig, dict[str, Any]]:
    """Read preset and profile.

    Returns:
        Preset and profile as they run; what the run is made with, for run.json and the report.

    Raises:
        EvaluationError: The agent, the preset, the profile, a stage to leave out or a setting is unknown; or a change of the preset or its
            models is asked for with an agent that has none.
    """
    agent = agent_class(options.agent)
    ours = issubclass(agent, CragAgent)
    if not ours:
        changed = {
            "--without": options.without,
            "--set": options.set,
            "--model-name": options.model_name,
            "--base-url": options.base_url,
            "--reply-cache": options.reply_cache,
            "--record-requests": options.record_requests,
        }
        if asked := [flag for flag, value in changed.items() if value]:
            raise EvaluationError(f"{', '.join(asked)} cannot change agent {options.agent!r}, which is {NOT_OURS}")
    with _as_evaluation_errors():
        config = RunConfig.read(
            options.preset,
            options.profile,
            without=options.without,
            overrides=[*options.set, *(["trace.requests=true"] if options.record_requests else [])],
            chat_model=options.model_name,
            base_url=options.base_url,
            cache=options.cache,
        )
    if options.replicas is not None and config.settings.trace.requests:
        raise EvaluationError(
            "requests are recorded (--record-requests) of one agent in this process, without --replicas"
        )
    made = {
        "without": ", ".join(options.without),
        "set": ", ".join(options.set),
        "settings": config.digest,
        # A run from snippets is not resumed with full pages. With fetch the folder grows while it runs
        **({} if config.settings.fetch else {"cached_pages": config.cached_pages}),
        **({"model_name": options.model_name} if options.model_name else {}),
    }
    return config, {
        "agent": f"{agent.__module__}:{agent.__qualname__}",
        **({"preset": config.preset} if ours else {"built": NOT_OURS}),
        "profile": canonical(options.profile),
        **(made if ours else {}),
        "web_search": not options.suppress_web_search_api,
        "image_search": not options.suppress_image_search_api,
        "calls": options.calls,
        **({"gold_entity": True} if options.gold_entity else {}),
    }


def yes_or_no(profile: str, cache: Path) -> YesOrNo:
    """The chat model of a profile as the local judge asks it; ``cache`` holds the models and their replies.

    Raises:
        EvaluationError: There is no such profile, or it is malformed.
    """
    with _as_evaluation_errors():
        config = RunConfig.of_profile(profile, cache=cache)

    @lru_cache(maxsize=1)
    def models() -> ModelSet:
        from agents.models.reply_cache import ReplyStore

        return config.models(replies=ReplyStore(config.cache / REPLIES))

    def chat(role: str) -> ChatModel:
        with _as_evaluation_errors():
            return models().chat(role)

    return YesOrNo(config.profile.name, config.prompts, chat, config.settings.limits.batch_size)


def local_judge(profile: str, cache: Path) -> LocalJudge:
    """The judge called ``local:PROFILE``.

    Raises:
        EvaluationError: There is no such profile, or no cut was fitted for its chat model and this prompt.
    """
    model = yes_or_no(profile, cache)
    return LocalJudge(model, load_cut(model.profile))


def settings_table(
    preset: str,
    profile: str,
    chat_model: str | None = None,
    base_url: str | None = None,
    *,
    without: Sequence[str] = (),
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a preset's settings as plain values, for commands that run it in several ways.

    Raises:
        EvaluationError: There is no such preset or profile, it is malformed, or has no such model to replace; or what is left out or
            replaced is not in the preset.
    """
    with _as_evaluation_errors():
        config = RunConfig.read(
            preset, profile, without=without, overrides=overrides, chat_model=chat_model, base_url=base_url
        )
    return config.settings.model_dump(mode="json")


def gate_models(profile: str, chat_model: str | None = None) -> tuple[str, ...]:
    """Return what ``[models.NAME]`` of presets calls the models that a gate is fitted for: the chat model, then that of image search.

    Raises:
        EvaluationError: There is no such profile, or it is malformed.
    """
    with _as_evaluation_errors():
        return RunConfig.of_profile(profile, chat_model=chat_model).profile.gate_models


@contextmanager
def _as_evaluation_errors() -> Iterator[None]:
    from agents.asking.prompts import PromptError
    from agents.base.linear_head import HeadError
    from agents.models.base import ModelError
    from agents.search.hits import SearchError

    try:
        yield
    except (HeadError, ModelError, PromptError, SearchError, SettingsError) as error:
        raise EvaluationError(str(error)) from error
