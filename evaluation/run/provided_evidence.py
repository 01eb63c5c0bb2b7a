"""Searches in place of the agent and passes it the evidence with each call, one text a turn, as the research release does.

The release (github.com/facebookresearch/CRAG-MM, utils/retriever.py) builds the agent without a search pipeline. It searches the image
index with the whole picture and the web with the unchanged question. The constants are the release's; its instructions to the model are
reworded here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from evaluation.files.responses import read_lines
from evaluation.records import EvaluationError, QuestionTurn

PICTURES, PAGES = 30, 50  # hits that are searched for
MIN_COSINE = 0.75  # above which an entity is listed
PICTURE_CHARACTERS, PAGE_CHARACTERS = 8_000, 32_000  # of entities with attributes, and of pages

log = logging.getLogger(__name__)

Search = Callable[..., Sequence[Mapping[str, Any]]]
"""The organiser's pipeline: ``search(picture or text, k=)``."""


def format_entities(hits: Sequence[Mapping[str, Any]]) -> str:
    """Format the entities whose pictures are similar enough, each once, and attributes that fit.

    Returns:
        "" if no picture is similar enough.
    """
    entities: dict[str, Any] = {}
    for hit in hits:
        if hit.get("score", 0) > MIN_COSINE:
            for entity in hit.get("entities") or []:
                entities.setdefault(entity["entity_name"], entity.get("entity_attributes"))
    if not entities:
        return ""
    section = (
        "Things that look like the one in the picture follow. Use them only where they are the same thing.\n\n"
        f"Here is a list of entity names retrieved by visual similarity: {', '.join(entities)}.\n\n"
        "What is known of some of them follows.\n"
    )
    number = 1
    for name, attributes in entities.items():
        if len(section) > PICTURE_CHARACTERS:
            break
        if attributes and len(section) + len(str(attributes)) < PICTURE_CHARACTERS:
            section += f"Entity {number}: {name}\nEntity attributes: {_format_attributes(attributes)}\n\n"
            number += 1
    return section


def format_pages(query: str, hits: Sequence[Mapping[str, Any]]) -> str:
    """Format the first pages that fit, with their titles; "" for no pages."""
    section, number = f'Pages found for the question "{query}" follow. Use them only where they answer it.\n\n', 0
    for hit in hits:
        snippet = hit.get("page_snippet") or ""
        if not snippet:
            continue
        if len(section) + len(snippet) >= PAGE_CHARACTERS:
            break
        number += 1
        title = hit.get("page_name") or ""
        section += f"<DOC>\nWebpage ID: [{number}]\nTitle: {title}\nWeb content snippet: {snippet}\n</DOC>\n\n"
    return section if number else ""


def format_evidence(query: str, pictures: Sequence[Mapping[str, Any]], pages: Sequence[Mapping[str, Any]]) -> str:
    """Format the evidence that the research release passes for one turn, from its two searches."""
    return f"<search results>{format_entities(pictures)}{format_pages(query, pages)}</search results>"


def _format_attributes(attributes: Any) -> str:
    try:
        return json.dumps(attributes, indent=2, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(attributes)


class ProvidedEvidence:
    """Searcher that provides the evidence of each call.

    Args:
        search: The pipeline; None if both searches are off.
        images: Whether pictures are searched for.
        web: Whether pages are searched for.
        full_queries: Web queries that replace questions, by interaction id (``read_full_queries``).
        gold: Entities that replace the results of the searches, by interaction id (``look_up_gold_entries``); None: search.
    """

    def __init__(
        self,
        search: Search | None,
        *,
        images: bool = True,
        web: bool = True,
        full_queries: Mapping[str, str] | None = None,
        gold: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._gold = gold
        self._search, self._images, self._web = search, images, web
        self._full_queries = full_queries or {}

    def arguments(self, turns: Sequence[QuestionTurn], images: Sequence[Image.Image | None]) -> dict[str, list[str]]:
        """Return the further arguments of a call, as ``BaseAgent.batch_generate_response`` names them."""
        texts = [self._text(turn, image) for turn, image in zip(turns, images, strict=True)]
        return {"rag_context_list": texts, "domains": [turn.domain for turn in turns]}

    def _text(self, turn: QuestionTurn, image: Image.Image | None) -> str:
        if self._gold is not None:
            entity = self._gold.get(turn.interaction_id)
            return format_evidence(turn.query, [{"score": 1.0, "entities": [entity]}], []) if entity else ""
        if self._search is None or not (self._images or self._web):
            return ""
        pictures = self._search(image, k=PICTURES) if self._images and image is not None else []
        query = self._full_queries.get(turn.interaction_id) or turn.query
        return format_evidence(turn.query, pictures, self._search(query, k=PAGES) if self._web else [])


def look_up_gold_entries(names: Mapping[str, str], graph: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Look up true entities by name, with their attributes, in the organiser's graph.

    Entities that the graph lacks are left out, with a warning.

    Args:
        names: Name of the true entity by interaction id.
        graph: Attributes by name (``CragImageKG.kg``).
    """
    from evaluation.data.diagnostics import nearest_name  # the library that reads data sets takes a second to import

    entries = {}
    for interaction, name in names.items():
        if (entity_name := name if name in graph else nearest_name(name, graph)) is not None:
            entries[interaction] = {"entity_name": entity_name, "entity_attributes": graph[entity_name]}
    if lacking := len(names) - len(entries):
        log.warning("the image index has no entry of the true entity for %d of %d questions", lacking, len(names))
    return entries


def read_full_queries(path: Path) -> dict[str, str]:
    """Read the file of ``--full-query-path``.

    Its JSON lines have ``interaction_id`` and, as an agent's answers are saved, ``agent_response``.

    Raises:
        EvaluationError: The file cannot be read, or has no such line.
    """
    queries = {
        str(line["interaction_id"]): str(line["agent_response"])
        for line in read_lines(path)
        if "interaction_id" in line and "agent_response" in line
    }
    if not queries:
        raise EvaluationError(
            f"{path} has no line with interaction_id and agent_response (the full query); "
            "name the file of the research release"
        )
    return queries
