"""What import-linter has no contract for: no circle of imports between modules, and a file name of its own for each module."""

from __future__ import annotations

from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("agents", "apps", "evaluation", "training", "mini_crag_mm", "benchmarks")
SHARED_NAMES = {"__init__", "__main__", "conftest"}


def test_no_modules_import_each_other_in_a_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Imports inside functions and under TYPE_CHECKING count: a reader follows them too."""
    monkeypatch.syspath_prepend(str(ROOT))
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    order = TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})
    try:
        order.prepare()
    except CycleError as error:
        pytest.fail("circle of imports: " + " -> ".join(reversed(error.args[1])))


def test_no_two_modules_share_a_file_name() -> None:
    files = [file for package in (*PACKAGES, "tests") for file in (ROOT / package).rglob("*.py")]
    names = Counter(file.stem for file in files if file.stem not in SHARED_NAMES)
    assert len(files) > 100
    assert [name for name, count in names.items() if count > 1] == []
