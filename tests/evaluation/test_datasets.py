from __future__ import annotations

import io
import json
from pathlib import Path

import datasets
import pytest
from PIL import Image
from pytest_httpserver import HTTPServer

from evaluation.data import dataset_images
from evaluation.data.crag_dataset import CragDataset, load, read_facts
from evaluation.data.dataset_images import ImageCache, cache_name, fit_ego, open_image
from evaluation.data.rows import find_label_features, to_session
from evaluation.records import EvaluationError
from evaluation.rules import OURS, RESEARCH_RELEASE, STARTER_KIT, Rules
from tests.evaluation.worlds import picture, row, write_dataset

URL = "https://pictures.example/tower.JPG?size=full"
REVISIONS = ["v0.1.1", "v0.1.2"]


def _open(
    folder: Path, revision: str = "v0.1.2", split: str = "validation", online: bool = False, rules: Rules = OURS
) -> CragDataset:
    return load("multi-turn", split, revision, folder, folder / "cache", online, rules)


@pytest.mark.parametrize("revision", REVISIONS)
def test_both_revisions_give_the_same_sessions(tmp_path: Path, revision: str) -> None:
    rows = [
        row("a", 3, revision, picture(), None),
        row("b", 2, revision, picture(), ""),
        row("c", 2, revision, None, URL),
    ]
    loaded = _open(write_dataset(tmp_path, rows, revision), revision)
    assert [session.session_id for session in loaded.sessions] == ["a", "b", "c"]
    assert [session.is_ego for session in loaded.sessions] == [True, True, False]
    first = loaded.sessions[0]
    assert [turn.ground_truth for turn in first.turns] == ["Number 0.", "Number 1.", "Number 2."]
    assert [turn.domain for turn in first.turns] == ["animal", "food", "vehicle"]
    assert [turn.query_category for turn in first.turns] == ["simple-knowledge", "multi-hop", "simple-knowledge"]
    assert [turn.dynamism for turn in first.turns] == ["static", "real-time", "static"]
    expected = [None] * 3 if revision == "v0.1.1" else ["normal", "blurred", "normal"]
    assert [turn.image_quality for turn in first.turns] == expected
    assert [turn.index for turn in first.turns] == [0, 1, 2]


@pytest.mark.parametrize("step", ["", "crag-mm-multi-turn-public", "crag-mm-multi-turn-public/v0.1.2"])
def test_any_folder_on_the_way_to_the_files_will_do(tmp_path: Path, step: str) -> None:
    write_dataset(tmp_path, [row("a", 2, "v0.1.2", picture(), None)], "v0.1.2")
    assert len(_open(tmp_path / step).sessions) == 1


def test_what_is_not_there_is_said_clearly(tmp_path: Path) -> None:
    write_dataset(tmp_path, [row("a", 2, "v0.1.2", picture(), None)], "v0.1.2")
    with pytest.raises(EvaluationError, match=r"there is crag-mm-multi-turn-public/v0.1.2"):
        _open(tmp_path, "v0.1.1")
    with pytest.raises(EvaluationError, match=r"split public_test is not in .*; there is validation"):
        _open(tmp_path, split="public_test")
    with pytest.raises(EvaluationError, match="does not exist"):
        _open(tmp_path / "nowhere")
    (tmp_path / "crag-mm-multi-turn-public/v0.1.2/data/broken-00000-of-00001.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(EvaluationError, match="could not be read"):
        _open(tmp_path, split="broken")


BMW = "0df99a9a-6a5d-4ff4-b8e4-e3ee90209dfe"
BMW_URL = (
    "https://web.archive.org/web/20250521025904/https://upload.wikimedia.org/wikipedia/commons/1/13/"
    "BMW_5_SERIES_LWB_SEDAN_(G30)_China_(82).jpg"
)
SKIPPED = ["04d98259-27af-41b1-a7be-5798fd1b8e95", "695b4b5c-7c65-4f7b-8968-50fe10482a16"]


@pytest.mark.parametrize(
    ("rules", "turns", "url"),
    [
        (OURS, {"a": 2, BMW: 2}, BMW_URL),
        (RESEARCH_RELEASE, {"a": 2, **dict.fromkeys(SKIPPED, 0), BMW: 2}, BMW_URL),  # they keep their places in batches
        (STARTER_KIT, {"a": 2, **dict.fromkeys(SKIPPED, 2), BMW: 2}, URL),
    ],
)
def test_sessions_are_skipped_and_images_replaced_as_the_rules_have_it(
    tmp_path: Path, rules: Rules, turns: dict[str, int], url: str
) -> None:
    rows = [row(name, 2, "v0.1.2", None, URL) for name in ("a", *SKIPPED, BMW)]
    loaded = _open(write_dataset(tmp_path, rows, "v0.1.2"), rules=rules)
    assert {session.session_id: len(session.turns) for session in loaded.sessions} == turns
    moved = loaded.sessions[-1]
    assert (moved.image_url, moved.is_ego) == (url, False)
    (tmp_path / "image_cache").mkdir()
    picture("blue").save(tmp_path / "image_cache" / cache_name(BMW_URL))
    assert (loaded.image(moved).image is not None) is (url == BMW_URL)


@pytest.mark.parametrize(
    ("rules", "ego", "sizes"),
    [
        (OURS, [True, True, False], [(960, 720), (960, 720), (2560, 1920)]),
        (STARTER_KIT, [True, False, False], [(2560, 1920)] * 3),
        (RESEARCH_RELEASE, [True, False, False], [(960, 1280), (960, 1280), (2560, 1920)]),
    ],
)
def test_egocentric_images_are_told_and_resized_as_the_rules_have_it(
    tmp_path: Path, rules: Rules, ego: list[bool], sizes: list[tuple[int, int]]
) -> None:
    big = picture(size=(2560, 1920))
    rows = [row("none", 1, "v0.1.2", big, None), row("blank", 1, "v0.1.2", big, ""), row("url", 1, "v0.1.2", big, URL)]
    loaded = _open(write_dataset(tmp_path, rows, "v0.1.2"), rules=rules)
    assert [session.is_ego for session in loaded.sessions] == ego
    assert [getattr(loaded.image(session).image, "size", None) for session in loaded.sessions] == sizes


def test_the_research_release_enlarges_and_distorts_with_pillows_default_filter(tmp_path: Path) -> None:
    small = Image.effect_noise((40, 30), 80).convert("RGB")
    loaded = _open(write_dataset(tmp_path, [row("a", 1, "v0.1.2", small, None)], "v0.1.2"), rules=RESEARCH_RELEASE)
    image = loaded.image(loaded.sessions[0]).image
    assert image is not None
    assert image.tobytes() == small.resize((960, 1280), Image.Resampling.BICUBIC).tobytes()


@pytest.mark.parametrize("level", ["image_cache", "crag-mm-multi-turn-public/image_cache", "cache/image_cache"])
def test_images_by_url_come_from_the_cache_folders(tmp_path: Path, level: str) -> None:
    folder = write_dataset(tmp_path, [row("a", 2, "v0.1.2", None, URL)], "v0.1.2")
    (tmp_path / level).mkdir(parents=True)
    picture(size=(3000, 2000)).save(tmp_path / level / cache_name(URL))
    loaded = _open(folder)
    image = loaded.image(loaded.sessions[0]).image
    assert image is not None
    assert image.size == (3000, 2000)  # native size: not egocentric


def test_a_table_may_lack_images_but_not_turns(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path, [row("a", 2, "v0.1.2", None, URL)], "v0.1.2")
    (file,) = folder.glob("**/*.parquet")
    table = datasets.Dataset.from_parquet(str(file), cache_dir=str(tmp_path / "whole")).remove_columns("image")
    table.to_parquet(str(file))
    (tmp_path / "image_cache").mkdir()
    picture().save(tmp_path / "image_cache" / cache_name(URL))
    loaded = _open(folder)
    assert loaded.image(loaded.sessions[0]).image is not None
    table.remove_columns("turns").to_parquet(str(file))
    with pytest.raises(EvaluationError, match="has no column turns"):
        _open(folder)


def test_turns_of_another_form_are_told() -> None:
    for feature in (datasets.Value("string"), datasets.List(datasets.Value("null"))):
        assert find_label_features(datasets.Features({"turns": feature})) == {}
    with pytest.raises(EvaluationError, match="unequal length in a row: query 2, interaction_id 1"):
        to_session({"session_id": "s", "turns": {"query": ["a", "b"], "interaction_id": ["i"]}}, 0, {})
    with pytest.raises(EvaluationError, match="neither a list of structs nor a struct of lists"):
        to_session({"session_id": "s", "turns": "what?"}, 0, {})


def test_a_missing_image_costs_its_session_a_note(tmp_path: Path) -> None:
    rows = [row("a", 2, "v0.1.2", None, URL), row("b", 2, "v0.1.2", None, None)]
    loaded = _open(write_dataset(tmp_path, rows, "v0.1.2"))
    notes = [loaded.image(session).note for session in loaded.sessions]
    assert loaded.image(loaded.sessions[0]).image is None
    assert "session a" in str(notes[0])
    assert URL in str(notes[0])
    assert "neither image nor image_url" in str(notes[1])


def test_a_broken_image_in_a_row_costs_its_session_a_note(tmp_path: Path) -> None:
    broken = row("a", 2, "v0.1.1", None, None) | {"image": {"bytes": b"\xff\xd8\xff not a jpeg", "path": None}}
    loaded = _open(write_dataset(tmp_path, [broken, row("b", 2, "v0.1.1", picture(), None)], "v0.1.1"), "v0.1.1")
    assert loaded.image(loaded.sessions[0]).image is None
    assert "session a" in str(loaded.image(loaded.sessions[0]).note)
    assert loaded.image(loaded.sessions[1]).image is not None


def test_egocentric_images_are_fitted_others_are_not() -> None:
    assert fit_ego(picture(size=(3024, 4032))).size == (960, 1280)
    assert fit_ego(picture(size=(1280, 960))).size == (960, 720)
    small = picture(size=(500, 400))
    assert fit_ego(small) is small
    for mode in ("P", "L", "RGBA", "CMYK", "I;16", "1"):
        assert fit_ego(Image.new(mode, (2000, 2000))).size == (960, 960)


def test_photos_are_turned_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by 90 degrees
    buffer = io.BytesIO()
    picture(size=(40, 20)).save(buffer, "JPEG", exif=exif)
    assert open_image(buffer.getvalue()).size == (20, 40)


def test_online_images_are_fetched_once(tmp_path: Path, httpserver: HTTPServer) -> None:
    buffer = io.BytesIO()
    picture("green").save(buffer, "PNG")
    httpserver.expect_ordered_request("/a.png").respond_with_data(buffer.getvalue(), content_type="image/png")
    url = httpserver.url_for("/a.png")
    cache = ImageCache([tmp_path], online=True)
    assert cache.load(url).image is not None
    assert (tmp_path / cache_name(url)).is_file()
    assert ImageCache([tmp_path], online=False).load(url).image is not None  # the server would answer no second time
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(("status", "body"), [(404, b""), (500, b""), (200, b"<html>not an image</html>"), (200, b"")])
def test_a_failed_download_gives_a_note_and_keeps_nothing(
    tmp_path: Path, httpserver: HTTPServer, status: int, body: bytes
) -> None:
    httpserver.expect_request("/a.png").respond_with_data(body, status=status)
    loaded = ImageCache([tmp_path], online=True).load(httpserver.url_for("/a.png"))
    assert loaded.image is None
    assert "could not be fetched" in str(loaded.note)
    assert not list(tmp_path.iterdir())


def test_a_download_that_takes_too_long_is_given_up(
    tmp_path: Path, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_images, "_WHOLE_SECONDS", -1.0)
    httpserver.expect_request("/a.png").respond_with_data(b"x")
    loaded = ImageCache([tmp_path], online=True).load(httpserver.url_for("/a.png"))
    assert "not there within -1 s" in str(loaded.note)


def test_strange_addresses_give_a_note(tmp_path: Path) -> None:
    for url in ("file:///etc/hostname", "ftp://x/y.png", "no address", "http://", "http://["):
        assert ImageCache([tmp_path], online=True, attempts=1).load(url).image is None


def test_facts_are_read_from_the_nearest_folder(tmp_path: Path) -> None:
    assert read_facts([tmp_path]) == {}
    (tmp_path / "near").mkdir()
    (tmp_path / "content_ids.json").write_text(json.dumps({"a-0": {"same_photo": True}, "a-1": {}}))
    facts = read_facts([tmp_path / "near", tmp_path])
    assert (facts["a-0"].same_photo, facts["a-1"].same_photo) == (True, None)
    (tmp_path / "near" / "content_ids.json").write_text('{"a-0": "other-photo"}')
    with pytest.raises(EvaluationError, match="must map interaction ids to objects"):
        read_facts([tmp_path / "near", tmp_path])


def test_accept_forms_are_read_from_the_nearest_folder(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path, [row("a", 2, "v0.1.2", picture(), None)], "v0.1.2")
    assert _open(folder).accept == {}
    (folder / "accept.json").write_text(json.dumps({"a-0": ["zero", "0"]}))
    assert _open(folder).accept == {"a-0": ("zero", "0")}
    (folder / "accept.json").write_text('["no"]')
    with pytest.raises(EvaluationError, match="must map interaction ids"):
        _open(folder)
