"""The mini CRAG-MM as it is used: its committed files, and the data sets and indices that ``mini_crag_mm.prepare`` made of them.

Training, benchmarks and tests read the set through this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from PIL import Image

from mini_crag_mm.content_models import Content, Split, load_content
from mini_crag_mm.files import SET_ROOT, SetPaths, read_lines

if TYPE_CHECKING:
    from evaluation.data.crag_dataset import CragDataset, DatasetType
    from evaluation.records import QuestionTurn, Session

SET = SetPaths()
DEFAULT_CACHE = SET_ROOT.parent / ".cache"
KINDS: tuple[DatasetType, ...] = ("single-turn", "multi-turn")
IMAGE_URL = "https://images.mini-crag-mm.example/"
INDEX_MARGIN = 0.06
"""A cut-out fills its file to the rim; in the index it gets some air, as in a product photograph."""


class KgEntity(TypedDict):
    """An entity as the organiser's image search returns it: raw infobox attributes."""

    entity_name: str
    entity_attributes: dict[str, Any]


class KgImage(TypedDict):
    """An image of the index. `image` is its path below mini_crag_mm/."""

    image: str
    image_url: str
    entities: list[KgEntity]


class WebPage(TypedDict):
    """A page of the web corpus. `page_snippet` is its whole text; `split` is null where both splits have it."""

    split: Split | None
    page_url: str
    page_name: str
    page_snippet: str
    kind: Literal["answer", "background", "hard_negative", "wiki"]


def read_kg(split: Split, paths: SetPaths = SET) -> list[KgImage]:
    """The image knowledge graph of a split."""
    return read_lines(paths.kg(split))


def index_image(image: KgImage, paths: SetPaths = SET) -> Image.Image:
    """The photograph of a line of the graph as the image index embeds it: RGB, cut-outs on a neutral ground."""
    with Image.open(paths.root / image["image"]) as photo:
        return flattened(photo, INDEX_MARGIN)


def flattened(photo: Image.Image, side_margin: float = 0.0) -> Image.Image:
    """The photo in RGB; a cut-out gets a neutral pale ground, with `side_margin` (fraction of its size) around it."""
    if photo.mode != "RGBA":
        return photo.convert("RGB")
    margin = round(side_margin * max(photo.size))
    ground = Image.new("RGB", (photo.width + 2 * margin, photo.height + 2 * margin), (235, 234, 230))
    ground.paste(photo, (margin, margin), photo)
    return ground


def read_pages(split: Split | None = None, paths: SetPaths = SET) -> list[WebPage]:
    """The web pages of a split, or of both: Wikipedia's, then those written for the set."""
    pages: list[WebPage] = [page for file in (paths.wiki_pages, paths.own_pages) for page in read_lines(file)]
    return [page for page in pages if split is None or page["split"] == split]


def read_layout(path: Path = SET.layout) -> dict[str, dict[str, Any]]:
    """Scene id -> its entry in scenes/layout.json; empty when there is none yet."""
    if not path.exists():
        return {}
    layout: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return layout


@dataclass(frozen=True)
class ShownThing:
    """A thing in a scene.

    Attributes:
        entity: Its id.
        box: Left, top, right and lower edge in pixels.
        same_photo: Whether it is an altered copy of the graph's photograph, not another photograph.
        in_graph: Whether the graph holds its entity.
    """

    entity: str
    box: tuple[int, int, int, int]
    same_photo: bool
    in_graph: bool


@dataclass(frozen=True)
class ShownScene:
    """The picture of a scene in RGB, with the things in it."""

    id: str
    image: Image.Image
    things: tuple[ShownThing, ...]


def read_scenes(split: Split, paths: SetPaths = SET) -> Iterator[ShownScene]:
    """The scenes of a split, in the order of the content."""
    content, layouts = load_content(paths.content), read_layout(paths.layout)
    for scene in content.scenes.values():
        if scene.split == split:
            with Image.open(paths.scenes / f"{scene.id}.webp") as picture:
                image = picture.convert("RGB")
            yield ShownScene(scene.id, image, tuple(_thing(entry, content) for entry in layouts[scene.id]["objects"]))


def _thing(entry: dict[str, Any], content: Content) -> ShownThing:
    left, top, width, height = entry["box"]
    box = (left, top, left + width, top + height)
    return ShownThing(entry["entity"], box, entry["same_photo"], content.entities[entry["entity"]].in_graph)


@dataclass(frozen=True)
class AskedTurn:
    """A turn as the evaluator passes it, after earlier turns that were answered by the ground truth.

    Attributes:
        image: As the evaluator passes it; None where it cannot be read.
        accept: Short right answers.
        facts: What content_ids.json says of the turn (``organiser_format.turn_facts``).
    """

    session: Session
    turn: QuestionTurn
    image: Image.Image | None
    history: tuple[dict[str, str], ...]
    accept: tuple[str, ...]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class PreparedSet:
    """A split of the set as ``python -m mini_crag_mm.prepare`` left it in a cache folder."""

    split: Split = "validation"
    cache: Path = DEFAULT_CACHE

    @property
    def folder(self) -> Path:
        """The data sets in the organiser's schema."""
        return self.cache / "datasets"

    def sessions(self, kind: DatasetType) -> CragDataset:
        """The single-turn or the multi-turn data set. Raises EvaluationError where the set is not prepared."""
        # Only now: it imports Hugging Face's libraries, which take their cache at import.
        from evaluation.data.crag_dataset import load

        return load(kind, self.split, path=self.folder, cache=self.cache)

    def turns(self, sessions: int | None = None, kinds: Sequence[DatasetType] = KINDS) -> Iterator[AskedTurn]:
        """All turns of the first ``sessions`` of each data set (None: of all). Raises EvaluationError where the set is not prepared."""
        for kind in kinds:
            data = self.sessions(kind)
            for session in data.sessions[:sessions]:
                image = data.image(session).image
                history: tuple[dict[str, str], ...] = ()
                for turn in session.turns:
                    accept, facts = data.accept.get(turn.interaction_id, ()), self.facts.get(turn.interaction_id, {})
                    yield AskedTurn(session, turn, image, history, accept, facts)
                    asked = {"role": "user", "content": turn.query}
                    history += (asked, {"role": "assistant", "content": turn.ground_truth})

    @cached_property
    def facts(self) -> dict[str, dict[str, Any]]:
        """What is known of each turn, by interaction id; empty where the set is not prepared."""
        file = self.folder / "content_ids.json"
        found: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        return found

    def search(self, profile: str = "embedded") -> Any:
        """The search pipeline over the split's indices; to be asked for before Hugging Face's libraries are imported.

        Raises:
            agents.search.hits.SearchError: The indices are not built.
        """
        from agents.launch import Launch

        launch = Launch.read(profile=profile, cache=self.cache)
        launch.prepare()
        return launch.pipeline(split=self.split)
