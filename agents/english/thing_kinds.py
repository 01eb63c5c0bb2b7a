"""Whether an entity can be what a question points at: "this coin" is no planet.

The noun of the question is looked up in ``thing_kinds.toml``. The kind of the entity follows from its description, by a text encoder:
descriptions list attributes, which differ by kind ("genus", "orbital period"). Ours.
"""

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from agents.models.base import FloatArray, TextEncoder

_WORD = re.compile(r"[a-z]+")
_PLURAL = re.compile(r"(?<=ch|sh)es$|(?<!s)s$")


@cache
def load_kinds() -> dict[str, tuple[str, ...]]:
    """Load the kinds, each with its nouns."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {kind: tuple(nouns) for kind, nouns in table.items()}


@cache
def _kinds_by_noun() -> dict[str, str]:
    return {noun: kind for kind, nouns in load_kinds().items() for noun in nouns}


def list_nouns() -> list[str]:
    """List the nouns of all kinds, in the order in which ``measure_misfit`` wants their cosines."""
    return [noun for nouns in load_kinds().values() for noun in nouns]


def find_kind(phrase: str) -> str | None:
    """Return the kind that a phrase of a question names by its last known noun; None if it names none."""
    of_nouns = _kinds_by_noun()
    words = _WORD.findall(phrase.lower())
    kinds = [kind for word in words if (kind := of_nouns.get(_PLURAL.sub("", word), of_nouns.get(word)))]
    return kinds[-1] if kinds else None


def measure_misfit(kind: str, likeness: FloatArray) -> float:
    """Measure how much more alike another kind a description is than this one; 0 if it is most alike this one.

    Args:
        kind: Name of a kind.
        likeness: Cosines of the description to ``list_nouns``, shape (nouns,).
    """
    kinds = load_kinds()
    ends = np.cumsum([len(nouns) for nouns in kinds.values()])
    best = dict(zip(kinds, (float(part.max()) for part in np.split(likeness, ends[:-1])), strict=True))
    return max(best.values()) - best[kind]


def find_misfits(kinds: Sequence[str], descriptions: Sequence[str], encoder: TextEncoder, limit: float) -> list[bool]:
    """Return for each description whether it is of another kind, in one pass of the encoder.

    Args:
        kinds: The kind that each entity should be of.
        descriptions: Descriptions of the entities, one a kind.
        encoder: Encoder of the texts.
        limit: ``measure_misfit`` above which an entity is of another kind.
    """
    nouns = list_nouns()
    vectors = encoder.encode([*nouns, *descriptions])
    likeness = vectors[len(nouns) :] @ vectors[: len(nouns)].T
    return [measure_misfit(kind, row) > limit for kind, row in zip(kinds, likeness, strict=True)]
