"""Reads a user's own knowledge: a folder of photos with a table, a folder of pages (docs/own_knowledge.md)."""

import csv
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from agents.base.files import (
    TooLargeError,
    format_not_utf8,
    format_os_error,
    is_below,
    open_table,
    read_bounded,
    shorten_name,
    spell_as_file,
    well_formed,
    write_whole,
)
from agents.base.worker_processes import Each, map_locally
from agents.models.picture_files import MAX_FILE_BYTES
from agents.search.collection import list_files
from agents.search.document_process import (
    read_pdf_apart,
    read_raw_apart,
    read_rows_apart,
    read_word_apart,
    read_workbook_apart,
)
from agents.search.documents.errors import UnreadableError
from agents.search.hits import Entity
from agents.search.index_sources import ChunkRow, ImageRow, Page, SourceError, chunk_pages, report
from agents.search.kept_readings import Document, KeptReadings
from agents.search.losses import find_loss
from agents.search.page_dates import find_date
from agents.search.pages.charsets import decode_page
from agents.search.pages.web_cache import cache_name
from agents.search.reading import NOT_READ, Reading, Remark, sum_readings
from agents.search.searchers import reason
from agents.search.text_files import (
    read_html_file,
    read_markdown_file,
    read_raw_html,
    read_raw_markdown,
    read_text_file,
)
from agents.texts.markdown_tables import repeat_headers

_log = logging.getLogger(__name__)

OnReading = Callable[[str, Reading], None]

FILE, ENTITY, URL = "file", "entity", "url"  # columns of a table other than attributes
PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".heic", ".heif")
"""Suffixes of photos."""
WORKBOOK = ".xlsx"
_REQUIRED = (ENTITY, FILE)

_CAPTION = ".txt"
MAX_DOCUMENT_BYTES = 10 * 2**20
"""Larger documents are left out. A megabyte of text takes 30 MB of memory; a thousand tags take 1.5 MB, and 0.1 s at most."""
_MAX_CAPTION_BYTES = 2**20
_PARTS = re.compile(  # a folder that browsers write beside a saved page, in the user's language
    r"(.+)[_.-](?:files|dateien|fichiers|archivos|arquivos|bestanden|filer|file|pliki)", re.IGNORECASE
)
_NOT_FOLLOWED = "{}: this link is not followed; copy its target there"


def read_table(table: Path, folder: Path, base_url: str = "", prefix: str = "") -> tuple[list[ImageRow], list[str]]:
    """Read a CSV file (comma, semicolon or tab, UTF-8) or the first sheet of a workbook: a row an image, in order of first appearance.

    ``file`` is a photo's path relative to ``folder``, ``entity`` the thing in it, ``url`` its address (``base_url`` and the path
    if that is missing or empty; else ``#``, ``prefix`` and the path are put behind it, since pictures are kept by their URL); every other
    column is an attribute. A file that comes again shows another entity as well. Rows of the same entity are merged, and the first value
    of an attribute stands.

    Returns:
        The rows, and why rows and files below the folder were left out.

    Raises:
        SourceError: The table cannot be read, lacks ``file`` or ``entity``, has malformed rows, or none with a photo.
    """
    problems: list[str] = []
    keys_by_file: dict[str, dict[str, None]] = {}
    urls: dict[str, str] = {}
    entities: dict[str, Entity] = {}
    for where, cells in _cells(table):
        file, entity, url = cells.pop(FILE), cells.pop(ENTITY), cells.pop(URL, "")
        name = spell_as_file(folder, Path(file).as_posix()) if file else ""  # "./mill.jpg" is "mill.jpg"
        if problem := _unusable(folder, name):
            problems.append(f"{where}: {problem}")
            continue
        urls[name] = urls.get(name) or url
        keys = keys_by_file.setdefault(name, {})
        if entity:
            keys[_describe(entities, entity, {key: value for key, value in cells.items() if value})] = None
    if not keys_by_file:
        report(problems)
    rows = [
        ImageRow(folder / name, _address(urls[name], name, base_url, prefix), tuple(entities[key] for key in keys))
        for name, keys in keys_by_file.items()
    ]
    return rows, [*problems, *_find_unlisted(table, folder, [*keys_by_file])]


def _find_unlisted(table: Path, folder: Path, names: Sequence[str]) -> list[str]:
    """Return a reason for each file and link below a folder of photos that no row of a table names; captions have none."""
    listed = {table.resolve(), *((folder / name).resolve() for name in names)}
    passed = {parent for name in names for parent in Path(name).parents}  # folders that rows go through
    files, links = list_files(folder)
    unlisted = [path for path in files if path.suffix.lower() != _CAPTION and (folder / path).resolve() not in listed]
    return [
        *(f"{path}: it has no row in {table.name}" for path in unlisted),
        *(_NOT_FOLLOWED.format(link) for link in links if link not in passed),
    ]


def _describe(entities: dict[str, Entity], name: str, attributes: Mapping[str, str]) -> str:
    """Add attributes to the entity of a name, in whatever case that is spelled; its first spelling and first values are kept.

    Returns:
        The entity's key.
    """
    key = name.casefold()
    entity = entities.get(key, Entity(name))
    entities[key] = Entity(entity.name, {**entity.attributes, **attributes, **entity.attributes})
    return key


def _address(url: str, path: str, base_url: str, prefix: str) -> str:
    """Return the URL of a photo, by which its picture is kept: no two photos have the same."""
    return f"{url}#{prefix}{path}" if url else base_url + path


def read_captions(folder: Path, base_url: str = "") -> tuple[list[ImageRow], list[str]]:
    """Read the photos below a folder, each with a caption beside it: ``mill.txt`` for ``mill.jpg``.

    The first line of a caption names the thing in the photo. A further line ``height: 12 m`` is an attribute; further lines without ": "
    are the attribute ``description``. Photos with the same name show the same thing, and the first value of an attribute is kept.

    Returns:
        The rows, and why files below the folder were left out.

    Raises:
        SourceError: There are no photos, or none has a caption that can be read; the message names each of them.
    """
    files, links = list_files(folder)
    photos = [path for path in files if path.suffix.lower() in PICTURES]
    captions = {
        path: path.with_name(spell_as_file(folder / path.parent, path.with_suffix(_CAPTION).name)) for path in photos
    }
    spare = sorted({*files} - captions.keys() - {*captions.values()})
    left_out = [
        *(f"{path}: {_explain_spare(path)}" for path in spare),
        *(_NOT_FOLLOWED.format(link) for link in links),
    ]
    if not captions:
        raise SourceError("\n".join([f"there are no photos in {folder} ({', '.join(PICTURES)})", *left_out]))
    problems: list[str] = []
    keys: dict[Path, str] = {}
    entities: dict[str, Entity] = {}
    for photo, caption in captions.items():
        try:
            if not is_below(folder / caption, folder):
                problems.append(f"{folder / caption} is a link that leads out of {folder}; copy the caption there")
                continue
            text = decode_page(read_bounded(folder / caption, _MAX_CAPTION_BYTES))
            name, *lines = [line.strip() for line in text.splitlines() if line.strip()]
        except OSError:
            problems.append(
                f"{folder / photo} has no caption; name the thing in the photo in {caption.name}, or list it in a table"
            )
            continue
        except TooLargeError as error:
            problems.append(f"{folder / caption} is no caption: {error}")
            continue
        except ValueError:
            problems.append(f"{folder / caption} is empty; its first line has to name the thing in the photo")
            continue
        keys[photo] = _describe(entities, name, _attributes(lines))
    if not keys:
        report(problems)
    rows = [  # names of files may be no Unicode
        ImageRow(folder / photo, well_formed(base_url + photo.as_posix()), (entities[key],))
        for photo, key in keys.items()
    ]
    return rows, [*problems, *left_out]


def _explain_spare(path: Path) -> str:
    """Return why a file in a folder of photos with captions is neither."""
    if path.suffix.lower() == _CAPTION:
        return "there is no photo beside this caption"
    return f"{path.suffix or 'a file without ending'} is not read as a photo; known: {', '.join(PICTURES)}"


def _attributes(lines: Sequence[str]) -> dict[str, str]:
    """Return the attributes in the lines of a caption after its first."""
    pairs = [[part.strip() for part in line.split(": ", 1)] for line in lines]  # addresses have colons without a blank
    named = {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and all(pair)}
    text = " ".join(pair[0] for pair in pairs if len(pair) == 1)
    return {**named, **({"description": text} if text else {})}


def _unusable(folder: Path, name: str) -> str:
    """Return why a photo of a table cannot be used; "" if it is a file below the folder, also after following links."""
    if not name:
        return "'file' is empty"
    try:
        below = not Path(name).is_absolute() and is_below(folder / name, folder)
        there = (folder / name).is_file()
    except (OSError, ValueError, RuntimeError) as error:  # too long, NUL in it, links in a circle
        return f"{shorten_name(name)} is no name of a photo ({shorten_name(error)})"
    if not below:
        return (
            f"{shorten_name(name)} is outside of {folder}; a photo has to be below that folder and named relative to it"
        )
    return "" if there else f"there is no photo {shorten_name(folder / name)}"


def _cells(table: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the cells of each row by column, and the place of the row."""
    try:
        if table.suffix.lower() == WORKBOOK:
            yield from _cells_of_workbook(table)
            return
        with table.open(encoding="utf-8-sig", newline="") as file:
            reader = open_table(file, _REQUIRED, _name_column)
            delimiter = reader.reader.dialect.delimiter
            _check_columns(table, reader.fieldnames or ())
            for row in reader:
                where = f"{table}:{reader.line_num}"
                if None in row or row.get("", "").strip():
                    raise SourceError(f"{where}: more cells than columns; a cell with {delimiter!r} takes quotes")
                cells = {name: value.strip() for name, value in row.items() if name}
                if any(cells.values()):  # spreadsheets write rows of empty cells
                    yield where, cells
    except OSError as error:
        raise SourceError(f"cannot read {format_os_error(error)}") from error
    except UnicodeDecodeError as error:
        raise SourceError(format_not_utf8(table, error)) from error
    except csv.Error as error:
        raise SourceError(f"cannot read {table}: {error} (a table is CSV in UTF-8)") from error


def _cells_of_workbook(table: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the cells of a workbook's first sheet."""
    try:
        rows = read_rows_apart(table)
    except UnreadableError as error:
        raise SourceError(f"cannot read {table}: {error}") from error
    numbered = [(number, row) for number, row in enumerate(rows, 1) if any(row)]
    (_, header), *filled = numbered or [(1, [])]
    names = [_name_column(cell) for cell in header]
    _check_columns(table, names)
    for number, row in filled:
        where = f"{table}: row {number}"
        if any(text for name, text in zip(names, row, strict=True) if not name):
            raise SourceError(f"{where}: a cell is in a column without a name")
        yield where, {name: text for name, text in zip(names, row, strict=True) if name}


def _check_columns(table: Path, names: Sequence[str]) -> None:
    if missing := [name for name in _REQUIRED if name not in names]:
        raise SourceError(f"{table}: the first line has to name the columns; missing: {', '.join(missing)}")
    if repeated := [name for name, count in Counter(names).items() if name and count > 1]:
        raise SourceError(f"{table}: the first line names {', '.join(map(repr, repeated))} more than once")


def _name_column(name: str) -> str:
    plain = name.strip()
    return plain.lower() if plain.lower() in (FILE, ENTITY, URL) else plain


def keep_pictures(rows: Sequence[ImageRow], folder: Path) -> None:
    """Copy photos into the picture cache, for presets that look at the hits of image search."""
    for row in rows:
        target = folder / cache_name(row.url)
        try:
            data = read_bounded(row.path, MAX_FILE_BYTES)
        except TooLargeError as error:
            raise SourceError(f"{row.path} cannot be used: {error}") from error
        if not target.is_file() or target.read_bytes() != data:
            write_whole(target, data)


def read_documents(
    folder: Path,
    base_url: str = "",
    *,
    each: Each = map_locally,
    on_reading: OnReading | None = None,
    on_pages: Callable[[Sequence[Page]], None] | None = None,
    kept: KeptReadings | None = None,
) -> tuple[list[ChunkRow], list[str]]:
    """Read all documents below a folder, sorted by path, and cut them into chunks.

    HTML, Word, Markdown, plain text, Excel and PDF are read; a page of a PDF is a page of its own (``#page=N``), and so is a sheet of
    a workbook (``#NAME``). The URL is ``base_url`` and the path.

    Args:
        folder: The folder.
        base_url: What the URLs begin with.
        each: Reads the files (``agents.base.worker_processes``).
        on_reading: Called with the path of each file and the record of its reading.
        on_pages: Called with the whole pages.
        kept: Earlier readings, which spare those of unchanged files; None: all files are read.

    Returns:
        The chunks, and why files were left out.

    Raises:
        SourceError: There is no such folder, or nothing in it can be read.
    """
    if not folder.is_dir():
        raise SourceError(f"{folder} is not a folder")
    paths, links = list_files(folder)
    pages: list[Page] = []
    left_out = [_NOT_FOLLOWED.format(link) for link in links]
    parts = _find_parts(paths)
    left_out += [f"{part}: its files are parts of the saved page {page.name}" for part, page in parts.items()]
    paths = [path for path in paths if not parts.keys() & {*path.parents}]
    read = partial(_read_document, folder, base_url)
    documents = (
        each(read, paths) if kept is None else kept.complete(folder, base_url, paths, lambda some: each(read, some))
    )
    for path, (text_pages, problem, reading) in zip(paths, documents, strict=True):
        pages += text_pages
        if on_reading is not None and reading is not None:
            on_reading(path.as_posix(), reading)
        if problem:
            left_out.append(f"{path}: {problem}")
    if not pages:
        raise SourceError("\n".join([f"there is nothing to index in {folder}", *left_out]))
    if on_pages is not None:
        on_pages(pages)
    return chunk_pages(pages), left_out


def _add_date(title: str, date: str) -> str:
    """Put the date of a page beside its title: of two lists of prices one is out of date."""
    return f"{title} ({date})" if date and date not in title else title


def _find_parts(paths: Sequence[Path]) -> dict[Path, Path]:
    """Return the folders of pictures, scripts and frames that browsers wrote beside saved pages, each with its page."""
    pages = {path.with_suffix(""): path for path in paths if path.suffix.lower() in _HTML}
    folders = {parent for path in paths for parent in path.parents if parent.name}
    return {
        folder: page
        for folder in sorted(folders)
        if (match := _PARTS.fullmatch(folder.name)) and (page := pages.get(folder.with_name(match[1]))) is not None
    }


def _read_document(folder: Path, base_url: str, path: Path) -> Document:
    """Read the pages with text of a file below a folder.

    Returns:
        The pages, why all or some are missing or what was guessed ("" if nothing), and the record of the reading if there is one.
    """
    reading = None
    ending = path.suffix.lower()
    url = well_formed(base_url + path.as_posix())  # names of files may be no Unicode
    parts: Mapping[str, Reading] = {}  # pages of a PDF, sheets of a workbook
    raw: str | None
    try:
        if _is_pdf(folder / path):
            parts, raw = read_pdf_apart(folder / path), _read_raw("pdf", folder / path)
        elif ending in _TEXT_READERS:
            data = read_bounded(folder / path, MAX_DOCUMENT_BYTES)
            reading, raw = _TEXT_READERS[ending](data), _RAW_TEXTS[ending](data) if ending in _RAW_TEXTS else ""
        elif ending == _WORD:
            reading, raw = read_word_apart(folder / path), _read_raw("word", folder / path)
        elif ending == WORKBOOK:
            parts, raw = read_workbook_apart(folder / path), _read_raw("workbook", folder / path)
        else:
            choices = ", ".join((*_TEXT_READERS, WORKBOOK, _WORD, _PDF))
            return [], f"{path.suffix or 'a file without ending'} is not read; known: {choices}", None
        pages = [Page(f"{url}#{name}", each.title, each.text) for name, each in parts.items() if name]
        if reading is None:
            reading, problem = sum_readings([*parts.values()]), _name_losses([*parts.values()])
        else:
            pages = [Page(url, reading.title or path.stem, reading.text)]
            problem = _name_losses([reading]) if ending == _WORD else _name_guesses(reading)
        if raw is None:
            reading = replace(reading, guessed=(*reading.guessed, _UNCHECKED))
        if raw and not any(remark.what == NOT_READ for remark in reading.left_out):
            texts = (text for page in pages for text in (page.page_name, page.page_snippet))
            if loss := find_loss(raw, reading, texts):
                reading = replace(reading, left_out=(*reading.left_out, loss))
                problem = "; ".join(filter(None, (str(loss), problem)))
        date = find_date(folder / path)
        text_pages = [
            replace(
                page,
                page_name=well_formed(_add_date(page.page_name, date)),
                page_snippet=well_formed(repeat_headers(page.page_snippet)),
            )
            for page in pages
            if page.page_snippet.strip()
        ]
    except SourceError:
        raise
    except (TooLargeError, UnreadableError) as error:
        return [], str(error), None
    except Exception as error:  # noqa: BLE001 - parsers of strangers' files raise anything; the other files are read
        return [], reason(error), None
    nothing = "it has no text"
    if not text_pages and reading.left_out:
        nothing += f" but {'; '.join(map(str, reading.left_out))}"
    return text_pages, nothing if not (problem or text_pages) else problem, reading


def _read_raw(reader: str, path: Path) -> str | None:
    """Return the raw text of a file that was read; None if that takes too much time or memory."""
    try:
        return read_raw_apart(reader, path)
    except UnreadableError as error:
        _log.info("%s: it was not checked for losses: %s", path, error)
        return None


def _name_guesses(reading: Reading) -> str:
    """Return the guesses that a user can spare: an encoding, front matter."""
    return "; ".join(f"{remark.what}: {remark.why}" for remark in reading.guessed if remark.what in _SPARED)


def _name_losses(readings: Sequence[Reading]) -> str:
    """Return the remarks of a document, those of the same kind on several pages as one."""
    places: dict[tuple[str, str], list[Remark]] = {}
    for remark in (remark for reading in readings for remark in reading.left_out):
        places.setdefault((remark.what, remark.why), []).append(remark)
    joined = []
    for (what, why), remarks in places.items():
        named = [remark.where for remark in remarks if remark.where]
        where = ", ".join(named[:_MAX_NAMED]) + (" ..." if len(named) > _MAX_NAMED else "")
        joined.append(Remark(what, why, where, sum(remark.words for remark in remarks)))
    return "; ".join(map(str, joined))


def _is_pdf(path: Path) -> bool:
    """Return whether a file is a PDF by its ending or, whatever that says, by its first bytes."""
    if path.suffix.lower() == _PDF:
        return True
    with path.open("rb") as file:
        return file.read(len(_PDF_MARK)) == _PDF_MARK


_HTML = (".html", ".htm", ".xhtml")
_TEXT_READERS: Mapping[str, Callable[[bytes], Reading]] = {
    **dict.fromkeys(_HTML, read_html_file),
    **dict.fromkeys((".md", ".markdown"), read_markdown_file),
    ".txt": read_text_file,
}
_RAW_TEXTS: Mapping[str, Callable[[bytes], str]] = {
    **dict.fromkeys(_HTML, read_raw_html),
    **dict.fromkeys((".md", ".markdown"), read_raw_markdown),
}
_WORD = ".docx"
_SPARED = ("encoding", "fields")
_UNCHECKED = Remark("losses", "not checked, because that took too much time or memory")
_PDF, _PDF_MARK = ".pdf", b"%PDF-"
_MAX_NAMED = 3  # pages and sheets in a message
