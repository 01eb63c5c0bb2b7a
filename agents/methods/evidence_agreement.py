"""How well pieces of evidence agree: the formulas and the entity graph of semantic coherence filtering (section 3, algorithms 1 and 2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

Metric = Literal["l1", "euclidean", "cosine"]
Matrix = npt.NDArray[np.float64]

_DISTANCES: dict[Metric, Literal["cityblock", "euclidean"]] = {"l1": "cityblock", "euclidean": "euclidean"}
_WORD = re.compile(r"\w+(?:['’.-]\w+)*")
_ARTICLES = ("the ", "a ", "an ")


def similarities(rows: npt.ArrayLike, columns: npt.ArrayLike, metric: Metric) -> Matrix:
    """Similarity of every row vector to every column vector, shape (rows, columns); higher is more alike; ValueError for other dimensions.

    ``cosine`` is the cosine, -1 to 1, and 0 to a vector of length 0. ``l1`` and ``euclidean`` are distances d in the paper; here
    1 / (1 + d), from 0 to 1: the order is that of the distances, and a far outlier cannot outweigh all others in a mean.
    """
    a, b = (np.asarray(matrix, dtype=np.float64) for matrix in (rows, columns))
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"two matrices of vectors of one dimension are needed, not {a.shape} and {b.shape}")
    if metric == "cosine":
        return np.asarray(_unit(a) @ _unit(b).T, dtype=np.float64)
    return np.asarray(1.0 / (1.0 + cdist(a, b, _DISTANCES[metric])), dtype=np.float64)


def mean_pairwise(similarity: Matrix) -> Matrix:
    """c_i = sum over j != i of Sim(e_i, e_j), divided by |E| - 1 (section 3.1), of shapes (n, n) to (n,); 0 for an item that is alone."""
    n = len(similarity)
    if n < 2:
        return np.zeros(n)
    return np.asarray((similarity.sum(axis=1) - np.diagonal(similarity)) / (n - 1), dtype=np.float64)


def top(scores: Sequence[float] | Matrix, k: int) -> list[int]:
    """The places of the k highest scores, best first; of equals the earlier one, and NaN never."""
    known = [place for place, score in enumerate(scores) if not np.isnan(score)]
    return sorted(known, key=lambda place: -scores[place])[:k]


def _unit(vectors: Matrix) -> Matrix:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0), dtype=np.float64)


@dataclass(frozen=True)
class TitledText:
    """A piece of evidence as the graph sees it."""

    modality: str  # image, text or table: what the paper calls a source
    entities: tuple[str, ...]  # the names found in it, as they stand there
    text: str = ""  # all of it, in which the names of other pieces are looked for


def node_of(name: str) -> str:
    """The normalised form of a name, equal for its spellings: lower case, no article, no punctuation at the ends; may be empty."""
    words = " ".join(_WORD.findall(name.casefold()))
    for article in _ARTICLES:
        words = words.removeprefix(article)
    return words


def nodes_of(sources: Sequence[TitledText]) -> list[frozenset[str]]:
    """The nodes of each source: its own entities, and those of the others that its text names in whatever case."""
    own = [frozenset(node for name in source.entities if (node := node_of(name))) for source in sources]
    every = sorted(frozenset().union(*own))
    texts = [f" {node_of(source.text)} " for source in sources]
    return [nodes | {node for node in every if f" {node} " in text} for nodes, text in zip(own, texts, strict=True)]


def entity_graph(sources: Sequence[TitledText]) -> nx.Graph[str]:
    """A node for each entity, annotated with ``modalities`` and ``items`` (places of its sources); an edge where two share a source."""
    graph: nx.Graph[str] = nx.Graph()
    for place, (source, nodes) in enumerate(zip(sources, nodes_of(sources), strict=True)):
        for node in sorted(nodes):
            if node not in graph:
                graph.add_node(node, modalities=set(), items=set())
            graph.nodes[node]["modalities"].add(source.modality)
            graph.nodes[node]["items"].add(place)
        graph.add_edges_from(combinations(sorted(nodes), 2))
    return graph


def weakly_tied(graph: nx.Graph[str], node: str) -> bool:
    """Degree at most 1, one modality, and no neighbour that occurs in another one (section 3.4 and algorithm 2)."""
    modalities: set[str] = graph.nodes[node]["modalities"]
    return (
        graph.degree(node) <= 1
        and len(modalities) == 1
        and all(graph.nodes[neighbour]["modalities"] <= modalities for neighbour in graph.neighbors(node))
    )


def pruned(graph: nx.Graph[str]) -> nx.Graph[str]:
    """The graph without its weakly tied nodes, all judged on the whole graph: the order of the paper's loop cannot matter."""
    kept: nx.Graph[str] = graph.copy()
    kept.remove_nodes_from([node for node in graph if weakly_tied(graph, node)])
    return kept


def item_degrees(graph: nx.Graph[str], items: int) -> list[int | None]:
    """For each piece of evidence the degrees of its entities added up; None for one whose entities are all gone.

    The paper selects "top-k items by d_i", where d_i belongs to a node; it does not say how an item gets it from its nodes.
    """
    totals: list[int | None] = [None] * items
    for node in graph:
        for place in graph.nodes[node]["items"]:
            totals[place] = (totals[place] or 0) + graph.degree(node)
    return totals
