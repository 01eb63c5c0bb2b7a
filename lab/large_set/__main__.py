"""Build the larger question set of a split into its own folder of data sets.

    python -m mini_crag_mm.prepare --split validation
    python -m lab.large_set --split validation
    python local_evaluation.py --dataset-type single-turn --dataset .cache/large/datasets --split validation --output-dir results/large

The folder has the organiser's schema and the split's own name, so a run searches the indices of that split. The questions and their scenes
of pairs are in ``content/``; the rules that made them left the repository. ``lab.benchmarks.losses`` reports a run.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from agents.base.files import write_whole
from evaluation.commands import make_console
from lab.benchmarks.common import BenchmarkOptions, build_table, run
from mini_crag_mm.content_models import Content, Split, load_content
from mini_crag_mm.loader import SET, SetPaths, read_layout
from mini_crag_mm.organiser_format import BuiltDatasets, build_datasets

GROUP = "rule"
"""Folder below content/ with the larger set's scenes and questions."""

CONTENT = Path(__file__).parent / "content"
"""Committed scenes and questions, a file of each for a split."""

PAIRS = Path(__file__).parent / "scenes"
"""Committed pictures of pairs, and their layout."""

DATASETS = "datasets"
"""Folder below the root with the data sets of one split."""


def _copy_set(root: Path, split: Split) -> SetPaths:
    """Copy entities, scenes and pictures of the mini set without its questions, and add the split's own."""
    paths = SetPaths(root)
    for source in SET.content.glob("*/*.yaml"):
        if source.stem not in ("single", "dialogs"):
            write_whole(paths.content / source.parent.name / source.name, source.read_bytes())
    for name in ("scenes", "single"):
        write_whole(paths.content / GROUP / f"{name}.yaml", (CONTENT / f"{split}_{name}.yaml").read_bytes())
    for folder, target in ((SET.photos, paths.photos), (SET.other_photos, paths.other_photos)):
        if not target.exists():
            shutil.copytree(folder, target)
    paths.scenes.mkdir(exist_ok=True)
    for picture in [*SET.scenes.glob("*.webp"), *PAIRS.glob("*.webp")]:
        if not (paths.scenes / picture.name).exists():
            shutil.copyfile(picture, paths.scenes / picture.name)
    layouts = {**read_layout(), **read_layout(PAIRS / SET.layout.name)}
    write_whole(paths.layout, json.dumps(layouts, ensure_ascii=False))
    return paths


def list_other_splits(root: Path, split: Split) -> list[str]:
    """Return the other splits that have data sets below ``root``."""
    tables = (root / DATASETS).glob("*/*/data/*.parquet")
    return sorted({table.name.partition("-")[0] for table in tables} - {split})


def build(split: Split, root: Path) -> tuple[BuiltDatasets, Content]:
    """Build the data sets of a split below ``root``, where pictures that it has already are kept.

    Returns:
        The data sets, and the content that they were made of.

    Raises:
        FileExistsError: The folder has the data sets of another split.
    """
    if others := list_other_splits(root, split):
        raise FileExistsError(
            f"{root} has the set of {', '.join(others)}, which that of {split} would replace; name another folder with --out"
        )
    paths = _copy_set(root, split)
    return build_datasets(root / DATASETS, paths), load_content(paths.content)


class LargeSetOptions(BenchmarkOptions):
    """Build about 700 questions, to steer by."""

    out: Path | None = Field(
        None, description="folder to write to, one for each split (default: large/ below the cache)"
    )


def _measure(options: LargeSetOptions) -> int:
    built, content = build(options.split, options.out or options.cache / "large")
    counts = Counter((question.query_category, question.source) for question in content.questions.values())
    rows = [(category, source, str(count)) for (category, source), count in sorted(counts.items())]
    title, headings = f"{options.split}: {counts.total()} questions", ("category", "source", "questions")
    console = make_console()
    console.print(build_table(title, headings, rows, left_columns=2))
    console.print(f"Written to {built.root}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the set and print how many questions of each kind it has.

    Returns:
        0, or 2 if the set cannot be built.
    """
    return run(_measure, LargeSetOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
