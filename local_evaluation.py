"""Run the agent over a CRAG-MM data set and score its answers; ``python local_evaluation.py --help`` says how."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from rich.console import Console

from evaluation.options import parse
from evaluation.records import EvaluationError

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, wire, call. Returns the exit status: 0, 2 for what cannot be done, 130 when stopped by Ctrl-C."""
    options = parse(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    console = Console()
    try:
        return evaluate(options, console) if options.mode == "evaluate" else answer(options, console)
    except EvaluationError as error:
        console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        console.print("stopped")
        return INTERRUPTED


def evaluate(options: argparse.Namespace, console: Console) -> int:
    """Judge saved answers; no agent is built."""
    from evaluation import datasets
    from evaluation.choose_judge import choose_judge
    from evaluation.replay import replay

    judge = choose_judge(options.eval_model, cache=options.cache, style=options.judge_style)
    dataset = None
    if options.dataset is not None:
        dataset = datasets.load(
            options.dataset_type, options.split, options.revision, options.dataset, options.cache, online=_online()
        )
    replay(
        options.input_file,
        judge,
        options.output_dir,
        console,
        dataset=dataset,
        miss_rule=options.miss_rule,
        workers=options.num_workers,
        progress=not options.no_progress,
        display=options.display_conversations,
        with_report=not options.no_report,
    )
    return 0


def answer(options: argparse.Namespace, console: Console) -> int:
    """Build the agent, let it answer, and judge the answers unless only they are wanted."""
    from agents import launch
    from agents.search.types import SearchError
    from agents.settings import SettingsError

    online = _online()
    try:
        launch.prepare(options.cache, options.profile)
        # Only now may Hugging Face's libraries be imported: prepare has told them where their cache is.
        from evaluation import datasets, run
        from evaluation.choose_judge import choose_judge

        judge = choose_judge(options.eval_model, cache=options.cache, style=options.judge_style)
        dataset = datasets.load(
            options.dataset_type, options.split, options.revision, options.dataset, options.cache, online=online
        )
        sessions = dataset.sessions[: options.num_conversations if options.num_conversations > 0 else None]
        web, images = not options.suppress_web_search_api, not options.suppress_image_search_api
        trace_path = run.prepare_output(options.output_dir, options.resume)
        agent = launch.build_agent(
            options.preset,
            options.profile,
            launch.build_pipeline(options.profile, split=options.split, web=web, images=images, cache=options.cache),
            without=options.without,
            trace_path=trace_path,
            cache=options.cache,
        )
    except (SearchError, SettingsError) as error:
        raise EvaluationError(str(error)) from error

    about = {
        "preset": options.preset,
        "profile": options.profile,
        "without": ", ".join(options.without),
        "web_search": web,
        "image_search": images,
    }
    made = run.answer_sessions(
        agent,
        dataset,
        sessions,
        options.output_dir,
        console,
        about=about,
        tokenizer=options.tokenizer,
        resume=options.resume,
        progress=not options.no_progress,
    )
    if made.interrupted:
        return INTERRUPTED
    if options.mode == "generate":
        return 0
    part = run.judge_answers(
        made.turns,
        judge,
        options.output_dir,
        console,
        dataset=dataset,
        name=dataset.name,
        miss_rule=options.miss_rule,
        workers=options.num_workers,
        progress=not options.no_progress,
        display=options.display_conversations,
    )
    if not options.no_report:
        run.report(options.output_dir, [part], {**about, "dataset": dataset.name, "judge": judge.name}, console)
    return 0


def _online() -> bool:
    """Whether images may be fetched: unless Hugging Face's own switch says that there is no network."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() not in {"1", "ON", "YES", "TRUE"}


if __name__ == "__main__":
    sys.exit(main())
