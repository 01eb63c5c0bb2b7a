"""Answers a split as local_evaluation.py does and records every chat request, so that ``training.collect`` can make training data of it.

    python -m training.record --dataset-type single-turn --split validation --preset best --profile gpu --output-dir results/record

Takes the flags of local_evaluation.py. Beside the run's own files it writes ``chat.jsonl`` and ``chat_images/`` into the folder of
each data set.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from agents.base_agent import BaseAgent
from evaluation.run import command


def build(*arguments: Any, **options: Any) -> BaseAgent:
    """See ``RecordedAgent.recorded``, which may be imported only when Hugging Face's cache has been set."""
    from training.recorded_agent import RecordedAgent

    return RecordedAgent.recorded(*arguments, **options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: that of local_evaluation.py."""
    return command.main(arguments, build=build)


if __name__ == "__main__":
    sys.exit(main())
