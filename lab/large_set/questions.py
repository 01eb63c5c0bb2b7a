"""Questions by rule: one attribute, two things compared or added, and what neither graph nor pages say."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Literal

from agents.texts.wikitext import flatten
from evaluation.judge.answer_text import AnswerText
from evaluation.records import I_DONT_KNOW
from lab.benchmarks.losses import says_answer
from lab.large_set.question_rules import QuestionRules, capitalise
from lab.large_set.templates import AttributeTemplate, Templates
from mini_crag_mm.content_models import Category, Content, Domain, Entity, PlacedObject, Question, Scene, Split
from mini_crag_mm.loader import WebPage

MISSING_PER_ENTITY = 2
"""Questions per entity on attributes that others of its kind have and it has not."""
LEAST_RATIO = 1.15
"""Two numbers that are compared differ by this factor at least: nobody disputes which is larger."""
LONGEST_ANSWER = 14
"""Words of an attribute beyond which it is no short answer."""
APART = 0.15
"""Share of the picture's width by which two things are apart that are told from each other as left and right."""

_ASIDE = re.compile(r"\s*\([^()]*\)")
_ITEMS = re.compile(r"\s*(?:[;,/]|\bor\b|\band\b)\s*")
_DOMAINS: Mapping[str, Domain] = {
    "ani": "nature (animal)",
    "nat": "plants and gardening",
    "mon": "sightseeing (local)",
    "obj": "general object recognition",
}


@dataclass(frozen=True)
class View:
    """An entity in a scene, with the words that point at it ("the animal on the left")."""

    scene: str
    entity: str
    pointing: str


@dataclass(frozen=True)
class KnownEntity:
    """An entity with its attributes as plain text and the noun for it."""

    entity: Entity
    group: str
    noun: str
    attributes: Mapping[str, str]


def read_known_entities(content: Content, templates: Templates, split: Split) -> dict[str, KnownEntity]:
    """Return the entities of a split by id, in the order of the content."""
    entities_by_id = {}
    for entity in content.entities.values():
        if entity.split != split:
            continue
        attributes: dict[str, str] = {}
        for key, value in entity.attributes.items():
            for name, text in flatten(key, value):
                attributes.setdefault(name, text)
        group = entity.origin.split("/")[0]
        noun = templates.choose_noun(group, frozenset(attributes))
        entities_by_id[entity.id] = KnownEntity(entity, group, noun, attributes)
    return entities_by_id


def find_views(scene: Scene, layout: Mapping[str, Any], entities_by_id: Mapping[str, KnownEntity]) -> list[View]:
    """Return the things of a scene that a question can point at without doubt."""
    things = layout["objects"]
    nouns = Counter(entities_by_id[thing["entity"]].noun for thing in things)
    views = []
    for thing in things:
        noun = entities_by_id[thing["entity"]].noun
        if len(things) == 1:
            views.append(View(scene.id, thing["entity"], f"this {noun}"))
        elif nouns[noun] == 1 and noun != "thing":
            views.append(View(scene.id, thing["entity"], f"the {noun}"))
        elif len(things) == 2:
            (other,) = (each for each in things if each is not thing)
            lead = _middle(other) - _middle(thing)
            if abs(lead) >= APART * layout["size"][0]:
                views.append(View(scene.id, thing["entity"], f"the {noun} on the {'left' if lead > 0 else 'right'}"))
    return views


def _middle(thing: Mapping[str, Any]) -> float:
    left, _, width, _ = thing["box"]
    return float(left + width / 2)


def list_accepted(value: str, any_item: bool) -> tuple[str, ...]:
    """Return the short right answers that an attribute's text gives: as it stands, without asides, or one of its items."""
    bare = _ASIDE.sub("", value).strip(" ,;")
    forms = [value, bare]
    if any_item:
        forms += [item for item in _ITEMS.split(bare or value.strip("() ")) if not item.isdigit()]
    cleaned = (form.strip(" ,;'\"").removeprefix("about ").removeprefix("c. ") for form in forms)
    return tuple(dict.fromkeys(form for form in cleaned if len(form) > 1 or form.isdigit()))


class PageTexts:
    """Pages of a split's index, asked what they say of an entity."""

    def __init__(self, pages: Iterable[WebPage]) -> None:
        self._texts = [f"{page['page_name']}. {page['page_snippet']}" for page in pages]
        self._urls: dict[str, list[int]] = {}

    def about(self, entity: Entity) -> list[str]:
        """Return the pages that mention the entity by its name, its article's name, or the last word of either."""
        names = {_ASIDE.sub("", name) for name in (entity.name, entity.wiki or entity.name)}
        names |= {name.split()[-1] for name in names}
        key = "|".join(sorted(map(re.escape, names)))
        if key not in self._urls:
            pattern = re.compile(rf"\b(?:{key})(?:e?s)?\b", re.IGNORECASE)
            self._urls[key] = [number for number, text in enumerate(self._texts) if pattern.search(text)]
        return [self._texts[number] for number in self._urls[key]]


AnswerHolder = Literal["graph", "page", "nowhere", "doubtful"]


def find_source(known_entity: KnownEntity, template: AttributeTemplate, pages: PageTexts) -> AnswerHolder:
    """Return where the answer to a question on an attribute stands.

    A page that mentions entity and attribute but does not affirm the attribute's text leaves it open.
    """
    value = known_entity.attributes.get(template.key)
    if value is not None and known_entity.entity.in_graph:
        return "graph"
    about = pages.about(known_entity.entity)
    if value is not None and says_answer(about, list_accepted(value, template.any)):
        return "page"
    return "doubtful" if any(template.mentions.search(text) for text in about) else "nowhere"


class QuestionMaker:
    """Maker of a split's questions.

    Args:
        content: The written content, for entities and scenes.
        layouts: Positions of things in scenes.
        pages: Pages of the split's index.
        templates: Templates of questions.
        split: The split.
    """

    def __init__(
        self,
        content: Content,
        layouts: Mapping[str, Mapping[str, Any]],
        pages: Sequence[WebPage],
        templates: Templates,
        split: Split,
    ) -> None:
        self._split: Split = split
        self._templates = templates
        self._known_entities = read_known_entities(content, templates, split)
        self._pages = PageTexts(pages)
        self._articles = {page["page_name"]: page["page_snippet"] for page in pages if page["kind"] == "wiki"}
        self._rules = QuestionRules(page["page_snippet"] for page in pages)
        self._layouts = layouts
        self._scenes = [scene for scene in content.scenes.values() if scene.split == split and scene.id in layouts]
        self._views: dict[str, list[View]] = defaultdict(list)
        for scene in self._scenes:
            for view in find_views(scene, layouts[scene.id], self._known_entities):
                self._views[view.entity].append(view)

    def make_all(self) -> list[Question]:
        """Make all questions, in the order of the content."""
        return [*self._ask_attributes(), *self._ask_articles(), *self._ask_missing(), *self._ask_pairs()]

    def _ask_attributes(self) -> Iterator[Question]:
        for known_entity in self._known_entities.values():
            views = self._views[known_entity.entity.id]
            templates = [each for each in self._templates.attribute if self._asks(known_entity, each)]
            for number, template in enumerate(templates if views else ()):
                source = find_source(known_entity, template, self._pages)
                if source != "doubtful":
                    yield self._ask(known_entity, template, views[number % len(views)], source)

    def _ask_articles(self) -> Iterator[Question]:
        """Ask what a sentence of the entity's own article says, by the rules of ``lab.large_set.question_rules``."""
        for known_entity in self._known_entities.values():
            title, views = known_entity.entity.wiki, self._views[known_entity.entity.id]
            text = self._articles.get(title or "")
            subject = self._rules.subject(title, text) if title and text and views else None
            if subject is None or not title or not text:
                continue
            for number, made_question in enumerate(self._rules.questions(title, text)):
                view = views[number % len(views)]
                query = made_question.question.replace(subject.name, view.pointing)
                if view.pointing in query:
                    identifier = f"rule_{known_entity.entity.id}_article_{_slug(made_question.kind)}_{number}"
                    yield self._build(
                        identifier, view.scene, known_entity.entity.id, query, made_question.truth, (made_question.answer,),
                        "page", "simple-knowledge",
                    )  # fmt: skip

    def _ask_missing(self) -> Iterator[Question]:
        counts = Counter(
            (known_entity.noun, key)
            for known_entity in self._known_entities.values()
            for key in known_entity.attributes
        )
        for known_entity in self._known_entities.values():
            views = self._views[known_entity.entity.id]
            if not views or not known_entity.entity.in_graph:
                continue
            missing = [
                each
                for each in self._templates.attribute
                if each.holds_for(known_entity.group)
                and each.key not in known_entity.attributes
                and counts[known_entity.noun, each.key] >= 2
                and find_source(known_entity, each, self._pages) == "nowhere"
            ]
            missing.sort(key=partial(_draw_place, known_entity.entity.id))
            for template in missing[:MISSING_PER_ENTITY]:
                yield self._ask(known_entity, template, views[0], "nowhere")

    def _asks(self, known_entity: KnownEntity, template: AttributeTemplate) -> bool:
        value = known_entity.attributes.get(template.key)
        return (
            template.holds_for(known_entity.group)
            and value not in (None, "None")
            and len(value.split()) <= LONGEST_ANSWER
        )

    def _ask(
        self, known_entity: KnownEntity, template: AttributeTemplate, view: View, source: AnswerHolder
    ) -> Question:
        words = {"this": view.pointing, "This": capitalise(view.pointing), "noun": known_entity.noun}
        identifier = f"rule_{known_entity.entity.id}_{_slug(template.key)}"
        wording = template.question[_draw(identifier) % len(template.question)].format(**words)
        answer, accept = I_DONT_KNOW, tuple[str, ...]()
        if source != "nowhere":
            value = known_entity.attributes[template.key]
            answer, accept = template.sentence.format(**words, value=value), list_accepted(value, template.any)
        return self._build(
            identifier, view.scene, known_entity.entity.id, wording, answer, accept, source, "simple-knowledge"
        )

    def _ask_pairs(self) -> Iterator[Question]:
        for scene in self._scenes:
            names = [thing["entity"] for thing in self._layouts[scene.id]["objects"]]
            pair = [self._known_entities[name] for name in names]
            if len(pair) == 2 and pair[0].noun == pair[1].noun and all(each.entity.in_graph for each in pair):
                for template in self._templates.attribute:
                    if all(self._asks(each, template) for each in pair):
                        yield from self._compare(scene, pair, template)

    def _compare(self, scene: Scene, pair: Sequence[KnownEntity], template: AttributeTemplate) -> Iterator[Question]:
        one, other = (read_span(each.attributes[template.key]) for each in pair)
        if one is None or other is None or one.unit != other.unit:
            return
        identifier = f"rule_{scene.id}_{_slug(template.key)}"
        larger = pair[0] if one.exceeds(other) else pair[1] if other.exceeds(one) else None
        if template.more and larger is not None:
            name = _ASIDE.sub("", larger.entity.name)
            accept = tuple(dict.fromkeys((larger.entity.name, name, name.split()[-1])))
            yield self._build(
                identifier, scene.id, larger.entity.id, template.more, f"The {name}.", accept, "graph", "comparison"
            )
        if template.together and one.low == one.high and other.low == other.high:
            total = f"{one.low + other.low:g}"
            yield self._build(
                f"{identifier}_sum", scene.id, pair[0].entity.id, template.together, f"Together {total}.", (total,),
                "graph", "aggregation",
            )  # fmt: skip

    def _build(
        self,
        identifier: str,
        scene: str,
        entity: str,
        query: str,
        answer: str,
        accept: tuple[str, ...],
        source: AnswerHolder,
        category: Category,
    ) -> Question:
        return Question(
            id=identifier, split=self._split, scene=scene, entity=entity, domain=_DOMAINS[self._known_entities[entity].group],
            query_category=category, dynamism="static", query=query, answer=answer, accept=accept,
            source={"graph": "kg", "page": "web", "nowhere": "nowhere"}[source],
            hops=1 if category == "simple-knowledge" else 2,
        )  # fmt: skip


def make_pair_scenes(content: Content, templates: Templates, split: Split) -> list[Scene]:
    """Write scenes that show two things of one noun side by side, each by its second photograph."""
    candidates = [
        each
        for each in read_known_entities(content, templates, split).values()
        if each.entity.other_photo and each.entity.in_graph
    ]
    scenes = []
    for one, other in combinations(candidates, 2):
        if one.noun != other.noun or one.noun == "thing":
            continue
        identifier = f"rule_{one.entity.id}_{other.entity.id}"
        left, right = (one, other) if _draw(identifier) % 2 else (other, one)
        placed = (
            PlacedObject(entity=left.entity.id, box=(0.04, 0.2, 0.43, 0.62), frame="postcard"),
            PlacedObject(entity=right.entity.id, box=(0.53, 0.2, 0.43, 0.62), frame="postcard"),
        )
        background: Literal["table", "paper"] = "table" if _draw(f"{identifier}/ground") % 2 else "paper"
        scenes.append(Scene(id=identifier, split=split, background=background, objects=placed))
    return scenes


@dataclass(frozen=True)
class Span:
    """Least and largest figure of an attribute, in one unit."""

    low: float
    high: float
    unit: str | None

    def exceeds(self, other: Span) -> bool:
        """Return whether all of it is clearly larger than all of another."""
        return self.low > other.high * LEAST_RATIO


def read_span(text: str) -> Span | None:
    """Read the figures of an attribute's text; None if it has none, or several units."""
    quantities = AnswerText(_ASIDE.sub("", text)).quantities
    units = {each.unit for each in quantities if each.unit}
    if not quantities or len(units) > 1:
        return None
    values = [each.value for each in quantities]
    return Span(min(values), max(values), next(iter(units), None))


def _draw(seed: str) -> int:
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big")


def _draw_place(entity: str, template: AttributeTemplate) -> int:
    return _draw(f"{entity}/{template.key}")


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
