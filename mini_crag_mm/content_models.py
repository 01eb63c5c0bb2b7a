"""Written content of the mini CRAG-MM: pydantic models of the YAML files, and their loader.

Formats are described in mini_crag_mm/FORMAT.md. Numbers called boxes are [left, top, width, height] as fractions of the
frame unless a name says pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticUseDefault

from evaluation.records import I_DONT_KNOW

Split = Literal["validation", "public_test"]
SPLITS: tuple[Split, ...] = get_args(Split)

Domain = Literal[
    "book", "food", "general object recognition", "math and science", "nature (animal)", "pets", "plants and gardening",
    "shopping", "sightseeing (local)", "sports and games", "style and fashion", "text understanding", "vehicle", "other",
]  # fmt: skip
Category = Literal["simple-recognition", "simple-knowledge", "multi-hop", "comparison", "aggregation", "reasoning"]
Dynamism = Literal["real-time", "fast-changing", "slow-changing", "static"]
AnswerSource = Literal["kg", "web", "both", "image", "nowhere"]
PhotoSource = Literal["gcompris", "stamps", "skimage", "sklearn", "gradio"]
SceneryName = Literal["table", "grass", "wall", "street", "carpet", "sky", "sand", "paper", "shelf"]
FrameStyle = Literal["none", "postcard", "poster"]
TextStyle = Literal["sign", "label", "cover", "receipt", "handwritten"]

WIKI_PREFIX = "wiki:"

Identifier = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]*$")]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
# Objects may stick out of the frame a little, as in any snapshot.
Box = tuple[
    Annotated[float, Field(ge=-0.5, le=1.0)],
    Annotated[float, Field(ge=-0.5, le=1.0)],
    Annotated[float, Field(gt=0.0, le=1.5)],
    Annotated[float, Field(gt=0.0, le=1.5)],
]


class ContentError(ValueError):
    """The YAML breaks its format; `problems` has one line for each fault, with file and id."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class _Model(BaseModel):
    # Unknown keys are refused: a misspelt optional key would otherwise be ignored silently.
    # Numbers become strings, because authors write `accept: [330]`.
    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    @field_validator("effects", "objects", "texts", "accept", "pages", mode="before", check_fields=False)
    @classmethod
    def _empty_is_default(cls, value: Any) -> Any:
        # `effects:` with nothing after it is YAML for null. Of these alone: a blank `in_graph:` would put a held-out entity in the graph.
        if value is None:
            raise PydanticUseDefault
        return value


class Item(_Model):
    """An entry of a content file; `origin` is GROUP/FILE, for messages."""

    id: Identifier
    split: Split
    origin: str = Field(default="", exclude=True)

    @property
    def where(self) -> str:
        """File and id, for messages."""
        return f"{self.origin}: {self.id}"


class Photo(_Model):
    """Source of an entity's photograph; `file` is a path inside that source."""

    source: PhotoSource
    file: str


class Companion(_Model):
    """A second entity visible in another's photograph; it has no photograph of its own."""

    name: str
    attributes: dict[str, Any] = Field(default_factory=dict)


class Entity(Item):
    """A KG entity with its photograph and raw infobox attributes.

    `other_photo` is a second photograph, by another camera, for the scenes: the graph's own is never shown in one.
    An entity with `in_graph` false is visible in scenes, but it and its attributes are missing from the image KG.
    """

    name: str
    photo: Photo
    other_photo: Photo | None = None
    in_graph: bool = True
    wiki: str | None = None
    attributes: dict[str, Any] = Field(default_factory=dict)
    also: tuple[Companion, ...] = ()


class Page(Item):
    """A web page written for the set; `text` is raw and may hold HTML entities."""

    url: str
    name: str
    kind: Literal["answer", "background", "hard_negative"]
    text: str


class WikiTitle(Item):
    """A Wikipedia summary among the pages of a split; its `id` is the `title` and need not be unique."""

    id: str = Field(validation_alias="title")


class PhotoBackground(_Model):
    """An entity's photograph that fills the frame."""

    photo: Identifier


class PlacedObject(_Model):
    """An entity's photograph in a scene. `rotate` is in degrees, counter-clockwise."""

    entity: Identifier
    box: Box
    rotate: Annotated[float, Field(ge=-180, le=180)] = 0.0
    flip: bool = False
    frame: FrameStyle = "none"


class PlacedText(_Model):
    """A printed text in a scene; line breaks in `text` are kept."""

    text: str
    box: Box
    style: TextStyle = "sign"


class Effects(_Model):
    """Effects of the camera on a scene, applied in this order: rotate, crop, blur, darken, noise."""

    blur: Annotated[float, Field(ge=0.0, le=6.0, description="Gaussian radius in pixels at full size")] = 0.0
    darken: Annotated[float, Field(gt=0.0, le=1.5, description="brightness factor; 1 leaves it as it is")] = 1.0
    rotate: Annotated[float, Field(ge=-45.0, le=45.0, description="degrees, counter-clockwise")] = 0.0
    crop: tuple[Fraction, Fraction, Fraction, Fraction] = (0.0, 0.0, 1.0, 1.0)
    noise: Annotated[float, Field(ge=0.0, le=0.5, description="standard deviation as a fraction of white")] = 0.0

    @field_validator("crop")
    @classmethod
    def _crop_keeps_something(cls, crop: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
        left, top, width, height = crop
        if min(width, height) < 0.2 or left + width > 1.001 or top + height > 1.001:
            raise ValueError("crop is [left, top, width, height], inside the frame and at least a fifth of each side")
        return crop


class Scene(Item):
    """Composition of one question photo; `size` is (width, height) in pixels."""

    size: tuple[Annotated[int, Field(ge=200, le=2000)], Annotated[int, Field(ge=200, le=2000)]] = (960, 720)
    egocentric: bool = True
    background: SceneryName | PhotoBackground
    objects: tuple[PlacedObject, ...] = ()
    texts: tuple[PlacedText, ...] = ()
    effects: Effects = Effects()

    def entity_ids(self) -> Iterator[str]:
        """Yield the visible entities in drawing order, the background first."""
        if isinstance(self.background, PhotoBackground):
            yield self.background.photo
        for placed in self.objects:
            yield placed.entity


class Turn(_Model):
    """A question with its answer, as part of a dialog or alone."""

    entity: Identifier | None = None
    domain: Domain
    query_category: Category
    dynamism: Dynamism
    query: Annotated[str, Field(min_length=3)]
    answer: Annotated[str, Field(min_length=2)]
    accept: tuple[str, ...] = ()
    source: AnswerSource
    pages: tuple[str, ...] = ()
    other_entities: tuple[Identifier, ...] = ()
    """Further things in the photo whose facts the answer joins with those of ``entity``."""
    hops: Annotated[int, Field(ge=0, le=6)] = 1
    general_knowledge: bool = False
    """Whether models may know the answer, which the set does not hold."""

    @property
    def answerable(self) -> bool:
        """Whether the right reply is anything but the refusal."""
        return self.answer.strip().rstrip(".").lower() != I_DONT_KNOW.lower()


class Question(Item, Turn):
    """A single-turn question about a scene."""

    scene: Identifier


class Dialog(Item):
    """Two to six turns about one scene."""

    scene: Identifier
    turns: Annotated[tuple[Turn, ...], Field(min_length=2, max_length=6)]


@dataclass(frozen=True)
class Content:
    """All content by id, in the order of the files."""

    entities: dict[str, Entity] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)
    wiki: list[WikiTitle] = field(default_factory=list)
    scenes: dict[str, Scene] = field(default_factory=dict)
    questions: dict[str, Question] = field(default_factory=dict)
    dialogs: dict[str, Dialog] = field(default_factory=dict)

    def turns(self) -> Iterator[tuple[str, Split, str, Turn]]:
        """Yield all turns as (content id, split, scene id, turn)."""
        for item in self.list_items():
            for content_id, turn in list_turns(item):
                yield content_id, item.split, item.scene, turn

    def list_items(self) -> list[Question | Dialog]:
        """Return all single-turn questions and dialogs."""
        return [*self.questions.values(), *self.dialogs.values()]

    def claimed_titles(self) -> dict[str, set[Split]]:
        """Map Wikipedia titles to the splits that claim them, by wiki.yaml or as an entity's own article."""
        claims: dict[str, set[Split]] = {}
        for entry in self.wiki:
            claims.setdefault(entry.id, set()).add(entry.split)
        for entity in self.entities.values():
            if entity.wiki:
                claims.setdefault(entity.wiki, set()).add(entity.split)
        return claims


def list_turns(item: Question | Dialog) -> list[tuple[str, Turn]]:
    """Return the turns of an item with their content ids; the N-th turn of a dialog is DIALOG#N, from 0."""
    if isinstance(item, Question):
        return [(item.id, item)]
    return [(f"{item.id}#{number}", turn) for number, turn in enumerate(item.turns)]


class _PlainLoader(yaml.SafeLoader):
    """SafeLoader (plain data alone) without YAML's surprises.

    Dates stay text; only true/false are booleans (yes, no, on and off are words); a key given twice is an error.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping, and refuse a key that occurs twice: its first value would be lost silently."""
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} is given twice", problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


_PlainLoader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag != "tag:yaml.org,2002:timestamp" and not (tag == "tag:yaml.org,2002:bool" and first in "yYnNoO")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

_Entry = TypeVar("_Entry", bound=Item)


def _read_file(path: Path, model: type[_Entry], problems: list[str]) -> list[_Entry]:
    """Read the entries of one YAML file; faulty ones are left out and described in `problems`."""
    origin = f"{path.parent.name}/{path.name}"
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), Loader=_PlainLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problems.append(f"{origin}: not readable YAML: {error}")
        return []
    if raw is None:
        return []
    if not isinstance(raw, list):
        problems.append(f"{origin}: the file must be a list, not {type(raw).__name__}")
        return []
    entries = []
    for number, item in enumerate(raw):
        if not isinstance(item, dict):
            problems.append(f"{origin}: entry {number}: must be a mapping, not {type(item).__name__}")
            continue
        label = item.get("id") or item.get("title") or f"entry {number}"
        try:
            entries.append(model.model_validate({**item, "origin": origin}))
        except ValidationError as error:
            for fault in error.errors():
                place = ".".join(str(part) for part in fault["loc"])
                problems.append(f"{origin}: {label}: {place}: {fault['msg']} (got {fault.get('input')!r:.80})")
    return entries


def load_content(root: Path, report: Callable[[str], None] | None = None) -> Content:
    """Read all groups below `root`.

    Args:
        root: Folder with a sub-folder for each group.
        report: Called with each problem; faulty entries are then left out. None: problems are raised.

    Raises:
        ContentError: Entries are faulty and `report` is None; it names all of them.
    """
    problems: list[str] = []

    def read(name: str, model: type[_Entry]) -> list[_Entry]:
        return [entry for path in sorted(root.glob(f"*/{name}.yaml")) for entry in _read_file(path, model, problems)]

    def index_by_id(name: str, model: type[_Entry]) -> dict[str, _Entry]:
        index: dict[str, _Entry] = {}
        for entry in read(name, model):
            first = index.setdefault(entry.id, entry)
            if first is not entry:
                problems.append(f"{entry.where}: the id is taken already, by {first.origin}")
        return index

    content = Content(
        index_by_id("entities", Entity),
        index_by_id("pages", Page),
        read("wiki", WikiTitle),
        index_by_id("scenes", Scene),
        index_by_id("single", Question),
        index_by_id("dialogs", Dialog),
    )
    if report is not None:
        for problem in problems:
            report(problem)
    elif problems:
        raise ContentError(problems)
    return content
