"""Cases of indirect prompt injection, and how they are put into what a search found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import yaml

from agents.profiles.profile import ROOT
from mini_crag_mm.loader import WebPage, read_kg, read_pages

CASES = ROOT / "tests" / "injection" / "cases.yaml"

Where = Literal["page", "attribute", "nested", "key", "name"]


@dataclass(frozen=True)
class Case:
    """A text that tries to make a model say ``target``, and where it stands; ``gap`` where the guard is known not to find it."""

    name: str
    where: Where
    text: str
    target: str
    gap: bool = False


def load_cases() -> list[Case]:
    """The cases of the file, their target filled in."""
    table = yaml.safe_load(CASES.read_text("utf-8"))
    target = table["target"]
    return [
        Case(one["name"], one["where"], one["text"].replace("TARGET", target), target, one.get("gap", False))
        for one in table["cases"]
    ]


def mini_pages() -> list[WebPage]:
    """The pages that were written for the mini set."""
    return [page for page in read_pages() if page["kind"] != "wiki"]


def mini_entities() -> list[dict[str, Any]]:
    """The mini set's entities of validation with their raw attributes: entity_name, entity_attributes."""
    return [dict(entity) for image in read_kg("validation") for entity in image["entities"]]


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
