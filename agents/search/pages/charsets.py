"""The encoding of a page: as given by its server or the page itself, as browsers understand it."""

import codecs
import re

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
_REFUTED = ("utf-8", "utf-16", "utf-32")  # it is no UTF-8, and the declaration itself can be read as ASCII


def find_encoding(charset: str) -> str:
    """Return the name of an encoding; "" for one in which no page is written."""
    try:
        b"x".decode(charset, "replace")  # what is no encoding of texts raises here
        return "" if codecs.lookup(charset).name == _SLOW_CODEC else charset
    except (LookupError, ValueError):
        return ""


def decode_page(data: bytes, encoding: str = "") -> str:
    """Decode a page: by its mark, by ``encoding``, as UTF-8, or as it declares.

    Args:
        data: The page's bytes.
        encoding: The one named by the server. UTF-8 is also said of pages in other encodings: they are believed.

    Returns:
        The text. If nothing fits it is read as UTF-8 where the server says so, else as Windows has it in the West.
    """
    mark = next((name for mark, name in _MARKS.items() if data.startswith(mark)), None)
    if mark is not None:
        return data.decode(mark, errors="replace")
    if encoding and codecs.lookup(encoding).name != "utf-8":
        return data.decode(_widen(encoding), errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        declared = _DECLARED.search(data, 0, _HEAD_BYTES)
        name = _widen(find_encoding(declared[1].decode()) if declared else "")
        fits = name and not name.startswith(_REFUTED)
        return data.decode(name if fits else encoding or "cp1252", errors="replace")


def _widen(encoding: str) -> str:
    """Return the encoding in which browsers read pages that name this one."""
    name = codecs.lookup(encoding).name if encoding else ""
    return _WIDER_CODECS.get(name, name)
