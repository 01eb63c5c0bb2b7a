"""The examples that the page begins with: which questions, of which files, and that the mini set's can be answered from it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import get_args

import pytest

from agents.profiles.profile import ROOT
from apps.answering import About
from apps.examples import find_dialogs, find_examples
from evaluation.data.question_files import read_questions
from mini_crag_mm.content_models import Split
from mini_crag_mm.loader import SET, read_kg
from tests.apps.conftest import PHOTO

SPLITS = get_args(Split)


def about(split: str) -> About:
    return About("best", "embedded", split)


def collection(folder: Path, rows: str) -> Path:
    for name in "abcdef":
        PHOTO.save(folder / f"{name}.png")
    (folder / "questions.csv").write_text(f"photo,question,answers,dialog\n{rows}")
    return folder


def test_four_photos_a_question_without_one_and_one_that_must_be_declined(tmp_path: Path) -> None:
    rows = (
        ",Who cooks?,,\n,What does it cost?,3,\n,When does it close?,6,\na.png,How tall?,3,d\n,And how old?,4,d\na.png,Who?,x,\n"
        "f.png,Who?,,\nb.png,Who?,x,\nc.png,Who?,x,\nd.png,Who?,x,\ne.png,Who?,x,\n"
    )
    examples = find_examples(None, collection(tmp_path, rows))
    assert [(each.question, each.photo is not None, each.answerable) for each in examples] == [
        ("How tall?", True, True),
        *[("Who?", True, True)] * 3,
        ("What does it cost?", False, True),
        ("Who?", True, False),
    ]


def test_a_collection_without_questions_or_with_broken_ones_has_no_examples(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert find_examples(about("validation"), tmp_path) == []
    with caplog.at_level(logging.WARNING):
        assert find_examples(about("museum"), collection(tmp_path, "gone.png,Who?,x,\n")) == []
    assert "there is no photo" in caplog.text and "questions.csv:2" in caplog.text


def test_an_index_of_ones_own_without_questions_has_no_examples() -> None:
    assert find_examples(about("zoo")) == [] and find_examples(None) == []


def test_the_museum_has_examples() -> None:
    examples = find_examples(about("museum"), ROOT / "examples" / "museum")
    assert [each.answerable for each in examples] == [True] * 5 + [False] and examples[4].photo is None


@pytest.mark.parametrize("split", SPLITS)
def test_the_mini_sets_examples_have_their_answer_in_the_graph_and_the_last_has_none(split: Split) -> None:
    assert len(find_examples(about(split))) == 5 == len(find_dialogs(about(split)))
    graph = {Path(row["image"]).stem: str(row["entities"]) for row in read_kg(split)}
    *answered, declined = read_questions(SET.examples(split))
    for dialog in answered:
        assert dialog.photo is not None
        values = graph[dialog.photo.stem]
        assert any(answer.split()[0] in values for answer in dialog.turns[0].answers), dialog
    assert declined.photo is not None and declined.photo.stem not in graph and not declined.turns[0].answers
