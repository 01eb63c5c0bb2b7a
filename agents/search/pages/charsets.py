"""The encoding of a page: as given by its server or the page itself, as browsers understand it; otherwise it is guessed."""

import codecs
import re
from collections.abc import Sequence
from typing import NamedTuple

from charset_normalizer import CharsetMatch, from_bytes

_SLOW_CODEC = "punycode"  # meant for names of hosts: its time grows with the square of a page's length, and more
_WIDER_CODECS = {  # of the WHATWG's encoding standard: pages name the smaller set, and contain letters of the larger one
    **dict.fromkeys(("ascii", "iso8859-1"), "cp1252"), **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    "shift_jis": "cp932", "euc_kr": "cp949", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
}  # fmt: skip
_DECLARED = re.compile(
    rb"<(?:meta|\?xml)\b[^>]{0,400}?\b(?:charset|encoding)\s*=\s*[\"']?\s*([\w-]{1,40})", re.IGNORECASE
)
_HEAD_BYTES = 4_096  # in which a page declares its encoding; the standard wants it in the first 1,024
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_WESTERN = ("cp1252", "mac_roman")
_OTHERS = (
    "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "koi8_r", "cp932", "gb18030", "big5", "cp949", "euc_jp",
    "cp874", "utf_16_le", "utf_16_be",
)  # fmt: skip
"""Encodings that are guessed: those of Windows, and of the pages and mails of these languages."""
_MAX_CHAOS = (
    0.1  # share of unlikely characters, as charset-normalizer counts it; its own limit of 0.2 makes Chinese of Swedish
)
_REFUTED = ("utf-8", "utf-16", "utf-32")  # it is no UTF-8, and the declaration itself can be read as ASCII


def find_encoding(charset: str) -> str:
    """Return the name of an encoding; "" for one in which no page is written."""
    try:
        b"x".decode(charset, "replace")  # what is no encoding of texts raises here
        return "" if codecs.lookup(charset).name == _SLOW_CODEC else charset
    except (LookupError, ValueError):
        return ""


class Decoded(NamedTuple):
    """A text, and the encoding that was guessed for it; "" if it is UTF-8 or declared."""

    text: str
    guessed: str = ""


def decode_page(data: bytes, encoding: str = "") -> str:
    """Return the text of ``decode_text``."""
    return decode_text(data, encoding).text


def decode_text(data: bytes, encoding: str = "") -> Decoded:
    """Decode a page or text: by its mark, by ``encoding``, as UTF-8, as it declares, or by a guess.

    Args:
        data: The bytes.
        encoding: The one named by the server. UTF-8 is also said of pages in other encodings: they are believed.
    """
    mark = next((name for mark, name in _MARKS.items() if data.startswith(mark)), None)
    if mark is not None:
        return Decoded(data.decode(mark, errors="replace"))
    if encoding and codecs.lookup(encoding).name != "utf-8":
        return Decoded(data.decode(_widen(encoding), errors="replace"))
    try:
        if b"\0" not in data:
            return Decoded(data.decode("utf-8"))
    except UnicodeDecodeError:
        pass
    declared = _DECLARED.search(data, 0, _HEAD_BYTES)
    name = _widen(find_encoding(declared[1].decode()) if declared else "")
    if name and not name.startswith(_REFUTED):
        return Decoded(data.decode(name, errors="replace"))
    if encoding:
        return Decoded(data.decode(encoding, errors="replace"))
    guessed = guess_encoding(data)
    return Decoded(data.decode(guessed, errors="replace"), guessed)


def guess_encoding(data: bytes) -> str:
    """Guess an encoding by how likely its text is; that of Windows in the West unless another one is better."""
    western, other = _best_match(data, _WESTERN), _best_match(data, _OTHERS)
    if western and (not other or (western.chaos, -western.coherence) <= (other.chaos, -other.coherence)):
        return western.encoding
    return other.encoding if other and other.chaos < _MAX_CHAOS else _WESTERN[0]


def _best_match(data: bytes, encodings: Sequence[str]) -> CharsetMatch | None:
    return from_bytes(data, cp_isolation=[*encodings]).best()


def _widen(encoding: str) -> str:
    """Return the encoding in which browsers read pages that name this one."""
    name = codecs.lookup(encoding).name if encoding else ""
    return _WIDER_CODECS.get(name, name)
