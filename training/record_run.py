"""Answers a split as local_evaluation.py does and records every chat request, so that ``training.collect`` can make training data of it.

    python -m training.record_run --dataset-type single-turn --split validation --preset best --profile gpu --output-dir results/record

Takes the flags of local_evaluation.py. Beside the run's own files it writes ``chat.jsonl`` and ``chat_images/`` into the folder of
each data set.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from agents.base_agent import BaseAgent
from agents.settings.run_config import RunConfig
from evaluation.run import command


def build(config: RunConfig, search_pipeline: Any = None, **options: Any) -> BaseAgent:
    """As ``CragAgent.from_config``, with every chat request recorded beside the trace; replies are not taken from a cache."""
    from training.recorded_agent import RecordedAgent, Recorder, RecordingRegistry

    recorder = Recorder()
    options |= {"models": config.models(partial(RecordingRegistry, recorder)), "replies": None}
    return RecordedAgent.from_config(config, search_pipeline, recorder=recorder, **options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: that of local_evaluation.py."""
    return command.main(arguments, build=build)


if __name__ == "__main__":
    sys.exit(main())
