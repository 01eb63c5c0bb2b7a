"""Formats a chunk of evidence for a model, a reranker and the trace."""

from collections.abc import Iterable, Sequence
from typing import Literal

from agents.record import EvidenceFound
from agents.turn import Evidence

CHARACTERS_PER_TOKEN = 4
"""English text in the tokenizers of Llama 3 and Qwen 2.5; an estimate is enough for a budget of evidence."""


def count_tokens(chunk: Evidence) -> int:
    """Estimate the tokens of a chunk in a prompt, with its title."""
    return -(-len(format_passage(chunk)) // CHARACTERS_PER_TOKEN)


def format_passage(chunk: Evidence) -> str:
    """Return the text that a reranker reads of a chunk.

    The title of a page comes first, because its chunks do not always name their subject.
    """
    return f"{chunk.title}: {chunk.text}" if chunk.source == "web" and chunk.title else chunk.text


def classify_document(chunk: Evidence) -> Literal["text", "image"]:
    """Return the modality of a document (MAVIS): a page is text, attributes of the knowledge graph are an image."""
    return "text" if chunk.source == "web" else "image"


def write_attribute(key: str, entity: str, value: str) -> str:
    """Write an attribute as ``The <key> of <entity> is <value>`` (QA-Dragon, section 3.6.1)."""
    return f"The {key} of {entity} is {value}."


def write_identity(entity: str) -> str:
    """Write what a photo shows, for an entity recognised with certainty."""
    return f"This is {entity}."


Modality = Literal["image", "text", "table"]
"""Modality of evidence (semantic coherence filtering, section 3.1): names in pictures, pages of text, or tables of attributes."""

PICTURE_KEY = "(picture)"
"""``Evidence.key`` of a sentence that says what a picture shows; no attribute is called so."""


def classify_modality(chunk: Evidence) -> Modality:
    """Return the modality of a chunk (semantic coherence filtering): an image, text or table."""
    if chunk.source == "web":
        return "text"
    return "image" if chunk.key == PICTURE_KEY else "table"


def split_paragraphs(text: str) -> list[str]:
    """Split a text at its newlines, without blank lines (CRUISE, section 3.2)."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def sort_by_score(chunks: Iterable[Evidence]) -> list[Evidence]:
    """Sort reranked chunks by score, best first; equal ones keep their order."""
    return sorted(chunks, key=lambda chunk: -(chunk.score or 0.0))


def convert_to_record(chunks: Sequence[Evidence]) -> tuple[EvidenceFound, ...]:
    """Convert chunks to the form of a turn's record."""
    return tuple(
        EvidenceFound(
            chunk.text, chunk.source, chunk.title, chunk.url, None if chunk.score is None else round(chunk.score, 4)
        )
        for chunk in chunks
    )
