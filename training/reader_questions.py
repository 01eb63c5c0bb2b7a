"""Questions that the extractive reader is fitted to: those of the validation split, hand-written ones, and ones made of attributes.

Nothing that the mini set's ``public_test`` claims may be among them: hand-written questions about such a title are refused.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.base_agent import Message
from agents.search.types import Entity, WebHit
from agents.texts.wikitext import flatten
from demo.build.content import Content, Split, Turn, turn_id
from demo.build.content import Entity as ContentEntity
from demo.build.kg import KgEntity, KgImage
from demo.build.wiki import WebPage, wiki_url
from training.logistic import TrainingError

DATA = Path(__file__).parent / "data"
WRITTEN = DATA / "reader_questions.toml"
TEMPLATES = DATA / "reader_templates.toml"
SPLIT: Split = "validation"
HELD_BACK: Split = "public_test"
_LONGEST_VALUE = 60  # characters; a longer value is a list or a story, and what of it answers is a matter of taste

Source = Literal["split", "written", "made"]


@dataclass(frozen=True)
class Asked:
    """A question with what answers it.

    Attributes:
        id: Unique.
        source: Where it comes from.
        about: What it must not be parted from in cross-validation: its session, its entity, its pages.
        query: As the user asks it.
        truth: The right answer in words; "I don't know" where nothing answers.
        accept: Short right answers.
        history: Earlier messages, with the right answers.
        entity: What the picture shows, as if it had been recognised.
        page: A page that the search has to find.
    """

    id: str
    source: Source
    about: tuple[str, ...]
    query: str
    truth: str
    accept: tuple[str, ...] = ()
    history: tuple[Message, ...] = ()
    entity: Entity | None = None
    page: WebHit | None = None


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WrittenQuestion(_Table):
    """A question of the file, with short right answers."""

    ask: str = Field(min_length=3)
    accept: tuple[str, ...]


class WrittenPage(_Table):
    """A Wikipedia title with questions about it."""

    title: str = Field(min_length=1)
    attributes: dict[str, str] = {}
    questions: tuple[WrittenQuestion, ...] = Field(min_length=1)


class Template(_Table):
    """Ways to ask for an attribute; ``{entity}`` and ``{key}`` are put in."""

    keys: tuple[str, ...] = Field(min_length=1)
    ask: tuple[str, ...] = Field(min_length=1)


class _WrittenFile(_Table):
    page: tuple[WrittenPage, ...] = Field(min_length=1)


class _TemplateFile(_Table):
    template: tuple[Template, ...] = Field(min_length=1)


def read_written(path: Path = WRITTEN) -> tuple[WrittenPage, ...]:
    """The hand-written questions.

    Raises:
        TrainingError: The file is missing or malformed.
    """
    return _read(path, _WrittenFile).page


def read_templates(path: Path = TEMPLATES) -> tuple[Template, ...]:
    """The templates.

    Raises:
        TrainingError: The file is missing or malformed.
    """
    return _read(path, _TemplateFile).template


_File = TypeVar("_File", bound=_Table)


def _read(path: Path, model: type[_File]) -> _File:
    try:
        return model.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
        raise TrainingError(f"{path} cannot be used: {error}") from error


def split_questions(content: Content) -> list[Asked]:
    """The questions of the validation split that can be answered without reading in the picture.

    Every dialog goes on as if the earlier answers had been right. Where a turn names no entity, that of the turn before
    is still the one in the picture.
    """
    single = [
        _of_turn(question.id, (question,), 0, content)
        for question in content.questions.values()
        if question.split == SPLIT
    ]
    dialogs = [
        _of_turn(dialog.id, dialog.turns, number, content)
        for dialog in content.dialogs.values()
        if dialog.split == SPLIT
        for number in range(len(dialog.turns))
    ]
    return [asked for asked in (*single, *dialogs) if asked is not None]


def _of_turn(session: str, turns: Sequence[Turn], number: int, content: Content) -> Asked | None:
    turn = turns[number]
    if turn.source == "image":
        return None
    shown = [content.entities[one.entity] for one in turns[: number + 1] if one.entity is not None]
    entity = shown[-1] if shown else None
    history: list[Message] = []
    for earlier in turns[:number]:
        history.append({"role": "user", "content": earlier.query})
        history.append({"role": "assistant", "content": earlier.answer})
    return Asked(
        id=turn_id(session, number) if len(turns) > 1 else session,
        source="split",
        about=(f"session {session}", *(f"entity {entity.name}" for entity in shown), *_pages(turn)),
        query=turn.query,
        truth=turn.answer,
        accept=turn.accept,
        history=tuple(history),
        entity=_entity(entity) if entity is not None else None,
    )


def _pages(turn: Turn) -> Iterator[str]:
    """Names of a turn's pages; a Wikipedia page and the entity of the same name are one thing."""
    for page in turn.pages:
        yield f"entity {page.removeprefix('wiki:')}"


def _entity(entity: ContentEntity) -> Entity:
    return Entity(entity.name, entity.attributes)


def written_questions(
    pages: Sequence[WrittenPage], summaries: dict[str, str], held_back: Collection[str]
) -> list[Asked]:
    """The hand-written questions, each with the summary it is about.

    Args:
        summaries: Title -> text.
        held_back: Titles and entities of ``public_test``.

    Raises:
        TrainingError: A title belongs to ``public_test``, or a page has neither summary nor attributes.
    """
    taken = sorted({page.title for page in pages} & set(held_back))
    if taken:
        raise TrainingError(f"{HELD_BACK} claims {', '.join(taken)}: nothing may be fitted to questions about that")
    found = []
    for page in pages:
        if page.title not in summaries and not page.attributes:
            raise TrainingError(f"hand-written questions: no summary of {page.title!r}, and no attributes are given")
        text = summaries.get(page.title)
        hit = WebHit(f"{page.title}_chunk_0", 1.0, page.title, text, wiki_url(page.title)) if text else None
        for number, question in enumerate(page.questions):
            found.append(
                Asked(
                    id=f"{page.title}#{number}",
                    source="written",
                    about=(f"entity {page.title}",),
                    query=question.ask,
                    truth=question.accept[0] if question.accept else "I don't know",
                    accept=question.accept,
                    entity=Entity(page.title, page.attributes),
                    page=hit,
                )
            )
    return found


def made_questions(graph: Sequence[KgImage], templates: Sequence[Template], seed: int, most: int = -1) -> list[Asked]:
    """A question for every attribute that a template knows, in an order and words drawn by the seed.

    Args:
        graph: Pictures with their entities.
        most: How many at most; all of them where it is negative.
    """
    ways = {key: template for template in templates for key in template.keys}
    entities: dict[str, KgEntity] = {entity["entity_name"]: entity for image in graph for entity in image["entities"]}
    found = []
    for name, entity in sorted(entities.items()):
        pairs = {
            key: value
            for raw, content in entity["entity_attributes"].items()
            for key, value in flatten(str(raw), content)
            if key in ways and 0 < len(value) <= _LONGEST_VALUE
        }
        for key, value in pairs.items():
            # A generator of its own for each question: one attribute more must not change the words of all the others.
            ask = random.Random(f"{seed} {name} {key}").choice(ways[key].ask)
            found.append(
                Asked(
                    id=f"made {name}#{key}",
                    source="made",
                    about=(f"entity {name}",),
                    query=ask.format(entity=name, key=key),
                    truth=value,
                    accept=(value,),
                    entity=Entity(name, entity["entity_attributes"]),
                )
            )
    random.Random(seed).shuffle(found)
    return found if most < 0 else found[:most]


def held_back_names(pages: Sequence[WebPage], graph: Sequence[KgImage]) -> frozenset[str]:
    """Titles and entities that ``public_test`` claims."""
    named = {entity["entity_name"] for image in graph for entity in image["entities"]}
    return frozenset(page["page_name"] for page in pages if page["split"] == HELD_BACK) | named
