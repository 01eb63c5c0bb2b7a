"""Text for terminals and logs, without the characters by which strangers could steer a terminal."""

import logging
import sys
from typing import TextIO

_LOG_FORM = "%(levelname)s %(name)s: %(message)s"

_TURNS = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_CONTROLS = dict.fromkeys({*range(0x20), *range(0x7F, 0xA0), *_TURNS} - {ord("\t"), ord("\n")})
"""C0 without tab and line end, DEL, C1, of which some terminals take U+009B for the escape of a sequence, and the marks that turn the
rest of a line round, digits too (U+202A to U+202E, U+2066 to U+2069)."""


def without_escapes(text: str) -> str:
    """Remove control characters: a terminal's commands, such as "clear the screen", become plain text."""
    return text if text.isascii() and text.isprintable() else text.translate(_CONTROLS)


def print_text(*values: object, end: str = "\n", file: TextIO | None = None) -> None:
    """Print values as ``print`` does, ``without_escapes``."""
    print(without_escapes(" ".join(map(str, values))), end=end, file=file)


def print_error(*values: object) -> None:
    """Print values on standard error, ``without_escapes``."""
    print_text(*values, file=sys.stderr)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Format a record ``without_escapes``: messages quote pages, file names and servers."""
        return without_escapes(super().format(record))


def log_to_stderr(level: int = logging.WARNING) -> logging.Handler:
    """Log on standard error from now on, unless logging is set up already.

    Returns:
        The handler, which a filter may be added to.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter(_LOG_FORM))
    logging.basicConfig(level=level, handlers=[handler])
    return handler
