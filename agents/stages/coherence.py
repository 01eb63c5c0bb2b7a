from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from pydantic import Field

from agents.evidence.passages import PICTURE_KEY, Modality, classify_modality, convert_to_record, format_passage
from agents.methods.evidence_agreement import (
    Matrix,
    TitledText,
    average_similarities,
    build_graph,
    compute_similarities,
    prune,
    select_top,
    sum_degrees,
)
from agents.record import Unanswered
from agents.search.hits import ImageHit
from agents.stage import Context, Stage, StageOptions
from agents.turn import Evidence, Tools, Turn

MODALITIES: tuple[Modality, ...] = ("image", "text", "table")

_WIDEN = 3  # how much larger the second search is; ours, as the paper's "repeat retrieval" says no number
_PICTURES = 10  # that the first search fetched (section 4.1.4: up to 10 candidates of each modality)


@dataclass
class Pool:
    """The evidence of one turn while it is chosen from."""

    turn: Turn
    items: list[Evidence] = field(default_factory=list)

    def add(self, items: Sequence[Evidence]) -> None:
        """Put in what is not there yet."""
        distinct = {(item.title, item.text): item for item in reversed([*self.items, *items])}
        self.items = list(reversed(distinct.values()))


class CoherenceStage(Stage):
    """Keeps the chunks of each modality that are most like the question, then those that agree with each other or share entities.

    Semantic coherence filtering, section 3: ``agents/methods/evidence_agreement.py``. One call of the encoder serves the batch. A
    modality with too few chunks is searched again.
    """

    class Options(StageOptions):
        k: int = Field(5, ge=1, description="chunks kept for each modality in stage 1, and altogether in stage 2")
        metric: Literal["l1", "euclidean", "cosine"] = Field("cosine", description="likeness of two embeddings")
        second: Literal["none", "pairwise", "graph"] = Field(
            "pairwise",
            description="stage 2: none, mean pairwise likeness (algorithm 1), or the entity graph (algorithm 2)",
        )

    options: Options
    fills = ("evidence",)
    doing = "choosing evidence that agrees"
    min_seconds, wanted_seconds = 0.5, 1.0

    def roles(self) -> tuple[str, ...]:
        """Name the text encoder, and the entity finder if a graph is built."""
        return ("text_encoder", "entity_finder") if self.options.second == "graph" else ("text_encoder",)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Replace ``evidence`` by the chunks that agree, the most coherent first."""
        options = self.options
        pools = [Pool(turn) for turn in turns]
        for pool in pools:
            pool.add([*pictures(pool.turn.image_hits, pool.turn), *pool.turn.evidence])
        searched = self._repeat_retrieval(pools, context)
        selections = self._most_relevant(pools, context)
        if options.second == "graph":
            rankings = self._by_graph(selections, context)
        elif options.second == "pairwise":
            rankings = [self._by_likeness(items, vectors) for items, vectors in selections]
        else:
            rankings = [[(item, None) for item in items] for items, _ in selections]
        for pool, (items, _), ranking, again in zip(pools, selections, rankings, searched, strict=True):
            turn = pool.turn
            turn.evidence = tuple(item for item, _ in ranking)
            turn.record(evidence=convert_to_record(turn.evidence))
            turn.note(
                searched_again=again,
                pool={modality: sum(classify_modality(item) == modality for item in items) for modality in MODALITIES},
                coherence=[None if score is None else round(float(score), 4) for _, score in ranking],
                modalities=[classify_modality(item) for item, _ in ranking],
            )

    def _repeat_retrieval(self, pools: Sequence[Pool], context: Context) -> list[int]:
        """Search once more, and more widely, for all pools in which a modality is short; return how often each was searched for again."""
        short = [(pool, shortage(pool, self.options.k, context)) for pool in pools]
        if not any(modalities for _, modalities in short) or not context.deadline.allows(self.min_seconds):
            return [0] * len(pools)
        self._search_again([(pool, modalities) for pool, modalities in short if modalities], context)
        return [int(bool(modalities)) for _, modalities in short]

    def _search_again(self, short: Sequence[tuple[Pool, set[Modality]]], context: Context) -> None:
        """Add what larger searches bring: pictures with the attributes of what they show, and pages for all queries of the turns."""
        by_image = [pool.turn for pool, modalities in short if modalities & {"image", "table"}]
        images = [turn.image for turn in by_image if turn.image is not None]
        k, provided = _PICTURES * _WIDEN, [turn.provided for turn in by_image]
        all_results = context.search.search_images(images, k, provided, context.deadline) if images else []
        results = dict(zip(map(id, by_image), all_results, strict=True))
        parts = []
        for pool, modalities in short:
            turn, image_results = pool.turn, results.get(id(pool.turn))
            part = Turn(turn.query, turn.image, provided=turn.provided, question=turn.question, queries=turn.queries)
            part.tools = Tools(text="text" in modalities)
            if image_results is not None:
                part.entity, part.image_hits = turn.entity, image_results.hits
                turn.note(image_search_error=image_results.error)
                turn.mark_fault(Unanswered.SEARCH if image_results.error is not None else None)
            parts.append(part)
        context.gather(parts, widen=_WIDEN)
        for (pool, _), part in zip(short, parts, strict=True):
            # The picture's own sentence says the name.
            chunks = [chunk for chunk in part.evidence if chunk.key != "name"]
            pool.add([*pictures(part.image_hits, pool.turn), *chunks])
            pool.turn.note(web_search_error=part.get_note("search_error"))
            pool.turn.mark_fault(part.fault)

    def _most_relevant(self, pools: Sequence[Pool], context: Context) -> list[tuple[list[Evidence], Matrix]]:
        """Stage 1: of each modality the k items most like the question, with the embeddings of all that are kept.

        All that was found is ranked before anything is cut: the attributes of an entity share one retrieval score.
        """
        options = self.options
        candidates = [pool.items for pool in pools]
        questions = [pool.turn.question for pool in pools]
        texts = [format_passage(item) for items in candidates for item in items]
        if not texts:
            return [([], np.zeros((0, 0))) for _ in pools]
        encoded = np.asarray(context.models.text_encoder.encode([*questions, *texts]), dtype=np.float64)
        rest = encoded[len(questions) :]
        selections = []
        for question, items in zip(encoded, candidates, strict=False):
            vectors, rest = rest[: len(items)], rest[len(items) :]
            relevance = compute_similarities(question[None], vectors, options.metric)[0]
            places: list[int] = []
            for modality in MODALITIES:
                own = [place for place, item in enumerate(items) if classify_modality(item) == modality]
                places += [own[best] for best in select_top(relevance[own], options.k)]
            places = [places[best] for best in select_top(relevance[places], len(places))]
            selections.append(([items[place] for place in places], vectors[places]))
        return selections

    def _by_likeness(self, items: Sequence[Evidence], vectors: Matrix) -> list[tuple[Evidence, float | None]]:
        """Stage 2, method A: the k items with the highest mean likeness to all others."""
        scores = average_similarities(compute_similarities(vectors, vectors, self.options.metric))
        return [(items[place], float(scores[place])) for place in select_top(scores, self.options.k)]

    def _by_graph(
        self, selections: Sequence[tuple[list[Evidence], Matrix]], context: Context
    ) -> list[list[tuple[Evidence, float | None]]]:
        """Return the k items of the highest degree in the pruned graph (stage 2, method B); the more relevant of equal ones wins.

        Items whose entities were all pruned are dropped, unless none would be left.
        """
        names = iter(context.models.entity_finder.find([item.text for items, _ in selections for item in items]))
        rankings: list[list[tuple[Evidence, float | None]]] = []
        for items, _ in selections:
            sources = [TitledText(classify_modality(item), (item.title, *next(names)), item.text) for item in items]
            degrees = sum_degrees(prune(build_graph(sources)), len(items))
            tied = [place for place, degree in enumerate(degrees) if degree is not None] or list(range(len(items)))
            scores = np.asarray([degrees[place] or 0 for place in tied], dtype=np.float64)
            best = select_top(scores, self.options.k)
            rankings.append([(items[tied[place]], float(scores[place])) for place in best])
        return rankings


def pictures(hits: Sequence[ImageHit], turn: Turn) -> Iterator[Evidence]:
    """Yield a sentence for each distinct entity of the pictures found.

    Yields nothing if no entity was recognised in the turn's picture.
    """
    if turn.entity is None:
        return
    seen: set[str] = set()
    for hit in hits:
        for entity in hit.entities:
            if entity.name in seen:
                continue
            seen.add(entity.name)
            is_recognised = entity.name == turn.entity.name
            text = f"This is {entity.name}." if is_recognised else f"A picture like this one shows {entity.name}."
            yield Evidence(text, "kg", entity.name, hit.url, hit.score, key=PICTURE_KEY)


def shortage(pool: Pool, k: int, context: Context) -> set[Modality]:
    """Return the modalities with fewer than ``k`` items that can still be searched for."""
    turn, item_modalities = pool.turn, [classify_modality(item) for item in pool.items]
    possible: set[Modality] = set()
    if (
        context.search.can_search_images(turn.provided)
        and turn.image is not None
        and turn.entity is not None
        and turn.tools.image
    ):
        possible |= {"image", "table"}
    if context.search.can_search_web(turn.provided) and turn.tools.text:
        possible.add("text")
    return {modality for modality in possible if item_modalities.count(modality) < k}
