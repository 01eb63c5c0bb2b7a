"""Parts that the benchmarks share: options, the index of the graph's photographs, errors in one line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, Json
from rich.console import Console
from rich.table import Table

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Flag, Options
from agents.models.architecture import ArchitectureError
from agents.models.base import FloatArray, ImageEncoder, ModelError
from agents.models.pixels import to_rgb
from agents.profiles.profile import SettingsError
from agents.runner.pipeline import Pipeline
from agents.search.hits import SearchError
from agents.settings.presets import Settings
from agents.turn import Turn
from evaluation import commands
from evaluation.records import EvaluationError
from mini_crag_mm.content_models import Split
from mini_crag_mm.loader import AskedTurn, read_index_image, read_kg

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


class EncoderOptions(BenchmarkOptions):
    """Options of a benchmark with one image encoder."""

    encoder: Annotated[Json[dict[str, Any]], Flag(metavar="JSON")] = Field(
        {"kind": "object-embedding"}, description="model specification"
    )


def run(
    measure: Callable[[AnyOptions], int],
    options: type[AnyOptions],
    arguments: Sequence[str] | None,
    description: str | None,
) -> int:
    """Run a benchmark and return its exit status, or 2 if it ends in one of ``FAILURES``."""
    cli_options = options.parse(arguments, description=description)
    return commands.run_to_exit_status(lambda: measure(cli_options), Console(stderr=True), FAILURES)


def refuse_other_questions(run: Path, split: Split, common_turns: Collection[object]) -> None:
    """Check that a run has turns in common with a split of the set.

    Raises:
        EvaluationError: It has none.
    """
    if not common_turns:
        raise EvaluationError(
            f"{run} answers no question of {split} as it is now; name the set that the run answered with --split and --cache"
        )


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


def run_stages(turns: Sequence[Turn], settings: Settings, stages: Sequence[str], **parts: Any) -> list[Turn]:
    """Run the named stages of a preset on the turns; ``parts`` are those of ``agents.runner.pipeline.Pipeline``."""
    stage_names = tuple(name for name in settings.stages if name in stages)
    return Pipeline(settings.model_copy(update={"stages": stage_names}), **parts).run(turns)


def embed_graph(split: Split, encoder: ImageEncoder) -> tuple[list[str], FloatArray]:
    """Embed the photographs of the split's image KG.

    Returns:
        Entity ids, and the embeddings in the same order, shape (entities, d).
    """
    images = read_kg(split)
    return [Path(image["image"]).stem for image in images], encoder.encode(
        [read_index_image(image) for image in images]
    )
