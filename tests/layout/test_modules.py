"""What import-linter has no contract for: no two packages and no modules that import each other, and the picture of the layers."""

from __future__ import annotations

import importlib
import re
import tomllib
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from pathlib import Path

import grimp
import pytest

from agents.stage import PAPERS, Stage, stage_names
from tools import layers

ROOT = Path(__file__).parents[2]
PACKAGES = ("agents", "apps", "evaluation", "training", "mini_crag_mm", "lab")


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Imports inside functions and under TYPE_CHECKING count: a reader follows them too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        return grimp.build_graph(*PACKAGES, cache_dir=None)


def test_no_modules_import_each_other_in_a_circle(graph: grimp.ImportGraph) -> None:
    order = TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})
    try:
        order.prepare()
    except CycleError as error:
        pytest.fail("circle of imports: " + " -> ".join(reversed(error.args[1])))


def test_no_two_packages_of_the_agent_import_each_other(graph: grimp.ImportGraph) -> None:
    packages = sorted(graph.find_children("agents"))
    imported = {package: _list_imports(graph, package) for package in packages}
    assert sum(map(len, imported.values())) > 50, "the graph is empty"
    assert [
        pair for pair in combinations(packages, 2) if pair[0] in imported[pair[1]] and pair[1] in imported[pair[0]]
    ] == []


def test_the_product_and_its_tests_do_without_the_lab() -> None:
    """import-linter keeps the packages from importing it; the tests are no package there."""
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert {*tables["hatch"]["build"]["targets"]["wheel"]["packages"]} == {*PACKAGES} - {"lab"}
    assert "lab" not in tables["mypy"]["files"] and tables["pytest"]["ini_options"]["testpaths"] == ["tests"]
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert len(files) > 100
    importing = re.compile(r"^\s*(?:from|import) lab\b", re.MULTILINE)
    assert [str(file) for file in files if importing.search(file.read_text(encoding="utf-8"))] == []


def _list_imports(graph: grimp.ImportGraph, package: str) -> set[str]:
    """Return the packages of ``agents`` that a package imports, as ``agents.NAME``."""
    own = {package, *graph.find_descendants(package)}
    modules = set().union(*(graph.find_modules_directly_imported_by(module) for module in own)) - own
    return {".".join(module.split(".")[:2]) for module in modules if module.startswith("agents.")}


def test_every_stage_of_a_paper_is_found_by_its_name() -> None:
    defined = {}
    for file in sorted((ROOT / "agents" / "papers").glob("[!_]*.py")):
        values = vars(importlib.import_module(f"agents.papers.{file.stem}")).values()
        own = [value for value in values if isinstance(value, type) and value.__module__.endswith(f".{file.stem}")]
        defined[file.stem] = sorted(value.name for value in own if issubclass(value, Stage))
    assert defined == {paper: sorted(stages) for paper, stages in PAPERS.items()}
    assert len(stage_names()) == len({*stage_names()}), "two stages have one name"


def test_the_picture_of_the_layers_is_current(tmp_path: Path) -> None:
    page = tmp_path / "architecture.md"
    page.write_text(layers.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    assert layers.main(page) == 0
    assert page.read_text(encoding="utf-8") == layers.PAGE.read_text(encoding="utf-8"), "python -m tools.layers"


def test_every_package_says_in_one_sentence_what_it_holds() -> None:
    lines = [line for line in layers.picture().splitlines() if line != "```"]
    assert {name for layer in layers.layers() for name in layer} == {
        path.stem
        for path in (ROOT / "agents").iterdir()
        if (path.is_dir() or path.suffix == ".py") and path.stem[:1] not in "_."
    }
    assert [line for line in lines if len(line.split()) < 4 or len(line) > 140] == []


def test_a_page_without_a_place_for_the_picture_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "architecture.md"
    page.write_text("# Architecture\n", encoding="utf-8")
    assert layers.main(page) == 1
    assert "has no '<!-- python -m tools.layers -->'" in capsys.readouterr().err
