"""Counts of docstrings and names, on a checkout of one module and one page."""

from pathlib import Path

import pytest

from lab.benchmarks.english import count, count_faults, is_participle, is_predicate

MODULE = '''"""Two words."""


def found(text: str) -> bool:
    """Whether a text is there; None where there is none."""


def load_of(text: str) -> bool:
    """Loads a text, where it stands."""


class Thing:
    @property
    def name(self) -> str:
        """The name."""

    def in_order(self) -> list[str]: ...

    def is_path(self) -> bool: ...
'''


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in ("agents/tests", "docs"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "agents" / "thing.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "agents" / "tests" / "test_thing.py").write_text("def asked() -> bool: ...\n", encoding="utf-8")
    (tmp_path / "docs" / "page.md").write_text("Where there is\nno word.\n", encoding="utf-8")
    return tmp_path


def test_names_and_docstrings_are_counted_without_tests(checkout: Path) -> None:
    counts = count(checkout)
    assert (counts.functions, counts.participles, counts.prepositions, counts.nouns_of) == (5, 1, 1, 1)
    assert (counts.booleans, counts.booleans_without_predicate) == (3, 2)
    assert (counts.documented, counts.without_command) == (2, 1), "a property reads like a value"


def test_conditions_are_counted_in_docstrings_and_pages(checkout: Path) -> None:
    counts = count(checkout)
    assert (counts.words, counts.where, counts.where_there) == (2 + 10 + 6 + 2 + 5, 3, 2)


def test_ruff_counts_without_the_settings_of_the_checkout(checkout: Path) -> None:
    (checkout / "ruff.toml").write_text("lint.ignore = ['D401']\n", encoding="utf-8")
    assert count_faults(checkout, "D401") == 1, "Loads"


@pytest.mark.parametrize("name", ["asked", "counted", "found"])
def test_participles(name: str) -> None:
    assert is_participle(name)


@pytest.mark.parametrize("name", ["ask", "embed", "red", "put", "counted_facts"])
def test_other_names(name: str) -> None:
    assert not is_participle(name)


@pytest.mark.parametrize(
    ("name", "predicate"), [("is_path", True), ("mentions_print", True), ("refuses", True), ("pass_on", False)]
)
def test_predicates(name: str, *, predicate: bool) -> None:
    assert is_predicate(name) is predicate
