"""The answers that come with the set are whole, and the README's table is what the rule judge makes of them."""

import re
from pathlib import Path

import pytest
from rich.console import Console

from evaluation.studies.judged_entries import Entry, OneJudgeOptions, read_entries
from mini_crag_mm.loader import SET
from mini_crag_mm.organiser_format import build_datasets

ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^\| `(?P<preset>\w+)` \| \**(?P<questions>-?[\d.]+)%.*? \| \**(?P<dialogs>-?[\d.]+)%", re.MULTILINE)
RUNS = sorted(path for path in (SET.answers / "public_test").iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Entry]:
    folder = tmp_path_factory.mktemp("saved")
    built = build_datasets(folder / "datasets")
    options = OneJudgeOptions(
        dataset=built.root, split="public_test", eval_model="rule", cache=folder, no_progress=True, out=None
    )
    found = read_entries([str(run) for run in RUNS], options, Console(quiet=True))
    return {entry.label: entry for entry in found.entries}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_every_turn_of_the_split_is_answered(run: Path, entries: dict[str, Entry]) -> None:
    turns = entries[run.name].turns
    assert len({judged.turn.key for judged in turns}) == len(turns)
    alone = [judged for judged in turns if judged.turn.total_turn_count == 1]
    assert (len(alone), len(turns) - len(alone)) == (139, 100)


def test_the_readme_says_what_the_rule_judge_makes_of_them(entries: dict[str, Entry]) -> None:
    rows = {found["preset"]: found for found in _ROW.finditer((ROOT / "README.md").read_text(encoding="utf-8"))}
    assert rows.keys() == entries.keys()
    for label, entry in entries.items():
        for column, dialogs in (("questions", False), ("dialogs", True)):
            turns = [judged for judged in entry.turns if (judged.turn.total_turn_count > 1) is dialogs]
            points = sum(judged.correct - judged.hallucination for judged in turns)
            assert float(rows[label][column]) == pytest.approx(100 * points / len(turns), abs=0.05), (label, column)
