"""One's own pages and things beside their index: languages, and a text for each thing."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.search.hits import Entity
from agents.search.index_sources import ImageRow, Page
from agents.search.own_pages import detect_languages, write_things

ENGLISH = "The old mill was built by a potter, and it burned down twice before the war."
GERMAN = "Die alte Mühle wurde von einem Töpfer gebaut und brannte vor dem Krieg zweimal ab."
SPANISH = "El viejo molino fue construido por un alfarero y se quemó dos veces antes de la guerra."
JAPANESE = (
    "古い水車小屋は陶芸家によって建てられ、戦争の前に二度焼けました。今は博物館の一部で、毎週土曜日に公開されています。"
)


@pytest.mark.parametrize(
    ("texts", "languages"),
    [
        ([ENGLISH], ("en",)),
        ([GERMAN, GERMAN, ENGLISH], ("de", "en")),
        ([SPANISH], ("es",)),
        ([JAPANESE], ("ja",)),
        ([ENGLISH] * 30 + [GERMAN], ("en",)),
        ([ENGLISH] * 200 + [GERMAN * 3], ("en", "de")),  # a leaflet
        (["| 12 | 13 |\n|---|---|\n| 14 | 15 |" * 20, "Snug", ""], ()),
        ([], ()),
    ],
)
def test_the_languages_of_pages_are_those_of_their_prose(texts: list[str], languages: tuple[str, ...]) -> None:
    assert detect_languages([Page("u", "name", text) for text in texts]) == languages


def test_each_thing_is_a_text_under_the_url_of_its_first_photo() -> None:
    comet = Entity("Red Comet", {"height": "12 m", "built": "1874"})
    moon = Entity("Moon", {"made of": "wood"})
    rows = [
        ImageRow(Path("a"), "m/a.png", (comet, moon)),
        ImageRow(Path("b"), "m/b.png", (comet,)),
        ImageRow(Path("c"), "m/c.png", (Entity("Nameless", {}),)),
    ]
    assert [(row.page_name, row.page_url, row.page_snippet, row.is_thing) for row in write_things(rows)] == [
        ("Red Comet", "m/a.png", "Red Comet. Height: 12 m. Built: 1874.", True),
        ("Moon", "m/a.png#Moon", "Moon. Made of: wood.", True),
    ]
