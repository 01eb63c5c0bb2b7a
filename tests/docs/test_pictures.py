"""The pictures of docs/figures show what today's page, report and README say, and name the commit that made them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

from agents.profiles.profile import ROOT
from evaluation.files.manifest import COMMIT, describe_picture
from tools.picture_words import PICTURES, build_chunks, list_phrases, read_about, read_words, select_visible

FIGURES = ROOT / "docs" / "figures"
BOARD = "leaderboard.png"
_ROW = re.compile(r"^\| `(\w+)` \|((?: \**-?\d+\.\d%[^|]*\|)+)$", re.MULTILINE)


def test_every_picture_names_its_commit() -> None:
    pictures = sorted(FIGURES.glob("*.png"))
    assert {path.name for path in pictures} == {*PICTURES, BOARD}, "a new picture needs its maker, and its words a test"
    for path in pictures:
        assert re.fullmatch(r"[0-9a-f]{7,40}", read_about(path).get(COMMIT, "")), f"{path}: make it from a clean commit"


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_show_todays_words(name: str) -> None:
    words, today = read_words(FIGURES / name), set().union(*map(list_phrases, PICTURES[name]))
    assert len(words) >= (6 if name == "page_phone.png" else 8)  # the page shows few words before it is asked
    missing_words = [word for word in words if word not in today]
    assert not missing_words, (
        f"{name} shows {missing_words}, which its sources no longer say: make demo, then make screenshots"
    )


def test_the_leaderboards_picture_shows_the_readmes_figures() -> None:
    """All entries and rates of the README's table are in the picture."""
    rows = {
        label: re.findall(r"-?\d+\.\d(?=%)", cells) for label, cells in _ROW.findall((ROOT / "README.md").read_text())
    }
    assert len(rows) >= 5
    words = read_words(FIGURES / BOARD)
    picture_words = {*words}
    assert rows.keys() <= picture_words, "make it again by the command below the README's table"
    rates = [word for word in words if re.fullmatch(r"-?\d+\.\d", word)]
    for label, figures in rows.items():
        assert {*figures} <= {*rates}, label


def test_a_changed_word_of_a_source_is_found(tmp_path: Path) -> None:
    template = tmp_path / "t.html.j2"
    template.write_text(
        "<style>body {color: red}</style><h2>Time by stage</h2><p>Asked {{ n | upper }} times</p>{{ card('Turns asked') }}"
    )
    assert list_phrases(template) == {"Time by stage", "Asked", "times", "Turns asked"}
    module = tmp_path / "m.py"
    module.write_text('x = f"<h3>Verdict {x}</h3> by stage"\ny = "Not recognised; nearest: {}"\n')
    assert list_phrases(module) == {"Verdict", "by stage", "Not recognised; nearest"}
    texts = ("Time by stage", "Asked ", "3", " many times a day", "Turns asked: 3")
    assert select_visible(list_phrases(template), texts) == ["Asked", "Time by stage", "Turns asked"]


def test_words_are_kept_in_the_picture(tmp_path: Path) -> None:
    path = tmp_path / "p.png"
    Image.new("RGB", (2, 2)).save(path, pnginfo=build_chunks(describe_picture(["Würde gern", "b"])))
    assert read_words(path) == ["Würde gern", "b"]
    Image.new("RGB", (2, 2)).save(path)
    assert read_words(path) == [] and read_about(path) == {}
