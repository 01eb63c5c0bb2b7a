"""Small files of Word and Excel."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openpyxl import Workbook

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
_MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_ROOTS = {"header": "hdr", "footer": "ftr"}  # of parts by their kind; the root of the others is named as they are


def write_word(path: Path, body: str, parts: Mapping[str, str] | None = None) -> None:
    """Write a document of Word with the elements of its body, and of other parts by name ("styles", "header1")."""
    parts = parts or {}
    kinds = {name: name.rstrip("0123456789") for name in parts}
    types = "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{_MAIN}.{kind}+xml"/>'
        for name, kind in [("document", "document.main"), *kinds.items()]
    )
    links = "".join(
        f'<Relationship Id="r{name}" Type="{_RELATIONS}/{kind}" Target="{name}.xml"/>' for name, kind in kinds.items()
    )
    references = "".join(
        f'<w:{kind}Reference w:type="default" r:id="r{name}"/>' for name, kind in kinds.items() if kind in _ROOTS
    )
    section = f"<w:sectPr>{references}</w:sectPr>"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "[Content_Types].xml",
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" '
            f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>{types}</Types>',
        )
        archive.writestr(
            "_rels/.rels",
            _link(f'<Relationship Id="r1" Type="{_RELATIONS}/officeDocument" Target="word/document.xml"/>'),
        )
        archive.writestr("word/_rels/document.xml.rels", _link(links))
        archive.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="{_WORD}" xmlns:r="{_RELATIONS}"><w:body>{body}{section}</w:body></w:document>',
        )
        for name, content in parts.items():
            root = _ROOTS.get(kinds[name], kinds[name])
            archive.writestr(f"word/{name}.xml", f'<w:{root} xmlns:w="{_WORD}">{content}</w:{root}>')


def _link(links: str) -> str:
    return f'<Relationships xmlns="{_PACKAGE}">{links}</Relationships>'


def paragraph(text: str, style: str = "", raised: str = "") -> str:
    """Return a paragraph, with figures that are raised behind its text."""
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    power = f'<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>{raised}</w:t></w:r>' if raised else ""
    return f'<w:p>{properties}<w:r><w:t xml:space="preserve">{text}</w:t></w:r>{power}</w:p>'


def word_table(*rows: list[str]) -> str:
    """Return a table."""
    cells = ("".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in row) for row in rows)
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


def write_sheets(path: Path, **sheets: list[list[Any]]) -> Workbook:
    """Write a workbook with the rows of each sheet."""
    workbook = Workbook()
    workbook.remove(workbook.active)
    for name, rows in sheets.items():
        sheet = workbook.create_sheet(name)
        for row in rows:
            sheet.append(row)
    workbook.save(path)
    return workbook
