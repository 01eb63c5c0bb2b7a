"""A collection: its parts, photos with captions, and the indices that one command builds of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agents.crag_agent import CragAgent
from agents.profiles.model_set import ModelSet
from agents.record import read_record
from agents.search import own_sources
from agents.search.build_index import IndexOptions, main
from agents.search.collection import Collection, to_slug
from agents.search.gateway import SearchGateway
from agents.search.hits import SearchError
from agents.search.index_sources import SourceError
from agents.search.own_sources import read_captions
from agents.search.pages.page_reader import PageReader
from agents.search.reading import Reading
from agents.search.reading_report import find_report
from agents.search.text_files import read_markdown_file
from agents.settings.run_config import RunConfig
from tests.agent.scripted import WORKER
from tests.search.conftest import draw
from tests.support.scripted_parts import Search, ready


@pytest.fixture
def museum(tmp_path: Path) -> Path:
    """A collection of three photos with captions and a page."""
    folder = tmp_path / "Müseum 1"
    (folder / "photos" / "old").mkdir(parents=True)
    for kind, name in enumerate(("mill", "pond", "old/mill")):
        draw(kind).save(folder / "photos" / f"{name}.png")
    (folder / "photos" / "mill.txt").write_text("Old Mill\nheight: 12 m\nIt burned twice.\nhttps://example.org/mill\n")
    (folder / "photos" / "old" / "mill.txt").write_text("old mill\nheight: 13 m\nbuilt: 1874\n")
    (folder / "photos" / "pond.txt").write_bytes("\ufeffDuck Pond".encode())
    (folder / "pages").mkdir()
    (folder / "pages" / "tickets.md").write_text("# Tickets\nA family ticket costs 29 euros.\n")
    return folder


def test_captions_name_what_photos_show(museum: Path) -> None:
    rows, left_out = read_captions(museum / "photos", "m/")
    assert left_out == []
    assert [(row.url, row.entities[0].name) for row in rows] == [
        ("m/mill.png", "Old Mill"),
        ("m/old/mill.png", "Old Mill"),
        ("m/pond.png", "Duck Pond"),
    ]
    expected = {"height": "12 m", "description": "It burned twice. https://example.org/mill", "built": "1874"}
    assert rows[0].entities[0].attributes == rows[1].entities[0].attributes == expected


def test_photos_without_a_caption_are_named_and_left_out(museum: Path) -> None:
    (museum / "photos" / "pond.txt").write_text("\n")
    (museum / "photos" / "mill.txt").unlink()
    rows, (first, second) = read_captions(museum / "photos")
    assert [row.url for row in rows] == ["old/mill.png"]
    assert "mill.png has no caption" in first and "pond.txt is empty" in second
    (museum / "photos" / "old" / "mill.txt").unlink()
    with pytest.raises(SourceError) as raised:
        read_captions(museum / "photos")
    assert str(raised.value).count("\n") == 2


@pytest.mark.hostile("links of a collection that lead out of it")
@pytest.mark.parametrize("name", ["pages", "photos", "photos.csv"])
def test_a_part_that_leads_out_of_the_collection_is_refused(museum: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    if (museum / name).is_dir():
        shutil.move(museum / name, outside)
    else:
        outside.write_text("file,entity\n")
    (museum / name).symlink_to(outside)
    with pytest.raises(SearchError, match=f"{name} is a link that leads out of"):
        Collection.open(museum)


def test_one_command_indexes_a_collection(museum: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = tmp_path / "cache"
    config = RunConfig.read(cache=cache, knowledge=museum)
    search_plan = config.plan_search("validation")
    with pytest.raises(SearchError, match=r"is not indexed; run: crag index .*seum 1 --cache"):
        config.pipeline(**search_plan)
    assert main([str(museum), "--cache", str(cache), "--no-progress"]) == 0
    pipeline = config.pipeline(**search_plan)
    assert [hit["page_url"] for hit in pipeline("What does a family ticket cost?", k=1)] == ["Müseum 1/tickets.md"]
    hits = pipeline(draw(1), k=1)
    assert hits[0]["entities"][0]["entity_name"] == "Duck Pond"
    assert (museum / "photos" / "mill.png").read_bytes() in [
        path.read_bytes() for path in (cache / "image_cache").iterdir()
    ]
    capsys.readouterr()
    assert main([str(museum), "--cache", str(cache), "--no-progress"]) == 0
    assert capsys.readouterr().out.count(" 0 newly embedded") == 2


def test_pages_are_kept_whole_and_things_are_found_by_words(museum: Path, tmp_path: Path) -> None:
    """What is beside the part that was found was in no cache, and a comparison of two exhibits by name found neither."""
    (museum / "pages" / "guide.md").write_text(
        "# Guide\nDo not use <b>flash</b>.\n"
        + "The old mill was built by a potter, and it burned down twice. " * 100
        + "\nZebedee."
    )
    cache = tmp_path / "cache"
    assert main([str(museum), "--cache", str(cache), "--no-progress"]) == 0
    plan = {"split": Collection(museum).split, "web": True, "images": True}
    url = f"{museum.name}/guide.md"
    best = RunConfig.read("best", "server_embedded", cache=cache, knowledge=museum).pipeline(**plan)
    gateway = SearchGateway(best, read_pages=PageReader(WORKER, safe=True))
    assert gateway.languages == ("en",)
    text = gateway.page_texts([url])[url].text or ""
    assert text.startswith("# Guide\nDo not use flash.") and text.endswith("Zebedee.")
    [thing] = gateway.search_web(["Old Mill height"], 1)[0].hits
    assert (thing.page_name, thing.page_url) == ("Old Mill", f"{Collection(museum).split}/mill.png")
    assert (
        thing.page_snippet
        == "Old Mill. Height: 12 m. Description: It burned twice. https://example.org/mill. Built: 1874."
    )

    plain = SearchGateway(RunConfig.read("best", "embedded", cache=cache, knowledge=museum).pipeline(**plan))
    assert {hit.page_url for hit in plain.search_web(["Old Mill height"], 9)[0].hits} == {
        url,
        f"{museum.name}/tickets.md",
    }
    assert plain.page_texts([url]) == {}

    (museum / "pages" / "guide.md").unlink()
    assert main([str(museum), "--cache", str(cache), "--no-progress"]) == 0
    assert gateway.page_texts([url]) == {}


@pytest.mark.parametrize(("named", "ending"), [("cache", "seum 1"), ("another", "--cache .*cache")])
def test_the_command_that_indexes_names_a_cache_that_the_environment_does_not(
    museum: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, ending: str
) -> None:
    monkeypatch.setenv("CRAG_CACHE", str(tmp_path / named))
    config = RunConfig.read(cache=tmp_path / "cache", knowledge=museum)
    with pytest.raises(SearchError, match=rf"run: crag index .*{ending}$"):
        config.pipeline(**config.plan_search("validation"))


def test_photos_whose_names_are_no_unicode(museum: Path, tmp_path: Path) -> None:
    name = os.fsdecode(b"m\xfchle")
    (museum / "photos" / "pond.png").rename(museum / "photos" / f"{name}.png")
    (museum / "photos" / "pond.txt").rename(museum / "photos" / f"{name}.txt")
    assert "m\ufffdhle.png" in [row.url for row in read_captions(museum / "photos")[0]]
    assert main([str(museum), "--cache", str(tmp_path / "cache"), "--no-progress"]) == 0


def test_a_table_takes_the_place_of_captions(museum: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (museum / "photos.csv").write_text("file,entity\npond.png,Lake\ngone.png,Hill\n")
    assert main([str(museum), "--cache", str(tmp_path / "cache"), "--no-progress"]) == 0
    assert "left out: " in (stderr := capsys.readouterr().err) and "photos.csv:3: there is no photo" in stderr
    (museum / "photos.csv").write_text("file,entity\npond.png,Lake\n")
    assert main([str(museum), "--cache", str(tmp_path / "cache"), "--no-progress"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"left out: {name}.png: it has no row in photos.csv" for name in ("mill", "old/mill")
    ]


def test_a_table_without_its_folder_of_photos_is_told(museum: Path) -> None:
    (museum / "photos.csv").write_text("file,entity\npond.png,Lake\n")
    (museum / "photos").rename(museum / "Photos")
    with pytest.raises(SearchError, match=r"photos.csv lists photos, but there is no folder .*/photos"):
        Collection.open(museum)


def test_photos_or_pages_may_be_missing(museum: Path, tmp_path: Path) -> None:
    pages = tmp_path / "pages only"
    pages.mkdir()
    (museum / "pages").rename(pages / "pages")
    for folder, searched in ((museum, (False, True)), (pages, (True, False))):
        plan = RunConfig.read(knowledge=folder).plan_search("validation")
        assert (plan["web"], plan["images"]) == searched
    with pytest.raises(SearchError, match=r"neither photos/ nor pages/"):
        Collection.open(tmp_path)
    with pytest.raises(SearchError, match="there is no folder"):
        Collection.open(tmp_path / "gone")


def test_the_blank_picture_beside_pages_is_replaced_whole_and_only_if_it_differs(museum: Path, tmp_path: Path) -> None:
    """Another ``crag index`` over the same cache may be reading it."""
    shutil.rmtree(museum / "photos")
    command, path = [str(museum), "--no-progress", "--cache", str(tmp_path / "cache")], tmp_path / "cache" / "blank.png"
    path.parent.mkdir()
    path.write_bytes(b"of another version")
    with path.open("rb") as opened_before:
        assert main(command) == 0
        assert opened_before.read() == b"of another version"
    first = path.stat()
    assert main(command) == 0
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)


def test_indices_are_named_by_folder_and_path(museum: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / museum.name
    other.parent.mkdir()
    one, two = Collection(museum).split, Collection(other).split
    assert one != two and one.startswith("museum-1-") and two.startswith("museum-1-")
    assert to_slug("展示") == "collection"


def test_a_source_is_named_by_its_path_below_the_folder(museum: Path) -> None:
    collection = Collection.open(museum)
    photo = f"{collection.split}/old/mill.png"
    assert collection.name_source(photo) == "photos/old/mill.png"
    assert collection.name_source("Müseum 1/guide.pdf#page=3") == "pages/guide.pdf#page=3"
    assert collection.name_source(f"https://example.org/mill#{photo}") == "https://example.org/mill"
    for url in ("https://example.org/Müseum 1/tickets.md", "", "other/tickets.md"):
        assert collection.name_source(url) == url


def test_records_name_sources_by_their_paths(museum: Path, tmp_path: Path) -> None:
    """Indices and the cache of pictures have other keys."""

    class OwnSearch(Search):
        def pages(self, query: str) -> Any:
            return [{**page, "page_url": f"{museum.name}/tickets.md"} for page in super().pages(query)[:1]]

        def pictures(self) -> Any:
            return [{**picture, "url": f"{Collection(museum).split}/mill.png"} for picture in super().pictures()]

    config = RunConfig.read("direct_rag", "embedded", knowledge=museum)
    models = ModelSet(config.profile, tmp_path, ready=ready())
    agent = CragAgent.from_config(config, OwnSearch(), models=models)
    records: list[Any] = []
    agent.trace_to(None, listen=records.extend)
    agent.batch_generate_response(["How tall is this?"], [Image.new("RGB", (64, 48))])
    found = {each.url for each in read_record(records[0]).evidence}
    assert found == {"photos/mill.png", "pages/tickets.md"}


@pytest.mark.hostile("sources that lead out of a collection")
def test_files_of_sources_are_found_in_photos_and_pages_alone(museum: Path, tmp_path: Path) -> None:
    collection = Collection.open(museum)
    (museum / "pages" / "a#b.md").write_text("A")
    (tmp_path / "away.md").write_text("A")
    (museum / "pages" / "away.md").symlink_to(tmp_path / "away.md")
    (museum / "pages" / ".hidden.md").write_text("A")
    (museum / "questions.csv").write_text("A")
    assert collection.find_source("photos/old/mill.png") == (museum / "photos" / "old" / "mill.png", "")
    assert collection.find_source("pages/tickets.md#page=3") == (museum / "pages" / "tickets.md", "#page=3")
    assert collection.find_source("pages/a#b.md") == (museum / "pages" / "a#b.md", "")
    for name in (
        "", "pages", "questions.csv", "pages/away.md", "pages/.hidden.md", "pages/../questions.csv", "/etc/passwd",
        "pages/none.md", "pages/\0", "pages/" + "a" * 5000, f"{museum}/pages/tickets.md", "#", "pages/#",
    ):  # fmt: skip
        assert collection.find_source(name) is None, name


def test_a_collection_has_its_own_sources(museum: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        IndexOptions.parse([str(museum), "--split", "x"])
    assert "leave out all other sources, and --split" in capsys.readouterr().err


def test_what_was_read_is_reported_with_the_worst_files_first(
    museum: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (museum / "pages" / "house.html").write_text(
        "<h1>House</h1><nav>Home Map</nav><p>Built in 1912.<img src=a.png></p>"
    )
    (museum / "pages" / "old.xls").write_bytes(b"")
    assert main([str(museum), "--cache", str(tmp_path / "cache"), "--no-progress"]) == 0
    report = find_report(tmp_path / "cache", Collection(museum).split)
    printed = capsys.readouterr()
    assert printed.out.startswith("read: 2 files, ") and printed.out.splitlines()[0].endswith(
        f" 1 picture; left out: 2 words of 1 file; report: {report}"
    )
    rows = [line for line in report.read_text().splitlines() if line.startswith("| ")]
    assert rows[1] == "| house.html | 4 | 0 | 1 | navigation (2 words): marked as navigation |  |"
    assert "- old.xls: .xls is not read; known: " in report.read_text()


def test_few_messages_are_printed_and_losses_first(
    museum: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(25):
        (museum / "pages" / f"{number:02}.xls").write_bytes(b"")
    (museum / "pages" / "z.html").write_text("<p>Built in 1912.</p>")
    monkeypatch.setattr(
        own_sources, "_TEXT_READERS", {".md": read_markdown_file, ".html": lambda data: Reading("Built.")}
    )
    assert main([str(museum), "--cache", str(tmp_path / "cache"), "--no-progress"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "left out: z.html: text that was not read (2 words): the reader lost 1912"
    assert len(lines) == 21 and lines[-1] == "left out: 6 more, in the report"
