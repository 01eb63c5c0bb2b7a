"""Builds the mini CRAG-MM from its content: pages, KG, scenes, then the checks.

    python -m mini_crag_mm.generator [--photos --gcompris DIR --stamps DIR --skimage DIR --sklearn DIR --gradio DIR] [--force]

The photographs are committed; --photos takes them anew from their source packages (see mini_crag_mm/generator/photos.py).
"""

from __future__ import annotations

import argparse
import sys
from typing import get_args

from tqdm import tqdm

from mini_crag_mm.generator import check, compose, kg, photos, wiki
from mini_crag_mm.generator.content import ContentError, PhotoSource, load_content
from mini_crag_mm.generator.paths import DemoPaths


def main(arguments: list[str] | None = None) -> int:
    """Run all steps in order; 1 when one of them finds a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", action="store_true", help="take the photographs from their source packages")
    for source in get_args(PhotoSource):
        parser.add_argument(f"--{source}", help=f"with --photos: folder of the {source} images")
    parser.add_argument("--force", action="store_true", help="compose all scenes and photographs, changed or not")
    options = parser.parse_args(arguments)
    absent = [source for source in get_args(PhotoSource) if not getattr(options, source)]
    if options.photos and absent:
        parser.error(f"--photos needs the folders of all sources; missing: {', '.join(absent)}")
    paths = DemoPaths()
    try:
        content = load_content(paths.content)
    except ContentError as error:
        print(error, file=sys.stderr)
        return 1

    failed = False
    with tqdm(total=5, desc="build", unit="step", disable=None) as steps:
        if options.photos:
            folders = [f"--{source}={getattr(options, source)}" for source in get_args(PhotoSource)]
            failed |= bool(photos.main([*folders, *(["--force"] if options.force else [])]))
        steps.update()
        problems = wiki.build_pages(content, paths)
        steps.update()
        kg.build_kg(content, paths)
        steps.update()
        failed |= bool(compose.main(["--force"] if options.force else []))
        steps.update()
        for problem in problems:
            print(problem, file=sys.stderr)
        failed |= bool(check.main())
        steps.update()
    return 1 if failed or problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
