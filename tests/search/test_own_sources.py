"""Photos with a table and folders of pages become indices that the organiser's pipeline searches."""

from __future__ import annotations

import csv
import json
import os
import re
import unicodedata
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from PIL import Image

from agents.base.worker_processes import map_locally
from agents.evidence.chunks import ChunkOptions, chunk_page, make_cutter
from agents.search import document_process
from agents.search.build_index import IndexOptions, _chunks, main
from agents.search.collection import Collection
from agents.search.documents import pdf as pdf_reader
from agents.search.documents.pdf_paragraphs import Flow
from agents.search.hits import WebHit
from agents.search.index_sources import Page, SourceError
from agents.search.own_sources import keep_pictures, read_captions, read_documents, read_table
from agents.search.pages.web_cache import cache_name
from agents.search.pipelines import open_pipeline
from agents.texts.markdown_tables import repeat_headers
from tests.search.conftest import draw
from tests.support.pdf_files import make_pdf, show
from tests.support.process_functions import WorkerHere

FILES = Path(__file__).parents[1] / "pages"
HTML = """<html><head><title>Opening hours</title><style>.x{}</style></head><body><nav><a href="/">Home</a></nav>
<article><h1>Opening hours</h1><p>The museum opens at nine in the morning and closes at five in the afternoon, every day except Monday.
Groups are asked to book a guided tour one week before they come.</p><script>track()</script></article></body></html>"""
MARKDOWN = (
    "---\ntitle: Lending rules\n---\n# Lending\n\nA borrowed telescope has to be returned within fourteen days.\n"
)


def pdf(*pages: str) -> bytes:
    """A PDF file with a line of text on each page."""
    return make_pdf(*(show(20, 100, text) if text else "" for text in pages))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "old").mkdir(parents=True)
    for kind, name in enumerate(("mill.png", "pond.png", "old/mill.png")):
        draw(kind).save(folder / name)
    return folder


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    (folder / "rules").mkdir(parents=True)
    (folder / "hours.html").write_text(HTML)
    (folder / "rules" / "lending.md").write_text(MARKDOWN)
    (folder / "note.txt").write_text("Das Café schließt früh.", encoding="utf-8")
    (folder / "guide.pdf").write_bytes(pdf("The steam engine was built in 1874.", "Its boiler holds 900 litres."))
    (folder / ".hidden.md").write_text("nothing")
    return folder


def table(path: Path, *rows: list[str], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


HEADER = ["File", "entity", "url", "Height", "builder"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_table_becomes_entities_with_attributes(tmp_path: Path, photos: Path, delimiter: str) -> None:
    rows, left_out = read_table(
        table(
            tmp_path / "t.csv",
            HEADER,
            ["mill.png", "Old Mill", "https://m.example/1", "12 m", ""],
            ["pond.png", "Pond, the big one", "", "", ""],
            ["old/mill.png", "Old Mill", "", "", "J. Smith"],
            ["pond.png", "Duck", "", "0.3 m", ""],
            delimiter=delimiter,
        ),
        photos,
        "https://own.example/",
    )
    assert left_out == []
    assert [row.url for row in rows] == [
        "https://m.example/1#mill.png",
        "https://own.example/pond.png",
        "https://own.example/old/mill.png",
    ]
    mill = rows[0].entities[0]
    assert (mill.name, dict(mill.attributes)) == ("Old Mill", {"Height": "12 m", "builder": "J. Smith"})
    assert rows[2].entities == (mill,)  # what two rows say of it is put together
    assert [entity.name for entity in rows[1].entities] == ["Pond, the big one", "Duck"]


def test_photos_of_one_page_keep_their_own_pictures(tmp_path: Path, photos: Path) -> None:
    """A museum's page shows several things; a found picture is looked at by its address."""
    page = "https://museum.example/hall"
    head, mill, pond = HEADER[:3], ["mill.png", "Mill", page], ["pond.png", "Pond", page]
    rows = read_table(table(tmp_path / "a.csv", head, mill, pond), photos)[0]
    keep_pictures(rows, tmp_path / "kept")
    assert [row.url for row in rows] == [f"{page}#mill.png", f"{page}#pond.png"]
    for row in rows:
        assert (tmp_path / "kept" / cache_name(row.url)).read_bytes() == row.path.read_bytes()
    rows = read_table(table(tmp_path / "b.csv", head, mill, ["mill.png", "Sails", page], [*pond[:2], ""]), photos)[0]
    assert [row.url for row in rows] == [f"{page}#mill.png", "pond.png"]


@pytest.mark.parametrize("url", ["", "https://en.wikipedia.org/wiki/Mill"])
def test_indices_with_the_same_names_keep_their_own_pictures(tmp_path: Path, url: str) -> None:
    for kind, split in enumerate(("one", "two")):
        folder = tmp_path / split
        folder.mkdir()
        draw(kind).save(folder / "mill.png")
        own = ["--images", str(folder), "--table", str(table(folder / "t.csv", HEADER[:3], ["mill.png", "Mill", url]))]
        assert main([*own, "--split", split, "--cache", str(tmp_path / "cache"), "--no-progress"]) == 0
    for kind, split in enumerate(("one", "two")):
        [hit] = open_split(tmp_path / "cache", split, web=False)(draw(kind), k=1)
        kept = tmp_path / "cache" / "image_cache" / cache_name(hit["url"])
        assert kept.read_bytes() == (tmp_path / split / "mill.png").read_bytes()


def test_photos_that_are_not_indexed_are_named(tmp_path: Path, photos: Path) -> None:
    (tmp_path / "more").mkdir()
    draw(3).save(tmp_path / "more" / "hill.png")
    (photos / "linked").symlink_to(tmp_path / "more")
    (photos / "gone").symlink_to("nowhere")
    (photos / "inside").symlink_to("old")
    (photos / "mill.psd").touch()
    for name in ("mill", "pond", "old/mill", "bridge"):
        (photos / f"{name}.txt").write_text("Old Mill")
    own = table(photos / "t.csv", HEADER, ["mill.png", "Old Mill"], ["inside/mill.png", "Old Mill"])
    links = ["gone: this link is not followed", "linked: this link is not followed"]
    rows, left_out = read_table(own, photos)
    unlisted = [f"{name}: it has no row in t.csv" for name in ("mill.psd", "pond.png")]
    assert len(rows) == 2 and [reason.split(";")[0] for reason in left_out] == [*unlisted, *links]
    own.unlink()
    rows, left_out = read_captions(photos)
    spare = ["bridge.txt: there is no photo beside this caption", "mill.psd: .psd is not read as a photo"]
    assert len(rows) == 3
    assert [reason.split(";")[0] for reason in left_out] == [*spare, links[0], "inside" + links[0][4:], links[1]]


def test_links_to_folders_of_pages_are_named(tmp_path: Path, documents: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "linked").symlink_to(documents)
    (tmp_path / "pages" / "note.md").write_text("The mill is old.")
    rows, left_out = read_documents(tmp_path / "pages")
    assert len(rows) == 1 and [reason.split(":")[0] for reason in left_out] == ["linked"]


def test_rows_without_their_photo_are_named_and_left_out(tmp_path: Path, photos: Path) -> None:
    bad = [["gone.png", "X"], ["", "Z"]]
    rows, left_out = read_table(table(tmp_path / "t.csv", HEADER, bad[0], ["mill.png", "Y"], bad[1]), photos)
    assert [row.url for row in rows] == ["mill.png"]
    assert "t.csv:2: there is no photo" in left_out[0] and "t.csv:4: 'file' is empty" in left_out[1]
    with pytest.raises(SourceError) as error:
        read_table(table(tmp_path / "t.csv", HEADER, *bad), photos)
    assert "t.csv:2: there is no photo" in str(error.value) and "t.csv:3: 'file' is empty" in str(error.value)


def test_a_photo_of_a_phone_is_read(tmp_path: Path) -> None:
    """HEIC, with a turn of 90 degrees, beside a file that only has its ending."""
    (tmp_path / "col" / "photos").mkdir(parents=True)
    (tmp_path / "col" / "photos" / "IMG_1.HEIC").write_bytes((FILES / "photo.heic").read_bytes())
    (tmp_path / "col" / "photos" / "IMG_2.heic").write_bytes(b"nothing")
    table(tmp_path / "col" / "photos.csv", HEADER[:2], ["IMG_1.HEIC", "Flag"], ["IMG_2.heic", "Flag"])
    assert main([str(tmp_path / "col"), "--cache", str(tmp_path / "cache"), "--no-progress"]) == 0
    pipeline = open_split(tmp_path / "cache", Collection(tmp_path / "col").split, web=False)
    picture = Image.new("RGB", (32, 64), (220, 40, 40))
    picture.paste((40, 40, 220), (0, 32, 32, 64))
    [hit] = pipeline(picture, k=2)
    assert hit["entities"][0]["entity_name"] == "Flag" and hit["score"] > 0.9


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"photo,name\nmill.png,X\n", "missing: entity, file"),
        (b"file,entity\nmill.png,X,more\n", "more cells than columns"),
        (b"\xff\xfe\x00", "is not UTF-8 .*; save it as UTF-8"),
        ("file,entity\nmill.png,M\u00fchle\n".encode("cp1252"), 'in Excel: "Save as", "CSV UTF-8"'),
        (b'file,entity\n"mill.png,X\n', "a table is CSV in UTF-8"),
        (b"", "missing"),
        (b"file,entity,\nmill.png,Old Mill,12 m\n", "2: more cells than columns"),
        (b"file,entity,height,height\nmill.png,Old Mill,12 m,13 m\n", "'height' more than once"),
        (b",,\nfile,entity\n", "missing: entity, file"),
    ],
)
def test_what_is_no_table_is_told(tmp_path: Path, photos: Path, content: bytes, words: str) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(SourceError, match=words):
        read_table(tmp_path / "t.csv", photos)


def test_spreadsheets_and_macs_leave_traces(tmp_path: Path) -> None:
    """Empty rows and columns, accents apart from their letters in names of files, and files of attributes beside them."""
    folder = tmp_path / "photos"
    folder.mkdir()
    draw(0).save(folder / "Mu\u0308hle.png")
    (folder / "._mill.png").write_bytes(b"Mac OS X")
    (tmp_path / "t.csv").write_text("file;entity;height;\nM\u00fchle.png;Old Mill;12,5 m;\n;;;\n", encoding="utf-8")
    [row] = read_table(tmp_path / "t.csv", folder)[0]
    assert row.path.is_file() and row.entities[0].attributes == {"height": "12,5 m"}
    for caption in ("Mu\u0308hle.txt", "M\u00fchle.txt"):
        (folder / caption).write_text("Old Mill")
        rows, left_out = read_captions(folder)
        assert ([row.path.name for row in rows], left_out) == (["Mu\u0308hle.png"], [])
        (folder / caption).unlink()


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_each_part_of_a_path_has_its_own_spelling(tmp_path: Path, form: Literal["NFC", "NFD"]) -> None:
    """A folder made on Linux with a photo from a Mac, in a table from either, and letters that are composed in part."""
    names = ["\u00dcbung/Mu\u0308ller.png", "U\u0308bung 2/M\u00fcller.png", "Vi\u1ec7t/Vi\u00ea\u0323t.png"]
    for name in names:
        (tmp_path / "photos" / name).parent.mkdir(parents=True)
        draw(0).save(tmp_path / "photos" / name)
    rows = [[unicodedata.normalize(form, name), "Old Mill"] for name in names]
    read, left_out = read_table(table(tmp_path / "t.csv", HEADER[:2], *rows), tmp_path / "photos")
    assert [row.path for row in read] == [tmp_path / "photos" / name for name in names] and left_out == []


@pytest.mark.parametrize(
    ("lines", "names_by_url", "attributes"),
    [
        ("file;entity;size (h, w, d)\nmill.png;Mill;1, 2, 3\n", {"mill.png": ["Mill"]}, {"size (h, w, d)": "1, 2, 3"}),
        ("file,entity,a;b;c\nmill.png,Mill,1\n", {"mill.png": ["Mill"]}, {"a;b;c": "1"}),
        (
            "file,entity,height\nmill.png,Old Mill,\npond.png,old mill,12 m\npond.png,OLD MILL,\n",
            {"mill.png": ["Old Mill"], "pond.png": ["Old Mill"]},
            {"height": "12 m"},
        ),
        (
            "file,entity\n./mill.png,Mill\nmill.png,Sails\nold//mill.png,\n",
            {"mill.png": ["Mill", "Sails"], "old/mill.png": []},
            {},
        ),
    ],
)
def test_spellings_of_columns_entities_and_paths(
    tmp_path: Path, photos: Path, lines: str, names_by_url: dict[str, list[str]], attributes: dict[str, str]
) -> None:
    (tmp_path / "t.csv").write_text(lines)
    rows, _ = read_table(tmp_path / "t.csv", photos)
    assert {row.url: [entity.name for entity in row.entities] for row in rows} == names_by_url
    assert all(entity.attributes == attributes for row in rows for entity in row.entities)


def test_documents_of_every_kind_are_read(documents: Path) -> None:
    rows, left_out = read_documents(documents, "https://own.example/")
    by_url = {row.page_url.removeprefix("https://own.example/"): row for row in rows}
    assert list(by_url) == ["guide.pdf#page=1", "guide.pdf#page=2", "hours.html", "note.txt", "rules/lending.md"]
    assert by_url["guide.pdf#page=2"].page_snippet.strip() == "Its boiler holds 900 litres."
    assert by_url["guide.pdf#page=2"].page_name == "guide, page 2"
    assert by_url["hours.html"].page_name == "Opening hours"
    assert "opens at nine" in by_url["hours.html"].page_snippet and "track()" not in by_url["hours.html"].page_snippet
    assert by_url["note.txt"].page_snippet == "Das Café schließt früh."
    assert by_url["rules/lending.md"].page_name == "Lending rules"
    assert by_url["rules/lending.md"].page_snippet.split("\n\n") == [
        "# Lending",
        "A borrowed telescope has to be returned within fourteen days.",
    ]
    assert left_out == []


def test_a_chunk_of_a_page_names_its_section_whatever_kind_of_file_it_is_from(tmp_path: Path) -> None:
    sections = {
        "The hammer": "It was bought at a flea market in Gent.",
        "The bell": "It was cast in the year of the flood.",
    }
    (tmp_path / "a.md").write_text(
        "# Stories ##\n\n" + "\n".join(f"## {name} ##\n{text}\n" for name, text in sections.items())
    )
    body = "".join(f"<h2>{name}</h2><p>{text}</p>" for name, text in sections.items())
    (tmp_path / "b.html").write_text(f"<title>Stories</title><main><h1>Stories</h1>{body}</main>")
    rows, _ = read_documents(tmp_path)
    for row in rows:
        hit = WebHit(row.id, 0.5, row.page_name, row.page_snippet, row.page_url)
        chunks = [(chunk.title, chunk.text.strip()) for chunk in chunk_page(hit, make_cutter(ChunkOptions()))]
        assert chunks == [(f"Stories: {name}", text) for name, text in sections.items()], row.page_url


def test_what_cannot_be_read_is_named_and_the_rest_is_read(documents: Path) -> None:
    (documents / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    (documents / "scan.pdf").write_bytes(pdf(""))
    (documents / "table.ods").write_bytes(b"PK")
    rows, left_out = read_documents(documents)
    assert len(rows) == 5
    assert [reason.split(":")[0] for reason in left_out] == ["broken.pdf", "scan.pdf", "table.ods"]
    assert "no text" in left_out[1] and ".ods is not read" in left_out[2]


@pytest.mark.parametrize("name", ["hours_files", "hours-Dateien", "hours.files", "Hours_files"])
def test_parts_of_a_saved_page_are_left_out(documents: Path, name: str) -> None:
    (documents / name / "ads").mkdir(parents=True)
    (documents / name / "frame.html").write_text(HTML)
    (documents / name / "ads" / "note.txt").write_text("Buy now.")
    (documents / "rules" / "hours_files").mkdir()
    (documents / "rules" / "hours_files" / "more.txt").write_text("No page is beside this folder.")
    if name == "Hours_files":
        (documents / "hours.html").rename(documents / "Hours.HTM")
    rows, left_out = read_documents(documents)
    assert len(rows) == 6 and "rules/hours_files/more.txt" in [row.page_url for row in rows]
    assert [reason.split(":")[0] for reason in left_out] == [name] and "saved page" in left_out[0]


@pytest.mark.parametrize(
    ("head", "encoding", "phrase"),
    [
        ('<meta charset="windows-1251">', "cp1251", "Старая мельница"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">', "koi8-r", "Старая мельница"),
        ("<meta charset=Shift_JIS>", "cp932", "古い水車"),
        ('<meta charset="gb2312">', "gb18030", "老磨坊镕"),
        ('<meta charset="iso-8859-1">', "cp1252", "Müller’s mill"),
        ('<meta charset="iso-8859-1">', "utf-8", "Müller’s mill"),  # it lies
        ('<meta charset="no-such">', "cp1252", "Müller’s mill"),
        ('<meta charset="punycode">', "cp1252", "Müller’s mill"),
        ('<meta charset="utf-8">', "cp1252", "Müller’s mill"),
        ("", "utf-16", "Старая мельница"),
    ],
)
def test_pages_are_read_in_their_encoding(tmp_path: Path, head: str, encoding: str, phrase: str) -> None:
    page = f"<html><head>{head}<title>{phrase}</title></head><body><p>{phrase} 1874</p></body></html>"
    (tmp_path / "mill.html").write_bytes(page.encode(encoding))
    [row] = read_documents(tmp_path)[0]
    assert (row.page_name, row.page_snippet) == (phrase, f"{phrase} 1874")


def test_an_xhtml_page_is_read_in_the_encoding_of_its_first_line(tmp_path: Path) -> None:
    page = '<?xml version="1.0" encoding="ISO-8859-2"?><html><head><title>Młyn</title></head><body>Zażółć</body></html>'
    (tmp_path / "mill.xhtml").write_bytes(page.encode("iso-8859-2"))
    assert [row.page_snippet for row in read_documents(tmp_path)[0]] == ["Zażółć"]


def test_pages_that_are_named_like_chunks_are_found_apart(tmp_path: Path, documents: Path) -> None:
    for number, text in enumerate(("A lighthouse keeper lived there.", "The lighthouse keeper had a cat.")):
        (documents / f"book_chunk_{number}.txt").write_text(text)
    cache = tmp_path / "cache"
    assert main(["--documents", str(documents), "--split", "parts", "--cache", str(cache), "--no-progress"]) == 0
    page_urls = [hit["page_url"] for hit in open_split(cache, "parts")("lighthouse keeper", k=2)]
    assert sorted(page_urls) == ["book_chunk_0.txt", "book_chunk_1.txt"]


def test_a_page_of_a_pdf_that_cannot_be_read_costs_itself(documents: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = pdf_reader.find_flows

    def find_flows(page: Any) -> list[Flow]:
        flows = real(page)
        if "steam" in flows[0][0].text:
            raise KeyError("/Font")
        return [
            [replace(flow[0], text=f"{flow[0].text}\ud835") for flow in flows]
        ]  # fonts map letters to halves of pairs

    monkeypatch.setattr(document_process, "get_worker", WorkerHere)
    monkeypatch.setattr(pdf_reader, "find_flows", find_flows)
    (documents / "leaflet").write_bytes((documents / "guide.pdf").read_bytes())
    rows, left_out = read_documents(documents)
    assert [row.page_url for row in rows if "#page" in row.page_url] == ["guide.pdf#page=2", "leaflet#page=2"]
    assert left_out == [f"{name}: page 1: not read: KeyError: '/Font'" for name in ("guide.pdf", "leaflet")]
    assert all(row.page_snippet.encode() for row in rows)


OUT = "links of a collection that lead out of it"
LARGE = "documents without a bound: HTML, text, PDF pages"


@pytest.mark.hostile(OUT)
@pytest.mark.parametrize("target", ["/proc/self/environ", "/etc/passwd", "../secret.txt", "beside/../../secret.txt"])
def test_documents_outside_of_the_folder_are_not_read(documents: Path, target: str) -> None:
    (documents.parent / "secret.txt").write_text("the password is 1874")
    (documents / "beside").mkdir()
    (documents / "env.txt").symlink_to(target)
    (documents / "inside.txt").symlink_to("note.txt")
    rows, left_out = read_documents(documents)
    assert left_out == ["env.txt: this link is not followed; copy its target there"]
    names = {row.page_url.partition("#")[0] for row in rows}
    assert names == {"guide.pdf", "hours.html", "inside.txt", "note.txt", "rules/lending.md"}


@pytest.mark.hostile(OUT)
def test_captions_and_photos_outside_of_the_folder_are_not_read(tmp_path: Path, photos: Path) -> None:
    (tmp_path / "secret.txt").write_text("the password is 1874")
    (photos / "mill.txt").symlink_to(tmp_path / "secret.txt")
    (photos / "pond.txt").write_text("Duck Pond")
    (photos / "old" / "mill.txt").write_text("Old Mill")
    (photos / "linked.png").symlink_to(tmp_path / "outside.png")
    draw(1).save(tmp_path / "outside.png")
    (photos / "linked.txt").write_text("Secret")
    rows, left_out = read_captions(photos)
    assert [row.path.relative_to(photos).as_posix() for row in rows] == ["old/mill.png", "pond.png"]
    assert left_out[0] == f"{photos / 'mill.txt'} is a link that leads out of {photos}; copy the caption there"
    assert "1874" not in f"{rows}{left_out}"
    (photos / "mill.txt").unlink()
    (photos / "mill.txt").write_text("Old Mill")
    rows, left_out = read_captions(photos)
    assert [row.path.name for row in rows] == ["mill.png", "mill.png", "pond.png"]
    assert left_out[-1].startswith("linked.png: this link is not followed")


@pytest.mark.hostile(LARGE)
@pytest.mark.parametrize("name", ["large.html", "large.md", "large.txt", "large.pdf"])
def test_a_document_that_is_too_large_is_named_and_not_read(documents: Path, name: str) -> None:
    with (documents / name).open("wb") as file:
        file.truncate(10**12)
    rows, left_out = read_documents(documents)
    limit = 200 if name.endswith("pdf") else 10
    assert left_out == [f"{name}: it is larger than {limit} MB; make it smaller or divide it"]
    assert len(rows) == 5


@pytest.mark.hostile(LARGE)
def test_a_page_of_too_many_tags_is_named(documents: Path) -> None:
    (documents / "large.html").write_text("<dl>" + "<dt>x<dd>y" * 300_000)  # 10 MB of these took 3.1 GB and 176 s
    _, left_out = read_documents(documents)
    assert left_out == ["large.html: it has 600001 tags, of which at most 400000 are read; divide it"]


@pytest.mark.hostile(LARGE)
def test_a_caption_that_is_too_large_is_named(photos: Path) -> None:
    for name in ("mill", "old/mill", "pond"):
        (photos / f"{name}.txt").write_text("Old Mill")
    with (photos / "pond.txt").open("wb") as file:
        file.truncate(10**12)
    rows, [problem] = read_captions(photos)
    assert len(rows) == 2
    assert problem == f"{photos / 'pond.txt'} is no caption: it is larger than 1 MB; make it smaller or divide it"


def test_a_long_page_is_indexed_to_its_end(tmp_path: Path) -> None:
    text = "".join(f"<p>Part {n} tells of the mill and its {n} stones in a long sentence.</p>" for n in range(6_000))
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "long.html").write_text(f"<html><body>{text}<p>Its keeper is Zebedee.</p></body></html>")
    options = IndexOptions(documents=tmp_path / "pages", split="long")
    chunks = _chunks(options, map_locally, [])
    assert chunks is not None and "Zebedee" in chunks[-1].page_snippet


def test_a_page_in_two_sources_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "a.txt").write_text("The mill is old.")
    line = {"page_url": "a.txt", "page_name": "A", "page_snippet": "The mill is high."}
    (tmp_path / "more.jsonl").write_text(json.dumps(line))
    options = ["--documents", str(tmp_path / "pages"), "--pages", str(tmp_path / "more.jsonl"), "--split", "x"]
    place = ["--cache", str(tmp_path / "cache"), "--no-progress"]
    assert main([*options, *place]) == 1
    assert "a.txt" in (stderr := capsys.readouterr().err) and "--base-url" in stderr
    assert main([*options, *place, "--base-url", "own/"]) == 0


def test_a_folder_with_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nothing to index"):
        read_documents(tmp_path)
    with pytest.raises(SourceError, match="is not a folder"):
        read_documents(tmp_path / "gone")


def open_split(cache: Path, split: str, web: bool = True) -> Any:
    return open_pipeline(
        image_index=f"crag-mm-2025/image-search-index-{split}",
        web_index=f"crag-mm-2025/web-search-index-{split}" if web else None,
        cache=cache,
    )


def test_the_organisers_pipeline_finds_own_photos_and_pages(tmp_path: Path, photos: Path, documents: Path) -> None:
    own = table(tmp_path / "t.csv", HEADER, ["mill.png", "Old Mill", "", "12 m", ""], ["pond.png", "Pond", "", "", ""])
    arguments = ["--images", str(photos), "--table", str(own), "--documents", str(documents)]
    assert main([*arguments, "--split", "my_museum", "--cache", str(tmp_path / "cache"), "--no-progress"]) == 0
    pipeline = open_split(tmp_path / "cache", "my-museum")
    best = pipeline(draw(0), k=1)[0]
    assert best["entities"] == [{"entity_name": "Old Mill", "entity_attributes": {"Height": "12 m"}}]
    assert best["url"] == "my-museum/mill.png" and best["score"] == pytest.approx(1.0, abs=1e-5)
    assert pipeline("When was the steam engine built?", k=8)[0]["page_url"] == "guide.pdf#page=1"
    assert pipeline("When does the museum open?", k=8)[0]["page_url"] == "hours.html"
    cached_files = list((tmp_path / "cache" / "image_cache").iterdir())
    assert {path.read_bytes() for path in cached_files} == {
        (photos / name).read_bytes() for name in ("mill.png", "pond.png")
    }


@pytest.mark.parametrize("option", ["--documents", "--pages"])
def test_pages_alone_are_searched_too(
    tmp_path: Path, documents: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    cache = tmp_path / "cache"
    source = documents if option == "--documents" else tmp_path / "pages.jsonl"
    (tmp_path / "pages.jsonl").write_text(json.dumps(asdict(Page("rules/lending.md", "Lending", MARKDOWN))))
    assert main([option, str(source), "--split", "pages", "--cache", str(cache), "--no-progress"]) == 0
    assert "image-search-index" not in capsys.readouterr().out  # a grey picture stands in for photos
    pipeline = open_split(cache, "pages")
    assert [hit["entities"] for hit in pipeline(draw(1), k=5)] == [[]]
    assert pipeline("How long may a telescope be borrowed?", k=8)[0]["page_url"] == "rules/lending.md"


@pytest.mark.hostile("escapes of a terminal: answers, file names, URLs, errors, logs")
def test_names_of_files_do_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "\x1b[2J\x1b]0;owned\x07.xyz").write_text("x")
    assert main(["--documents", str(tmp_path / "pages"), "--split", "own", "--cache", str(tmp_path / "cache")]) == 1
    stderr = capsys.readouterr().err
    assert "[2J]0;owned.xyz: .xyz is not read" in stderr and "\x1b" not in stderr and "\x07" not in stderr


def test_own_knowledge_needs_a_name(documents: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--documents", str(documents)])
    assert "--split NAME" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["../outside.jpg", "below/../../outside.jpg", "linked.jpg", "linked/outside.jpg", "ABSOLUTE"]
)
def test_photos_outside_of_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    photos = tmp_path / "photos"
    (photos / "below").mkdir(parents=True)
    (tmp_path / "outside.jpg").touch()
    (photos / "inside.jpg").touch()
    (photos / "linked.jpg").symlink_to(tmp_path / "outside.jpg")
    (photos / "linked").symlink_to(tmp_path)
    name = str(photos / "inside.jpg") if name == "ABSOLUTE" else name
    (tmp_path / "table.csv").write_text(f"file,entity\ninside.jpg,Tower\n{name},Secret\n../outside.jpg,Other\n")
    rows, left_out = read_table(tmp_path / "table.csv", photos)
    assert [row.path.name for row in rows] == ["inside.jpg"]
    lines = [line for line in left_out if "table.csv:" in line]
    assert [line.split(": ")[0] for line in lines] == [f"{tmp_path / 'table.csv'}:{number}" for number in (3, 4)]
    assert all("is outside of" in line for line in lines)


def test_links_and_names_that_stay_below_the_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "real" / "a.jpg").touch()
    (tmp_path / "real" / "b.jpg").symlink_to("a.jpg")
    (tmp_path / "photos").symlink_to("real")  # the folder itself may be a link
    (tmp_path / "table.csv").write_text("file,entity\na.jpg,A\nb.jpg,B\nbelow/../a.jpg,A\n")
    rows, left_out = read_table(tmp_path / "table.csv", tmp_path / "photos")
    assert (len(rows), left_out) == (3, [])


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "loop.jpg", "x/" * 3000])
def test_names_that_no_photo_can_have(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop.jpg").symlink_to(tmp_path / "loop.jpg")
    (tmp_path / "table.csv").write_text(f"file,entity\n{name},Tower\n")
    with pytest.raises(SourceError) as raised:
        read_table(tmp_path / "table.csv", tmp_path)
    assert len(str(raised.value)) < 1000 and "\n" not in str(raised.value)


def test_front_matter_nested_deep_costs_its_fields_alone(tmp_path: Path) -> None:
    """libyaml ends the process there."""
    (tmp_path / "bad.md").write_text("---\na: " + "[" * 100_000 + "\n---\n# Bad\n")
    (tmp_path / "good.md").write_text("# Good\nIt is high.\n")
    chunks, left_out = read_documents(tmp_path)
    assert {chunk.page_name for chunk in chunks} == {"Bad", "Good"}
    assert len(left_out) == 1 and "not valid YAML" in left_out[0]


@pytest.mark.parametrize(
    ("first", "fault"),
    [
        ("The family ticket costs 29 euros.", ""),
        ("- one\n- two", ""),
        ("title: Museum: a guide", "front matter that is not valid YAML"),
    ],
)
def test_text_between_lines_is_indexed(tmp_path: Path, first: str, fault: str) -> None:
    (tmp_path / "a.md").write_text(f"---\n{first}\n---\nMore text here.\n")
    [chunk], left_out = read_documents(tmp_path)
    assert first in chunk.page_snippet and "More text here." in chunk.page_snippet and chunk.page_name == "a"
    assert bool(left_out) == bool(fault) and fault in "".join(left_out)


def test_names_of_files_that_are_no_unicode(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("It is high.")
    chunk = read_documents(tmp_path)[0][0]
    assert (chunk.page_url, chunk.page_name) == ("caf\ufffd.txt", "caf\ufffd")


SHIPS = [f"| Ship {number} | {number} m | Captain {number} |" for number in range(80)]
SHIPS_HEADER = "| Ship | Length | Captain |\n|---|:-:|---|"


@pytest.mark.parametrize("loose", [False, True])
def test_each_chunk_of_a_long_table_has_its_header(tmp_path: Path, loose: bool) -> None:
    table = "\n".join(["# Ships", "Ships of the harbour.", SHIPS_HEADER, *SHIPS, "", "They are old."])
    if loose:  # as Markdown has it too
        table = "\n".join(line.strip("| ") for line in table.splitlines())
    (tmp_path / "ships.md").write_text(table)
    cells = "".join(f"<tr><td>Ship {number}<td>{number} m<td>Captain {number}" for number in range(80))
    head = "<tr><th>Ship<th>Length<th>Captain"
    (tmp_path / "ships.html").write_text(
        f"<html><p>{'Ships of the harbour. ' * 20}</p><table>{head}{cells}</table></html>"
    )
    chunks, _ = read_documents(tmp_path)
    pieces = [piece for chunk in chunks for piece in make_cutter(ChunkOptions())(chunk.page_snippet)]
    for texts in ([chunk.page_snippet for chunk in chunks], pieces):
        rows = [text for text in texts if "Captain 7" in text or "Captain 4" in text]
        assert len(rows) > 4
        assert all(re.search(r"Ship \| Length \| Captain[^\n]*\n[|:-]+[^\n]*\n\|? ?Ship \d", text) for text in rows)
        assert all(
            sum(f"Captain {number} " in f"{text} ".replace("\n", " ") for text in texts) >= 2 for number in (7, 42, 79)
        )


@pytest.mark.parametrize(
    "text",
    [
        "\n".join([SHIPS_HEADER, *SHIPS[:5]]),  # short
        "\n".join(SHIPS),  # without a header
        "\n".join(["a | b", "", *SHIPS]),
        "\n".join([f"| {'wide ' * 60}|", "|---|", *SHIPS]),  # its header alone fills a chunk
        "one\n---\ntwo | three\n" * 60,
    ],
)
def test_other_tables_stay_as_they_are(text: str) -> None:
    assert repeat_headers(text) == text
