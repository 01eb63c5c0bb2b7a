"""``POST /v1/search``: photos and queries searched in the indices without an answer (docs/serving.md)."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from agents.evidence.lookup import MAX_RESULTS, Found
from apps.serving.protocol import ProtocolError, make_plain, parse_body

_MAX_QUERY = 2_000  # characters: encoders read some hundred tokens

Fraction = Annotated[float, Field(ge=0, le=1)]


class SearchRequest(BaseModel):
    """A search for a photo, a query, or both. A field of another name is refused, so that a misspelt one is noticed."""

    model_config = ConfigDict(strict=True, extra="forbid")

    image: str | None = Field(None, description="photo as a data URL, or as an http address if the server allows that")
    box: tuple[Fraction, Fraction, Fraction, Fraction] | None = Field(
        None, strict=False, description="part of the photo: left, top, right, bottom in fractions of width and height"
    )
    query: str | None = Field(None, max_length=_MAX_QUERY, description="words to search pages for")
    k: int = Field(5, ge=1, le=MAX_RESULTS, description="maximum number of entities, and of passages")

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.image is None and not self.text:
            raise PydanticCustomError("search", "send an image, a query, or both")
        if self.box is not None:
            if self.image is None:
                raise PydanticCustomError("search", "a box needs an image: send both, or leave out the box")
            if self.box[0] >= self.box[2] or self.box[1] >= self.box[3]:
                raise PydanticCustomError("search", "the box is empty: give left, top, right, bottom in this order")
        return self

    @property
    def text(self) -> str:
        """The query without blanks around it; "" if there is none."""
        return (self.query or "").strip()


class EntityReply(BaseModel):
    """An entity of the image knowledge graph, with the cosine of its most similar picture."""

    name: str
    score: float
    url: str
    facts: Mapping[str, str]
    changed: bool


class PassageReply(BaseModel):
    """A part of a page, with its cosine to the query."""

    text: str
    title: str
    url: str
    score: float
    changed: bool


class SearchReply(BaseModel):
    """What a search found, most similar first."""

    object: Literal["search"]
    entities: list[EntityReply]
    passages: list[PassageReply]


def parse_search(body: bytes) -> SearchRequest:
    """Parse a search from its JSON.

    Raises:
        ProtocolError: It is no JSON or breaks the protocol; the message says where.
    """
    return parse_body(SearchRequest, body)


def build_search_reply(found: Found) -> dict[str, Any]:
    """Build the JSON of what was found.

    Raises:
        ProtocolError: The server was started without this search, or it failed.
    """
    if found.off:
        message = f"this server has no {found.off}; it was started without that index"
        raise ProtocolError(400, message, "search_off")
    if found.error:
        raise ProtocolError(502, "the search failed; the log of the server says more", "search_failed")
    reply = {
        "object": "search",
        "entities": [vars(entity) for entity in found.entities],
        "passages": [vars(passage) for passage in found.passages],
    }
    return {name: make_plain(value) for name, value in reply.items()}
