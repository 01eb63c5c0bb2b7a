"""The table of stages in docs/stages.md, made from their classes."""

import inspect
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from agents.base.command_options import Options
from agents.base.printing import print_error, print_text
from agents.profiles.profile import PRESETS, ROOT, names
from agents.settings.presets import load_settings
from agents.stage import Stage, stage_class, stage_names

PAGE = ROOT / "docs" / "stages.md"
AGENTS = ROOT / "agents"
_TABLE = re.compile(r"(?<=<!-- python -m agents\.stages -->\n).*?(?=<!-- end -->)", re.DOTALL)


def in_order() -> list[str]:
    """Return all stages, each after those that run before it in the presets."""
    before: dict[str, set[str]] = {name: set() for name in stage_names()}
    for preset in names(PRESETS):
        stages = load_settings(preset, "gpu").stages
        for place, name in enumerate(stages):
            before[name].update(stages[:place])
    ordered: list[str] = []
    while len(ordered) < len(before):
        free = [name for name in before if name not in ordered and before[name] <= set(ordered)]
        ordered.append(free[0])
    return ordered


def row(stage: type[Stage]) -> str:
    """Format one stage: its name and file, what it fills, what it does, its options, what it does with less time."""
    file = Path(inspect.getfile(stage)).relative_to(AGENTS).as_posix()
    fills = ", ".join(f"`{name}`" for name in stage.fills)
    does = " ".join((inspect.getdoc(stage) or "").split()).replace("``", "`").rstrip(".")
    options = ", ".join(f"`{name}`" for name in stage.Options.model_fields)
    return f"| `{stage.name}` | `{file}` | {fills} | {does} | {options} | {stage.when_short} |"


def table() -> str:
    """Format all stages in Markdown."""
    head = "| stage | file | fills | what it does | options | with less time |\n|---|---|---|---|---|---|"
    return "\n".join([head, *(row(stage_class(name)) for name in in_order()), ""])


class TableOptions(Options):
    """The table of stages, from their classes."""

    write: bool = Field(False, description=f"put it into {PAGE.relative_to(ROOT)}")


def main(arguments: Sequence[str] | None = None, page: Path = PAGE) -> int:
    """Print the table or write it into the page.

    Returns:
        0, or 1 if the page has no place for it.
    """
    if not TableOptions.parse(arguments).write:
        print_text(table(), end="")
        return 0
    text, count = _TABLE.subn(lambda _: table(), page.read_text(encoding="utf-8"))
    if not count:
        print_error(f"error: {page} has no '<!-- python -m agents.stages -->' ... '<!-- end -->'")
        return 1
    page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
