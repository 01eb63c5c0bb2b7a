"""Shared by the benchmarks: options, the index of the graph's photographs, errors in one line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agents.models.architecture import ArchitectureError
from agents.models.base import FloatArray, ImageEncoder, ModelError
from agents.pipeline import Pipeline
from agents.search.hits import SearchError
from agents.settings.presets import Settings
from agents.settings.profiles import SettingsError
from agents.settings.run_config import DEFAULT_CACHE
from agents.turn import Turn
from evaluation import commands
from evaluation.records import EvaluationError
from mini_crag_mm.content_models import SPLITS, Split
from mini_crag_mm.loader import index_image, read_kg

FAILURES = (ArchitectureError, EvaluationError, ModelError, SearchError, SettingsError, OSError, ValueError)
"""What a benchmark tells in one line; anything else is a fault of its own."""


def parser_of(
    name: str, description: str | None, *, profile: bool = False, encoder: bool = False
) -> argparse.ArgumentParser:
    """A parser with the options of every benchmark, ``--split`` and ``--cache``; where asked for, ``--profile`` and ``--encoder``."""
    parser = commands.parser_of(f"benchmarks.{name}", description)
    add = parser.add_argument
    add("--split", choices=SPLITS, default="validation", help="tune on validation only (the default)")
    add("--cache", type=Path, default=DEFAULT_CACHE, help="folder that mini_crag_mm.prepare filled (default: .cache)")
    if profile:
        add("--profile", default="embedded", help="profile of the models (default: embedded)")
    if encoder:
        add("--encoder", default='{"kind": "object-embedding"}', metavar="JSON", help="model specification")
    return parser


def run(
    measure: Callable[[argparse.Namespace], int], parser: argparse.ArgumentParser, arguments: Sequence[str] | None
) -> int:
    """The exit status of a benchmark: its own, or 2 where it ends in one of ``FAILURES``."""
    options = parser.parse_args(arguments)
    return commands.exit_status(lambda: measure(options), Console(stderr=True), FAILURES)


def table_of(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> Table:
    """A table for the terminal; the first ``left`` columns are words, the others figures."""
    table = Table(title=title)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < left else "right")
    for row in rows:
        table.add_row(*row)
    return table


def through(turns: Sequence[Turn], settings: Settings, stages: Sequence[str], **parts: Any) -> list[Turn]:
    """The turns after those of a preset's stages that are named; ``parts`` are those of ``agents.pipeline.Pipeline``."""
    kept = tuple(name for name in settings.stages if name in stages)
    return Pipeline(settings.model_copy(update={"stages": kept}), **parts).run(turns)


def graph_index(split: Split, encoder: ImageEncoder) -> tuple[list[str], FloatArray]:
    """Entity ids of the split's image KG, and the embeddings of their photographs in the same order, shape (entities, d)."""
    images = read_kg(split)
    return [Path(image["image"]).stem for image in images], encoder.encode([index_image(image) for image in images])
