"""Build the larger question set of a split into its own folder of data sets.

    python -m mini_crag_mm.prepare --split validation
    python -m lab.large_set --split validation
    python local_evaluation.py --dataset-type single-turn --dataset .cache/large/datasets --split validation --output-dir results/large

The folder has the organiser's schema and the split's own name, so a run searches the indices of that split. Questions are those of
``lab.large_set.questions``; ``content/rule/single.yaml`` in the folder shows them. ``lab.benchmarks.losses`` reports a run.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import Field

from agents.base.files import write_whole
from evaluation.commands import make_console
from lab.benchmarks.common import BenchmarkOptions, build_table, run
from lab.large_set.questions import QuestionMaker, make_pair_scenes
from lab.large_set.templates import Templates, read_templates
from mini_crag_mm.content_models import Content, Item, Scene, Split, load_content
from mini_crag_mm.generator.set_rules import compute_fingerprint
from mini_crag_mm.index_contents import BACKGROUND, list_pages
from mini_crag_mm.loader import SET, SetPaths, WebPage, read_layout
from mini_crag_mm.organiser_format import BuiltDatasets, build_datasets

GROUP = "rule"
"""Folder below content/ with the scenes and questions that are made here."""

PAIRS = Path(__file__).parent / "scenes"
"""Committed pictures of pairs, composed by a program that left the repository, and their layout."""

DATASETS = "datasets"
"""Folder below the root with the data sets of one split."""


def _dump(target: Path, items: Sequence[Item]) -> None:
    rows = [item.model_dump(mode="json", exclude_defaults=True) for item in items]
    write_whole(target, yaml.safe_dump(rows, sort_keys=False, allow_unicode=True, width=140))


def _copy_set(root: Path) -> SetPaths:
    """Copy what the new questions stand on: entities, scenes and pictures, without the mini set's own questions."""
    paths = SetPaths(root)
    for source in SET.content.glob("*/*.yaml"):
        if source.stem not in ("single", "dialogs"):
            write_whole(paths.content / source.parent.name / source.name, source.read_bytes())
    shutil.rmtree(paths.content / GROUP, ignore_errors=True)
    for folder, target in ((SET.photos, paths.photos), (SET.other_photos, paths.other_photos)):
        if not target.exists():
            shutil.copytree(folder, target)
    paths.scenes.mkdir(exist_ok=True)
    for picture in [*SET.scenes.glob("*.webp"), *PAIRS.glob("*.webp")]:
        if not (paths.scenes / picture.name).exists():
            shutil.copyfile(picture, paths.scenes / picture.name)
    return paths


def _merge_layout(paths: SetPaths) -> None:
    """Write the layouts of the mini set's scenes and of the pairs into one file."""
    write_whole(paths.layout, json.dumps({**read_layout(), **read_layout(PAIRS / SET.layout.name)}, ensure_ascii=False))


def list_pair_scenes(content: Content, templates: Templates, split: Split) -> list[Scene]:
    """List the pairs of a split that have a committed picture of the photographs as they are now."""
    made_from = {name: layout["made_from"] for name, layout in read_layout(PAIRS / SET.layout.name).items()}
    scenes = make_pair_scenes(content, templates, split)
    return [scene for scene in scenes if made_from.get(scene.id) == compute_fingerprint(scene, SET)]


def list_other_splits(root: Path, split: Split) -> list[str]:
    """Return the other splits that have data sets below ``root``."""
    tables = (root / DATASETS).glob("*/*/data/*.parquet")
    return sorted({table.name.partition("-")[0] for table in tables} - {split})


def build(
    split: Split,
    root: Path,
    pages: Sequence[WebPage],
) -> tuple[BuiltDatasets, Content]:
    """Build the data sets of a split below ``root``.

    Args:
        split: Split whose entities, scenes and pages are asked about.
        root: Folder to write to; pictures that it has already are kept.
        pages: Pages of the split's index, which decide what nothing answers.

    Returns:
        The data sets, and the content that they were made of.

    Raises:
        FileExistsError: The folder has the data sets of another split.
    """
    if others := list_other_splits(root, split):
        raise FileExistsError(
            f"{root} has the set of {', '.join(others)}, which that of {split} would replace; name another folder with --out"
        )
    templates, paths = read_templates(), _copy_set(root)
    _merge_layout(paths)
    _dump(paths.content / GROUP / "scenes.yaml", list_pair_scenes(load_content(SET.content), templates, split))
    content = load_content(paths.content)
    maker = QuestionMaker(content, read_layout(paths.layout), pages, templates, split)
    _dump(paths.content / GROUP / "single.yaml", maker.make_all())
    return build_datasets(root / DATASETS, paths), load_content(paths.content)


class LargeSetOptions(BenchmarkOptions):
    """Build about 1,000 questions by rule, to steer by."""

    out: Path | None = Field(
        None, description="folder to write to, one for each split (default: large/ below the cache)"
    )


def _measure(options: LargeSetOptions) -> int:
    root = options.out or options.cache / "large"
    built, content = build(options.split, root, list_pages(options.split, BACKGROUND))
    counts = Counter((question.query_category, question.source) for question in content.questions.values())
    rows = [(category, source, str(count)) for (category, source), count in sorted(counts.items())]
    console = make_console()
    console.print(
        build_table(
            f"{options.split}: {counts.total()} questions", ("category", "source", "questions"), rows, left_columns=2
        )
    )
    console.print(f"Written to {built.root}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the set and print how many questions of each kind it has.

    Returns:
        0, or 2 if a source is missing.
    """
    return run(_measure, LargeSetOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
