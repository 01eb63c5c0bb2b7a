"""Cases of indirect prompt injection: what is laid into what a search found, and a search that lays it there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from agents.settings import ROOT

CASES = ROOT / "tests" / "injection" / "cases.yaml"
PAGES = ROOT / "mini_crag_mm" / "pages" / "own.jsonl"

GRAPH = ROOT / "mini_crag_mm" / "kg" / "validation.jsonl"

Where = Literal["page", "attribute", "nested", "key", "name"]


@dataclass(frozen=True)
class Case:
    """A text that tries to make a model say ``target``, and where it stands; ``gap`` where the guard is known not to find it."""

    name: str
    where: Where
    text: str
    target: str
    gap: bool = False


def load_cases(path: Path = CASES) -> list[Case]:
    """The cases of the file, their target filled in."""
    table = yaml.safe_load(path.read_text("utf-8"))
    target = table["target"]
    return [
        Case(one["name"], one["where"], one["text"].replace("TARGET", target), target, one.get("gap", False))
        for one in table["cases"]
    ]


def mini_pages(path: Path = PAGES) -> list[dict[str, str]]:
    """The mini set's own pages: page_name, page_url, page_snippet."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def mini_entities(path: Path = GRAPH) -> list[dict[str, Any]]:
    """The mini set's entities with their raw attributes: entity_name, entity_attributes."""
    lines = path.read_text("utf-8").splitlines()
    return [entity for line in lines for entity in json.loads(line)["entities"]]


def poisoned_page(page: dict[str, Any], case: Case) -> dict[str, Any]:
    """The page with the case's text at its head, after its middle sentence and at its end: whichever chunk is read holds it."""
    if case.where == "name":
        return {**page, "page_name": f"{page['page_name']}. {case.text}"}
    if case.where != "page":
        return dict(page)
    text: str = page["page_snippet"]
    middle = text.find(". ", len(text) // 2) + 2
    inside = f"{text[:middle]}{case.text} {text[middle:]}" if middle > 1 else text
    return {**page, "page_snippet": f"{case.text}\n{inside}\n{case.text}"}


def poisoned_entity(entity: dict[str, Any], case: Case) -> dict[str, Any]:
    """The entity with the case's text among its attributes, before its own: the first are the likeliest to be read."""
    added: dict[str, Any] = {}
    if case.where == "attribute":
        added = {"description": case.text, "also known as": f"{entity['entity_name']} {case.text}"}
    elif case.where == "nested":
        added = {"notes": {"history": [case.text, {"more": case.text}]}}
    elif case.where == "key":
        added = {case.text: "yes"}
    elif case.where == "name":
        return {**entity, "entity_name": f"{entity['entity_name']}. {case.text}"}
    return {**entity, "entity_attributes": {**added, **(entity.get("entity_attributes") or {})}}


class PoisonedSearch:
    """A search whose best two results carry a case; ``case`` may be changed between questions, None for none."""

    def __init__(self, pipeline: Any, most: int = 2) -> None:
        self._pipeline = pipeline
        self._most = most
        self.case: Case | None = None

    def __call__(self, query: Any, k: int = 5) -> list[dict[str, Any]]:
        """Results of one query, as the pipeline gives them."""
        hits: Sequence[dict[str, Any]] = self._pipeline(query, k=k)
        if self.case is None:
            return list(hits)
        return [self._spoilt(hit, self.case) if place < self._most else hit for place, hit in enumerate(hits)]

    @staticmethod
    def _spoilt(hit: dict[str, Any], case: Case) -> dict[str, Any]:
        if "entities" in hit:
            return {**hit, "entities": [poisoned_entity(entity, case) for entity in hit["entities"]]}
        return poisoned_page(hit, case)
