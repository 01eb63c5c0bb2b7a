"""Builds the agent of a run. This is the only module of the evaluation that imports the agent's settings; others use ``BaseAgent``."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.base.cluster import NodeActor
from agents.base.named import ImportPath, canonical, import_object, look_up
from agents.base_agent import BaseAgent
from agents.crag_agent import CragAgent
from agents.profiles.profile import MODELS, PRESETS, SettingsError
from agents.search.collection import Collection
from agents.settings.run_config import RunConfig, preset_names
from agents.stage import stage_groups
from agents.time_limits.deadline import CallCancelledError
from evaluation.files.manifest import FULL_QUERIES, INDEX, SPLIT
from evaluation.judge.local_judge import LocalJudge, YesOrNo, load_cut
from evaluation.records import REPLIES, EvaluationError
from evaluation.run.calls import Answering, CallResult, ReplyCounts
from evaluation.run.foreign_agent import ForeignAgent, ForeignAgentPlace, find_python
from evaluation.run.options import PROVIDED, RunOptions
from evaluation.run.provided_evidence import ProvidedEvidence, look_up_gold_entries, read_full_queries

if TYPE_CHECKING:
    from agents.models.base import ChatModel
    from agents.profiles.model_set import ModelSet

__all__ = [
    "MODELS",
    "PRESETS",
    "LaunchedAgent",
    "RunConfig",
    "gate_models",
    "launch_agent",
    "make_local_judge",
    "make_yes_or_no",
    "plan_shared_search",
    "prepare",
    "preset_names",
    "read_settings",
    "stage_groups",
]  # fmt: skip

BuildAgent = Callable[..., BaseAgent]
"""Takes the arguments of ``CragAgent.from_config``."""

NOT_OURS = "built as the organiser builds it: no preset is applied, and of the profile the search alone"
"""Value of ``built`` in run.json for an agent that is not derived from ``CragAgent``."""

AGENT_LOG = "agent.log"
"""File in the output folder: what an agent of another repository prints."""

RELEASE_MODEL = "meta-llama/Llama-3.2-11B-Vision-Instruct"
"""Model with which the research release builds an agent unless told otherwise."""


@dataclass(frozen=True)
class LaunchedAgent:
    """An agent, or several that answer as one, with the functions that a run needs beside answers.

    Attributes:
        warm_up: Loads its models; does nothing when called again.
        listen: Makes it pass its records (``Listen``); ``pictures`` is a folder for those of requests. None if it keeps no records, or
            returns them with each reply.
        models: Returns the names of its loaded models by role.
        replies: Returns hits and misses of its reply cache so far; None without a cache.
        evidence: Searches in its place; None: it searches itself.
        keep_up: Makes a call, and repeats it if the shared search was lost meanwhile.
        close: Ends the process of an agent that has one.
    """

    agent: BaseAgent | Answering
    warm_up: Callable[[], object] = lambda: None
    listen: Callable[..., object] | None = None
    models: Callable[[], dict[str, str]] = dict
    replies: ReplyCounts | None = None
    evidence: ProvidedEvidence | None = None
    keep_up: Callable[[Callable[[], CallResult]], CallResult] = lambda ask: ask()
    close: Callable[[], None] = lambda: None


def choose_file_finder(knowledge: Path | None) -> Callable[[str], tuple[Path, str] | None] | None:
    """Return the function that finds the files of a collection's sources; None without a collection."""
    return None if knowledge is None else Collection(knowledge).find_source


def look_up_agent_class(reference: str) -> type[BaseAgent]:
    """Return the class that ``--agent`` names.

    Raises:
        EvaluationError: It cannot be imported, is no ``BaseAgent``, or cannot be built with the arguments that it would get.
    """
    place = look_up(reference, "agent", EvaluationError, attribute="ClassName")
    assert isinstance(place, ImportPath)
    agent: type[BaseAgent] = import_object(place, reference, "agent", EvaluationError, BaseAgent)
    if inspect.isabstract(agent):
        missing = ", ".join(sorted(agent.__abstractmethods__))
        raise EvaluationError(f"agent {reference!r} cannot be built: it does not define {missing}")
    arguments = ["settings", "models", "prompts"] if issubclass(agent, CragAgent) else []
    try:
        inspect.signature(agent).bind(**dict.fromkeys(["search_pipeline", *arguments]))
    except TypeError as error:
        raise EvaluationError(
            f"agent {reference!r} cannot be built: its __init__ gets {', '.join(['search_pipeline', *arguments])}, and has {error}"
        ) from error
    return agent


def _choose_builder(agent: type[BaseAgent]) -> BuildAgent:
    if issubclass(agent, CragAgent):
        return agent.from_config
    # These are the parameters of the starter kit's agents; ``BaseAgent`` leaves them to each agent.
    return lambda _, search_pipeline, **__: agent(search_pipeline=search_pipeline)


def launch_agent(
    options: RunOptions, config: RunConfig, build: BuildAgent | None = None, search: Any = None
) -> LaunchedAgent:
    """Build the agent of a command line.

    Args:
        options: The command line.
        config: Preset and profile as they run.
        build: Builds the agent in place of ``--agent``.
        search: Actor that searches for it (``plan_shared_search``); None: it opens the indices itself.

    Raises:
        EvaluationError: A model or an index is missing, or a setting is wrong.
        GoneError: The actor has died for good.
    """
    from agents.models.reply_cache import ReplyStore

    web, images = not options.suppress_web_search_api, not options.suppress_image_search_api
    with convert_to_evaluation_errors():
        folder = options.reply_folder
        replies = ReplyStore(folder) if folder is not None else None
        search_plan = _plan_search(options, config)
        ours = build is None and _is_ours(options)
        if search is not None:
            from agents.search.shared_search import SharedSearch

            pipeline: Any = SharedSearch(search)
        else:
            pipeline = _open_pipeline(options, config, check=ours)
        evidence = _make_evidence(options, pipeline, images=images, web=web) if options.calls == PROVIDED else None
        searched = pipeline if evidence is None else None
        if build is None and (place := _find_foreign_agent(options)) is not None:
            return _launch_foreign_agent(options, config, place, searched, evidence)
        agent = (build or _choose_builder(look_up_agent_class(options.agent)))(config, searched, replies=replies)
    counts = (lambda: (replies.counts.hits, replies.counts.misses)) if replies is not None else None
    if not isinstance(agent, CragAgent):  # other agents have no trace and no warm-up
        return LaunchedAgent(agent, replies=counts, evidence=evidence)
    # With a reply cache every reply may be known, so that no server is needed.
    reach = (
        partial(config.unreachable, **search_plan, servers=replies is None and not options.no_probe)
        if ours
        else lambda: None
    )
    warm_up = lru_cache(maxsize=1)(partial(_warm_up, agent, reach))  # a replica calls it before each call
    listen = partial(agent.trace_to, None)
    launched_agent = LaunchedAgent(agent, warm_up, listen, agent.models.names, counts, evidence)
    if search is None:
        return launched_agent
    return replace(launched_agent, keep_up=partial(pipeline.kept_up, cancel=agent.cancel, cancelled=CallCancelledError))


def _is_ours(options: RunOptions) -> bool:
    """Return whether the agent runs a preset under a profile."""
    return options.agent_root is None and issubclass(look_up_agent_class(options.agent), CragAgent)


def _find_foreign_agent(options: RunOptions) -> ForeignAgentPlace | None:
    """Return the place of an agent of another repository; None without ``--agent-root``.

    Raises:
        EvaluationError: There is no such folder or interpreter, or ``--agent`` is no import path.
    """
    if options.agent_root is None:
        return None
    look_up(options.agent, "agent", EvaluationError, attribute="ClassName")
    root = options.agent_root.resolve()
    if not root.is_dir():
        raise EvaluationError(f"--agent-root {root} is no folder; name the repository that {options.agent} belongs to")
    return ForeignAgentPlace(
        root,
        options.agent,
        find_python(root, options.agent_python),
        options.output_dir.absolute() / AGENT_LOG,
        options.agent_seconds,
        None if options.agent_memory is None else int(options.agent_memory * 1e9),
    )


def _launch_foreign_agent(
    options: RunOptions, config: RunConfig, place: ForeignAgentPlace, search: Any, evidence: ProvidedEvidence | None
) -> LaunchedAgent:
    from agents.search.pages.web_cache import PageCache
    from agents.search.paths import organiser_pages

    cache = PageCache(config.page_folder, further=(organiser_pages(),))
    release = {
        "model_name": options.model_name or RELEASE_MODEL,
        "is_multi_turn": options.dataset_type == "multi-turn",
    }
    agent = ForeignAgent(
        place,
        release if options.calls == PROVIDED else None,
        search,
        images=not options.suppress_image_search_api,
        read_page=lambda url: cache.get_all([url]).get(url, ""),
        pages=config.page_folder.absolute(),
    )
    return LaunchedAgent(agent, evidence=evidence, close=agent.close)


def plan_shared_search(options: RunOptions, build: BuildAgent | None) -> tuple[type[NodeActor], Sequence[Any]] | None:
    """Return the Ray actor that searches for all replicas of a machine, and its arguments.

    Returns:
        None if nothing is searched, or the agent is of another make: it may use all of the organiser's pipeline.
    """
    if options.suppress_web_search_api and options.suppress_image_search_api:
        return None
    if build is None and not issubclass(look_up_agent_class(options.agent), CragAgent):
        return None
    from agents.search.shared_search import SearchActor

    threads = min(options.replicas or 1, os.cpu_count() or 1)
    return SearchActor, (partial(_build_search, options, check=build is None), threads, str(Path.cwd()))


def _build_search(options: RunOptions, *, check: bool) -> Any:
    config, _ = prepare(options)
    with convert_to_evaluation_errors():
        return _open_pipeline(options, config, check=check)


def _plan_search(options: RunOptions, config: RunConfig) -> dict[str, Any]:
    """Return what a command line searches, as arguments of ``RunConfig.pipeline``."""
    web, images = not options.suppress_web_search_api, not options.suppress_image_search_api
    return config.plan_search(options.split, web=web, images=images)


def _open_pipeline(options: RunOptions, config: RunConfig, *, check: bool) -> Any:
    """Open the search pipeline of a command line.

    Raises:
        EvaluationError: With ``check``, a hub that the indices are fetched from is out of reach. Or the profile searches by a class of its
            own, and the agent or ``--calls`` takes the organiser's pipeline.
    """
    search_plan = _plan_search(options, config)
    if check and (why := config.unreachable(**search_plan, models=False)) is not None:
        raise EvaluationError(why)
    search = config.profile.search
    ours = _is_ours(options)
    if not search.is_pipeline and (options.calls == PROVIDED or not ours):
        reason = f"--calls {PROVIDED}" if options.calls == PROVIDED else f"--agent {options.agent}"
        raise EvaluationError(
            f"{reason} takes the organiser's pipeline, and profile {config.profile.name!r} searches by {search.kind!r}: "
            "take a profile whose [search] has kind embedded or organiser"
        )
    return config.pipeline(**search_plan)


def _warm_up(agent: CragAgent, unreachable: Callable[[], str | None]) -> None:
    """Load the models, before the first question that is left.

    Raises:
        EvaluationError: A model cannot be loaded or reached.
    """
    fault = unreachable() or agent.warm_up(blank_turn=False).fault
    if fault is not None:
        raise EvaluationError(f"the models cannot be used: {fault}")


def _make_evidence(options: RunOptions, pipeline: Any, **searches: bool) -> ProvidedEvidence:
    queries = read_full_queries(options.full_query_path) if options.full_query_path is not None else None
    return ProvidedEvidence(pipeline, **searches, full_queries=queries, gold=_gold_entries(options, pipeline))


def _gold_entries(options: RunOptions, pipeline: Any) -> dict[str, dict[str, Any]] | None:
    """Look up the entry of each question's true entity in the graph; None without ``--gold-entity``."""
    if not options.gold_entity or options.diagnostics is None:
        return None
    from evaluation.data.diagnostics import load_diagnostics

    annotations = load_diagnostics(options.diagnostics, options.split, options.dataset, options.cache).annotations
    return look_up_gold_entries(
        {interaction: each.entity for interaction, each in annotations.items()}, pipeline.crag_image_kg.kg
    )


def prepare(options: RunOptions) -> tuple[RunConfig, dict[str, Any]]:
    """Read preset and profile.

    Returns:
        Preset and profile as they run, and what the run is made with, for run.json and the report.

    Raises:
        EvaluationError: The agent, the preset, the profile, a stage to leave out or a setting is unknown. Or the options change the
            preset or its models, and the agent has none.
    """
    foreign, ours = _find_foreign_agent(options), _is_ours(options)
    if not ours:
        changed = {
            "--without": options.without,
            "--set": options.set,
            "--model-name": options.model_name if foreign is None or options.calls != PROVIDED else None,
            "--base-url": options.base_url,
            "--max-connections, --max-retries, --max-wait, --reasoning-tokens, --boxes": options.server,
            "--reply-cache": options.reply_cache,
            "--record-requests": options.record_requests,
        }
        if flags := [flag for flag, value in changed.items() if value]:
            raise EvaluationError(f"{', '.join(flags)} cannot change agent {options.agent!r}, which is {NOT_OURS}")
    with convert_to_evaluation_errors():
        if foreign is not None:
            # No preset is read: forks have environment variables CRAG_... of their own, which name no setting of ours.
            config = RunConfig.of_profile(options.profile, cache=options.cache, knowledge=options.knowledge)
        else:
            config = RunConfig.read(
                options.preset,
                options.profile,
                without=options.without,
                overrides=[*options.set, *(["trace.requests=true"] if options.record_requests else [])],
                chat_model=options.model_name,
                base_url=options.base_url,
                server=options.server,
                cache=options.cache,
                knowledge=options.knowledge,
            )
        index = config.describe_indices(**_plan_search(options, config))
    if options.replicas is not None and config.settings.trace.requests:
        raise EvaluationError("--record-requests works with one agent in this process; leave --replicas out")
    method = {
        "without": ", ".join(options.without),
        "set": ", ".join(options.set),
        "settings": config.digest,
        # A run from snippets must not be resumed with full pages. With fetch the folder grows during the run.
        **({} if config.settings.fetch else {"cached_pages": config.cached_pages}),
        "reasoning_tokens": options.reasoning_tokens or None,
    }
    if foreign is None:
        agent = look_up_agent_class(options.agent)
        agent_fields = {"agent": f"{agent.__module__}:{agent.__qualname__}"}
    else:
        agent_fields = {"agent": options.agent, **foreign.describe()}
    return config, {
        **agent_fields,
        **({"preset": config.preset} if ours else {"built": NOT_OURS}),
        "profile": canonical(options.profile),
        "model_name": options.model_name or None,
        **(method if ours else {}),
        "web_search": not options.suppress_web_search_api,
        "image_search": not options.suppress_image_search_api,
        "calls": options.calls,
        "knowledge": None if config.collection is None else config.collection.name,
        SPLIT: options.split if config.collection is None else None,
        INDEX: index or None,
        FULL_QUERIES: _hash_full_queries(options),
        "gold_entity": options.gold_entity or None,
    }


def _hash_full_queries(options: RunOptions) -> str | None:
    """Return a short name of the queries that the web is searched by in place of the questions, or None.

    Raises:
        EvaluationError: Their file cannot be read.
    """
    if options.calls != PROVIDED or options.full_query_path is None:
        return None
    queries = read_full_queries(options.full_query_path)
    return hashlib.sha256(json.dumps(queries, sort_keys=True).encode()).hexdigest()[:12]


def make_yes_or_no(profile: str, cache: Path) -> YesOrNo:
    """Return the chat model of a profile as the local judge asks it.

    Args:
        profile: Name of the profile.
        cache: Folder of the models and their replies.

    Raises:
        EvaluationError: There is no such profile, or it is malformed.
    """
    with convert_to_evaluation_errors():
        config = RunConfig.of_profile(profile, cache=cache)

    @lru_cache(maxsize=1)
    def models() -> ModelSet:
        from agents.models.reply_cache import ReplyStore

        return config.models(replies=ReplyStore(config.cache / REPLIES))

    def chat(role: str) -> ChatModel:
        with convert_to_evaluation_errors():
            return models().chat(role)

    return YesOrNo(config.profile.name, config.prompts, chat, config.settings.limits.batch_size)


def make_local_judge(profile: str, cache: Path) -> LocalJudge:
    """Return the judge called ``local:PROFILE``.

    Raises:
        EvaluationError: There is no such profile.
    """
    model = make_yes_or_no(profile, cache)
    return LocalJudge(model, load_cut(model.profile))


def read_settings(
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
        EvaluationError: There is no such preset or profile, it is malformed, or has no such model to replace. Or a part to leave out or
            replace is not in the preset.
    """
    with convert_to_evaluation_errors():
        config = RunConfig.read(
            preset, profile, without=without, overrides=overrides, chat_model=chat_model, base_url=base_url
        )
    return config.settings.model_dump(mode="json")


def gate_models(profile: str, chat_model: str | None = None) -> tuple[str, ...]:
    """Return the names that ``[models.NAME]`` of presets gives to the models that a gate is fitted for.

    Returns:
        The chat model, then the one of image search.

    Raises:
        EvaluationError: There is no such profile, or it is malformed.
    """
    with convert_to_evaluation_errors():
        return RunConfig.of_profile(profile, chat_model=chat_model).profile.gate_models


@contextmanager
def convert_to_evaluation_errors() -> Iterator[None]:
    """Raise what keeps an agent from starting as an EvaluationError, which commands print in one line."""
    from agents.asking.prompts import PromptError
    from agents.base.linear_head import HeadError
    from agents.models.base import ModelError
    from agents.search.hits import SearchError

    try:
        yield
    except (HeadError, ModelError, PromptError, SearchError, SettingsError) as error:
        raise EvaluationError(str(error)) from error
