"""Templates of questions on attributes: ``templates.toml`` explains the fields."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from agents.base.files import read_toml

TEMPLATES = Path(__file__).with_suffix(".toml")


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    of: tuple[str, ...] = ()

    def holds_for(self, group: str) -> bool:
        """Return whether the row holds for a group of the content."""
        return not self.of or group in self.of


class NounRule(_Row):
    """Noun for entities that have one of the keys."""

    noun: str
    keys: frozenset[str]


class AttributeTemplate(_Row):
    """Question on one attribute."""

    key: str
    question: tuple[str, ...]
    sentence: str
    words: str
    any: bool = False
    more: str | None = None
    together: str | None = None

    @cached_property
    def mentions(self) -> re.Pattern[str]:
        """Pattern of what a page says if it speaks of this attribute."""
        return re.compile(self.words, re.IGNORECASE)


class Templates(BaseModel):
    """All rows of the file, in its order."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    noun: tuple[NounRule, ...]
    attribute: tuple[AttributeTemplate, ...]

    def choose_noun(self, group: str, keys: frozenset[str]) -> str:
        """Return what a photo shows of an entity with these attributes: "animal", "coin", else "thing"."""
        return next((row.noun for row in self.noun if row.holds_for(group) and row.keys & keys), "thing")


def read_templates() -> Templates:
    """Read the templates.

    Raises:
        pydantic.ValidationError: A row is malformed.
    """
    return Templates.model_validate(read_toml(TEMPLATES))
