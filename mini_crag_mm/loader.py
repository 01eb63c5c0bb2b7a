"""Reader of the mini CRAG-MM: its committed files, and what ``mini_crag_mm.prepare`` built from them.

Training, the lab and tests read the set through this module. It also writes text and JSON lines, whole or not at all: the set's
own files, and those of the lab.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from PIL import Image

from agents.base.cache_folder import DEFAULT_CACHE
from agents.base.files import write_whole
from agents.settings.run_config import RunConfig
from mini_crag_mm.content_models import Content, Split, load_content

if TYPE_CHECKING:
    from evaluation.data.crag_dataset import CragDataset, DatasetType
    from evaluation.records import QuestionTurn, Session

SET_ROOT = Path(__file__).resolve().parent
KINDS: tuple[DatasetType, ...] = ("single-turn", "multi-turn")
IMAGE_URL = "https://images.mini-crag-mm.example/"
INDEX_MARGIN = 0.06
"""A cut-out fills its file to the rim; in the index it gets some air, as in a product photograph."""


class SetPaths:
    """Files and folders of the set below a root, which tests replace."""

    def __init__(self, root: Path = SET_ROOT) -> None:
        self.root = root
        self.content = root / "content"  # the YAML, a sub-folder a group
        self.photos = root / "photos"  # the KG photographs, ENTITY.webp
        self.other_photos = root / "other_photos"  # the second photographs, ENTITY.webp, which only scenes show
        self.scenes = root / "scenes"  # the composed question photos, SCENE.webp
        self.layout = self.scenes / "layout.json"  # positions of objects and texts in them
        self.wiki_pages = root / "pages" / "wiki.jsonl"  # taken from Wikipedia summaries
        self.own_pages = root / "pages" / "own.jsonl"  # written for the set
        self.embeddings = root / "embeddings.npz"  # of what the indices of both splits hold
        self.answers = root / "answers"  # of presets, as their runs saved them: SPLIT_full_pages/PRESET/TASK/
        self.attribution = root / "ATTRIBUTION.md"  # sources, authors and licences

    def examples(self, split: Split) -> Path:
        """Return the path of the questions that the web page begins with, in the form of one's own questions."""
        return self.root / "examples" / f"{split}.csv"

    def kg(self, split: Split) -> Path:
        """Return the path of a split's image KG, JSON lines."""
        return self.root / "kg" / f"{split}.jsonl"


SET = SetPaths()


def write_lines(target: Path, rows: Iterable[Any]) -> Path:
    """Write JSON lines, whole or not at all; return ``target``."""
    write_whole(target, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return target


def read_lines(source: Path) -> list[Any]:
    """Read the values of a file of JSON lines."""
    # Not splitlines: texts may hold U+2028.
    return [json.loads(line) for line in source.read_text(encoding="utf-8").split("\n") if line]


class KgImage(TypedDict):
    """An image of the index."""

    image: str  # path below mini_crag_mm/
    image_url: str
    # entity_name, and entity_attributes raw as in an infobox: what the organiser's search returns
    entities: list[dict[str, Any]]


class WebPage(TypedDict):
    """A page of the web corpus."""

    split: Split | None  # null where both splits have it
    page_url: str
    page_name: str
    page_snippet: str  # its whole text
    kind: Literal["answer", "background", "hard_negative", "wiki"]


def read_kg(split: Split, paths: SetPaths = SET) -> list[KgImage]:
    """Read the image knowledge graph of a split."""
    return read_lines(paths.kg(split))


def read_index_image(image: KgImage, paths: SetPaths = SET) -> Image.Image:
    """Read the photograph of a line of the graph as the image index embeds it.

    It is in RGB, with cut-outs on a neutral ground.
    """
    with Image.open(paths.root / image["image"]) as photo:
        return flatten_photo(photo, INDEX_MARGIN)


def flatten_photo(photo: Image.Image, side_margin: float = 0.0) -> Image.Image:
    """Convert a photo to RGB; a cut-out gets a neutral pale ground.

    ``side_margin`` is the margin around a cut-out, as a fraction of its longer side.
    """
    if photo.mode != "RGBA":
        return photo.convert("RGB")
    margin = round(side_margin * max(photo.size))
    ground = Image.new("RGB", (photo.width + 2 * margin, photo.height + 2 * margin), (235, 234, 230))
    ground.paste(photo, (margin, margin), photo)
    return ground


def read_pages(split: Split | None = None, paths: SetPaths = SET) -> list[WebPage]:
    """Read the web pages of a split, or of both: Wikipedia's, then those written for the set."""
    pages: list[WebPage] = [page for file in (paths.wiki_pages, paths.own_pages) for page in read_lines(file)]
    return [page for page in pages if split is None or page["split"] == split]


def read_layout(path: Path = SET.layout) -> dict[str, dict[str, Any]]:
    """Read scenes/layout.json: scene id -> its entry; {} if there is no such file."""
    layout: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return layout


@dataclass(frozen=True)
class ShownThing:
    """A thing in a scene."""

    entity: str
    box: tuple[int, int, int, int]  # left, top, right and lower edge in pixels
    same_photo: bool  # an altered copy of the graph's photograph, not another photograph
    in_graph: bool


@dataclass(frozen=True)
class ShownScene:
    """The picture of a scene in RGB, with the things in it."""

    id: str
    image: Image.Image
    things: tuple[ShownThing, ...]


def read_scenes(split: Split) -> Iterator[ShownScene]:
    """Yield the scenes of a split, in the order of the content."""
    content, layouts = load_content(SET.content), read_layout()
    for scene in content.scenes.values():
        if scene.split == split:
            with Image.open(SET.scenes / f"{scene.id}.webp") as picture:
                image = picture.convert("RGB")
            yield ShownScene(
                scene.id, image, tuple(_read_thing(entry, content) for entry in layouts[scene.id]["objects"])
            )


def _read_thing(entry: dict[str, Any], content: Content) -> ShownThing:
    left, top, width, height = entry["box"]
    box = (left, top, left + width, top + height)
    return ShownThing(entry["entity"], box, entry["same_photo"], content.entities[entry["entity"]].in_graph)


@dataclass(frozen=True)
class AskedTurn:
    """A turn as the evaluator passes it, after earlier turns with the ground truth as their answers."""

    session: Session
    turn: QuestionTurn
    image: Image.Image | None  # None where it cannot be read
    history: tuple[dict[str, str], ...]
    accept: tuple[str, ...]  # short right answers
    facts: Mapping[str, Any]  # what content_ids.json says of the turn (``organiser_format.collect_turn_facts``)


@dataclass(frozen=True)
class PreparedSet:
    """A split of the set as ``python -m mini_crag_mm.prepare`` left it in a cache folder."""

    split: Split = "validation"
    cache: Path = DEFAULT_CACHE

    def sessions(self, kind: DatasetType) -> CragDataset:
        """Load the single-turn or the multi-turn data set.

        Raises:
            EvaluationError: The set is not prepared.
        """
        from evaluation.data.crag_dataset import load  # with the library `datasets`, which not everyone here needs

        return load(kind, self.split, path=self.cache / "datasets", cache=self.cache)

    def turns(self, sessions: int | None = None, kinds: Sequence[DatasetType] | None = None) -> Iterator[AskedTurn]:
        """Yield all turns of the first ``sessions`` of each data set; None: of all.

        Args:
            sessions: Number of sessions of each data set.
            kinds: Data sets to read; None: those that the cache folder has, for a larger set may have no dialogs.

        Raises:
            EvaluationError: The set is not prepared.
        """
        for kind in self.kinds if kinds is None else kinds:
            data = self.sessions(kind)
            for session in data.sessions[:sessions]:
                image = data.image(session).image
                history: tuple[dict[str, str], ...] = ()
                for turn in session.turns:
                    accept, facts = data.accept.get(turn.interaction_id, ()), self.facts.get(turn.interaction_id, {})
                    yield AskedTurn(session, turn, image, history, accept, facts)
                    question = {"role": "user", "content": turn.query}
                    history += (question, {"role": "assistant", "content": turn.ground_truth})

    @property
    def kinds(self) -> tuple[DatasetType, ...]:
        """Data sets in the cache folder; all kinds if it has none, so that loading says what is missing."""
        from evaluation.data.crag_dataset import repository_name  # as in `sessions`

        available_kinds = tuple(kind for kind in KINDS if (self.cache / "datasets" / repository_name(kind)).is_dir())
        return available_kinds or KINDS

    @cached_property
    def facts(self) -> dict[str, dict[str, Any]]:
        """Known facts of each turn, by interaction id; {} if the set is not prepared."""
        file = self.cache / "datasets" / "content_ids.json"
        facts_by_turn: dict[str, dict[str, Any]] = (
            json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        )
        return facts_by_turn

    def search(self, profile: str = "embedded") -> Any:
        """Open the search pipeline over the split's indices.

        Raises:
            agents.search.hits.SearchError: The indices are not built.
        """
        return RunConfig.of_profile(profile, cache=self.cache).pipeline(split=self.split)
