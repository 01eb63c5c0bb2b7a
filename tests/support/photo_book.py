"""A kind of search for profiles that name it by its import path: photos by their colour, pages by the words of their names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from agents.search.hits import Entity, ImageHit, Results, WebHit
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from tests.support.mean_colour import MeanColour


class PhotoBook:
    """Searches a JSON file: ``photos`` with the name and RGB of what they show, ``pages`` with name and text.

    Args:
        book: The file.
        split: Name of the collection, which its pages' addresses hold.
        fault: Message of the error that every search of pages ends with; "": none.
    """

    def __init__(self, book: str, split: str, fault: str = "") -> None:
        content = json.loads(Path(book).read_text(encoding="utf-8"))
        self.images = Photos(content["photos"])
        self.web = Pages(content["pages"], split, fault)


class Photos:
    """Finds the photos whose colour is most like a picture's; ``batches`` holds the size of each call."""

    def __init__(self, photos: Sequence[dict[str, Any]]) -> None:
        self.photos, self.batches = photos, list[int]()
        colours = np.array([photo["colour"] for photo in photos], dtype=np.float32)
        self._units = colours / np.linalg.norm(colours, axis=1, keepdims=True)

    def search(
        self, queries: Sequence[Image.Image], k: int, deadline: Deadline = NO_DEADLINE
    ) -> list[Results[ImageHit]]:
        self.batches.append(len(queries))
        return [Results(tuple(self._hits(row))[:k]) for row in MeanColour().encode(queries) @ self._units.T]

    def _hits(self, scores: Any) -> list[ImageHit]:
        best = np.argsort(-scores, kind="stable")
        return [ImageHit(int(i), float(scores[i]), f"photo {i}", (Entity(self.photos[i]["name"]),)) for i in best]


class Pages:
    """Finds the pages whose names share words with a query; ``batches`` holds the size of each call."""

    def __init__(self, pages: Sequence[dict[str, str]], split: str, fault: str) -> None:
        self.pages, self.split, self.fault, self.batches = pages, split, fault, list[int]()

    def search(self, queries: Sequence[str], k: int, deadline: Deadline = NO_DEADLINE) -> list[Results[WebHit]]:
        if self.fault:
            raise ConnectionError(self.fault)
        self.batches.append(len(queries))
        return [Results(tuple(self._hits(query))[:k]) for query in queries]

    def _hits(self, query: str) -> list[WebHit]:
        query_words = {*query.lower().split()}
        hits = []
        for number, page in enumerate(self.pages):
            if shared := len(query_words & {*page["name"].lower().split()}):
                url = f"https://{self.split}.example/{number}"
                hits.append(WebHit(f"{url}_chunk_0", shared / len(query_words), page["name"], page["text"], url))
        return sorted(hits, key=lambda hit: -hit.score)
