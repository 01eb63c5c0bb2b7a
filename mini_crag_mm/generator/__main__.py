"""Make pages and image KG of the mini CRAG-MM from its content; then check the set.

    python -m mini_crag_mm.generator                both
    python -m mini_crag_mm.generator --check        the rules of mini_crag_mm/README.md alone

The exit status is 1 if something could not be made, or a rule does not hold.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pydantic import Field

from agents.base.command_options import Options
from mini_crag_mm.content_models import ContentError, load_content
from mini_crag_mm.generator.graph_and_pages import build_kg, build_pages
from mini_crag_mm.generator.set_rules import report
from mini_crag_mm.loader import SetPaths


class GeneratorOptions(Options):
    """Options of what is made."""

    check: bool = Field(False, description="check the set, make nothing")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the set and check it.

    Returns:
        0, or 1 if something could not be made, or a rule does not hold.
    """
    options = GeneratorOptions.parse(arguments, description=__doc__)
    paths = SetPaths()
    problems = [] if options.check else build(paths)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 0 if report(paths) and not problems else 1


def build(paths: SetPaths) -> list[str]:
    """Make pages and KG, and return the problems, one line each."""
    try:
        content = load_content(paths.content)
    except ContentError as error:
        return error.problems
    problems = build_pages(content, paths)
    build_kg(content, paths)
    return problems


if __name__ == "__main__":
    raise SystemExit(main())
