from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from agents.models.picture_files import reduced_rgb
from agents.models.pixels import GROUND, pad_sides, to_rgb

MODES = [
    "1",
    "L",
    "P",
    "RGB",
    "RGBA",
    "RGBa",
    "LA",
    "La",
    "PA",
    "CMYK",
    "YCbCr",
    "LAB",
    "HSV",
    "I",
    "F",
    "I;16",
    "I;16B",
    "I;16L",
]


@given(mode=st.sampled_from(MODES), width=st.integers(1, 5), height=st.integers(1, 5))
def test_every_mode_and_size_becomes_rgb_of_the_same_size(mode: str, width: int, height: int) -> None:
    rgb = to_rgb(Image.new(mode, (width, height)))
    assert rgb.mode == "RGB"
    assert rgb.size == (width, height)


def test_plain_rgb_is_not_copied() -> None:
    image = Image.new("RGB", (4, 4))
    assert to_rgb(image) is image


def test_transparent_pixels_become_the_ground_and_opaque_ones_stay() -> None:
    image = Image.new("RGBA", (2, 1), (10, 20, 30, 255))
    image.putpixel((0, 0), (255, 0, 0, 0))
    rgb = to_rgb(image)
    assert rgb.getpixel((0, 0)) == GROUND
    assert rgb.getpixel((1, 0)) == (10, 20, 30)


def test_palette_transparency_counts() -> None:
    image = Image.new("P", (1, 1), 0)
    image.putpalette([255, 0, 0] * 256)
    image.info["transparency"] = 0
    assert to_rgb(image).getpixel((0, 0)) == GROUND


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.float32])
def test_sixteen_bit_values_are_scaled_not_clipped(dtype: type) -> None:
    image = Image.fromarray(np.array([[0, 32768, 65535]], dtype=dtype))
    assert [to_rgb(image).getpixel((x, 0)) for x in range(3)] == [(0,) * 3, (128,) * 3, (255,) * 3]


def test_unit_floats_are_scaled_and_nan_is_black() -> None:
    image = Image.fromarray(np.array([[0.0, 1.0, np.nan]], dtype=np.float32))
    assert [to_rgb(image).getpixel((x, 0))[0] for x in range(3)] == [0, 255, 0]


def test_exif_rotation_is_applied() -> None:
    image = Image.new("RGB", (20, 10))
    exif = image.getexif()
    exif[0x0112] = 6
    file = BytesIO()
    image.save(file, "JPEG", exif=exif)
    assert to_rgb(Image.open(file)).size == (10, 20)


@pytest.mark.parametrize("mode", MODES)
def test_a_large_picture_of_any_mode_is_reduced(mode: str) -> None:
    whole = Image.new("RGB", (400, 300), "white")
    whole.paste("black", (0, 0, 200, 300))
    if mode == "LAB":
        picture = Image.new("LAB", whole.size, (255, 128, 128))
        picture.paste((0, 128, 128), (0, 0, 200, 300))
    elif mode.startswith("I;16"):
        picture = Image.frombytes(
            mode, whole.size, whole.convert("L").resize((800, 300), Image.Resampling.NEAREST).tobytes()
        )
    else:
        steps = {"PA": "P", "La": "LA", "RGBa": "RGBA"}
        picture = whole.convert(steps[mode]).convert(mode) if mode in steps else whole.convert(mode)
    small = reduced_rgb(picture, 20_000)
    assert 5_000 <= small.width * small.height <= 20_000
    left, right = (np.asarray(small.crop((x, 5, x + 9, 14))).mean() for x in (5, small.width - 14))
    assert left < 30 and right > 225


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_a_turned_picture_keeps_as_many_pixels(kind: str) -> None:
    exif, file = Image.Exif(), BytesIO()
    exif[0x0112] = 6
    Image.new("RGB", (500, 200)).save(file, kind, exif=exif)
    small = reduced_rgb(Image.open(file), 20_000)
    assert small.width < small.height and small.width * small.height > 19_000


def test_a_truncated_file_is_a_value_error() -> None:
    file = BytesIO()
    Image.effect_noise((64, 64), 50).save(file, "PNG")
    with pytest.raises(ValueError, match="cannot be decoded"):
        to_rgb(Image.open(BytesIO(file.getvalue()[:600])))


def test_an_image_without_pixels_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="no pixels"):
        to_rgb(Image.new("RGB", (0, 5)))


def test_short_sides_are_padded_with_the_picture_in_the_middle() -> None:
    padded = pad_sides(Image.new("RGB", (100, 4), "red"), 28)
    assert padded.size == (100, 28) and padded.getpixel((50, 13)) == (255, 0, 0) and padded.getpixel((50, 0)) == GROUND
    large = Image.new("RGB", (28, 28))
    assert pad_sides(large, 28) is large
