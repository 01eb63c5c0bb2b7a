"""Composed scenes: the picture agrees with the layout, and nothing but the scene decides what it looks like."""

from __future__ import annotations

import json
from typing import Any, get_args

import numpy as np
import pytest
from PIL import Image

from mini_crag_mm.content_models import Scene, SceneryName, TextStyle
from mini_crag_mm.generator.compose import LARGEST_SCENE_BYTES, ComposeError, build_scenes, encode_scene
from mini_crag_mm.generator.lettering import print_text
from mini_crag_mm.generator.noise import make_generator
from mini_crag_mm.loader import SetPaths, flatten_photo, read_layout
from tests.mini_crag_mm.conftest import compose_unaltered


def _scene(**fields: Any) -> Scene:
    plain = {
        "id": "t_scene",
        "split": "validation",
        "size": (480, 360),
        "egocentric": False,
        "background": "sky",
        "objects": [{"entity": "red_square", "box": [0.25, 0.2, 0.45, 0.6]}],
    }
    return Scene.model_validate({**plain, **fields})


def _red_box(picture: Image.Image) -> tuple[int, int, int, int]:
    """Where the red of the square is to be seen: left, top, width, height."""
    pixels = np.asarray(picture.convert("RGB"), dtype=np.int16)
    red = (pixels[..., 0] > 1.6 * pixels[..., 1]) & (pixels[..., 0] > 1.6 * pixels[..., 2]) & (pixels[..., 0] > 60)
    rows, columns = np.flatnonzero(red.sum(axis=1) > 3), np.flatnonzero(red.sum(axis=0) > 3)
    return int(columns[0]), int(rows[0]), int(columns[-1] - columns[0] + 1), int(rows[-1] - rows[0] + 1)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"egocentric": True},
        {"effects": {"rotate": 12}},
        {"effects": {"rotate": -8, "crop": [0.1, 0.05, 0.85, 0.9]}},
        {"effects": {"crop": [0.4, 0.0, 0.6, 1.0]}},
        {"effects": {"blur": 1.5, "darken": 0.7, "noise": 0.02}, "egocentric": True},
        {"size": (360, 480), "background": "paper"},
        {"background": {"photo": "green_bar"}},
        {"objects": [{"entity": "red_square", "box": [0.3, 0.3, 0.3, 0.3], "rotate": 30, "flip": True}]},
        {"objects": [{"entity": "red_square", "box": [0.7, 0.3, 0.45, 0.6]}]},
    ],
)
def test_layout_says_where_the_object_really_is(tiny: SetPaths, fields: dict[str, Any]) -> None:
    picture, layout = compose_unaltered(_scene(**fields), tiny)
    assert picture.size == layout.size
    box = next(thing["box"] for thing in layout.objects if thing["entity"] == "red_square")
    assert np.abs(np.array(box) - np.array(_red_box(picture))).max() <= 6
    left, top, width, height = box
    assert left >= 0 and top >= 0 and left + width <= picture.width and top + height <= picture.height


def test_without_camera_the_box_is_the_one_asked_for(tiny: SetPaths) -> None:
    _, layout = compose_unaltered(_scene(objects=[{"entity": "red_square", "box": [0.25, 0.2, 0.45, 0.6]}]), tiny)
    # The square is 216 px in a box of 216 x 216 at (120, 72).
    assert np.abs(np.array(layout.objects[0]["box"]) - [120, 72, 216, 216]).max() <= 2
    assert layout.objects[0]["shown"] > 0.98 and layout.objects[0]["covered"] == 0


def test_counter_clockwise_is_as_seen(tiny: SetPaths) -> None:
    right = {"entity": "red_square", "box": [0.75, 0.4, 0.15, 0.2]}
    _, level = compose_unaltered(_scene(objects=[right]), tiny)
    _, turned = compose_unaltered(_scene(objects=[right], effects={"rotate": 12}), tiny)
    assert turned.objects[0]["box"][1] < level.objects[0]["box"][1] - 20


def test_hidden_and_cut_things_are_measured(tiny: SetPaths) -> None:
    half = {"entity": "blue_disc", "box": [0.25, 0.2, 0.225, 0.6], "frame": "poster"}
    square = {"entity": "red_square", "box": [0.25, 0.2, 0.45, 0.6]}
    _, layout = compose_unaltered(_scene(objects=[square, half]), tiny)
    assert 0.15 < layout.objects[0]["covered"] < 0.25 and layout.objects[1]["covered"] == 0
    _, layout = compose_unaltered(_scene(objects=[{"entity": "red_square", "box": [-0.225, 0.2, 0.45, 0.6]}]), tiny)
    assert layout.objects[0]["shown"] == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("name", get_args(SceneryName))
@pytest.mark.parametrize("frame", ["none", "postcard"])
def test_every_background_can_be_painted(tiny: SetPaths, name: str, frame: str) -> None:
    fields = {"background": name, "objects": [{"entity": "red_square", "box": [0.1, 0.3, 0.4, 0.5], "frame": frame}]}
    picture, _ = compose_unaltered(_scene(id=f"t_{name}", egocentric=True, **fields), tiny)
    assert picture.mode == "RGB" and np.asarray(picture).std() > 5


def test_a_scene_depends_on_its_id_and_content_alone(tiny: SetPaths) -> None:
    def picture(scene: Scene) -> bytes:
        return encode_scene(compose_unaltered(scene, tiny)[0])

    fields: dict[str, Any] = {
        "background": "street",
        "egocentric": True,
        "texts": [{"text": "A", "box": [0.6, 0.1, 0.3, 0.2]}],
    }
    first = picture(_scene(**fields))
    assert picture(_scene(**fields)) == first
    assert picture(_scene(**fields, id="t_other")) != first


def test_texts_have_boxes_and_keep_their_breaks(tiny: SetPaths) -> None:
    _, layout = compose_unaltered(
        _scene(texts=[{"text": "OPEN\n9-18", "box": [0.5, 0.5, 0.4, 0.25], "style": "label"}]), tiny
    )
    assert layout.texts[0]["text"] == "OPEN\n9-18"
    assert np.abs(np.array(layout.texts[0]["box"]) - [240, 180, 192, 90]).max() <= 2


@pytest.mark.parametrize("style", get_args(TextStyle))
def test_printed_text_can_be_read_by_ocr(style: TextStyle) -> None:
    rapidocr = pytest.importorskip("rapidocr_onnxruntime")
    board = print_text("CASTLE TOUR\nADULT 14.50 EUR", style, 460, 150, make_generator(style))
    canvas = Image.new("RGB", (640, 360), (120, 130, 120))
    canvas.paste(board, (90, 100), board)
    lines, _ = rapidocr.RapidOCR(intra_op_num_threads=1)(np.asarray(canvas))
    text = "".join(line[1] for line in lines).replace(" ", "").upper()
    assert "CASTLETOUR" in text and "14.50" in text


def test_text_of_any_length_fits() -> None:
    for text in ("", "x", "word " * 60, "a\nb\nc\nd\ne\nf"):
        assert print_text(text, "receipt", 60, 30, make_generator("x")).size == (60, 30)


def test_missing_photo_and_things_out_of_sight_are_problems(tiny: SetPaths) -> None:
    with pytest.raises(ComposeError, match="photo of nobody"):
        compose_unaltered(_scene(objects=[{"entity": "nobody", "box": [0, 0, 1, 1]}]), tiny)
    with pytest.raises(ComposeError, match="lies outside the frame"):
        compose_unaltered(_scene(effects={"crop": [0.75, 0.0, 0.25, 1.0]}), tiny)


def test_only_changed_scenes_are_composed_again(built: SetPaths) -> None:
    from mini_crag_mm.content_models import load_content

    scenes = list(load_content(built.content).scenes.values())
    before = {scene.id: (built.scenes / f"{scene.id}.webp").stat().st_mtime_ns for scene in scenes}
    changed = scenes[0].model_copy(update={"background": "sand"})
    assert build_scenes([changed, scenes[1]], built, False, compose_unaltered) == []
    after = {path.stem: path.stat().st_mtime_ns for path in built.scenes.glob("*.webp")}
    assert set(after) == {scenes[0].id, scenes[1].id}
    assert after[scenes[0].id] != before[scenes[0].id] and after[scenes[1].id] == before[scenes[1].id]
    assert set(read_layout(built.layout)) == set(after)


def test_a_scene_that_fails_spoils_no_other(built: SetPaths) -> None:
    good = _scene(id="t_good")
    bad = _scene(id="t_bad", objects=[{"entity": "nobody", "box": [0, 0, 1, 1]}])
    problems = build_scenes([bad, good], built, False, compose_unaltered)
    assert len(problems) == 1 and (built.scenes / "t_good.webp").exists()
    assert list(json.loads(built.layout.read_text())) == ["t_good"]


def test_scene_files_keep_to_their_size() -> None:
    noise = np.random.default_rng(1).integers(0, 255, (720, 960, 3)).astype(np.uint8)
    soft = Image.fromarray(noise).resize((240, 180)).resize((960, 720))
    assert len(encode_scene(soft)) <= LARGEST_SCENE_BYTES * 2


def test_flattened_puts_cut_outs_on_a_neutral_ground() -> None:
    clear = Image.new("RGBA", (10, 20), (0, 0, 0, 0))
    assert flatten_photo(clear, 0.1).size == (14, 24)
    assert flatten_photo(clear).getpixel((5, 5)) == (235, 234, 230)
    assert flatten_photo(Image.new("P", (10, 20)), 0.1).size == (10, 20)
