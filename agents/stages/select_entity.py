from __future__ import annotations

import math
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field
from rapidfuzz import fuzz
from rapidfuzz.utils import default_process

from agents.asking.ask import Ask, Question
from agents.asking.readers.fields import number_at
from agents.english.object_phrases import measure_offset
from agents.english.question_kinds import is_about_several, parse_named_number
from agents.english.thing_kinds import find_misfits
from agents.methods.ranking import fuse
from agents.methods.thing_regions import assign_regions
from agents.models.base import Detection
from agents.models.pixels import picture_key
from agents.record import PictureFound
from agents.search.hits import Entity
from agents.stage import Context, Cosine, Stage, StageOptions
from agents.texts.infobox import facts
from agents.turn import Position, Turn, View, select_with_image

if TYPE_CHECKING:
    from agents.models.vision.same_picture import Features, PictureFeatures

MAX_CHOICES = 6  # entities to choose from
_MAX_CROPS = 1000  # that would cover an image, at most: smaller ones are no worse
_NAME_WEIGHT = 0.1  # cosine that an entity gains whose name is the one that a first look says; ours
_SAME_NAME = 90  # of 100: "Nissan GT-R R35" and "Nissan GT-R"
_ATTRIBUTES = 6  # of an entity, shown to the model or compared with the question
_MAX_DESCRIBED = 12  # entities whose kind is looked at
_MAX_COMPARED = 12  # pictures of the index that a photo is compared with
# Ours, looked at on validation: the paper leaves the choice to a model.
_PLACE_REGIONS = 3  # boxes that a place may point at: lesser ones are often parts of objects
_PLACE_TOLERANCE = 0.12  # of the picture: candidates so much farther from the place than the nearest lie about as near

Same = Mapping[Detection | None, frozenset[str]]
"""Names of the entities whose picture matches each view; only compared pictures count."""


@dataclass(frozen=True)
class Choice:
    """An entity, the cosine of the picture that named it, and the handicap of the crop that was searched."""

    entity: Entity
    score: float
    handicap: float = 0.0  # 0 for the whole image; more the smaller the crop

    @property
    def weight(self) -> float:
        """Score minus handicap, for comparing choices from different crops."""
        return self.score - self.handicap


def list_choices(view: View, handicap: float = 0.0) -> list[Choice]:
    """List the entities of a view's hits, best first."""
    return [Choice(entity, hit.score, handicap) for hit in view.hits for entity in hit.entities]


def candidates(turn: Turn, size_weight: float = 0.0) -> list[Choice]:
    """Rank the entities of all views by their weight, each entity once."""
    lists = [[each] for view in turn.views for each in list_choices(view, size_weight * smallness(turn, view))]
    return [each for each, _ in fuse(lists, key=lambda each: each.entity.name, score=lambda each: each.weight)]


def list_alike(turn: Turn) -> tuple[PictureFound, ...]:
    """List what a model that sees may take the things to be: the best entity of each view, then the second of each, each once."""
    rows = zip_longest(*(list_choices(view) for view in turn.views))
    best = {each.entity.name: each.score for row in rows for each in row if each is not None}
    return tuple(PictureFound(name, round(score, 4)) for name, score in islice(best.items(), MAX_CHOICES))


def smallness(turn: Turn, view: View) -> float:
    """Return how small a crop is: 0 for the whole image, else the logarithm of how many crops would cover it."""
    if view.region is None or turn.image is None:
        return 0.0
    return math.log(min(_MAX_CROPS, turn.image.width * turn.image.height / max(1.0, view.region.box.area)))


def entities_by_view(turn: Turn, names: Container[str], limit: int, same: Same) -> tuple[Entity, ...]:
    """Collect the entities for a question about several objects: the best of ``names`` in each view.

    Each entity is listed once, best first. The entity that was settled on comes first, then those whose picture is the
    same. At most as many are kept as the question names, or ``limit`` if it names no number of objects.
    """
    best: list[list[tuple[float, Entity]]] = []
    for view in turn.views:
        named = [(hit.score, entity) for hit in view.hits for entity in hit.entities if entity.name in names]
        named = [each for each in named if each[1].name in same.get(view.region, ())] or named
        best.append([max(named, key=lambda entry: entry[0])] if named else [])
    fused = fuse(best, key=lambda entry: entry[1].name, score=lambda entry: entry[0])
    sure = frozenset().union(*same.values())
    ordered = sorted((entity for (_, entity), _ in fused), key=lambda entity: entity.name not in sure)
    if turn.entity is not None:
        main_entity = turn.entity
        ordered = [main_entity, *(entity for entity in ordered if entity.name != main_entity.name)]
    return tuple(ordered[: parse_named_number(turn.question) or limit])


def entities_of_things(turn: Turn, names: Container[str], same: Same) -> tuple[Entity, ...]:
    """Choose an entity for each thing of a look, each entity once.

    Three witnesses are weighed: the cosine, less the handicap of a small crop; the place of the thing, by the crop that shows it; and the
    name that the look gives it. Of the crop that shows the thing, an entity whose picture matches that crop comes first.

    Args:
        turn: A turn whose question is about several things.
        names: Names of the entities that count as recognised.
        same: Names of the entities whose picture matches each view.

    Returns:
        The entities in the order of the things; a thing that nothing was recognised for has none.
    """
    look, image = turn.look, turn.image
    if look is None or image is None:
        return ()
    boxes = assign_regions(look.things, turn.regions, *image.size)
    chosen: dict[str, Entity] = {}
    for thing, box in zip(look.things, boxes, strict=True):
        own = [view for view in turn.views if view.region == box] if box is not None else []
        choices = [each for view in own or turn.views for each in list_choices(view)]
        if thing.name:
            choices += [each for view in turn.views for each in list_choices(view) if is_name(thing.name, each.entity)]
        free = [each for each in choices if each.entity.name in names and each.entity.name not in chosen]
        matching = [each for each in free if box is not None and each.entity.name in same.get(box, ())]
        if best := max(
            matching or free,
            key=lambda each: each.score + _NAME_WEIGHT * bool(thing.name and is_name(thing.name, each.entity)),
            default=None,
        ):
            chosen[best.entity.name] = best.entity
    return tuple(chosen.values())


def is_several(turn: Turn, stages: Collection[str]) -> bool:
    """Return whether a question is about several things: by its look, or by its words if no model that sees looks.

    Args:
        turn: The turn, after its look.
        stages: Names of all stages. A look that failed does not leave the question to rules over words.
    """
    look = turn.look
    if "look" in stages or (look is not None and look.by_model):
        return look is not None and len(look.things) > 1
    return is_about_several(turn.question)


def describe(entity: Entity) -> str:
    """Describe an entity in one line: its name and its first attributes."""
    pairs = islice(facts(entity.attributes), _ATTRIBUTES)
    return "; ".join([entity.name, *(f"{key}: {value}" for key, value in pairs)])


ASK = Ask("entity_selection", number_at("entity"))


class SelectEntity(Stage):
    """Selects the entity that the question is about, or none, among those of image search (QA-Dragon, section 3.4.4).

    The model confirms one or none; or rules weigh the likeness of picture and words, at the place that the question names, if any. An
    entity whose picture is too unlike the photo is kept only as the ``nearest``, unless a first look gives it that name by eye. For a
    question about several things ``entities`` keeps one for each thing of a look; without a look that saw them, the best of each view.
    """

    class Options(StageOptions):
        by: Literal["model", "rules"] = Field("rules", description="who chooses")
        k: int = Field(
            4,
            ge=1,
            description="entities kept where a question is about several objects and names no number; 1: only the chosen one",
        )
        min_score: Cosine = Field(
            0.0,
            description="minimum cosine of a recognised picture, unless `rescore` finds the same picture",
        )
        size_weight: float = Field(
            0.015, ge=0, description="rules: penalty on a crop's cosine per e-fold decrease in area"
        )
        word_weight: float = Field(
            0.5, ge=0, description="rules: weight of the likeness of words against that of pictures"
        )
        rescore: bool = Field(False, description="rules: compare cached pictures of the choices with the photo")
        max_misfit: float | None = Field(
            None,
            ge=0,
            description="rules: maximum lead in cosine of another kind of thing over the kind that the question names "
            "(agents/english/thing_kinds.toml); None: ignore kinds",
        )
        sure_score: Cosine | None = Field(
            None,
            description="cosine from which an entity is kept regardless of its kind, and is surely recognised, as is one of which "
            "`rescore` finds the same picture; None: no cosine is enough",
        )
        sure_lead: float | None = Field(
            None,
            ge=0,
            le=2,
            description="likewise: lead of an entity's picture over the others that its search found, in cosines; None: no lead is enough",
        )
        min_inliers: int = Field(10, ge=3, description="features in common from which they show the same thing")

    options: Options
    fills = ("entity", "entity_score", "nearest", "alike", "entities", "sure_entities")
    groups = ("image",)
    doing = "recognising the thing shown"
    picture_notes = frozenset({"entities", "sure", "candidates", "same_picture", "misfits"})
    min_seconds, wanted_seconds = 0.5, 1.0
    when_short = "no comparison of pictures"

    def __init__(self, options: StageOptions | None = None) -> None:
        super().__init__(options)
        self._features: PictureFeatures | None = None
        if self.options.rescore:  # OpenCV is for those alone who compare pictures
            from agents.models.vision.same_picture import PictureFeatures

            self._features = PictureFeatures()

    def list_asks(self) -> tuple[Ask[Any], ...]:
        """Return the prompt of the model that chooses."""
        return (ASK,) if self.options.by == "model" else ()

    def roles(self) -> tuple[str, ...]:
        """Name the encoder by which the rules compare words."""
        return ("text_encoder",) if self.options.by == "rules" else ()

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill all that ``fills`` names; ``entity`` and ``entity_score`` are cleared if no entity is recognised."""
        options = self.options
        size_weight = options.size_weight if options.by == "rules" else 0.0
        ranked = [(turn, candidates(turn, size_weight)) for turn, _ in select_with_image(turns) if turn.views]
        misfits = self._find_misfits(ranked, context)
        turn_choices = [
            (turn, [each for each in choices if each.entity.name not in misfits[id(turn)]][:MAX_CHOICES])
            for turn, choices in ranked
        ]
        for turn, _ in turn_choices:
            turn.entity, turn.entity_score, turn.nearest, turn.entities = None, 0.0, None, ()
            turn.alike = list_alike(turn)
        named = [(turn, choices) for turn, choices in turn_choices if choices]
        same: dict[int, Same] = {}
        if options.by == "model":
            likely = [(turn, self._likely(turn, choices, context)) for turn, choices in named]
            self._ask([(turn, choices) for turn, choices in likely if choices], context)
        else:
            if self._features is not None and not context.short:
                same = {
                    key: {view: names - misfits[key] for view, names in own.items()}
                    for key, own in self._compare(named, context, self._features).items()
                }
            self._weigh(named, context, same, misfits)
        chosen = {id(turn): (turn.entity, turn.entity_score) for turn, _ in ranked}
        for (turn, choices), (_, ranked_choices) in zip(turn_choices, ranked, strict=True):
            own = same.get(id(turn), {})
            self._recognise(turn, choices, own, context)
            matching = frozenset().union(*own.values())
            turn.sure_entities = tuple(
                entity for entity in turn.shown_entities() if entity.name in matching or self._is_clear(turn, entity)
            )
            if turn.entity is None and not turn.entities and ranked_choices:
                turn.nearest = _find_nearest(turn, chosen[id(turn)], ranked_choices, misfits[id(turn)])
            turn.record(entity=turn.entity_name, nearest=turn.nearest)
            turn.note(
                entities=[entity.name for entity in turn.entities],
                sure=[entity.name for entity in turn.sure_entities] or None,
                candidates=[{"name": choice.entity.name, "score": round(choice.score, 4)} for choice in choices],
                same_picture=sorted(matching) if own else None,
                misfits=sorted(misfits[id(turn)]) or None,
            )

    def _find_misfits(
        self, ranked: Sequence[tuple[Turn, Sequence[Choice]]], context: Context
    ) -> dict[int, frozenset[str]]:
        """Return by turn the names of the entities, among its best, that are of another kind than its question names."""
        limit = self.options.max_misfit
        names: dict[int, frozenset[str]] = {id(turn): frozenset() for turn, _ in ranked}
        if self.options.by != "rules" or limit is None:
            return names
        comparisons = [
            (turn, choice.entity, turn.target.kind)
            for turn, choices in ranked
            for choice in choices[:_MAX_DESCRIBED]
            if turn.target.kind is not None and not self._is_clear(turn, choice.entity)
        ]
        if not comparisons:
            return names
        kinds, texts = [kind for _, _, kind in comparisons], [describe(entity) for _, entity, _ in comparisons]
        misfits = find_misfits(kinds, texts, context.models.text_encoder, limit)
        for (turn, entity, _), is_misfit in zip(comparisons, misfits, strict=True):
            if is_misfit:
                names[id(turn)] |= {entity.name}
        return names

    def _is_clear(self, turn: Turn, entity: Entity) -> bool:
        """Return whether an entity's picture is very much like the photo, or far more so than the others found."""
        values = (
            (turn.measure_cosine(entity), self.options.sure_score),
            (turn.measure_lead(entity), self.options.sure_lead),
        )
        return any(value is not None and minimum is not None and value >= minimum for value, minimum in values)

    def _minimum(self, turn: Turn, context: Context) -> float:
        """Return the cosine from which an entity counts as recognised.

        Returns:
            -1 for results of the evaluator, which recognised the entity itself and gives no cosine.
        """
        return -1.0 if context.search.uses_provided(turn.provided) else self.options.min_score

    def _likely(self, turn: Turn, choices: Sequence[Choice], context: Context) -> list[Choice]:
        minimum = self._minimum(turn, context)
        return [choice for choice in choices if choice.score >= minimum]

    def _recognise(self, turn: Turn, choices: Sequence[Choice], same: Same, context: Context) -> None:
        """Drop the entity if its score is too low, and collect further entities if the question is about several objects."""
        sure, minimum = frozenset().union(*same.values()), self._minimum(turn, context)
        best_entity, score = turn.entity, turn.entity_score
        named = {choice.entity.name for choice in choices if is_named(turn, choice.entity)}
        if best_entity is not None and score < minimum and best_entity.name not in sure | named:
            turn.entity, turn.entity_score = None, 0.0
        if self.options.k > 1 and is_several(turn, context.stages):
            recognised = {choice.entity.name: choice for choice in choices if choice.score >= minimum}
            names = sure.union(recognised, named)
            turn.entities = (
                entities_of_things(turn, names, same)
                if turn.look is not None and turn.look.by_model
                else entities_by_view(turn, names, self.options.k, same)
            )
            if best_entity is not None and turn.entity is None and turn.entities:
                turn.entity = turn.entities[0]
                turn.entity_score = recognised.get(turn.entity.name, choices[0]).score

    def _compare(
        self, named: Sequence[tuple[Turn, list[Choice]]], context: Context, feature_cache: PictureFeatures
    ) -> dict[int, Same]:
        """Return which choices each view of each turn shows, by pictures of the cache, as long as there is time.

        None is fetched, and none is read after the deadline.
        """
        pictures = {
            id(turn): own
            for turn, choices in named
            if context.deadline.allows(self.min_seconds)
            and (own := self._pictures(turn, choices, context, feature_cache))
        }
        turn_photos = [
            (turn, picture_key(turn.image), turn.image)
            for turn, _ in named
            if turn.image is not None and id(turn) in pictures
        ]
        photos = feature_cache.get_photo_features({key: image for _, key, image in turn_photos})
        return {id(turn): self._same(turn, photos[key], pictures[id(turn)]) for turn, key, _ in turn_photos}

    def _pictures(
        self, turn: Turn, choices: Sequence[Choice], context: Context, feature_cache: PictureFeatures
    ) -> list[tuple[Features, set[str]]]:
        """Return the features of the index's pictures of the choices, each with the names of its entities, most alike first."""
        names = {choice.entity.name for choice in choices}
        hits = sorted((hit for view in turn.views for hit in view.hits if hit.url), key=lambda hit: -hit.score)
        named = {hit.url: own for hit in hits if (own := names.intersection(entity.name for entity in hit.entities))}
        features_by_url = feature_cache.get_features(
            list(named)[:_MAX_COMPARED], lambda urls: context.search.pictures(urls, deadline=context.deadline)
        )
        return [(features, named[url]) for url, features in features_by_url.items()]

    def _same(self, turn: Turn, photo: Features, pictures: Sequence[tuple[Features, set[str]]]) -> Same:
        """Return, for each view of a photo, the names of the entities whose picture matches it."""
        from agents.models.vision.same_picture import match

        matches = [(match(photo, picture), names) for picture, names in pictures]
        return {
            region: frozenset(
                name
                for picture_matches, names in matches
                if picture_matches.inliers(region.box if region is not None else None) >= self.options.min_inliers
                for name in names
            )
            for region in (view.region for view in turn.views)
        }

    @staticmethod
    def _ask(turn_choices: Sequence[tuple[Turn, list[Choice]]], context: Context) -> None:
        def values(one: tuple[Turn, list[Choice]]) -> dict[str, Any]:
            turn, choices = one
            target = {"target": turn.target.phrase, "position": turn.target.position}
            return {**turn.values, **target, "entities": [describe(choice.entity) for choice in choices]}

        questions = [Question(ASK, values(one), one[:1]) for one in turn_choices]
        for (turn, choices), answer in zip(turn_choices, context.put(questions), strict=True):
            number = answer.value
            if number is not None and 1 <= number <= len(choices):
                turn.entity, turn.entity_score = choices[number - 1].entity, choices[number - 1].score

    def _weigh(
        self,
        turn_choices: Sequence[tuple[Turn, list[Choice]]],
        context: Context,
        same: Mapping[int, Same],
        misfits: Mapping[int, frozenset[str]],
    ) -> None:
        """Score choices by the similarity of pictures plus that of words; a position in the question restricts the choices.

        If pictures show the same thing, only their entities are weighed.

        Provided evidence has equal cosines, and its order tells more than the words: 81 of 132 turns of validation are right by the order,
        73 by the words.
        """
        choosable = []
        for turn, choices in turn_choices:
            if len({choice.score for choice in choices}) == 1:
                turn.entity, turn.entity_score = choices[0].entity, choices[0].score
            else:
                own = same.get(id(turn), {})
                sure = frozenset().union(*own.values())
                at_place = select_at_place(turn, own, misfits[id(turn)])
                choosable.append((turn, at_place or _only(sure, choices)))
        if not choosable:
            return
        texts = [describe(choice.entity) for _, choices in choosable for choice in choices]
        questions = [turn.target.phrase or turn.question for turn, _ in choosable]
        vectors = context.models.text_encoder.encode([*questions, *texts])  # one pass for both
        described = iter(vectors[len(questions) :])
        for (turn, choices), question in zip(choosable, vectors[: len(questions)], strict=True):
            words = [float(np.dot(question, next(described))) for _ in choices]
            totals = [
                choice.weight + self.options.word_weight * likeness + _NAME_WEIGHT * is_named(turn, choice.entity)
                for choice, likeness in zip(choices, words, strict=True)
            ]
            best = choices[int(np.argmax(totals))]
            turn.entity, turn.entity_score = best.entity, best.score


def _find_nearest(
    turn: Turn, chosen: tuple[Entity | None, float], choices: Sequence[Choice], misfits: Container[str]
) -> PictureFound:
    """Return the most similar entity of a photo of which none was recognised: at the place that the question names, else of all."""
    entity, score = chosen
    if entity is None or turn.target.position is None:
        best = max(choices, key=lambda each: each.score)
        entity, score = best.entity, best.score
    left_out = f"its description is of another kind than {turn.target.kind}" if entity.name in misfits else ""
    return PictureFound(entity.name, round(score, 4), left_out=left_out)


def is_named(turn: Turn, entity: Entity) -> bool:
    """Return whether a first look calls a thing by the entity's name, or by most of its words."""
    return turn.look is not None and any(is_name(name, entity) for name in turn.look.names)


def is_name(name: str, entity: Entity) -> bool:
    """Return whether a name is that of an entity, or most of its words."""
    return fuzz.token_set_ratio(name, entity.name, processor=default_process) >= _SAME_NAME


def _only(names: Container[str], choices: list[Choice]) -> list[Choice]:
    """Keep the choices with these names, or all choices if none has one."""
    return [choice for choice in choices if choice.entity.name in names] or choices


def select_at_place(turn: Turn, same: Same, misfits: frozenset[str] = frozenset()) -> list[Choice]:
    """Return the hits in the crop at the position that the question names.

    Only the best boxes count: lesser ones are often parts of objects. Among the crops about as near to the position as the
    nearest one, the best recognised crop is taken. The entity may score higher in another crop; the requested
    position wins.

    Returns:
        An empty list if the question names no position, or nothing is there.
    """
    position: Position | None = turn.target.position
    if position is None or turn.image is None:
        return []
    best_regions = turn.regions[:_PLACE_REGIONS]
    crops = [
        (measure_offset(view.region.box, position, *turn.image.size), _only(same.get(view.region, ()), choices))
        for view in turn.views
        if view.region is not None
        and view.region in best_regions
        and (choices := [each for each in list_choices(view) if each.entity.name not in misfits])
    ]
    nearest = min((away for away, _ in crops), default=0.0)
    near = [choices for away, choices in crops if away <= nearest + _PLACE_TOLERANCE]
    return max(near, key=lambda choices: choices[0].score, default=[])
