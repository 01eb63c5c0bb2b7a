"""Semantic coherence: "Semantic Coherence-Aware Evidence Filtering for Retrieval-Augmented Visual Question Answering".

The paper from top to bottom; presets ``coherence`` and, for its baseline MoqaGPT, ``moqagpt``. Stages in brackets are those of
``agents/stages``, which other presets run too.

3.1 candidates of each modality: [``image_search``, ``queries``, ``web_search``, ``evidence``]; r_d = Sim(q, d): ``compute_similarities``;
    TopK: ``select_top``; c_i: ``average_similarities``
3.2 stage 1 and, where a modality is short, one more search; stage 2: ``CoherenceStage``
3.3 algorithm 1 in MoqaGPT, an answer of each modality and one of all: ``ModalityAnswers``
3.4 algorithm 2 in SKURG, method A as algorithm 1, method B by the graph of entities: ``build_graph``, ``prune``, ``sum_degrees``;
    one answer from all that is kept: [``answer``]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

import networkx as nx
import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy.spatial.distance import cdist

from agents.asking.ask import Ask, Question
from agents.asking.readers.answers import ANSWER
from agents.english.knowledge_conflict import is_same_answer, says_something
from agents.evidence.passages import PICTURE_KEY, Modality, classify_modality, convert_to_record, format_passage
from agents.record import FROM_EVIDENCE, RECONCILED, Unanswered
from agents.search.hits import ImageHit
from agents.stage import Context, Stage, StageOptions
from agents.turn import Candidate, Evidence, Tools, Turn

MODALITIES: tuple[Modality, ...] = ("image", "text", "table")

Metric = Literal["l1", "euclidean", "cosine"]
Matrix = npt.NDArray[np.float64]

_DISTANCES: dict[Metric, Literal["cityblock", "euclidean"]] = {"l1": "cityblock", "euclidean": "euclidean"}


def compute_similarities(rows: npt.ArrayLike, columns: npt.ArrayLike, metric: Metric) -> Matrix:
    """Compute the similarity of every row vector to every column vector; higher is more alike.

    ``cosine`` is the cosine, -1 to 1, and 0 for a vector of length 0. ``l1`` and ``euclidean`` are distances d in the paper. Here they are
    1 / (1 + d), from 0 to 1: this keeps the order of the distances, and one far outlier cannot outweigh all others in a mean.

    Returns:
        Shape (rows, columns).

    Raises:
        ValueError: The vectors do not have the same dimension.
    """
    a, b = (np.asarray(matrix, dtype=np.float64) for matrix in (rows, columns))
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"vectors of one dimension are needed, not matrices of shape {a.shape} and {b.shape}")
    if metric == "cosine":
        return np.asarray(_unit(a) @ _unit(b).T, dtype=np.float64)
    return np.asarray(1.0 / (1.0 + cdist(a, b, _DISTANCES[metric])), dtype=np.float64)


def average_similarities(similarity: Matrix) -> Matrix:
    """Compute c_i, the mean similarity of each item to all others (section 3.1): shapes (n, n) to (n,).

    c_i is the sum of Sim(e_i, e_j) over j != i, divided by |E| - 1. A single item gets 0.
    """
    n = len(similarity)
    if n < 2:
        return np.zeros(n)
    return np.asarray((similarity.sum(axis=1) - np.diagonal(similarity)) / (n - 1), dtype=np.float64)


def select_top(scores: Sequence[float] | Matrix, k: int) -> list[int]:
    """Return the indices of the k highest scores, best first. The earlier of equal scores wins; NaN is left out."""
    places = [place for place, score in enumerate(scores) if not np.isnan(score)]
    return sorted(places, key=lambda place: -scores[place])[:k]


def _unit(vectors: Matrix) -> Matrix:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0), dtype=np.float64)


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

    Semantic coherence filtering, section 3. One call of the encoder serves the batch. A modality with too few chunks is searched again.
    """

    name = "coherence"

    class Options(StageOptions):
        k: int = Field(5, ge=1, description="chunks kept for each modality in stage 1, and altogether in stage 2")
        metric: Metric = Field("cosine", description="likeness of two embeddings")
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
        """Add the hits of larger searches: pictures with the attributes of their entities, and pages for all queries of the turns."""
        by_image = [pool.turn for pool, modalities in short if modalities & {"image", "table"}]
        images = [turn.image for turn in by_image if turn.image is not None]
        k, provided = _PICTURES * _WIDEN, [turn.provided for turn in by_image]
        all_results = context.search.search_images(images, k, provided, context.deadline) if images else []
        results = dict(zip(map(id, by_image), all_results, strict=True))
        for turn in by_image:
            turn.count_search("image")
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
            if part.searches:
                pool.turn.count_search("web")
            pool.turn.note(web_search_error=part.get_note("search_error"))
            pool.turn.mark_fault(part.fault)

    def _most_relevant(self, pools: Sequence[Pool], context: Context) -> list[tuple[list[Evidence], Matrix]]:
        """Stage 1: of each modality the k items most like the question, with the embeddings of all those kept.

        All hits are ranked before any is cut: the attributes of an entity share one retrieval score.
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


def all_agree(answers: Sequence[str], question: str = "") -> bool:
    """Return whether all answers to a question say the same, compared in pairs. A single answer agrees, and so do none."""
    return all(is_same_answer(one, other, question) for one, other in combinations(answers, 2))


def select_most_trusted(candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the candidate of the highest confidence, the first of equal ones; None without candidates.

    A missing confidence counts lowest.
    """
    return max(candidates, key=lambda each: -1.0 if each.confidence is None else each.confidence, default=None)


ALONE, WITHOUT = Ask("answer_with_evidence", ANSWER), Ask("answer_without_evidence", ANSWER)
FUSE = Ask("answer_fusion", ANSWER)


class ModalityAnswers(Stage):
    """Answers from the evidence of each modality, then gives one answer of all (MoqaGPT, as in semantic coherence filtering, section 3.3).

    Refusals are dropped. Where the others agree, the most trusted modality words the answer; where they differ, the model decides in a
    second batched call.
    """

    name = "modality_answers"

    class Options(StageOptions):
        k: int = Field(5, ge=0, description="chunks shown, of all modalities together")

    options: Options
    fills = ("candidate", "shown")
    doing = "writing an answer from each kind of evidence"
    asks = (ALONE, WITHOUT, FUSE)
    kind = "answers"
    min_seconds, wanted_seconds = 1.0, 3.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``."""
        modality_questions: list[tuple[Turn, Modality | None, Question[Candidate | None]]] = []
        for turn in turns:
            turn.shown = context.evidence(turn, self.options.k)
            turn.record(evidence=convert_to_record(turn.shown))
            groups: dict[Modality, list[Evidence]] = {}
            for chunk in turn.shown:
                groups.setdefault(classify_modality(chunk), []).append(chunk)
            for modality, chunks in groups.items():
                modality_questions.append(
                    (turn, modality, Question(ALONE, {**turn.values, "evidence": chunks}, (turn,)))
                )
            if not groups:
                modality_questions.append((turn, None, Question(WITHOUT, turn.values, (turn,))))
        candidates_by_turn: dict[int, list[tuple[Modality | None, Candidate]]] = {}
        for (turn, kind, _), answer in zip(
            modality_questions, context.put([question for *_, question in modality_questions]), strict=True
        ):
            if answer.failed:
                turn.error = turn.error or f"modality_answers: {answer.error}"
            elif answer.value is not None:
                candidates_by_turn.setdefault(id(turn), []).append((kind, answer.value))
        differing: list[tuple[Turn, list[tuple[Modality | None, Candidate]]]] = []
        for turn in turns:
            every = candidates_by_turn.get(id(turn), [])
            turn.record(answers={f"{FROM_EVIDENCE}: {kind}": it.text for kind, it in every if kind is not None})
            plausible = [(kind, it) for kind, it in every if says_something(it.text)]
            turn.candidate = select_most_trusted([it for _, it in plausible or every])
            if not all_agree([it.text for _, it in plausible], turn.question):
                differing.append((turn, plausible))
        questions = [Question(FUSE, {**turn.values, "answers": answers}, (turn,)) for turn, answers in differing]
        for (turn, _), answer in zip(differing, context.put(questions), strict=True):
            turn.candidate = answer.value or turn.candidate
            turn.record(answers={RECONCILED: answer.value.text if answer.value else None})


_WORD = re.compile(r"\w+(?:['’.-]\w+)*")
_ARTICLES = ("the ", "a ", "an ")


@dataclass(frozen=True)
class TitledText:
    """A piece of evidence as the graph sees it."""

    modality: str  # image, text or table: what the paper calls a source
    entities: tuple[str, ...]  # the names found in it, as written there
    text: str = ""  # all of it, in which the names of other pieces are looked for


def normalise_name(name: str) -> str:
    """Normalise a name so that its spellings are equal; the result may be empty.

    It is in lower case, without an article and without punctuation around it.
    """
    words = " ".join(_WORD.findall(name.casefold()))
    for article in _ARTICLES:
        words = words.removeprefix(article)
    return words


def find_nodes(sources: Sequence[TitledText]) -> list[frozenset[str]]:
    """Return the nodes of each source: its own entities, and those of other sources that its text names."""
    own = [frozenset(node for name in source.entities if (node := normalise_name(name))) for source in sources]
    every = sorted(frozenset().union(*own))
    texts = [f" {normalise_name(source.text)} " for source in sources]
    return [nodes | {node for node in every if f" {node} " in text} for nodes, text in zip(own, texts, strict=True)]


def build_graph(sources: Sequence[TitledText]) -> nx.Graph[str]:
    """Build the graph of entities: an edge joins two that share a source.

    Each node has the attributes ``modalities`` and ``items`` (indices of its sources).
    """
    graph: nx.Graph[str] = nx.Graph()
    for place, (source, nodes) in enumerate(zip(sources, find_nodes(sources), strict=True)):
        for node in sorted(nodes):
            if node not in graph:
                graph.add_node(node, modalities=set(), items=set())
            graph.nodes[node]["modalities"].add(source.modality)
            graph.nodes[node]["items"].add(place)
        graph.add_edges_from(combinations(sorted(nodes), 2))
    return graph


def is_weakly_tied(graph: nx.Graph[str], node: str) -> bool:
    """Return whether a node is weakly tied (section 3.4 and algorithm 2).

    Its degree is at most 1, it occurs in one modality, and no neighbour occurs in another one.
    """
    modalities: set[str] = graph.nodes[node]["modalities"]
    return (
        graph.degree(node) <= 1
        and len(modalities) == 1
        and all(graph.nodes[neighbour]["modalities"] <= modalities for neighbour in graph.neighbors(node))
    )


def prune(graph: nx.Graph[str]) -> nx.Graph[str]:
    """Copy the graph without its weakly tied nodes.

    All nodes are judged on the whole graph, so the order of the paper's loop cannot matter.
    """
    pruned_graph: nx.Graph[str] = graph.copy()
    pruned_graph.remove_nodes_from([node for node in graph if is_weakly_tied(graph, node)])
    return pruned_graph


def sum_degrees(graph: nx.Graph[str], items: int) -> list[int | None]:
    """Sum the degrees of each item's entities; None for an item that lost all its entities.

    The paper selects "top-k items by d_i", where d_i belongs to a node. It does not say how an item gets it from its nodes.
    """
    totals: list[int | None] = [None] * items
    for node in graph:
        for place in graph.nodes[node]["items"]:
            totals[place] = (totals[place] or 0) + graph.degree(node)
    return totals
