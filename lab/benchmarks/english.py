"""Count how far docstrings, names and pages follow the field's English: commands, verbs as names, plain conditions.

    python -m lab.benchmarks.english [--root CHECKOUT]

``git worktree add /tmp/before COMMIT`` makes a checkout of an older commit for ``--root``. Tests are not counted. D401 (imperative mood)
and D417 (described arguments) are counted by ruff without the project's exceptions.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from agents.base.command_options import Options
from agents.profiles.profile import ROOT
from evaluation.commands import make_console
from lab.benchmarks.common import build_table, run

PACKAGES = ("agents", "apps", "evaluation", "examples", "lab", "mini_crag_mm", "tools", "training")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md", "lab/notes/*.md")

_NO_COMMAND = re.compile(r"(?:the|an?|what|whether|how|where)\b", re.IGNORECASE)
_VERBS_IN_ED = frozenset("need feed seed embed speed exceed proceed".split())
_IRREGULAR = frozenset(
    "asked begun bought brought built chosen cut done drawn found given gone held heard kept known laid left made meant met put read run "
    "said seen sent set shown spent spoken taken taught thought told understood went won written".split()
)
_ALSO_VERBS = frozenset("cut put read run set left".split())
_PREPOSITIONS = frozenset(
    "about above after among around as at before behind below beside between beyond by for from in inside into like of on over per since "
    "through to towards under until upon via with within without".split()
)
_CONVERSIONS = ("as_", "from_", "to_")  # Python's own names: as_list, from_dict, to_json
_PREDICATES = frozenset("is has can had does may must should will".split())
_WHERE = re.compile(r"\bwhere\b", re.IGNORECASE)
_WHERE_THERE = re.compile(r"\bwhere\s+there\s+(?:is|are|was|were)\b", re.IGNORECASE)
_WORD = re.compile(r"\S*\w\S*")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Counts:
    """What a checkout holds."""

    functions: int = 0
    documented: int = 0  # functions with a docstring, properties left out
    without_command: int = 0  # of these: the first word is an article, "what", "whether", "how" or "where"
    participles: int = 0
    prepositions: int = 0
    nouns_of: int = 0
    booleans: int = 0
    booleans_without_predicate: int = 0
    words: int = 0
    where: int = 0
    where_there: int = 0

    def add_function(self, node: Function) -> None:
        """Count a function's name and the beginning of its docstring."""
        name = node.name.strip("_")
        first = name.partition("_")[0]
        self.functions += 1
        self.participles += is_participle(name)
        self.prepositions += first in _PREPOSITIONS and not name.startswith(_CONVERSIONS)
        self.nouns_of += name.endswith("_of")
        if node.returns is not None and ast.unparse(node.returns) == "bool" and not node.name.startswith("__"):
            self.booleans += 1
            self.booleans_without_predicate += not is_predicate(name)
        text = ast.get_docstring(node)
        if text and not _is_property(node):
            self.documented += 1
            self.without_command += _NO_COMMAND.match(text) is not None

    def add_text(self, text: str) -> None:
        """Count the words of a docstring or page."""
        self.words += len(_WORD.findall(text))
        self.where += len(_WHERE.findall(text))
        self.where_there += len(_WHERE_THERE.findall(text))


def is_participle(name: str) -> bool:
    """Return whether a name is a past participle alone, as ``found`` or ``_marked``."""
    if "_" in name or name in _ALSO_VERBS | _VERBS_IN_ED:
        return False
    return name in _IRREGULAR or (name.endswith("ed") and len(name) > len("used"))


def is_predicate(name: str) -> bool:
    """Return whether a name begins like a question or a statement: ``is_path``, ``has_text``, ``mentions_print``."""
    first = name.partition("_")[0]
    return first in _PREDICATES or (first.endswith("s") and not first.endswith("ss"))


def _is_property(node: Function) -> bool:
    return any(ast.unparse(each).endswith(("property", ".setter")) for each in node.decorator_list)


def find_files(root: Path) -> Iterator[Path]:
    """Yield the modules of a checkout, without tests."""
    for package in PACKAGES:
        yield from (path for path in sorted((root / package).rglob("*.py")) if "tests" not in path.parts)


def count(root: Path) -> Counts:
    """Count functions, docstrings and pages of a checkout."""
    counts = Counts()
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for path in find_files(root):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, Function):
                counts.add_function(node)
            if isinstance(node, documented) and (text := ast.get_docstring(node)):
                counts.add_text(text)
    for pattern in PAGES:
        for page in sorted(root.glob(pattern)):
            counts.add_text(page.read_text(encoding="utf-8"))
    return counts


def count_faults(root: Path, rule: str) -> int:
    """Count the faults of a rule of ruff's, whatever the checkout's own settings are.

    Raises:
        ValueError: ruff could not check the files.
    """
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select",
        rule,
        "--output-format",
        "json",
        "--exit-zero",
    ]
    settings = ["--config", 'lint.pydocstyle.convention="google"']
    ran = subprocess.run(
        [*command, *settings, *map(str, find_files(root))], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise ValueError(f"ruff did not check {root}: {ran.stderr.strip()}; install it with `make lint`")
    return sum(fault["code"] == rule for fault in json.loads(ran.stdout))


class EnglishOptions(Options):
    """Options of what is counted."""

    root: Path = Field(ROOT, description="checkout to be counted")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the counts.

    Returns:
        0, or 2 if a file cannot be read.
    """
    return run(_measure, EnglishOptions, arguments, __doc__)


def _measure(options: EnglishOptions) -> int:
    counts = count(options.root)
    thousands = max(counts.words, 1) / 1000
    rows = [
        ("D401", f"{count_faults(options.root, 'D401')}"),
        ("D417", f"{count_faults(options.root, 'D417')}"),
        ("docstrings of functions", f"{counts.documented}"),
        ("... that begin with an article, what, whether, how, where", f"{counts.without_command}"),
        ("functions", f"{counts.functions}"),
        ("... named by a participle alone", f"{counts.participles}"),
        ("... whose name begins with a preposition", f"{counts.prepositions}"),
        ("... whose name ends in _of", f"{counts.nouns_of}"),
        ("functions that return bool", f"{counts.booleans}"),
        ("... whose name is no predicate", f"{counts.booleans_without_predicate}"),
        ("words of docstrings and pages", f"{counts.words:,}"),
        ('"where there is" in 1,000 words', f"{counts.where_there / thousands:.2f}"),
        ('"where" in 1,000 words', f"{counts.where / thousands:.2f}"),
    ]
    make_console().print(build_table("English of the checkout", ("what", "count"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
