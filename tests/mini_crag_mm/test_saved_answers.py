"""The answers that come with the set are whole, and the tables of README and notes are what the rule judge makes of them."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from rich.console import Console

from evaluation.records import JudgedTurn
from evaluation.studies.judged_entries import Entry, OneJudgeOptions, read_entries
from mini_crag_mm.loader import SET
from mini_crag_mm.organiser_format import build_datasets

ROOT = Path(__file__).parents[2]
_RATES = re.compile(r"^\| `(\w+)` \| \**(-?[\d.]+)%.*? \| \**(-?[\d.]+)%", re.MULTILINE)
_COUNTS = r"(\d+), (\d+), (\d+)"
_ROW = re.compile(rf"^\| `(\w+)` \| {_COUNTS} \|[^|]+\| {_COUNTS} \|", re.MULTILINE)
RUNS = [run for run in sorted((SET.answers / "public_test_full_pages").iterdir()) if run.is_dir()]


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Entry]:
    folder = tmp_path_factory.mktemp("saved")
    built = build_datasets(folder / "datasets")
    options = OneJudgeOptions(
        dataset=built.root, split="public_test", eval_model="rule", cache=folder, no_progress=True, out=None
    )
    read = read_entries([str(run) for run in RUNS], options, Console(quiet=True))
    return {entry.label: entry for entry in read.entries}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_every_turn_of_the_split_is_answered(run: Path, entries: dict[str, Entry]) -> None:
    turns = entries[run.name].turns
    assert len({judged.turn.key for judged in turns}) == len(turns)
    alone = [judged for judged in turns if judged.turn.total_turn_count == 1]
    assert (len(alone), len(turns) - len(alone)) == (139, 100)


def _count(turns: Iterable[JudgedTurn]) -> tuple[int, int, int]:
    """Count right, missing and wrong answers."""
    judged = list(turns)
    right, wrong = sum(turn.correct for turn in judged), sum(turn.hallucination for turn in judged)
    return right, len(judged) - right - wrong, wrong


def _split(entry: Entry) -> tuple[list[JudgedTurn], list[JudgedTurn]]:
    """Split the turns of a run into questions and turns of dialogs."""
    alone = [judged for judged in entry.turns if judged.turn.total_turn_count == 1]
    return alone, [judged for judged in entry.turns if judged.turn.total_turn_count > 1]


def test_the_readme_says_what_the_rule_judge_makes_of_those_from_full_pages(
    entries: dict[str, Entry],
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rates = {label: (float(questions), float(dialogs)) for label, questions, dialogs in _RATES.findall(readme)}
    assert {"best", "direct_rag", "vlm_only"} <= rates.keys() <= entries.keys()  # the notes have all
    for label in rates:
        for rate, turns in zip(rates[label], _split(entries[label]), strict=True):
            right, _, wrong = _count(turns)
            assert rate == pytest.approx(100 * (right - wrong) / len(turns), abs=0.05), label


def test_the_notes_say_what_it_makes_of_them(entries: dict[str, Entry]) -> None:
    notes = (ROOT / "lab" / "notes" / "results.md").read_text(encoding="utf-8")
    rows = {label: tuple(map(int, counts)) for label, *counts in _ROW.findall(notes)}
    assert rows == {label: sum(map(_count, _split(entry)), ()) for label, entry in entries.items()}
