"""Small files of Word and Excel."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from openpyxl import Workbook

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)


def write_word(path: Path, body: str) -> None:
    """Write a document of Word with the elements of its body."""
    relation = f'<Relationship Id="r1" Type="{_RELATIONS}" Target="word/document.xml"/>'
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", _TYPES)
        archive.writestr("_rels/.rels", f'<Relationships xmlns="{package}">{relation}</Relationships>')
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>')


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
