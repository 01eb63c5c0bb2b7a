"""The answers that come with the set are whole, and the tables of README and notes are what the rule judge makes of them."""

import re
from pathlib import Path

import pytest
from rich.console import Console

from evaluation.studies.judged_entries import Entry, OneJudgeOptions, read_entries
from mini_crag_mm.loader import SET
from mini_crag_mm.organiser_format import build_datasets

ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^\| `(?P<preset>\w+)` \| \**(?P<questions>-?[\d.]+)%.*? \| \**(?P<dialogs>-?[\d.]+)%", re.MULTILINE)
_FULL_PAGES_ROW = re.compile(r"^\| `(\w+)`, all 239 turns \| (\d+), (\d+), (\d+) \|", re.MULTILINE)
SNIPPETS, FULL_PAGES = "public_test", "public_test_full_pages"
RUNS = [run for group in (SNIPPETS, FULL_PAGES) for run in sorted((SET.answers / group).iterdir()) if run.is_dir()]


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Entry]]:
    folder = tmp_path_factory.mktemp("saved")
    built = build_datasets(folder / "datasets")
    options = OneJudgeOptions(
        dataset=built.root, split="public_test", eval_model="rule", cache=folder, no_progress=True, out=None
    )
    return {
        group: {
            entry.label: entry
            for entry in read_entries(
                [str(run) for run in RUNS if run.parent.name == group], options, Console(quiet=True)
            ).entries
        }
        for group in (SNIPPETS, FULL_PAGES)
    }


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.parent.name}/{run.name}")
def test_every_turn_of_the_split_is_answered(run: Path, entries: dict[str, dict[str, Entry]]) -> None:
    turns = entries[run.parent.name][run.name].turns
    assert len({judged.turn.key for judged in turns}) == len(turns)
    alone = [judged for judged in turns if judged.turn.total_turn_count == 1]
    assert (len(alone), len(turns) - len(alone)) == (139, 100)


def test_the_readme_says_what_the_rule_judge_makes_of_them(entries: dict[str, dict[str, Entry]]) -> None:
    rows = {found["preset"]: found for found in _ROW.finditer((ROOT / "README.md").read_text(encoding="utf-8"))}
    assert rows.keys() == entries[SNIPPETS].keys()
    for label, entry in entries[SNIPPETS].items():
        for column, dialogs in (("questions", False), ("dialogs", True)):
            turns = [judged for judged in entry.turns if (judged.turn.total_turn_count > 1) is dialogs]
            points = sum(judged.correct - judged.hallucination for judged in turns)
            assert float(rows[label][column]) == pytest.approx(100 * points / len(turns), abs=0.05), (label, column)


def test_the_notes_say_what_it_makes_of_those_from_full_pages(entries: dict[str, dict[str, Entry]]) -> None:
    notes = (ROOT / "lab" / "notes" / "results.md").read_text(encoding="utf-8")
    told = {label: tuple(map(int, counts)) for label, *counts in _FULL_PAGES_ROW.findall(notes)}
    counted = {}
    for label, entry in entries[FULL_PAGES].items():
        right, wrong = (sum(getattr(judged, name) for judged in entry.turns) for name in ("correct", "hallucination"))
        counted[label] = (right, len(entry.turns) - right - wrong, wrong)
    assert told == counted
