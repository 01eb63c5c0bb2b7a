"""Searches that fail, results that break their contract, caches and disks that cannot be read or written."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents.search.pages.web_cache import PageCache, cache_name
from tests.support.fault_plan import MARK, Fault, Plan, fail
from tests.support.hostile_files import HOSTILE_PAGE, Panic, bomb
from tests.support.scripted_parts import PAGES, PICTURE, Search


class _Search(Search):
    def __init__(self, make: Callable[[Any, Any], Any]) -> None:
        self._make = make

    def __call__(self, query: Any, k: int = 5) -> Any:
        return self._make(query, super().__call__(query, k))


def _search(make: Callable[[Any, Any], Any], says: str | None = None, *, one_turn: bool = False) -> Fault:
    """``make`` gets the query and what should have been found."""

    def spoil(plan: Plan) -> None:
        plan.search = _Search(make)

    return Fault(spoil, says, one_turn)


def _added(make: Callable[[Any], Any]) -> Fault:
    """One hit more, made of a good one, before the others."""
    fault = _search(lambda _, hits: [*(make(hit) for hit in hits[:1]), *hits])
    return dataclasses.replace(fault, harmless=True)


class _Raising(dict[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError(key)


def _hanging_search(plan: Plan) -> None:
    plan.search = _Search(lambda _, hits: (plan.hang(), hits)[1])


def _without(hits: Any, *keys: str) -> Any:
    return [{key: value for key, value in hit.items() if key not in keys} for hit in hits]


def _entities(change: Callable[[Any], Any]) -> Fault:
    """``change`` makes something of each entity found."""
    return _search(
        lambda _, hits: [
            {**hit, "entities": [change(entity) for entity in hit["entities"]]} if "entities" in hit else hit
            for hit in hits
        ]
    )


def _attributes(value: Any) -> Fault:
    return _entities(lambda entity: {**entity, "entity_attributes": value})


def _cyclic() -> dict[str, Any]:
    value: dict[str, Any] = {"height": "330 m"}
    value.update({f"k{number}": value for number in range(50)})
    value["list"] = [value, [value]]
    return value


def _pages(make: Callable[[Path, str], object]) -> Fault:
    """``make`` gets the page cache's folder and a URL, for each page."""

    def spoil(plan: Plan) -> None:
        folder = _folder(plan, "pages")
        plan.search.page_folder = folder
        for url in PAGES:
            make(folder, url)

    return Fault(spoil, harmless=True)


def _folder(plan: Plan, name: str) -> Path:
    if plan.folder is None:
        raise ValueError("a fault of a cache needs a folder")
    folder = plan.folder / name
    folder.mkdir()
    return folder


def _no_cache(plan: Plan) -> None:
    plan.search.page_folder = plan.search.picture_folder = Path("/nowhere/at/all")


def _file_for_a_cache(plan: Plan) -> None:
    plan.search.page_folder = plan.search.picture_folder = Path("/dev/null")


def _corrupt_pictures(plan: Plan) -> None:
    plan.search.picture_folder = _folder(plan, "pictures")
    (plan.search.picture_folder / cache_name(PICTURE)).write_bytes(b"\x89PNG\r\n\x1a\n torn")


def _bombs(plan: Plan) -> None:
    plan.search.picture_folder = _folder(plan, "pictures")
    (plan.search.picture_folder / cache_name(PICTURE)).write_bytes(bomb())


def _disk_full(plan: Plan) -> None:
    plan.trace = Path("/dev/full")


_LATIN = "<p>Le prix d'entrée : 29,40 €, fermé à 23 h 45</p>"

SEARCH_FAULTS: dict[str, Fault] = {
    "search raises": _search(lambda *_: fail(ConnectionError("no index")), "no index"),
    "search out of memory": _search(lambda *_: fail(MemoryError("search memory")), "search memory"),
    "search hangs": Fault(_hanging_search, "hung|still hangs"),
    "search raises for one query": _search(
        lambda query, hits: fail(OSError("page")) if isinstance(query, str) and MARK in query else hits,
        "OSError",
        one_turn=True,
    ),
    "search panics for one query": _search(
        lambda query, hits: fail(Panic("no such page")) if isinstance(query, str) and MARK in query else hits,
        "Panic",
        one_turn=True,
    ),
    "a hit of index infinity or an endless score": _added(lambda hit: {**hit, "index": math.inf, "score": 10**400}),
    "a hit that raises whatever is read of it": _added(lambda _: _Raising()),
    "a page of 7 MB with the hits of one turn": _search(
        lambda query, hits: (
            [*hits, {**hits[0], "page_url": "https://bad.example/", "page_content": HOSTILE_PAGE, "score": 0.1}]
            if isinstance(query, str) and MARK in query
            else hits
        ),
        one_turn=True,
    ),
    "a page of 7 MB in the cache": Fault(
        _pages(lambda folder, url: PageCache(folder).put(url, HOSTILE_PAGE.encode())).spoil
    ),
    "pictures of 177 megapixels in the cache": Fault(_bombs),
    "search finds nothing": _search(lambda *_: []),
    "search gives None": _search(lambda *_: None),
    "search gives text": _search(lambda *_: "no results"),
    "search finds fewer than k": _search(lambda _, hits: hits[:1]),
    "search finds the same again and again": _search(lambda _, hits: hits * 30),
    "hits without score": _search(lambda _, hits: _without(hits, "score")),
    "hits without url and text": _search(lambda _, hits: _without(hits, "url", "page_url", "page_snippet", "entities")),
    "hits without anything": _search(lambda _, hits: [{} for _ in hits]),
    "hits of wrong types": _search(
        lambda _, hits: [None, 7, "x", *({**hit, "score": "high", "entities": 3, "page_snippet": 5} for hit in hits)]
    ),
    "hits with NaN scores": _search(lambda _, hits: [{**hit, "score": math.nan} for hit in hits]),
    "entity without attributes": _entities(lambda entity: {"entity_name": entity["entity_name"]}),
    "entity with attributes None": _attributes(None),
    "entity with attributes empty": _attributes({}),
    "entity without name": _entities(lambda entity: {"entity_attributes": entity["entity_attributes"]}),
    "attributes of a wrong type": _attributes(["height", 330]),
    "attributes cyclic": _attributes(_cyclic()),
    "attributes of 10 MB": _attributes({"history": "It is 330 m high. <br/> [[x|y]] " * 312_500}),
    "attributes nested deep": _attributes({"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": ["x"] * 100_000}}}}}}}}),
    "attributes hostile markup": _attributes({"height": "{{a|" * 5_000, "x": "<b>" * 7_000, "y": "\n*" * 9_000}),
    "page cache absent": Fault(_no_cache, harmless=True),
    "page cache no folder": Fault(_file_for_a_cache, harmless=True),
    "page cache corrupt": _pages(lambda folder, url: PageCache(folder).path(url).write_bytes(b"\x00\x1f\x8b" * 500)),
    "page cache with folders for files": _pages(lambda folder, url: PageCache(folder).path(url).mkdir()),
    "page cache not UTF-8": _pages(
        lambda folder, url: PageCache(folder).path(url).write_bytes(_LATIN.encode("cp1252"))
    ),
    "page of 10 MB": Fault(
        _pages(lambda folder, url: PageCache(folder).put(url, b"<div><p>x &amp; y" * 600_000)).spoil
    ),
    "picture cache corrupt": Fault(_corrupt_pictures),
    "disk full while the trace is written": Fault(_disk_full, harmless=True),
}
"""Faults of searches, caches and disk, by kind."""
