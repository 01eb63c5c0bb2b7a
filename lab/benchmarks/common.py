"""Parts that the benchmarks share: options, tables, errors in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from pydantic import Field
from rich.console import Console
from rich.table import Table

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Options
from agents.models.base import ModelError
from agents.models.pixels import to_rgb
from agents.profiles.profile import SettingsError
from agents.search.hits import SearchError
from agents.turn import Turn
from apps.preflight.architecture import ArchitectureError
from evaluation import commands
from evaluation.records import EvaluationError
from mini_crag_mm.content_models import Split
from mini_crag_mm.loader import AskedTurn

FAILURES = (ArchitectureError, EvaluationError, ModelError, SearchError, SettingsError, OSError, ValueError)
"""Errors that a benchmark reports in one line; anything else is a fault of its own."""


AnyOptions = TypeVar("AnyOptions", bound=Options)


class BenchmarkOptions(Options):
    """Options of every benchmark on the mini set."""

    split: Split = Field("validation", description="split of the mini set; tune on validation only")
    cache: CacheOption = Field(DEFAULT_CACHE, description="folder that mini_crag_mm.prepare filled")


class ProfileOptions(BenchmarkOptions):
    """Options of a benchmark with the models of a profile."""

    profile: str = Field("embedded", description="profile of the models")


def run(
    measure: Callable[[AnyOptions], int],
    options: type[AnyOptions],
    arguments: Sequence[str] | None,
    description: str | None,
) -> int:
    """Run a benchmark and return its exit status, or 2 if it ends in one of ``FAILURES``."""
    cli_options = options.parse(arguments, description=description)
    return commands.run_to_exit_status(lambda: measure(cli_options), Console(stderr=True), FAILURES)


def build_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, left_columns: int = 1) -> Table:
    """Build a table for the terminal; the first ``left_columns`` columns are words, the others figures."""
    table = Table(title=title)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < left_columns else "right")
    for row in rows:
        table.add_row(*row)
    return table


def make_turn(question: AskedTurn) -> Turn:
    """Make a turn of a question of the mini set, as the agent does of a query."""
    return Turn(question.turn.query, question.image and to_rgb(question.image), question.history)
