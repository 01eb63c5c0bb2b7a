"""Takes the photographs that the content names out of their source packages, and writes who made them.

    python -m mini_crag_mm.generator.photos --gcompris DIR --stamps DIR --skimage DIR --sklearn DIR --gradio DIR

Each DIR is the unpacked package (or any folder above its images); gcompris: its .rcc resources unpacked, a file named
ACTIVITY__PATH with / in the path as _, READMEs too. The results, mini_crag_mm/photos, mini_crag_mm/other_photos, mini_crag_mm/textures and
mini_crag_mm/ATTRIBUTION.md, are committed, so nothing else of the build needs the packages.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import get_args

from PIL import Image, ImageOps
from tqdm import tqdm

from mini_crag_mm.generator.attribution import Credits, attributed, attribution_markdown, read_credits
from mini_crag_mm.generator.content import Entity, Photo, PhotoSource, load_content
from mini_crag_mm.generator.paths import DemoPaths, atomic_file, write_text

PHOTO_SIDE_PX = 512
PHOTO_QUALITY = 80
TEXTURE_QUALITY = 70
# Grey-scale CC0 photographs of surfaces, 512 x 512, from scikit-image.
TEXTURES = ("grass", "gravel")
# Alpha below this (of 255) at a stamp's rim is invisible; trimming it makes boxes tight.
VISIBLE_ALPHA = 24


class PhotoError(ValueError):
    """A photograph is missing from its source package, or is found more than once."""


def find_photo(folder: Path, file: str) -> Path:
    """The one file below `folder` whose path ends with `file`; PhotoError when there is none or several."""
    direct = folder / file
    if direct.is_file():
        return direct
    name = Path(file).name
    found = sorted(path for path in folder.rglob(name) if path.is_file() and path.as_posix().endswith("/" + file))
    if len(found) != 1:
        raise PhotoError(f"{file}: found {len(found)} times below the folder of its source")
    return found[0]


def prepare_photo(image: Image.Image) -> Image.Image:
    """The image in RGB, or RGBA where it has a transparent ground (trimmed to what shows), at most 512 px a side."""
    upright = ImageOps.exif_transpose(image)
    has_alpha = upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info
    prepared = upright.convert("RGBA" if has_alpha else "RGB")
    if has_alpha:
        alpha = prepared.getchannel("A")
        shown = alpha.point(lambda value: 255 if value >= VISIBLE_ALPHA else 0).getbbox()
        if shown is None:
            raise PhotoError("the image is wholly transparent")
        prepared = prepared.crop(shown)
        if not prepared.getchannel("A").point(lambda value: 255 if value < 255 - VISIBLE_ALPHA else 0).getbbox():
            prepared = prepared.convert("RGB")
    prepared.thumbnail((PHOTO_SIDE_PX, PHOTO_SIDE_PX), Image.Resampling.LANCZOS)
    return prepared


def save_webp(image: Image.Image, target: Path, quality: int) -> None:
    """Write WebP atomically, without metadata."""
    with atomic_file(target) as part:
        image.save(part, format="WEBP", quality=quality, method=6, exif=b"", icc_profile=None)


def build_photos(
    entities: Iterable[Entity], sources: Mapping[PhotoSource, Path], paths: DemoPaths, force: bool = False
) -> list[str]:
    """Write the photos of every entity that has none from its present source; `force` writes all anew.

    The problems found are returned, one line each.
    """
    problems = []
    made = attributed(paths.attribution.read_text(encoding="utf-8")) if paths.attribution.exists() else {}
    for entity, photo, target in tqdm(_wanted(entities, paths), desc="photos", unit="photo", disable=None):
        if (
            not force
            and target.exists()
            and made.get(f"{target.parent.name}/{target.name}") == (photo.source, photo.file)
        ):
            continue
        folder = sources.get(photo.source)
        if folder is None:
            problems.append(f"{entity.where}: no folder given for source {photo.source}")
            continue
        try:
            with Image.open(find_photo(folder, photo.file)) as image:
                prepared = prepare_photo(image)
        except (PhotoError, OSError) as error:
            problems.append(f"{entity.where}: {error}")
            continue
        save_webp(prepared, target, PHOTO_QUALITY)
    return problems


def _wanted(entities: Iterable[Entity], paths: DemoPaths) -> list[tuple[Entity, Photo, Path]]:
    """Each photograph of each entity, with its place in the set."""
    wanted = []
    for entity in entities:
        wanted.append((entity, entity.photo, paths.photos / f"{entity.id}.webp"))
        if entity.other_photo:
            wanted.append((entity, entity.other_photo, paths.other_photos / f"{entity.id}.webp"))
    return wanted


def remove_orphans(entities: Iterable[Entity], paths: DemoPaths) -> None:
    """Delete photos that the content no longer names."""
    wanted = {target for _, _, target in _wanted(entities, paths)}
    for folder in (paths.photos, paths.other_photos):
        for photo in folder.glob("*.webp"):
            if photo not in wanted:
                photo.unlink()


def build_textures(skimage: Path, paths: DemoPaths) -> None:
    """Write the ground textures from scikit-image's package."""
    for name in TEXTURES:
        with Image.open(find_photo(skimage, f"{name}.png")) as image:
            save_webp(image.convert("L").convert("RGB"), paths.textures / f"{name}.webp", TEXTURE_QUALITY)


def main(arguments: list[str] | None = None) -> int:
    """Command line; 1 when a photo could not be had."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known: tuple[PhotoSource, ...] = get_args(PhotoSource)
    for source in known:
        parser.add_argument(f"--{source}", type=Path, required=True, help=f"folder of the {source} images")
    parser.add_argument("--force", action="store_true", help="write all photos anew")
    options = vars(parser.parse_args(arguments))
    paths = DemoPaths()
    sources: dict[PhotoSource, Path] = {source: options[source].resolve() for source in known}

    entities = list(load_content(paths.content, report=lambda line: print(line, file=sys.stderr)).entities.values())
    problems = build_photos(entities, sources, paths, options["force"])
    remove_orphans(entities, paths)
    build_textures(sources["skimage"], paths)
    credits: Credits = read_credits(sources)
    write_text(paths.attribution, attribution_markdown(entities, credits))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
