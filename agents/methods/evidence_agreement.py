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


@dataclass(frozen=True)
class TitledText:
    """A piece of evidence as the graph sees it."""

    modality: str  # image, text or table: what the paper calls a source
    entities: tuple[str, ...]  # the names found in it, as they stand there
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
