"""Geometric verification: a picture is told again when it is scaled, turned and darkened, at its place, and no other is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageFilter

from agents.models.base import Box
from agents.models.vision import same_picture
from agents.models.vision.same_picture import Features, PictureFeatures, extract_features, match
from mini_crag_mm.loader import SET, read_index_image, read_kg, read_scenes


def photo(name: str) -> Image.Image:
    with Image.open(SET.photos / name) as image:
        return image.convert("RGB")


NAMES = [path.name for path in sorted(SET.photos.glob("*.webp"))]


def textured() -> list[Image.Image]:
    pictures = [picture for name in NAMES[:20] if min((picture := photo(name)).size) >= 300]
    assert len(pictures) >= 3
    return pictures[:3]


def scene(thing: Image.Image) -> Image.Image:
    """The thing, smaller, turned and darker, in the right half of a photo."""
    noise = np.random.default_rng(1).integers(0, 256, (720, 960, 3), dtype=np.uint8)
    ground = Image.fromarray(noise).filter(ImageFilter.GaussianBlur(3))
    small = ImageEnhance.Brightness(thing.resize((300, 300 * thing.height // thing.width))).enhance(0.7)
    ground.paste(small.rotate(12, resample=Image.Resampling.BICUBIC), (600, 150))
    return ground


def test_a_scaled_turned_and_darker_copy_is_the_same_and_others_are_not() -> None:
    first, *others = textured()
    scene_features = extract_features(scene(first))
    assert match(scene_features, extract_features(first)).inliers() >= 20
    assert all(match(scene_features, extract_features(other)).inliers() < 10 for other in others)


def test_what_is_the_same_lies_in_its_own_box() -> None:
    first = textured()[0]
    matches = match(extract_features(scene(first)), extract_features(first))
    assert matches.inliers(Box(600, 100, 960, 720)) >= 20
    assert matches.inliers(Box(0, 0, 580, 720)) < 10


def test_a_large_picture_is_known_as_well_as_a_small_one() -> None:
    """Altered copies are bent a little, so that their features lie some pixels off; those pixels are of the size of the comparison."""
    entities = {str(entity["image"]): entity for entity in read_kg("validation")}
    (scene, thing, picture) = next(
        (scene, thing, picture)
        for scene in read_scenes("validation")
        for thing in scene.things
        for url, entity in entities.items()
        if thing.same_photo
        and url.endswith(f"/{thing.entity}.webp")
        and max((picture := read_index_image(entity)).size) > 400
    )
    pictures = {"small": picture, "large": picture.resize((4 * picture.width, 4 * picture.height))}
    features = PictureFeatures().get_features(pictures, lambda urls: {url: pictures[url] for url in urls})
    photo_features, box = extract_features(scene.image), Box(*thing.box)
    small, large = (match(photo_features, features[url]).inliers(box) for url in pictures)
    assert small >= 10 and large >= 0.8 * small


def test_places_are_in_pixels_of_the_image_itself() -> None:
    first = textured()[0]
    large = scene(first).resize((1920, 1440))
    matches = match(extract_features(large), extract_features(first))
    assert matches.inliers(Box(1200, 200, 1920, 1440)) >= 20


def test_places_are_in_pixels_of_the_upright_image() -> None:
    wide = textured()[0].resize((600, 300))
    exif = Image.Exif()
    exif[0x0112] = 6
    file = BytesIO()
    wide.save(file, "JPEG", exif=exif)
    across, down = extract_features(Image.open(file)).places.max(axis=0)
    assert across <= 300 < down


def test_the_same_call_counts_the_same() -> None:
    first = textured()[0]
    matches = match(extract_features(scene(first)), extract_features(first))
    assert len({matches.inliers() for _ in range(3)}) == 1


@pytest.mark.parametrize("size", [(1, 1), (64, 48), (2000, 3)])
def test_a_picture_without_features_is_like_none(size: tuple[int, int]) -> None:
    plain, other = extract_features(Image.new("RGB", size)), extract_features(textured()[0])
    assert match(plain, other).inliers() == match(other, plain).inliers() == match(plain, plain).inliers() == 0


def test_pictures_are_read_once_and_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_picture, "_KEPT_PICTURES", 2)
    read_urls: list[str] = []

    def read(urls: Sequence[str]) -> Mapping[str, Image.Image]:
        read_urls.extend(urls)
        return {url: Image.new("RGB", (32, 32)) for url in urls if url != "missing"}

    features = PictureFeatures()
    assert set(features.get_features(["a", "b", "a", "missing"], read)) == {"a", "b"}
    assert isinstance(features.get_features(["a", "b"], read)["a"], Features)
    assert read_urls == ["a", "b", "missing"]
    features.get_features(["c"], read)
    features.get_features(["b"], read)
    assert read_urls[3:] == ["c"]  # of the three "a" was used the longest ago
    features.get_features(["a"], read)
    assert read_urls[4:] == ["a"]
