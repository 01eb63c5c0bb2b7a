"""What a question points at has a kind, and so has an entity; where they differ much the entity cannot be meant."""

from __future__ import annotations

import numpy as np
import pytest

from agents.english.thing_kinds import find_kind, list_nouns, load_kinds, measure_misfit
from agents.models.encoders.text_encoder import load_minilm
from agents.search.hits import Entity
from agents.stages.select_entity import describe


@pytest.mark.parametrize(
    ("phrase", "kind"),
    [
        ("coin", "money"),
        ("two coins", "money"),
        ("churches", "structure"),
        ("musical instrument", "instrument"),
        ("military vehicle", "vehicle"),
        ("apple tree", "plant"),
        ("Bus", None),
        ("woman", None),
        ("thing", None),
        ("", None),
    ],
)
def test_a_phrase_names_a_kind_by_its_last_noun(phrase: str, kind: str | None) -> None:
    assert find_kind(phrase) == kind


def test_no_noun_names_two_kinds() -> None:
    assert len(list_nouns()) == len(set(list_nouns())) == sum(map(len, load_kinds().values()))


def test_a_misfit_is_the_lead_of_the_nearest_other_kind() -> None:
    likeness = np.zeros(len(list_nouns()), dtype=np.float32)
    likeness[list_nouns().index("planet")] = 0.6
    likeness[list_nouns().index("coin")] = 0.25
    assert measure_misfit("money", likeness) == pytest.approx(0.35)
    assert measure_misfit("celestial", likeness) == 0


@pytest.mark.parametrize(
    ("name", "attributes", "kind", "other"),
    [
        ("Mercury (planet)", {"orbital_period": "87.97 d", "mean_radius": "2,439.7 km", "moons": "none"}, "celestial", "money"),
        ("Loonie", {"value": "1 Canadian dollar", "mass": "6.27 g", "edge": "11-sided", "years_of_minting": "1987"}, "money", "celestial"),
        ("Horse", {"genus": "Equus", "species": "E. ferus", "family": "Equidae", "young": "foal"}, "animal", "vehicle"),
        ("Eiffel Tower", {"architect": "Stephen Sauvestre", "height": "330 m", "start_date": "1887"}, "structure", "animal"),
    ],
)  # fmt: skip
def test_real_vectors_tell_kinds_apart(name: str, attributes: dict[str, str], kind: str, other: str) -> None:
    encoder = load_minilm()
    vectors = encoder.encode([*list_nouns(), describe(Entity(name, attributes))])
    likeness = vectors[:-1] @ vectors[-1]
    assert measure_misfit(kind, likeness) < 0.05 < 0.15 < measure_misfit(other, likeness)
