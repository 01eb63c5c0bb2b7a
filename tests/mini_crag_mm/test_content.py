"""The loader of the YAML: what it takes, and how it says what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from mini_crag_mm.content_models import ContentError, Effects, PhotoBackground, load_content
from mini_crag_mm.loader import SetPaths
from tests.mini_crag_mm.conftest import tiny_files, write_files


def _problems(root: Path) -> list[str]:
    with pytest.raises(ContentError) as caught:
        load_content(root / "content")
    return caught.value.problems


def test_reads_all_kinds_with_defaults(tiny: SetPaths) -> None:
    content = load_content(tiny.content)
    assert list(content.entities) == ["red_square", "blue_disc", "green_bar"]
    scene = content.scenes["t_s002"]
    assert scene.effects == Effects() and scene.objects[0].rotate == 0 and not scene.egocentric
    assert content.scenes["t_d001"].background == PhotoBackground(photo="green_bar")
    assert list(content.scenes["t_d001"].entity_ids()) == ["green_bar"]
    assert [turn for turn, *_ in content.turns()] == ["t_q001", "t_q002", "t_q003", "t_m001#0", "t_m001#1"]
    assert content.claimed_titles() == {
        "Blue disc": {"validation"},
        "Red square": {"validation"},
        "Green bar": {"public_test"},
    }
    assert content.entities["red_square"].attributes["notes"] is None


def test_yaml_words_dates_and_numbers_stay_what_the_author_wrote(tmp_path: Path) -> None:
    folder = tmp_path / "content" / "g"
    folder.mkdir(parents=True)
    (folder / "single.yaml").write_text(
        "- {id: q, split: validation, scene: s, domain: other, query_category: reasoning, dynamism: static,\n"
        '   query: "Is it?", answer: No., accept: [no, 330, 1889-03-31, off], source: kg}\n'
    )
    (folder / "entities.yaml").write_text(
        "- {id: e, split: validation, name: 1984, photo: {source: skimage, file: a.png},\n"
        "   attributes: {opened: 1889-03-31, alive: yes, real: true}}\n"
    )
    content = load_content(tmp_path / "content")
    assert content.questions["q"].accept == ("no", "330", "1889-03-31", "off")
    assert content.entities["e"].name == "1984"
    assert content.entities["e"].attributes == {"opened": "1889-03-31", "alive": "yes", "real": True}


@pytest.mark.parametrize(
    ("file", "change", "expected"),
    [
        ("entities", {"split": "train"}, "tst/entities.yaml: red_square: split"),
        ("entities", {"colour": "red"}, "tst/entities.yaml: red_square: colour: Extra inputs"),
        ("entities", {"id": "Red Square"}, "tst/entities.yaml: Red Square: id"),
        ("entities", {"in_graph": None}, "tst/entities.yaml: red_square: in_graph: Input should be a valid boolean"),
        ("entities", {"name": None}, "tst/entities.yaml: red_square: name: Input should be a valid string"),
        ("entities", {"pages": None}, "tst/entities.yaml: red_square: pages: Extra inputs"),
        ("scenes", {"background": "moon"}, "tst/scenes.yaml: t_s001: background"),
        ("scenes", {"effects": {"crop": [0.5, 0, 0.6, 1]}}, "crop is [left, top, width, height]"),
        ("scenes", {"effects": {"darken": 0}}, "tst/scenes.yaml: t_s001: effects.darken"),
        ("single", {"domain": "animals"}, "tst/single.yaml: t_q001: domain"),
        ("single", {"query_category": "hard"}, "tst/single.yaml: t_q001: query_category"),
        ("single", {"dynamism": "never"}, "tst/single.yaml: t_q001: dynamism"),
        ("dialogs", {"turns": []}, "tst/dialogs.yaml: t_m001: turns"),
        ("pages", {"kind": "spam"}, "tst/pages.yaml: disc_page: kind"),
    ],
)
def test_faults_name_file_id_and_field(tmp_path: Path, file: str, change: dict[str, object], expected: str) -> None:
    files = tiny_files()
    files[file][0] |= change
    assert any(expected in problem for problem in _problems(write_files(tmp_path, files)))


def test_lists_and_effects_with_nothing_after_their_key_are_empty(tmp_path: Path) -> None:
    files = tiny_files()
    files["scenes"][0] |= {"effects": None, "objects": None, "texts": None}
    files["single"][1] |= {"accept": None, "pages": None}
    content = load_content(write_files(tmp_path, files) / "content")
    scene, question = content.scenes["t_s001"], content.questions["t_q002"]
    assert scene.effects == Effects() and scene.objects == scene.texts == ()
    assert question.accept == question.pages == ()


def test_a_dialog_has_at_most_six_turns(tmp_path: Path) -> None:
    files = tiny_files()
    files["dialogs"][0]["turns"] *= 4
    assert "turns" in _problems(write_files(tmp_path, files))[0]


def test_second_use_of_an_id_is_reported(tmp_path: Path) -> None:
    files = tiny_files()
    files["scenes"].append(files["scenes"][0])
    assert _problems(write_files(tmp_path, files)) == [
        "tst/scenes.yaml: t_s001: the id is taken already, by tst/scenes.yaml"
    ]


@pytest.mark.parametrize(
    ("text", "expected"), [("a: [", "not readable YAML"), ("a: 1", "must be a list"), ("- 3", "must be a mapping")]
)
def test_broken_files_are_reported(tmp_path: Path, text: str, expected: str) -> None:
    root = write_files(tmp_path, tiny_files())
    (root / "content" / "tst" / "wiki.yaml").write_text(text)
    assert any(expected in problem for problem in _problems(root))


def test_a_key_given_twice_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "content" / "g"
    folder.mkdir(parents=True)
    (folder / "wiki.yaml").write_text("- {split: validation, title: A, title: B}\n")
    assert "'title' is given twice" in _problems(tmp_path)[0]


def test_with_report_the_sound_entries_are_kept(tmp_path: Path) -> None:
    files = tiny_files()
    files["entities"][0]["split"] = "train"
    messages: list[str] = []
    content = load_content(write_files(tmp_path, files) / "content", report=messages.append)
    assert len(messages) == 1 and list(content.entities) == ["blue_disc", "green_bar"]


def test_empty_files_and_folders_are_empty_content(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "single.yaml").write_text("")
    assert load_content(tmp_path).questions == {}
