"""Run the agent over a CRAG-MM data set and score its answers; ``python local_evaluation.py --help`` says how."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console

from agents.secrets import keep_out_of_logs
from evaluation.records import EvaluationError
from evaluation.run.options import data_folders, parse, reply_cache

if TYPE_CHECKING:
    from agents.base_agent import BaseAgent
    from agents.launch import Launch
    from evaluation.data.crag_dataset import CragDataset, DatasetType

INTERRUPTED = 130


def main(
    arguments: Sequence[str] | None = None,
    console: Console | None = None,
    build: Callable[..., BaseAgent] | None = None,
) -> int:
    """Parse, wire, call. Returns the exit status: 0, 2 for what cannot be done, 130 when stopped by Ctrl-C.

    Args:
        build: Builds the agent instead of ``CragAgent.from_launch``, with the same arguments.
    """
    options = parse(arguments)
    keep_out_of_logs()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    console = console or Console()
    try:
        return evaluate(options, console) if options.mode == "evaluate" else answer(options, console, build)
    except EvaluationError as error:
        console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        console.print("stopped")
        return INTERRUPTED


def evaluate(options: argparse.Namespace, console: Console) -> int:
    """Judge saved answers; no agent is built."""
    from evaluation.files.manifest import read_manifest
    from evaluation.judge.choose_judge import choose_judge
    from evaluation.run.saved_answers import replay
    from evaluation.run.steps import report

    judge = choose_judge(options.eval_model, cache=options.cache, style=options.judge_style)
    parts, about = [], {}
    for kind, folder in data_folders(options):
        part = replay(
            options.input_file,
            judge,
            folder,
            console,
            dataset=_load(kind, options) if options.dataset is not None else None,
            miss_rule=options.miss_rule,
            workers=options.num_workers,
            progress=not options.no_progress,
            display=options.display_conversations,
        )
        parts.append(part)
        about = read_manifest(options.input_file.parent if options.input_file is not None else folder)
    if not options.no_report:
        names = " and ".join(part.name for part in parts)
        report(options.output_dir, parts, {**about, "dataset": names, "judge": judge.name}, console)
    return 0


def answer(options: argparse.Namespace, console: Console, build: Callable[..., BaseAgent] | None = None) -> int:
    """Build the agent once, let it answer each data set, and judge the answers unless only they are wanted."""
    from agents.crag_agent import CragAgent
    from agents.launch import Launch
    from agents.models.base import ModelError
    from agents.search.hits import SearchError
    from agents.settings import SettingsError

    web, images = not options.suppress_web_search_api, not options.suppress_image_search_api
    try:
        launch = Launch.read(
            options.preset, options.profile, without=options.without, overrides=options.set, cache=options.cache
        )
        about = describe(options, launch)
        launch.prepare()
        # Only now may Hugging Face's libraries be imported: prepare has told them where their cache is.
        from agents.models.chat.reply_cache import ReplyStore
        from evaluation.judge.choose_judge import choose_judge
        from evaluation.run import steps as run

        judge = choose_judge(options.eval_model, cache=options.cache, style=options.judge_style)
        asked = [(kind, _load(kind, options), folder) for kind, folder in data_folders(options)]
        folder_of_replies = reply_cache(options)
        replies = ReplyStore(folder_of_replies) if folder_of_replies is not None else None
        pipeline = launch.pipeline(split=options.split, web=web, images=images)
        agent = (build or CragAgent.from_launch)(launch, pipeline, replies=replies)
    except (ModelError, SearchError, SettingsError) as error:
        raise EvaluationError(str(error)) from error

    own = agent if isinstance(agent, CragAgent) else None  # one of another make has no trace and nothing to warm up
    parts = []
    for kind, dataset, folder in asked:
        trace = run.prepare_output(folder, options.resume)
        if own is not None:
            own.trace_to(trace)
        made = run.answer_sessions(
            agent,
            dataset,
            dataset.sessions[: options.num_conversations.of(kind)],
            folder,
            console,
            about=about,
            tokenizer=options.tokenizer,
            resume=options.resume,
            progress=not options.no_progress,
            warm_up=partial(own.warm_up, blank_turn=False) if own is not None else None,
            replies=(lambda: (replies.counts.hits, replies.counts.misses)) if replies is not None else None,
            models=own.models.names if own is not None else None,
        )
        if made.interrupted:
            return INTERRUPTED
        if options.mode == "generate":
            continue
        part = run.judge_answers(
            made.turns,
            judge,
            folder,
            console,
            dataset=dataset,
            name=dataset.name,
            miss_rule=options.miss_rule,
            workers=options.num_workers,
            progress=not options.no_progress,
            display=options.display_conversations,
        )
        parts.append(part)
    if parts and not options.no_report:
        names = " and ".join(part.name for part in parts)
        run.report(options.output_dir, parts, {**about, "dataset": names, "judge": judge.name}, console)
    return 0


def describe(options: argparse.Namespace, launch: Launch) -> dict[str, Any]:
    """What a run is made with, for run.json and the report."""
    return {
        "preset": options.preset,
        "profile": options.profile,
        "without": ", ".join(options.without),
        "set": ", ".join(options.set),
        "web_search": not options.suppress_web_search_api,
        "image_search": not options.suppress_image_search_api,
        "settings": launch.digest,
    }


def presets() -> list[str]:
    """The presets that can be run."""
    from agents.launch import preset_names

    return preset_names()


def settings_table(preset: str, profile: str) -> dict[str, Any]:
    """A preset's settings as plain values, for commands that run it in several ways.

    Raises:
        EvaluationError: There is no such preset or profile, or it is malformed.
    """
    from agents.launch import Launch
    from agents.settings import SettingsError

    try:
        return Launch.read(preset, profile).settings.model_dump(mode="json")
    except SettingsError as error:
        raise EvaluationError(str(error)) from error


def _load(kind: DatasetType, options: argparse.Namespace) -> CragDataset:
    from evaluation.data import crag_dataset

    return crag_dataset.load(kind, options.split, options.revision, options.dataset, options.cache, online=_online())


def _online() -> bool:
    """Whether images may be fetched: unless Hugging Face's own switch says that there is no network."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() not in {"1", "ON", "YES", "TRUE"}


if __name__ == "__main__":
    sys.exit(main())
