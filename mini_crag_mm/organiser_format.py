"""Data sets in the organiser's schema, as local folders that `datasets.load_dataset` reads.

Below a folder: crag-mm-{single,multi}-turn-public/{v0.1.1,v0.1.2}/data/SPLIT-00000-of-00001.parquet, and beside them
image_cache/ (the images that rows give by URL), accept.json and content_ids.json. Nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from filelock import FileLock
from tqdm import tqdm

from agents.search.pages.web_cache import cache_name
from mini_crag_mm.content_models import (
    SPLITS,
    WIKI_PREFIX,
    Category,
    Content,
    Domain,
    Dynamism,
    Entity,
    Scene,
    Split,
    Turn,
    list_turns,
    load_content,
)
from mini_crag_mm.loader import IMAGE_URL, SET, SetPaths, read_layout
from mini_crag_mm.wikipedia import make_wiki_url

Revision = Literal["v0.1.1", "v0.1.2"]
REVISIONS: tuple[Revision, ...] = get_args(Revision)
Task = Literal["single-turn", "multi-turn"]
TASKS: tuple[Task, ...] = get_args(Task)
ImageQuality = Literal["normal", "low-light", "blurred", "truncated", "occluded", "rotated"]
# The columns of a turn in v0.1.1, in order; v0.1.2 has image_quality besides.
TURN_FIELDS = ("interaction_id", "domain", "query_category", "dynamism", "query")
PhotoGroup = Literal["other-photo", "altered-copy", "not-in-graph", "not-shown", "no-entity"]

# Raise this when the layout of the built files changes, so that older ones are rebuilt.
FORMAT_VERSION = 5
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://mini-crag-mm.example/")
STAMP = "built_from.txt"
# Readers decode a whole group for one row, so groups of pictures stay small.
ROWS_PER_GROUP = 100

LOW_LIGHT_BELOW = 0.85  # brightness factor
BLURRED_FROM = 0.9  # pixels of blur radius
ROTATED_FROM = 5.0  # degrees
TRUNCATED_BELOW = 0.9  # share of the asked thing that is inside the frame
OCCLUDED_FROM = 0.2  # share of the asked thing that others hide


class BuiltDatasets:
    """Files and folders that `build_datasets` writes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.image_cache = root / "image_cache"  # images that rows give by URL, under the name `cache_name(url)`
        self.accept = root / "accept.json"  # interaction_id -> short right answers (none: nothing answers it)
        self.content_ids = root / "content_ids.json"  # interaction_id -> `collect_turn_facts`

    def folder(self, task: Task, revision: Revision) -> Path:
        """Return the folder to give to `datasets.load_dataset`."""
        return self.root / f"crag-mm-{task}-public" / revision


def make_session_id(content_id: str) -> str:
    """Derive the session id of a question or dialog of the content."""
    return str(uuid.uuid5(_NAMESPACE, f"session/{content_id}"))


def make_interaction_id(content_id: str) -> str:
    """Derive the interaction id of a question, or of a turn DIALOG#N, of the content."""
    return str(uuid.uuid5(_NAMESPACE, f"interaction/{content_id}"))


def make_scene_url(scene_id: str) -> str:
    """Return the made-up address of a scene that is given by URL."""
    return f"{IMAGE_URL}scenes/{scene_id}.webp"


def classify_photo(entity: Entity | None, same_photo: bool | None) -> PhotoGroup:
    """Return the group in which a turn is reported, by how its photograph is related to the image KG."""
    if entity is None:
        return "no-entity"
    if not entity.in_graph:
        return "not-in-graph"
    if same_photo is None:
        return "not-shown"
    return "altered-copy" if same_photo else "other-photo"


def asks_name(turn: Turn, entity: Entity | None) -> bool:
    """Return whether a turn asks to recognise its entity, whose name is among the accepted answers."""
    if entity is None or turn.query_category != "simple-recognition":
        return False
    return entity.name.casefold() in (form.casefold() for form in turn.accept)


def label_image_quality(scene: Scene, layout: dict[str, Any], entity: str | None) -> ImageQuality:
    """Return the organiser's label of a turn: the worst defect of its scene for a question on `entity`.

    None as `entity`: a question on the whole picture.
    """
    things = [thing for thing in layout["objects"] if thing["entity"] == entity]
    if scene.effects.darken < LOW_LIGHT_BELOW:
        return "low-light"
    if scene.effects.blur >= BLURRED_FROM:
        return "blurred"
    if any(thing["shown"] < TRUNCATED_BELOW for thing in things):
        return "truncated"
    if any(thing["covered"] >= OCCLUDED_FROM for thing in things):
        return "occluded"
    if abs(scene.effects.rotate) >= ROTATED_FROM:
        return "rotated"
    return "normal"


def list_steps(turn: Turn, content: Content) -> list[dict[str, str]]:
    """List the searches that the answer of a turn needs, in order: pictures of things by their name in the graph, then pages by URL."""
    steps = []
    if turn.source in ("kg", "both"):
        things = [turn.entity, *turn.other_entities] if turn.entity else turn.other_entities
        steps = [{"search": "image", "target": content.entities[thing].name} for thing in things]
    if turn.source in ("web", "both"):
        steps += [{"search": "web", "target": find_page_url(page, content)} for page in turn.pages]
    return steps


def find_page_url(page: str, content: Content) -> str:
    """Return the URL of a page that a turn names."""
    if page.startswith(WIKI_PREFIX):
        return make_wiki_url(page.removeprefix(WIKI_PREFIX))
    return content.pages[page].url


def collect_turn_facts(
    content_id: str, turn: Turn, scene: Scene, layout: dict[str, Any], content: Content
) -> dict[str, Any]:
    """Collect the facts of a turn that benchmarks need.

    `boxes` are those of the entity in question, [left, top, width, height] in pixels of the scene. `cosines` compare their crops with the
    graph's photograph. Both are empty if the turn asks about the whole picture or something outside it. `same_photo` is null then; else it
    is true for an altered copy of the graph's photograph, false for another photograph.
    """
    entity = content.entities.get(turn.entity or "")
    things = [thing for thing in layout["objects"] if thing["entity"] == turn.entity]
    same_photo = any(thing["same_photo"] for thing in things) if things else None
    return {
        "content_id": content_id,
        "split": scene.split,
        "scene": scene.id,
        "egocentric": scene.egocentric,
        "entity": turn.entity,
        "source": turn.source,
        "hops": turn.hops,
        # An answer of general knowledge says nothing of how a question is met that cannot be answered.
        "answerable": None if turn.general_knowledge else turn.answerable,
        "identity": asks_name(turn, entity),
        "pages": list(turn.pages),
        "steps": list_steps(turn, content),
        "image_quality": label_image_quality(scene, layout, turn.entity),
        "boxes": [thing["box"] for thing in things],
        "cosines": [thing.get("cosine") for thing in things],
        "same_photo": same_photo,
        "in_graph": entity.in_graph if entity else None,
        "photo_group": classify_photo(entity, same_photo),
    }


def _build_rows(
    content: Content, paths: SetPaths, layouts: dict[str, dict[str, Any]], task: Task, split: Split
) -> Iterator[dict[str, Any]]:
    """Yield rows in the form of v0.1.1 with image_quality, which is left out of that revision."""
    items = (content.questions if task == "single-turn" else content.dialogs).values()
    # By session id, which is as good as shuffled: the first N rows are then a fair sample of all groups.
    for session, item in sorted((make_session_id(item.id), item) for item in items if item.split == split):
        scene = content.scenes[item.scene]
        row: dict[str, Any] = {"session_id": session, "image": None, "image_url": make_scene_url(scene.id)}
        if scene.egocentric:
            row["image"] = {"bytes": (paths.scenes / f"{scene.id}.webp").read_bytes(), "path": None}
            # The organiser's sets have both for pictures that are in the row: readers must take either.
            row["image_url"] = None if int(session[0], 16) % 2 else ""
        row |= {"turns": [], "answers": []}
        for content_id, turn in list_turns(item):
            named = {"interaction_id": make_interaction_id(content_id)}
            quality = label_image_quality(scene, layouts[scene.id], turn.entity)
            row["turns"].append({**named, **turn.model_dump(include=set(TURN_FIELDS)), "image_quality": quality})
            row["answers"].append({**named, "ans_full": turn.answer})
        yield row


def _build_features(revision: Revision) -> Any:
    """Return the organiser's features of a revision.

    They are a list of structs with strings (v0.1.1), or a struct of lists with class labels.
    """
    # Imported here: it takes a second, and most of this package does without.
    from datasets import ClassLabel, Features, Image, Sequence, Value

    text = Value("string")
    turns, answers = dict.fromkeys(TURN_FIELDS, text), {"interaction_id": text, "ans_full": text}
    shapes: dict[str, Any] = {"turns": [turns], "answers": [answers]}
    if revision != "v0.1.1":
        labels = {"domain": Domain, "query_category": Category, "dynamism": Dynamism, "image_quality": ImageQuality}
        turns |= {name: ClassLabel(names=sorted(get_args(values))) for name, values in labels.items()}
        shapes = {"turns": Sequence(turns), "answers": Sequence(answers)}
    return Features({"session_id": text, "image": Image(), "image_url": text, **shapes})


def _convert_row(row: dict[str, Any], revision: Revision) -> dict[str, Any]:
    """Convert a row to the form of a revision."""
    if revision == "v0.1.1":
        return {**row, "turns": [{name: turn[name] for name in TURN_FIELDS} for turn in row["turns"]]}
    columns = {key: {name: [one[name] for one in row[key]] for name in row[key][0]} for key in ("turns", "answers")}
    return {**row, **columns}


def _write_parquet(rows: list[dict[str, Any]], revision: Revision, target: Path) -> None:
    """Write one split, with the features in the file's metadata, where load_dataset reads them."""
    import pyarrow.parquet
    from datasets import Dataset

    target.parent.mkdir(parents=True, exist_ok=True)
    features = _build_features(revision)
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in features}
    # Not Dataset.to_parquet, which draws a progress bar for every file.
    table = Dataset.from_dict(columns, features=features).data.table
    pyarrow.parquet.write_table(table, target, row_group_size=ROWS_PER_GROUP)


def _hash_content(paths: SetPaths) -> str:
    """Compute the hash of all that the data sets are made of."""
    # Different versions of the library write features differently; importing it for its version would take seconds.
    digest = hashlib.sha256(f"{FORMAT_VERSION} {importlib.metadata.version('datasets')}\n".encode())
    for file in [*sorted(paths.content.glob("*/*.yaml")), paths.layout, *sorted(paths.scenes.glob("*.webp"))]:
        digest.update(f"{file.relative_to(paths.root)}\n".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _write_all(content: Content, paths: SetPaths, built: BuiltDatasets) -> None:
    """Write everything into an empty folder."""
    layouts = read_layout(paths.layout)
    with tqdm(total=len(TASKS) * len(REVISIONS) * len(SPLITS), desc="data sets", unit="file", disable=None) as progress:
        for task in TASKS:
            for split in SPLITS:
                rows = list(_build_rows(content, paths, layouts, task, split))
                # A file without rows cannot be loaded; a split without rows (in tests) has none.
                for revision in REVISIONS if rows else ():
                    target = built.folder(task, revision) / "data" / f"{split}-00000-of-00001.parquet"
                    _write_parquet([_convert_row(row, revision) for row in rows], revision, target)
                    progress.update()

    built.image_cache.mkdir()
    accept: dict[str, list[str]] = {}
    facts: dict[str, dict[str, Any]] = {}
    for item in content.list_items():
        scene = content.scenes[item.scene]
        if not scene.egocentric:
            shutil.copyfile(paths.scenes / f"{scene.id}.webp", built.image_cache / cache_name(make_scene_url(scene.id)))
        for content_id, turn in list_turns(item):
            accept[make_interaction_id(content_id)] = list(turn.accept) if turn.answerable else []
            facts[make_interaction_id(content_id)] = collect_turn_facts(
                content_id, turn, scene, layouts[scene.id], content
            )
    built.accept.write_text(json.dumps(accept, ensure_ascii=False, indent=1), encoding="utf-8")
    built.content_ids.write_text(json.dumps(facts, ensure_ascii=False, indent=1), encoding="utf-8")


def build_datasets(out_dir: Path, paths: SetPaths = SET) -> BuiltDatasets:
    """Build the data sets below `out_dir` (made if needed) unless they are up to date.

    `out_dir` is put in place whole, so that a reader never sees half of it.

    Raises:
        FileExistsError: It holds anything but an earlier build.
        ContentError: The YAML is faulty.
        KeyError, FileNotFoundError: A scene has not been composed.
    """
    built = BuiltDatasets(out_dir.resolve())
    built.root.parent.mkdir(parents=True, exist_ok=True)
    # Two runs that start together must not both build, nor swap folders under each other.
    with FileLock(built.root.with_name(f".{built.root.name}.lock")):
        content_hash = _hash_content(paths)
        stamp = built.root / STAMP
        if stamp.exists() and stamp.read_text(encoding="utf-8") == content_hash:
            return built
        if built.root.exists() and not stamp.exists() and any(built.root.iterdir()):
            raise FileExistsError(f"{built.root} holds other files than the mini CRAG-MM; choose another folder")
        part = Path(tempfile.mkdtemp(dir=built.root.parent, prefix=f".{built.root.name}."))
        part.chmod(0o755)
        try:
            _write_all(load_content(paths.content), paths, BuiltDatasets(part))
            (part / STAMP).write_text(content_hash, encoding="utf-8")
            if built.root.exists():
                shutil.rmtree(built.root)
            part.replace(built.root)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return built
