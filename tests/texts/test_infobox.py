"""Attributes that only say how an infobox is drawn are no evidence."""

from __future__ import annotations

import pytest

from agents.search.hits import Entity, ImageHit
from agents.settings.presets import Settings
from agents.stages.evidence import EvidenceStage
from agents.texts.infobox import facts, is_layout
from tests.agent.scripted import context, run, turn

BUILDING = {
    "name": "8 Spruce Street",
    "logo": "Spruce.svg",
    "logo_size": "80px",
    "image": "8 Spruce Street (01030p).jpg",
    "image_size": "250px",
    "image_alt": "a tall silver tower",
    "image_caption": "Seen from the Brooklyn Bridge",
    "alternate_names": "New York by Gehry",
    "building_type": "Residential",
    "location": "8 Spruce Street<br />[[Manhattan]], [[New York City]]",
    "coordinates": "{{Coord|40.7108|-74.0056|display=inline}}",
    "coordinates_display": "inline,title",
    "coordinates_region": "US-NY",
    "mapframe_wikidata": "yes",
    "mapframe_zoom": "13",
    "map_type": "New York City",
    "map_caption": "Location in New York",
    "pushpin_label": "8 Spruce",
    "website": "{{URL|8spruceny.com}}",
    "height": "{{convert|870|ft|m}}",
    "width": "30 m",
    "floor_count": "76",
    "elevators": "11",
    "architect": "[[Frank Gehry]]",
    "flag_size": "20px",
    "flag": "Flag of New York.svg",
    "range_map": "Range of it.png",
}


def test_facts_of_a_building_without_layout() -> None:
    assert [key for key, _ in facts(BUILDING)] == [
        "name", "image caption", "alternate names", "building type", "location", "coordinates", "height", "width",
        "floor count", "elevators", "architect",
    ]  # fmt: skip


def test_layout_makes_no_chunks_and_takes_no_places() -> None:
    dialog_turn = turn("How tall is it?")
    dialog_turn.entity = Entity("8 Spruce Street", BUILDING)
    dialog_turn.image_hits = (ImageHit(0, 0.8, "u", (dialog_turn.entity,)),)
    run(EvidenceStage, [dialog_turn], context(Settings(stages=("finalise",))))
    texts = " ".join(chunk.text for chunk in dialog_turn.evidence)
    assert "870 ft" in texts
    assert "Brooklyn Bridge" in texts
    for word in ("250px", "jpg", "svg", "png", "8spruceny", "inline", "silver tower", "Location in New York"):
        assert word not in texts


@pytest.mark.parametrize(
    ("key", "value", "layout"),
    [
        ("image1 size", "x", True), ("Photo", "x", True), ("mapframe-zoom", "12", True), ("seal size", "90px", True),
        ("map", "", True), ("range", "100 km", False), ("size", "3 m", False), ("flag", "Netherlands", False), ("colour", "red", False),
        ("photographer", "Ann", False), ("caption", "A tower.", False), ("map caption", "Here", True), ("latitude", "4", False),
        ("", "", False), ("statue", "Liberty.", False), ("roar", "Lion-roar.ogg", True),
    ],
)  # fmt: skip
def test_layout_by_key_and_value(key: str, value: str, layout: bool) -> None:
    assert is_layout(key, value) is layout
