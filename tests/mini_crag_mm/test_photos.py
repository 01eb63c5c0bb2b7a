"""Photographs and their credits, taken from folders that look like the source packages."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from PIL import Image

from mini_crag_mm.generator import photos
from mini_crag_mm.generator.attribution import (
    attributed,
    attribution_markdown,
    parse_gcompris_notice,
    parse_stamp_changelog,
    read_credits,
)
from mini_crag_mm.generator.content import Entity, Photo, PhotoSource
from mini_crag_mm.generator.paths import DemoPaths, write_text

CHANGELOG = """
2008.February.27
  * New stamps
    + vehicles/firetruck
      Photo by Aaron
      License: CC BY 2.5
    + animals/bear
    + plants/birch.png
      by Pere
    + household/bell
      Sound by Carol
    + Hot air balloon
      Albert
    + garbagetruck
      daffodil.png
"""
NOTICE = """Copyright: Urse
License: Public Domain
Source: https://commons.wikimedia.org/wiki/File:C.jpg
Files:
wonders/colosseum.webp

Copyright: Yann
License: CC-BY-SA 4.0
Files:
wonders/tajMahal.webp
"""


def _entity(name: str, source: PhotoSource, file: str) -> Entity:
    return Entity(
        id=name, split="validation", name=name, photo=Photo(source=source, file=file), origin="t/entities.yaml"
    )


@pytest.fixture
def sources(tmp_path: Path) -> dict[PhotoSource, Path]:
    stamps = tmp_path / "stamps_package" / "usr" / "share" / "tuxpaint" / "stamps"
    doc = tmp_path / "stamps_package" / "usr" / "share" / "doc" / "tuxpaint-stamps-default"
    gcompris = tmp_path / "gcompris"
    for folder in (stamps / "animals", stamps / "toys", doc, gcompris):
        folder.mkdir(parents=True)
    cut_out = Image.new("RGBA", (900, 700), (0, 0, 0, 0))
    cut_out.paste((200, 100, 0, 255), (100, 100, 800, 600))
    cut_out.save(stamps / "animals" / "bear.png")
    cut_out.save(stamps / "toys" / "bear.png")
    (doc / "changelog.gz").write_bytes(gzip.compress(CHANGELOG.encode()))
    Image.new("RGB", (1000, 400), (9, 9, 9)).save(gcompris / "explore__wonders_colosseum.webp")
    (gcompris / "explore__README.txt").write_text(NOTICE)
    return {"stamps": tmp_path / "stamps_package", "gcompris": gcompris}


def test_photos_are_trimmed_shrunk_and_made_once(tmp_path: Path, sources: dict[PhotoSource, Path]) -> None:
    paths = DemoPaths(tmp_path / "set")
    bear, colosseum = (
        _entity("bear", "stamps", "animals/bear.png"),
        _entity("colosseum", "gcompris", "explore__wonders_colosseum.webp"),
    )
    assert photos.build_photos([bear, colosseum], sources, paths) == []
    with Image.open(paths.photos / "bear.webp") as image:
        # The transparent rim is gone, and with it every reason for an alpha channel.
        assert (image.mode, image.size) == ("RGB", (512, 366))
    with Image.open(paths.photos / "colosseum.webp") as image:
        assert image.size == (512, 205)

    write_text(paths.attribution, attribution_markdown([bear, colosseum], read_credits(sources)))
    (paths.photos / "bear.webp").write_bytes(b"kept")
    assert photos.build_photos([bear], sources, paths) == []
    assert (paths.photos / "bear.webp").read_bytes() == b"kept"
    photos.build_photos([_entity("bear", "stamps", "toys/bear.png")], sources, paths)
    assert (paths.photos / "bear.webp").read_bytes() != b"kept"

    photos.remove_orphans([bear], paths)
    assert [path.name for path in paths.photos.iterdir()] == ["bear.webp"]


def test_what_cannot_be_found_is_named(tmp_path: Path, sources: dict[PhotoSource, Path]) -> None:
    entities = [
        _entity("a", "stamps", "bear.png"),
        _entity("b", "stamps", "no.png"),
        _entity("c", "gradio", "lion.jpg"),
    ]
    problems = photos.build_photos(entities, sources, DemoPaths(tmp_path / "set"))
    assert "bear.png: found 2 times" in problems[0]
    assert "no.png: found 0 times" in problems[1]
    assert "no folder given for source gradio" in problems[2]


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "CMYK", "I;16"])
def test_opaque_pictures_of_any_mode_become_rgb(mode: str) -> None:
    assert photos.prepare_photo(Image.new(mode, (30, 20))).mode == "RGB"


def test_cut_outs_keep_their_alpha() -> None:
    palette = Image.new("P", (30, 20))
    palette.putpixel((3, 3), 1)
    palette.info["transparency"] = 0
    prepared = photos.prepare_photo(palette)
    assert prepared.size == (1, 1)
    disc = Image.new("RGBA", (30, 20), (0, 0, 0, 0))
    disc.paste((1, 2, 3, 255), (5, 5, 10, 10))
    disc.putpixel((7, 7), (0, 0, 0, 0))
    prepared = photos.prepare_photo(disc)
    assert (prepared.mode, prepared.size) == ("RGBA", (5, 5))
    with pytest.raises(photos.PhotoError, match="wholly transparent"):
        photos.prepare_photo(Image.new("RGBA", (4, 4), (0, 0, 0, 0)))


def test_exif_rotation_is_undone(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (40, 20)).save(tmp_path / "a.jpg", exif=exif)
    with Image.open(tmp_path / "a.jpg") as image:
        assert photos.prepare_photo(image).size == (20, 40)


def test_gcompris_notices_name_author_licence_and_origin() -> None:
    credits = parse_gcompris_notice(NOTICE)
    assert credits["wonders/colosseum.webp"].author == "Urse"
    assert credits["wonders/colosseum.webp"].origin.endswith("File:C.jpg")
    assert credits["wonders/tajMahal.webp"].licence == "CC-BY-SA 4.0"


def test_changelog_credits_are_taken_only_where_they_are_sure() -> None:
    assert parse_stamp_changelog(CHANGELOG) == {
        "vehicles/firetruck": "Photo by Aaron License: CC BY 2.5",
        "animals/bear": "by Pere",
        "plants/birch": "by Pere",
    }


def test_attribution_lists_every_photo_and_can_be_read_back(sources: dict[PhotoSource, Path]) -> None:
    entities = [
        _entity("colosseum", "gcompris", "explore__wonders_colosseum.webp"),
        _entity("bear", "stamps", "animals/bear.png"),
        _entity("other_bear", "stamps", "toys/bear.png"),
        _entity("cat", "skimage", "chelsea.png"),
        _entity("lion", "gradio", "lion.jpg"),
    ]
    text = attribution_markdown(entities, read_credits(sources))
    assert attributed(text) == {f"photos/{e.id}.webp": (e.photo.source, e.photo.file) for e in entities}
    rows = {line.split(" | ")[0]: line for line in text.splitlines() if ".webp |" in line}
    assert "Urse | Public Domain | https://" in rows["| photos/colosseum.webp"]
    assert "by Pere" in rows["| photos/bear.webp"] and "by Pere" not in rows["| photos/other_bear.webp"]
    assert "Stefan van der Walt | CC0-1.0" in rows["| photos/cat.webp"]
    assert "names no photographer" in rows["| photos/lion.webp"]
