"""Checks of the mini CRAG-MM against the rules of mini_crag_mm/README.md and FORMAT.md.

    python -m mini_crag_mm.generator --check

Each finding is printed as one line, with file and id. Errors make the exit status 1; notes are for a human to judge.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import get_args

import numpy as np
from PIL import Image

from agents.texts.wikitext import flatten
from mini_crag_mm.content_models import (
    SPLITS,
    WIKI_PREFIX,
    Category,
    Content,
    Domain,
    Item,
    Scene,
    Split,
    Turn,
    list_turns,
    load_content,
)
from mini_crag_mm.generator.graph_and_pages import list_kg_images, list_own_pages
from mini_crag_mm.loader import SetPaths, flatten_photo, read_kg, read_layout, read_pages

MIN_PHOTOS, MIN_QUESTIONS, MIN_DIALOGS, MIN_ENTITIES, MIN_PAGES = 120, 150, 40, 200, 400
MAX_BYTES = 25_000_000
# At least this share of the questions of a split, single ones and turns of dialogs each, is on something that the graph
# does not hold although it holds something like it.
MIN_HELD_OUT = 1 / 6
PAGE_WORDS = (40, 300)
# Two photos whose 64-bit difference hashes differ in this many bits or fewer are taken for the same picture.
SAME_PICTURE_BITS = 3
# Answers of these are derived (a difference, a count), so that they need not stand anywhere in words.
DERIVED: frozenset[Category] = frozenset({"comparison", "aggregation", "reasoning"})

# No copy is shown as the graph has it, not even where the scene alone makes it unlike.
MIN_STRENGTH = 0.25
COMPOSER_VERSION = 5
"""Version of the program that composed the scenes; it is part of their fingerprints."""

_ANEW = "run python -m mini_crag_mm.generator"
_COMPOSED = "scenes come as they were composed: mini_crag_mm/README.md says what composed them"
_UNITS = {
    "metre": "m", "metres": "m", "meter": "m", "meters": "m", "kilometre": "km", "kilometres": "km", "kilometer": "km",
    "kilometers": "km", "centimetre": "cm", "centimetres": "cm", "centimeter": "cm", "centimeters": "cm", "millimetre": "mm",
    "millimetres": "mm", "foot": "ft", "feet": "ft", "inch": "in", "inches": "in", "mile": "mi", "miles": "mi",
    "kilogram": "kg", "kilograms": "kg", "gram": "g", "grams": "g", "tonne": "t", "tonnes": "t", "pound": "lb", "pounds": "lb",
    "lbs": "lb", "kph": "km/h", "litre": "l", "litres": "l", "liter": "l", "liters": "l", "hectares": "ha", "hectare": "ha",
    "acres": "acre", "gallon": "gal", "gallons": "gal", "usgal": "gal", "impgal": "gal",
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """A rule that does not hold: an error, or a note that needs a human's judgement."""

    message: str
    is_error: bool = True

    def __str__(self) -> str:
        return f"{'error' if self.is_error else 'note'}: {self.message}"


def _note(message: str) -> Finding:
    return Finding(message, is_error=False)


def _iterate_turns(content: Content) -> Iterator[tuple[str, Split, Scene | None, Turn]]:
    """Yield every turn with a place for messages, its split and its scene, if that exists."""
    for item in content.list_items():
        for content_id, turn in list_turns(item):
            yield f"{item.origin}: {content_id}", item.split, content.scenes.get(item.scene), turn


def check_references(content: Content) -> Iterator[Finding]:
    """Check that every reference exists and belongs to the same split."""
    titles = content.claimed_titles()

    def check_reference(
        where: str, split: Split, kind: str, items: Mapping[str, Item], reference: str
    ) -> Iterator[Finding]:
        item = items.get(reference)
        if item is None:
            yield Finding(f"{where}: no such {kind}: {reference}")
        elif item.split != split:
            yield Finding(f"{where}: {kind} {reference} belongs to {item.split}")

    for scene in content.scenes.values():
        for reference in scene.entity_ids():
            yield from check_reference(scene.where, scene.split, "entity", content.entities, reference)
        if not scene.objects and not scene.texts and isinstance(scene.background, str):
            yield Finding(f"{scene.where}: nothing is to be seen in it")
    for item in content.list_items():
        yield from check_reference(item.where, item.split, "scene", content.scenes, item.scene)
    for where, split, _, turn in _iterate_turns(content):
        if turn.entity:
            yield from check_reference(where, split, "entity", content.entities, turn.entity)
        for reference in turn.other_entities:
            yield from check_reference(where, split, "entity", content.entities, reference)
        for reference in turn.pages:
            if reference.startswith(WIKI_PREFIX):
                if split not in titles.get(reference.removeprefix(WIKI_PREFIX), set()):
                    yield Finding(f"{where}: {reference} is not among the wiki titles of {split}")
            else:
                yield from check_reference(where, split, "page", content.pages, reference)


def _find_shared(kind: str, claims: Iterable[tuple[str, str, Split]], one_owner: bool) -> Iterator[Finding]:
    """Find things claimed by both splits or, with `one_owner`, by two entries at all.

    Args:
        kind: Kind of the things, for messages.
        claims: Key, place and split of each claim.
        one_owner: Whether two entries of one split may not share a thing either.
    """
    first: dict[str, tuple[str, Split]] = {}
    for key, where, split in claims:
        owner = first.setdefault(key, (where, split))
        if owner[1] != split:
            yield Finding(f"{where}: {kind} {key!r} is claimed by the other split too, in {owner[0]}")
        elif one_owner and owner[0] != where:
            yield Finding(f"{where}: {kind} {key!r} is taken already, in {owner[0]}")


def check_independence(content: Content) -> Iterator[Finding]:
    """Check that the splits share no entity name, photo, wiki title, page address or page text.

    Photos and pages must be unique even within a split.
    """
    entities, pages = content.entities.values(), content.pages.values()
    names = [(name.lower(), e.where, e.split) for e in entities for name in (e.name, *(one.name for one in e.also))]
    yield from _find_shared("entity name", names, one_owner=True)
    photos = [(photo, e) for e in entities for photo in (e.photo, e.other_photo) if photo]
    yield from _find_shared("photo", ((f"{p.source}/{p.file}", e.where, e.split) for p, e in photos), one_owner=True)
    for e in entities:
        if e.other_photo == e.photo:
            yield Finding(f"{e.where}: its other photo is the graph's photo")
    yield from _find_shared("page url", ((p.url, p.where, p.split) for p in pages), one_owner=True)
    yield from _find_shared("page name", ((p.name.lower(), p.where, p.split) for p in pages), one_owner=False)
    yield from _find_shared("page text", ((normalise(p.text), p.where, p.split) for p in pages), one_owner=True)
    titles = [(e.wiki, e.where, e.split) for e in entities if e.wiki]
    titles += [(w.id, w.where, w.split) for w in content.wiki]
    yield from _find_shared("wiki title", titles, one_owner=False)


def compute_held_out_share(content: Content, split: Split) -> dict[str, float]:
    """Return the share of questions on entities that the image KG lacks, by single-turn and multi-turn."""
    turns_by_kind: dict[str, list[Turn]] = {"single-turn questions": [], "turns of dialogs": []}
    for content_id, its_split, _, turn in content.turns():
        if its_split == split:
            turns_by_kind["turns of dialogs" if "#" in content_id else "single-turn questions"].append(turn)
    held_out = {entity.id for entity in content.entities.values() if not entity.in_graph}
    return {
        kind: sum(turn.entity in held_out for turn in turns) / max(1, len(turns))
        for kind, turns in turns_by_kind.items()
    }


def check_counts(content: Content) -> Iterator[Finding]:
    """Check that there is enough of everything, with every category and domain in each split."""
    counts = {
        "entities": (len(content.entities), MIN_ENTITIES),
        "photos": (len({(e.photo.source, e.photo.file) for e in content.entities.values()}), MIN_PHOTOS),
        "single-turn questions": (len(content.questions), MIN_QUESTIONS),
        "dialogs": (len(content.dialogs), MIN_DIALOGS),
        "pages": (len(content.pages) + len(content.claimed_titles()), MIN_PAGES),
    }
    for name, (count, minimum) in counts.items():
        if count < minimum:
            yield Finding(f"only {count} {name}; at least {minimum} are wanted")
    for split in SPLITS:
        turns = [turn for _, its_split, _, turn in _iterate_turns(content) if its_split == split]
        for category in sorted(set(get_args(Category)) - {turn.query_category for turn in turns}):
            yield Finding(f"{split}: no question of category {category}")
        for domain in sorted(set(get_args(Domain)) - {turn.domain for turn in turns}):
            yield _note(f"{split}: no question of domain {domain}")
        for kind, counted in compute_held_out_share(content, split).items():
            if counted < MIN_HELD_OUT:
                share = f"{counted:.1%} of the {kind}"
                yield Finding(f"{split}: {share} are on things that the graph does not hold; 1 in 6 is wanted")
    used = {item.scene for item in content.list_items()}
    for scene in content.scenes.values():
        if scene.id not in used:
            yield _note(f"{scene.where}: no question uses this scene")


def normalise(text: str) -> str:
    """Reduce a text to lower-case words and numbers.

    Accents, punctuation and thousands separators are dropped, and unit names are shortened.
    """
    text = unicodedata.normalize("NFKD", html.unescape(text)).lower()
    text = "".join(letter for letter in text if not unicodedata.combining(letter))
    text = re.sub(r"(?<=\d)[,\u202f\u00a0 ](?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(?<=\d)(?=[a-z])", " ", text)
    words = re.findall(r"\d+(?:\.\d+)?|km/h|[^\W\d_]+", text)
    return " ".join(_UNITS.get(word, word) for word in words)


def is_stated_in(answer: str, evidence: str) -> bool:
    """Return whether all words and numbers of a short answer occur in the evidence, as whole words."""
    normalised_answer = normalise(answer)
    if not normalised_answer:
        return False
    present = normalise(evidence)
    return f" {normalised_answer} " in f" {present} " or set(normalised_answer.split()) <= set(present.split())


def collect_evidence(turn: Turn, scene: Scene, content: Content, wiki_texts: dict[str, str]) -> str:
    """Join all text that may hold the answer of a turn.

    This is attributes, named pages, summaries, names and printed text.
    """
    parts = [text.text for text in scene.texts]
    # Comparisons need the things beside the one asked about as well.
    for entity_id in {turn.entity, *scene.entity_ids()}:
        entity = content.entities.get(entity_id or "")
        if entity:
            parts.append(entity.name)
            if entity.in_graph:
                parts += [" ".join(pair) for raw in entity.attributes.items() for pair in flatten(*raw)]
    for reference in turn.pages:
        if reference.startswith(WIKI_PREFIX):
            title = reference.removeprefix(WIKI_PREFIX)
            parts += [title, wiki_texts.get(title, "")]
        elif reference in content.pages:
            parts += [content.pages[reference].name, content.pages[reference].text]
    return " \n ".join(parts)


def check_answers(content: Content, wiki_texts: dict[str, str]) -> Iterator[Finding]:
    """Check that the evidence holds an accepted form of every answer, and that sources are named rightly."""
    for where, _, scene, turn in _iterate_turns(content):
        if not turn.answerable:
            if turn.source != "nowhere":
                yield Finding(f"{where}: nothing answers it, so its source is nowhere, not {turn.source}")
            if any(normalise(form) != normalise(turn.answer) for form in turn.accept):
                yield Finding(f"{where}: nothing answers it, so it accepts nothing, not {list(turn.accept)}")
            continue
        if turn.general_knowledge:
            yield Finding(f"{where}: general_knowledge is for a question that nothing in the set answers")
        if turn.source == "nowhere":
            yield Finding(f"{where}: source is nowhere, but the answer is {turn.answer!r}")
        if not turn.accept:
            yield Finding(f"{where}: no accept forms")
        if turn.source in ("web", "both") and not turn.pages:
            yield Finding(f"{where}: source is {turn.source}, but no page is named")
        entity = content.entities.get(turn.entity or "")
        if turn.source in ("kg", "both") and entity and not entity.in_graph:
            yield Finding(f"{where}: source is {turn.source}, but {entity.id} is not in the graph")
        for other in turn.other_entities:
            if turn.source not in ("kg", "both") or scene is None or other not in {*scene.entity_ids()} - {turn.entity}:
                yield Finding(f"{where}: other_entities has {other}, whose facts the photo does not lead to")
        if turn.source in ("kg", "both") and turn.entity is None and turn.query_category not in DERIVED:
            yield Finding(f"{where}: source is {turn.source}, but no entity is named")
        if scene is None or not turn.accept:
            continue
        if not any(is_stated_in(form, turn.answer) for form in turn.accept):
            yield _note(f"{where}: none of {list(turn.accept)} stands in the answer {turn.answer!r}")
        # Counting, comparing and saying yes or no leave no words to look for.
        says_yes_or_no = bool({"yes", "no"} & {normalise(form) for form in turn.accept})
        loose = turn.query_category in DERIVED or turn.source == "image" or says_yes_or_no
        if not any(is_stated_in(form, collect_evidence(turn, scene, content, wiki_texts)) for form in turn.accept):
            message = f"{where}: none of {list(turn.accept)} stands in the evidence (source {turn.source})"
            yield _note(message) if loose else Finding(message)


def check_wording(content: Content) -> Iterator[Finding]:
    """Check that no question repeats on a scene, entities are visible, and pages have a sensible length."""
    asked_before: dict[tuple[str, str], str] = {}
    for question in content.questions.values():
        key = (question.scene, normalise(question.query))
        if key in asked_before:
            yield Finding(f"{question.where}: the same question as {asked_before[key]}")
        asked_before[key] = question.id
    for item in content.list_items():
        scene, (_, turn) = content.scenes.get(item.scene), list_turns(item)[0]
        if scene and turn.entity and turn.entity not in set(scene.entity_ids()):
            yield _note(f"{item.where}: {turn.entity} is not to be seen in {scene.id}")
    for page in content.pages.values():
        words = len(page.text.split())
        if not PAGE_WORDS[0] <= words <= PAGE_WORDS[1]:
            yield _note(f"{page.where}: {words} words; 60 to 250 are wanted")


def compute_difference_hash(image: Image.Image) -> int:
    """Compute a 64-bit hash of a picture's brightness steps; similar pictures differ in few bits."""
    small = np.asarray(image.convert("L").resize((9, 8), Image.Resampling.BOX), dtype=np.int16)
    return int.from_bytes(np.packbits(small[:, 1:] > small[:, :-1]).tobytes(), "big")


def check_photos(content: Content, paths: SetPaths) -> Iterator[Finding]:
    """Check that every entity has its photo, no photo is left over, and no picture is in both splits."""
    hashes: dict[str, int] = {}
    for entity in content.entities.values():
        photo = paths.photos / f"{entity.id}.webp"
        if not photo.exists():
            yield Finding(f"{entity.where}: photos/{photo.name} is missing")
            continue
        with Image.open(photo) as image:
            hashes[entity.id] = compute_difference_hash(flatten_photo(image))
        if entity.other_photo and not (paths.other_photos / f"{entity.id}.webp").exists():
            yield Finding(f"{entity.where}: other_photos/{entity.id}.webp is missing")
    for photo in sorted(paths.photos.glob("*.webp")):
        if photo.stem not in content.entities:
            yield Finding(f"photos/{photo.name}: no such entity")
    for photo in sorted(paths.other_photos.glob("*.webp")):
        if photo.stem not in content.entities or not content.entities[photo.stem].other_photo:
            yield Finding(f"other_photos/{photo.name}: the content names no such photo")
    for one, other in combinations(hashes, 2):
        if (hashes[one] ^ hashes[other]).bit_count() <= SAME_PICTURE_BITS:
            between_splits = content.entities[one].split != content.entities[other].split
            message = f"the photos of {one} and {other} look the same"
            # Round coins on a pale ground look alike to the hash.
            yield _note(f"{message}, in {'both splits' if between_splits else 'one split'}")


def parse_attribution(markdown: str) -> dict[str, tuple[str, str]]:
    """Parse the table of ATTRIBUTION.md: FOLDER/ENTITY.webp -> (source, file)."""
    rows = re.findall(r"^\| (\w+/\w+\.webp) \| (\w+) \| ([^|]+) \|", markdown, flags=re.MULTILINE)
    return {photo: (source, file.strip()) for photo, source, file in rows}


def check_attribution(content: Content, paths: SetPaths) -> Iterator[Finding]:
    """Check that every photograph has its line in ATTRIBUTION.md, with source and file of the content."""
    text = paths.attribution.read_text(encoding="utf-8") if paths.attribution.exists() else ""
    photos = {
        f"{folder}/{entity.id}.webp": (photo.source, photo.file)
        for entity in content.entities.values()
        for folder, photo in (("photos", entity.photo), ("other_photos", entity.other_photo))
        if photo
    }
    for photo, _ in sorted(photos.items() ^ parse_attribution(text).items()):
        yield Finding(f"ATTRIBUTION.md: {photo}: the line is missing, or names another source than the content")


def compute_fingerprint(scene: Scene, paths: SetPaths) -> str:
    """Compute the hash of all that a scene is made of; ``made_from`` of its layout notes it."""
    digest = hashlib.sha256(f"{COMPOSER_VERSION}\n{scene.model_dump_json()}\n".encode())
    for entity in sorted(set(scene.entity_ids())):
        for folder in (paths.photos, paths.other_photos):
            photo = folder / f"{entity}.webp"
            digest.update(photo.read_bytes() if photo.exists() else b"missing")
    return digest.hexdigest()[:16]


def check_products(content: Content, paths: SetPaths) -> Iterator[Finding]:
    """Check that scenes, pages and KG are built from the content as it is now."""
    layouts = read_layout(paths.layout)
    for scene in content.scenes.values():
        layout = layouts.get(scene.id)
        if layout is None or not (paths.scenes / f"{scene.id}.webp").exists():
            yield Finding(f"{scene.where}: not composed; {_COMPOSED}")
        elif layout["made_from"] != compute_fingerprint(scene, paths):
            yield Finding(f"{scene.where}: changed since it was composed; {_COMPOSED}")
        else:
            for thing in layout["objects"]:
                if thing["same_photo"] and thing["strength"] < MIN_STRENGTH:
                    yield Finding(f"{scene.where}: {thing['entity']} is shown as the graph has it; {_COMPOSED}")
    for picture in sorted(paths.scenes.glob("*.webp")):
        if picture.stem not in content.scenes:
            yield Finding(f"scenes/{picture.name}: no such scene")
    if not paths.wiki_pages.exists() or not paths.own_pages.exists():
        yield Finding(f"pages/: missing; {_ANEW}")
    else:
        pages = read_pages(paths=paths)
        page_titles = {(page["page_name"], page["split"]) for page in pages if page["kind"] == "wiki"}
        claimed = {(title, split) for title, splits in content.claimed_titles().items() for split in splits}
        for title, split in sorted(page_titles ^ claimed, key=str):
            yield Finding(f"pages/wiki.jsonl: {title!r} of {split} is in the pages or in the content, but not in both")
        if [page for page in pages if page["kind"] != "wiki"] != list(list_own_pages(content)):
            yield Finding(f"pages/own.jsonl: not as in the content; {_ANEW}")
    for split in SPLITS:
        # Through JSON, as the file is: tuples become lists and numbers as keys become text.
        images = json.loads(json.dumps(list(list_kg_images(content, split))))
        if not paths.kg(split).exists() or read_kg(split, paths) != images:
            yield Finding(f"kg/{split}.jsonl: not as in the content; {_ANEW}")
    files = (file for file in paths.root.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    size = sum(file.stat().st_size for file in files)
    if size > MAX_BYTES:
        yield Finding(f"mini_crag_mm/ is {size / 1e6:.1f} MB; at most {MAX_BYTES / 1e6:.0f} MB are wanted")


def check_content(content: Content, wiki_texts: dict[str, str], counts: bool = True) -> list[Finding]:
    """Check all rules on the content itself; `counts` False leaves out those on amounts."""
    amounts = check_counts(content) if counts else ()
    return [
        *check_references(content),
        *check_independence(content),
        *amounts,
        *check_answers(content, wiki_texts),
        *check_wording(content),
    ]


def check_all(paths: SetPaths, counts: bool = True) -> list[Finding]:
    """Check all rules on the content and on what was built from it."""
    findings: list[Finding] = []
    content = load_content(paths.content, report=lambda message: findings.append(Finding(message)))
    pages = read_pages(paths=paths) if paths.wiki_pages.exists() and paths.own_pages.exists() else []
    wiki_texts = {page["page_name"]: page["page_snippet"] for page in pages if page["kind"] == "wiki"}
    findings += check_content(content, wiki_texts, counts)
    findings += check_photos(content, paths)
    findings += check_attribution(content, paths)
    findings += check_products(content, paths)
    return findings


def summarise(content: Content) -> str:
    """Summarise the amounts of each split."""
    lines = []
    for split in SPLITS:
        turns = [turn for _, its_split, _, turn in _iterate_turns(content) if its_split == split]
        entities = [entity for entity in content.entities.values() if entity.split == split]
        scenes = [scene for scene in content.scenes.values() if scene.split == split]
        counts = {
            "entities": len(entities),
            "own pages": sum(page.split == split for page in content.pages.values()),
            "wiki pages": sum(split in splits for splits in content.claimed_titles().values()),
            "scenes": len(scenes),
            "egocentric": sum(scene.egocentric for scene in scenes),
            "single": sum(question.split == split for question in content.questions.values()),
            "dialogs": sum(dialog.split == split for dialog in content.dialogs.values()),
            "turns": len(turns),
            "unanswerable": sum(not turn.answerable for turn in turns),
            "other photos": sum(entity.other_photo is not None for entity in entities),
            "held out": sum(not entity.in_graph for entity in entities),
        }
        lines.append(f"{split}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
        kinds = (Counter(turn.query_category for turn in turns), Counter(turn.domain for turn in turns))
        lines += ["  " + ", ".join(f"{count} {kind}" for kind, count in each.most_common()) for each in kinds]
    return "\n".join(lines)


def report(paths: SetPaths) -> bool:
    """Print all findings and a summary; return whether there is no error."""
    findings = check_all(paths)
    for finding in sorted(findings, key=lambda finding: not finding.is_error):
        print(finding)
    print(summarise(load_content(paths.content, report=lambda _: None)))
    errors = sum(finding.is_error for finding in findings)
    print(f"{errors} errors, {len(findings) - errors} notes")
    return errors == 0
