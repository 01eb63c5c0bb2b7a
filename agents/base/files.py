"""File access of all packages: atomic writes, well-formed Unicode, bounded parsers, tables of CSV, error messages of one line."""

from __future__ import annotations

import csv
import errno
import json
import os
import tomllib
import unicodedata
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import quote

from pydantic import ValidationError

if TYPE_CHECKING:
    import frontmatter

MAX_DEPTH = 100  # levels of lists and objects within each other; none of our files has more than ten
_DELIMITERS = ",;\t"  # of CSV files
_MAX_NAME = 200  # characters of a path in a message
_PRIVATE = 0o600  # mode of a file that its owner alone reads

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_ADVICE = {
    **dict.fromkeys(_FULL, "make room there, or name another folder"),
    **dict.fromkeys(_READ_ONLY, "name a place that this user may use"),
    errno.ENOTDIR: "a file is where a folder is needed; name another place",
    errno.EEXIST: "a file is where a folder is needed; name another place",
    errno.ENAMETOOLONG: "give it a shorter name",
    errno.EISDIR: "a folder is where a file is needed; name a file",
}


def write_whole(path: Path, content: bytes | str, *, durable: bool = False) -> None:
    """Write a file atomically (temporary file, then rename), its folder made: readers see the old file or the new one, never a part.

    Text is written as UTF-8, ``well_formed``. ``durable``: the finished file survives a crash of the machine. An OSError says what
    was being written (``annotate_os_error``), and no unfinished file is left.
    """
    data = well_formed(content).encode() if isinstance(content, str) else content
    with annotate_os_error(f"writing {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        begun = path.with_name(f".new-{uuid.uuid4().hex}")
        try:
            with begun.open("xb") as file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            begun.replace(path)
        except BaseException as error:
            with suppress(OSError):
                begun.unlink()
            if isinstance(error, OSError):
                error.filename = str(path)  # not that of what was begun
            raise


class TooLargeError(ValueError):
    """A file is larger than the limit; the message says the limit and what to do."""


def read_bounded(path: Path, limit: int) -> bytes:
    """Read a file, of which no more than the limit is in memory: some files have no end, and no true size.

    Raises:
        TooLargeError: The file has more bytes than ``limit``.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise TooLargeError(f"it is larger than {limit // 2**20} MB; make it smaller or divide it")
    return data


def is_below(path: Path, folder: Path) -> bool:
    """Return whether a path is below a folder, also after all links are followed."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # too long a name, NUL in it, links in a circle
        return False


def open_private(path: Path) -> TextIO:
    """Open a file for appending; one that is new can be read by its owner alone: it has questions, and what photos say."""
    return open(path, "a", encoding="utf-8", newline="\n", opener=lambda name, flags: os.open(name, flags, _PRIVATE))


def append_lines(path: Path, lines: Iterable[str]) -> None:
    """Append lines to a file as UTF-8, ``well_formed``: all of them, or none if the disk is full. A new file is ``open_private``.

    Raises:
        OSError: They cannot be written. Nothing of them is left, which the next line would follow otherwise.
    """
    size = path.stat().st_size if path.exists() else 0
    try:
        with open_private(path) as file:
            file.writelines(well_formed(line) + "\n" for line in lines)
    except OSError:
        with suppress(OSError):
            os.truncate(path, size)
        raise


def well_formed(text: str) -> str:
    """Replace each half of a surrogate pair by U+FFFD: JSON can write them, UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", errors="surrogatepass").decode("utf-16", errors="replace")
    return text


def parse_json(data: bytes | str) -> Any:
    """Parse JSON into a value whose texts are ``well_formed``.

    Raises:
        ValueError: The data is no JSON, or is nested more than ``MAX_DEPTH`` deep. The message has one line.
    """
    try:
        return _sanitise(json.loads(data), MAX_DEPTH)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error


_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"


def _sanitise(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if not isinstance(value, dict | list):
        return value
    if levels == 0:
        raise ValueError(_TOO_DEEP)
    if isinstance(value, list):
        return [_sanitise(item, levels - 1) for item in value]
    return {well_formed(name): _sanitise(item, levels - 1) for name, item in value.items()}


def read_toml(path: Path) -> dict[str, Any]:
    """Read the tables of a TOML file, with or without a byte order mark.

    Raises:
        ValueError: The file is not valid TOML. The message has one line and names the file.
        OSError: The file cannot be read.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(format_not_utf8(path, error)) from error
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {one_line(error)}") from error
    except RecursionError as error:
        raise ValueError(f"{path} is not valid TOML: nested too deep") from error


def open_table(file: TextIO, required: Collection[str], name_column: Callable[[str], str]) -> csv.DictReader[str]:
    """Open a CSV file by the delimiter that yields all required columns, else by the most frequent one.

    Args:
        file: The file at its beginning.
        required: Columns that the file has to have.
        name_column: Returns the name of a column from its cell in the header.

    Raises:
        csv.Error: The header is no CSV.
    """
    header = file.readline()
    file.seek(0)
    by_count = sorted(_DELIMITERS, key=header.count, reverse=True)

    def is_whole(delimiter: str) -> bool:
        return {*required} <= {*map(name_column, next(csv.reader([header], delimiter=delimiter), []))}

    reader = csv.DictReader(file, delimiter=next(filter(is_whole, by_count), by_count[0]), restval="", strict=True)
    reader.fieldnames = [name_column(cell) for cell in reader.fieldnames or ()]
    return reader


def read_front_matter(path: Path) -> frontmatter.Post:
    """Read the front matter and the text of a file.

    Raises:
        ValueError: The file is no UTF-8 or its front matter no YAML; the message is one line with its name.
        OSError: The file cannot be read.
    """
    try:
        return parse_front_matter(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(format_not_utf8(path, error)) from error
    except ValueError as error:
        raise ValueError(f"{path} has a {error}") from error


def parse_front_matter(text: str) -> frontmatter.Post:
    """Split a text into its front matter, if any, and the rest.

    Raises:
        ValueError: The front matter is no valid YAML; the message is one line.
    """
    import frontmatter
    import yaml
    from frontmatter.default_handlers import YAMLHandler

    class Handler(YAMLHandler):
        def load(self, fm: str, **_: object) -> Any:
            """Parse YAML in Python: the library's libyaml ends the process if lists are nested 100,000 deep."""
            return yaml.load(fm, Loader=yaml.SafeLoader)

    try:
        return frontmatter.loads(text, handler=Handler() if text.lstrip().startswith("---") else None)
    except (
        yaml.YAMLError,
        ValueError,
        TypeError,
        RecursionError,
    ) as error:  # also impossible days, keys other than text
        raise ValueError(f"front matter that is not valid YAML: {one_line(error)}") from error


def format_not_utf8(path: Path, error: UnicodeDecodeError) -> str:
    """Format the error of a file in another encoding than UTF-8 as one line: what failed, why and what to do."""
    how = ' (in Excel: "Save as", "CSV UTF-8")' if path.suffix.lower() == ".csv" else ""
    return f"{path} is not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8{how}"


def first_fault(error: ValidationError) -> str:
    """Place and reason of the first fault, in one line: pydantic's own words take several, and a URL."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return one_line(": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"]))))


def one_line(value: object) -> str:
    """Format a value as one ``well_formed`` line of text."""
    return " ".join(well_formed(str(value)).split())


def shorten_name(name: object) -> str:
    """Shorten a name or path for a message: a very long one loses its middle."""
    text = one_line(name)
    return text if len(text) <= _MAX_NAME else f"{text[: _MAX_NAME // 2]}…{text[-_MAX_NAME // 4 :]}"


def quote_path(path: str, place: str = "") -> str:
    """Quote a path for a URL, with the place in the file, such as ``#page=3``."""
    return f"{quote(path, errors='surrogateescape')}{quote(place, safe='#=')}"


def spell_as_file(folder: Path, name: str) -> str:
    """Spell the path of a file as its folders have it: macOS writes accents apart from their letters, tables have both in one character.

    Each part of the path has its own spelling: folders and files may come from different machines.

    Returns:
        The name as it is given if there is no such file in any spelling.
    """
    with suppress(OSError, ValueError):
        if name.isascii() or (folder / name).is_file():
            return name
        place = folder
        for part in Path(name).parts:
            place /= _spell_as_entry(place, part)
        if place.is_file():
            return place.relative_to(folder).as_posix()
    return name


def _spell_as_entry(folder: Path, name: str) -> str:
    """Return the name of a folder's entry with the same letters; the name as it is given if there is none."""
    if name.isascii() or (folder / name).exists():
        return name
    letters = unicodedata.normalize("NFC", name)
    names = (entry.name for entry in folder.iterdir())
    return next((entry for entry in names if unicodedata.normalize("NFC", entry) == letters), name)


@contextmanager
def annotate_os_error(action: str) -> Iterator[None]:
    """Annotate a passing OSError with the attempted action; ``format_os_error`` puts it into the message."""
    try:
        yield
    except OSError as error:
        error.add_note(action)
        raise


def is_file_error(error: OSError) -> bool:
    """Return whether an error comes from files or disks, which a user can fix, and not from a network or a bug."""
    return error.filename is not None or bool(_notes(error)) or error.errno in _FULL | _READ_ONLY | {errno.EIO}


def format_os_error(error: OSError) -> str:
    """Format an error as one line: the attempted action, why it failed and what to do."""
    place = "" if error.filename is None else shorten_name(error.filename)
    action, *more = _notes(error) or [place]
    reason = error.strerror or one_line(error) or type(error).__name__
    if place and place not in (action := shorten_name(action)):
        reason += f" ({place})"
    message = ": ".join(filter(None, (action, reason)))
    return one_line("; ".join(filter(None, (message, _ADVICE.get(error.errno or 0), *more))))


def _notes(error: OSError) -> list[str]:
    return list(getattr(error, "__notes__", ()))
