"""Shared by all commands: where they print, errors in one line, exit statuses."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console

from agents.base.files import is_of_files, told, well_formed
from agents.base.secrets import keep_out_of_logs
from evaluation.records import EvaluationError

_WIDE = 240  # characters


def output(*, aside: bool = False) -> Console:
    """Where a command prints: the terminal, or a file or pipe, in which tables are as wide as they have to be.

    ``aside``: standard error, where standard output is for JSON alone.
    """
    console = Console(stderr=aside)
    return console if console.is_terminal else Console(width=_WIDE, stderr=aside)


def print_json(content: Mapping[str, Any]) -> None:
    """Print JSON for programs on standard output, as files have it."""
    print(json.dumps(content, indent=2, ensure_ascii=False))


def first_line(error: BaseException) -> str:
    """The first line of what an error says; its type where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def exit_status(
    run: Callable[[], int | None], console: Console, failures: tuple[type[Exception], ...] = (EvaluationError,)
) -> int:
    """What ``run`` returns, 0 for None; 2 where it raises one of ``failures``, or a file or disk cannot be used, which is printed."""
    keep_out_of_logs()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        return run() or 0
    except OSError as error:
        if not (is_of_files(error) or isinstance(error, failures)):
            raise
        said = told(error)
    except failures as error:
        said = well_formed(str(error))
    try:
        console.print(f"error: {said}", style="red", markup=False, soft_wrap=True)
    except OSError:  # what it prints into is on the full disk too
        print(f"error: {said}", file=sys.stderr)
    return 2
