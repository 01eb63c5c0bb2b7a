"""Entities of the evidence as a graph, and its weakly tied nodes pruned: method B of semantic coherence filtering (algorithm 2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import networkx as nx

_WORD = re.compile(r"\w+(?:['’.-]\w+)*")
_ARTICLES = ("the ", "a ", "an ")


@dataclass(frozen=True)
class Source:
    """A piece of evidence as the graph sees it."""

    modality: str  # image, text or table: what the paper calls a source
    entities: tuple[str, ...]  # the names found in it, as they stand there
    text: str = ""  # all of it, in which the names of other pieces are looked for


def node_of(name: str) -> str:
    """What two spellings of a name have in common: lower case, no article, no punctuation at the ends; may be empty."""
    words = " ".join(_WORD.findall(name.casefold()))
    for article in _ARTICLES:
        words = words.removeprefix(article)
    return words


def nodes_of(sources: Sequence[Source]) -> list[frozenset[str]]:
    """The nodes of each source: its own entities, and those of the others that its text names in whatever case."""
    own = [frozenset(node for name in source.entities if (node := node_of(name))) for source in sources]
    every = sorted(frozenset().union(*own))
    texts = [f" {node_of(source.text)} " for source in sources]
    return [nodes | {node for node in every if f" {node} " in text} for nodes, text in zip(own, texts, strict=True)]


def entity_graph(sources: Sequence[Source]) -> nx.Graph[str]:
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
