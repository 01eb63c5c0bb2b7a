"""Stage 9: attributes become sentences, pages become chunks (QA-Dragon, section 3.6.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from semantic_text_splitter import TextSplitter

from agents.evidence_text import attribute_sentence, paragraphs
from agents.search.types import Entity, ImageHit
from agents.settings import EvidenceSettings
from agents.stage import Context
from agents.text import clean
from agents.turn import Evidence, Turn
from agents.wikitext import flatten

Cut = Callable[[str], Sequence[str]]
"""How a text becomes chunks."""


def wanted(key: str, words: Sequence[str]) -> bool:
    """Whether the name of an attribute holds one of the words; any name will do where there are none."""
    return not words or not {word.lower() for word in words}.isdisjoint(key.lower().split())


def entities_of(turn: Turn, most: int) -> Iterator[tuple[Entity, ImageHit]]:
    """The entity that was settled on, then those of the other pictures found, best first, each once."""
    if turn.entity is None:
        return
    seen: set[str] = set()
    hits = sorted(turn.image_hits, key=lambda hit: turn.entity not in hit.entities)
    for hit in hits:
        for entity in hit.entities:
            if entity.name not in seen and len(seen) < most:
                seen.add(entity.name)
                yield entity, hit


class EvidenceStage:
    """What the searches found, cut into chunks that a reranker can score one by one."""

    name: ClassVar[str] = "evidence"
    least_seconds: ClassVar[float] = 0.2

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``evidence``, best retrieval score first."""
        settings = context.settings.evidence
        cut: Cut = paragraphs if settings.chunking == "paragraph" else TextSplitter(settings.chunk_characters).chunks
        for turn in turns:
            chunks = [
                *self._image_text(turn),
                *self._attributes(turn, settings, cut),
                *self._pages(turn, cut),
            ]
            unique: dict[tuple[str, str], Evidence] = {}
            for chunk in chunks:
                unique.setdefault((chunk.title, chunk.text), chunk)
            ordered = sorted(unique.values(), key=lambda chunk: -chunk.retrieval)
            turn.evidence = tuple(ordered[: settings.most_chunks])
            turn.note(chunks=len(ordered), kept=len(turn.evidence))

    @staticmethod
    def _image_text(turn: Turn) -> Iterator[Evidence]:
        if turn.image_text:
            yield Evidence(
                clean("\n".join(line.text for line in turn.image_text)), "image", "text in the image", retrieval=1.0
            )

    @staticmethod
    def _attributes(turn: Turn, settings: EvidenceSettings, cut: Cut) -> Iterator[Evidence]:
        for entity, hit in entities_of(turn, settings.entities):
            pairs = [
                (key, value)
                for raw, content in entity.attributes.items()
                for key, value in flatten(str(raw), content)
                if wanted(key, settings.attribute_words)
            ]
            sentences = [attribute_sentence(key, entity.name, value) for key, value in pairs]
            if settings.attribute_chunks == "each":
                for sentence, (key, value) in zip(sentences, pairs, strict=True):
                    yield Evidence(sentence, "kg", entity.name, hit.url, hit.score, key=key, value=value)
            else:
                for text in cut(" ".join(sentences)):
                    yield Evidence(text, "kg", entity.name, hit.url, hit.score)

    @staticmethod
    def _pages(turn: Turn, cut: Cut) -> Iterator[Evidence]:
        for hit in turn.web_hits:
            for text in cut(clean(hit.page_snippet)):
                yield Evidence(text, "web", clean(hit.page_name), hit.page_url, hit.score)
