"""Altered copies: the same from the same seed, further from the original with more strength; and scenes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mini_crag_mm.content_models import PhotoBackground, Scene
from mini_crag_mm.generator.altered import SMALLEST_SIDE_PX, alter
from mini_crag_mm.generator.compose import set_up
from mini_crag_mm.generator.likeness import (
    MIN_STRENGTH,
    OTHER_PHOTOS,
    compose_alike,
    draw_target_cosine,
    estimate_next_strength,
)
from mini_crag_mm.generator.noise import make_generator
from mini_crag_mm.loader import SET_ROOT, SetPaths
from tests.support.mean_colour import MeanColour


def _photo(name: str) -> Image.Image:
    with Image.open(SET_ROOT / "photos" / f"{name}.webp") as picture:
        return picture.copy()


def _difference(one: Image.Image, other: Image.Image) -> float:
    pair = [np.asarray(image.convert("RGB").resize((64, 64)), dtype=np.float32) for image in (one, other)]
    return float(np.abs(pair[0] - pair[1]).mean())


@pytest.mark.parametrize("name", ["eiffel_tower", "ani_marmot"])
def test_the_seed_and_the_strength_decide_everything(name: str) -> None:
    photo = _photo(name)
    once, again = alter(photo, 0.6, "a", True), alter(photo, 0.6, "a", True)
    assert once.mode == photo.mode and once.tobytes() == again.tobytes()
    assert alter(photo, 0.6, "b", True).tobytes() != once.tobytes()
    assert alter(photo, 0.0, "a", True) is photo
    for strength in (-0.1, 1.1):
        with pytest.raises(ValueError, match=r"not in 0\.\.1"):
            alter(photo, strength, "a", False)


def test_more_strength_is_further_on() -> None:
    photo = _photo(
        "eiffel_tower"
    )  # a cut-out's outline moves with the viewpoint, which hides how far the rest has come
    weak, strong = (np.mean([_difference(photo, alter(photo, s, f"{n}", False)) for n in range(4)]) for s in (0.2, 1.0))
    assert 1.0 < weak < 0.9 * strong


@settings(max_examples=15)
@given(
    st.integers(4, 90), st.integers(4, 90), st.sampled_from(["RGB", "RGBA"]), st.floats(0.01, 1.0), st.text(max_size=3)
)
def test_pictures_of_any_size_can_be_altered(width: int, height: int, mode: str, strength: float, seed: str) -> None:
    noise = make_generator("noise").integers(0, 256, size=(height, width, len(mode)), dtype=np.uint8)
    if mode == "RGBA":
        noise[..., 3] = 255
    changed = alter(Image.fromarray(noise, mode=mode), strength, seed, True)
    assert changed.mode == mode and max(changed.size) >= 0.5 * SMALLEST_SIDE_PX


def test_the_next_strength_lies_on_the_line_through_two_trials() -> None:
    # From 0.9 at 0 to 0.6 at 0.6 it falls by 0.5 per unit: 0.5 is reached at 0.8.
    assert estimate_next_strength([(0.0, 0.9), (0.6, 0.6)], 0.5) == pytest.approx(0.8)
    assert estimate_next_strength([(0.0, 0.9), (0.6, 0.6)], 0.1) == 1.0
    assert estimate_next_strength([(0.0, 0.9), (0.6, 0.6)], 0.89) == MIN_STRENGTH
    # Two trials that say that likeness rises: a slope of -0.3 is taken.
    assert estimate_next_strength([(0.6, 0.6), (0.7, 0.63)], 0.57) == pytest.approx(0.7)


def test_targets_lie_where_other_photographs_lie() -> None:
    targets = [draw_target_cosine(f"scene/{number}") for number in range(200)]
    assert min(targets) >= OTHER_PHOTOS[0] and max(targets) <= OTHER_PHOTOS[1] and np.std(targets) > 0.08


def _scene(**fields: Any) -> Scene:
    placed = {"entity": "red_square", "box": [0.25, 0.2, 0.45, 0.6]}
    plain = {"id": "t_scene", "split": "validation", "size": (480, 360), "background": "sky", "objects": [placed]}
    return Scene.model_validate({**plain, **fields})


def _write_other(paths: SetPaths, entity: str, image: Image.Image) -> Path:
    paths.other_photos.mkdir(exist_ok=True)
    target = paths.other_photos / f"{entity}.webp"
    image.save(target)
    return target


def test_copies_are_altered_and_other_photographs_left_alone(tiny: SetPaths) -> None:
    _, layout = compose_alike(_scene(), tiny, MeanColour())
    (thing,) = layout.objects
    assert thing["same_photo"] and thing["strength"] >= MIN_STRENGTH and thing["cosine"] < 1
    assert OTHER_PHOTOS[0] <= thing["target"] <= OTHER_PHOTOS[1]
    _write_other(tiny, "red_square", Image.new("RGB", (90, 60), (200, 40, 40)))
    _, layout = compose_alike(_scene(), tiny, MeanColour())
    (thing,) = layout.objects
    assert not thing["same_photo"] and thing["strength"] == 0 and "target" not in thing


def test_a_whole_photograph_takes_the_place_of_a_cut_out(tiny: SetPaths) -> None:
    with Image.open(tiny.photos / "red_square.webp") as photo:
        assert photo.mode == "RGBA"
    _write_other(tiny, "red_square", Image.new("RGB", (90, 60), (200, 40, 40)))
    alone = set_up(_scene(), tiny).scene
    assert alone.background == PhotoBackground(photo="red_square") and alone.objects == ()
    print_beside_a_sign = set_up(_scene(texts=[{"text": "OPEN", "box": [0.6, 0.1, 0.3, 0.2]}]), tiny).scene
    assert [placed.frame for placed in print_beside_a_sign.objects] == ["postcard"]


def test_a_cut_out_takes_the_place_of_a_whole_photograph(tiny: SetPaths) -> None:
    _write_other(tiny, "green_bar", Image.new("RGBA", (90, 60), (200, 40, 40, 128)))
    scene = set_up(_scene(background={"photo": "green_bar"}, objects=[]), tiny).scene
    assert scene.background == "grass" and [placed.entity for placed in scene.objects] == ["green_bar"]
