"""Reads documents of Word: all that a page shows, in order, as Markdown.

The document becomes a page of HTML, of which the writer of pages makes Markdown: powers, formulas, merged cells and lists are its.
"""

from __future__ import annotations

import posixpath
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lxml import etree

from agents.search.documents.errors import UnreadableError
from agents.search.documents.office_package import open_package, parse_part
from agents.search.documents.word_formulas import write_mathml
from agents.search.documents.word_numbers import Numbering, to_roman
from agents.search.documents.word_styles import Styles
from agents.search.reading import Reading, Remark, count_words
from agents.texts.markdown_writer import write_markdown
from agents.texts.markup_rewrites import write_powers
from agents.texts.phrasing import unwrap_phrasing
from agents.texts.table_rewrites import write_tables
from agents.texts.text import without_controls

_TICKED, _EMPTY = "\u2611\u2612\u2714\u2611\ufe0f", "\u2610"
_SYMBOLS = {  # of the fonts Wingdings and Wingdings 2, by the last two digits of their code
    **dict.fromkeys(("fe", "fd", "fc", "52", "53", "54"), "\u2611"),
    **dict.fromkeys(("a8", "6f", "a3", "30", "2a"), "\u2610"),
    **dict.fromkeys(("b7", "a7", "6c", "6e"), "\u2022"),
    "e0": "\u2192",
}
_CHARACTERS = {"tab": " ", "ptab": " ", "noBreakHyphen": "-", "softHyphen": ""}
_UNWRAPPED = frozenset("hyperlink ins moveTo smartTag customXml bdo dir fldSimple sdtContent".split())
_RAISED = {"superscript": "sup", "subscript": "sub"}
_REASONS = {
    "text deleted in tracked changes": "Word shows it as deleted",
    "hidden text": "Word shows it on demand only",
    "charts": "charts are not read",
    "embedded documents": "files in the document are not read",
    "comments": "they are no part of the text",
}
_MAX_DEPTH = 60  # of tables and boxes in each other


def read_word(path: Path) -> Reading:
    """Read a document of Word.

    Raises:
        TooLargeError: The file is too large.
        UnreadableError: It is no document.
    """
    with open_package(path) as archive:
        document = _Document(archive)
        root = document.translate()
    write_powers(root)
    unwrap_phrasing(root, descriptions=True)
    write_tables(root)
    heading = root.find(".//h1")
    title = "" if heading is None else " ".join("".join(heading.itertext()).split())
    text = without_controls(write_markdown(root).text)
    remarks = [Remark(what, _REASONS[what], words=words) for what, words in document.left_out.items()]
    return Reading(text, title, tuple(remarks), pictures=document.pictures)


@dataclass
class _Line:
    """A paragraph that is being translated, and the boxes that hang on it."""

    element: etree._Element
    boxes: list[etree._Element] = field(default_factory=list)

    def write(self, text: str) -> None:
        """Append a text."""
        if len(self.element):
            self.element[-1].tail = (self.element[-1].tail or "") + text
        else:
            self.element.text = (self.element.text or "") + text

    @property
    def is_empty(self) -> bool:
        return len(self.element) == 0 and not (self.element.text or "").strip()


class _Document:
    """Translates the parts of a document to HTML."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.left_out: Counter[str] = Counter()
        self.pictures = 0
        self._archive = archive
        self._names = {*archive.namelist()}
        main = self._find_main()
        self._links = self._read_links(main)
        by_kind = dict(self._links.values())
        self._body = self._parse(main)
        self._styles = Styles(self._parse_if(by_kind.get("styles")))
        self._numbers = Numbering(
            self._parse_if(by_kind.get("numbering")), lambda style: self._styles.find_list(None, style)[0]
        )
        self._parts = {
            kind: self._parse_if(by_kind.get(kind)) for kind in ("footnotes", "endnotes", "comments", "settings")
        }
        self._notes: list[tuple[str, etree._Element]] = []
        self._note_counts: Counter[str] = Counter()
        self._fields: list[bool] = []  # the open ones: whether their result has begun
        self._unfinished: _Line | None = None
        self._depth = 0

    def translate(self) -> etree._Element:
        """Return the document as a page."""
        root = etree.Element("html")
        page = etree.SubElement(root, "body")
        body = self._body if self._body.tag == "body" else self._body.find("body")
        if body is None:
            raise UnreadableError("it is no document of Word: it has no body")
        frames = [*self._translate_frames("headerReference"), None, *self._translate_frames("footerReference")]
        for frame in frames:
            if frame is not None:
                page.append(frame)
                continue
            self._write_blocks(body, page)
            self._write_notes(page)
        if (comments := self._parts["comments"]) is not None and (words := _count_text(comments)):
            self.left_out["comments"] += words
        return root

    def _find_main(self) -> str:
        for kind, target in self._read_links("").values():
            if kind == "officeDocument" and target in self._names:
                return target
        raise UnreadableError("it is no document of Word")

    def _read_links(self, part: str) -> dict[str, tuple[str, str]]:
        """Return the kind and name of each part that a part refers to, by id."""
        folder, name = posixpath.split(part)
        links = self._parse_if(posixpath.join(folder, "_rels", f"{name}.rels"))
        return {
            each.get("Id", ""): (
                each.get("Type", "").rpartition("/")[2],
                posixpath.normpath(posixpath.join("/", folder, each.get("Target", ""))).lstrip("/"),
            )
            for each in ([] if links is None else links)
            if each.get("TargetMode") != "External"
        }

    def _parse_if(self, name: str | None) -> etree._Element | None:
        return self._parse(name) if name in self._names else None

    def _parse(self, name: str | None) -> etree._Element:
        """Parse a part, without the namespaces of its elements and attributes: Word writes one of two."""
        try:
            root = parse_part(self._archive.read(str(name)))
        except etree.XMLSyntaxError as error:
            raise UnreadableError(f"its part {name} is broken: {error.msg}") from error
        for element in root.iter(etree.Element):
            element.tag = element.tag.rpartition("}")[2]
            for key in [key for key in element.attrib if key[0] == "{"]:
                element.attrib[key.rpartition("}")[2]] = element.attrib.pop(key)
        return root

    def _translate_frames(self, reference: str) -> Iterator[etree._Element]:
        """Yield the headers or footers of pages, each text once."""
        seen: set[str] = set()
        settings = self._parts["settings"]
        for section in self._body.iter("sectPr"):
            for each in section.iterchildren(reference):
                kind = each.get("type")
                is_used = (
                    section.find("titlePg") is not None
                    if kind == "first"
                    else kind != "even" or (settings is not None and settings.find("evenAndOddHeaders") is not None)
                )
                target = self._links.get(each.get("id", ""), ("", ""))[1]
                if not is_used or target not in self._names:
                    continue
                frame = etree.Element("div")
                self._write_blocks(self._parse(target), frame)
                text = " ".join("".join(frame.itertext()).split())
                if any(map(str.isalpha, text)) and text not in seen:
                    seen.add(text)
                    yield frame

    def _write_blocks(self, parent: etree._Element, page: etree._Element) -> None:
        """Append the paragraphs and tables of a part."""
        self._depth += 1
        for block in parent.iterchildren(etree.Element) if self._depth <= _MAX_DEPTH else ():
            if block.tag == "p":
                self._write_paragraph(block, page)
            elif block.tag == "tbl":
                self._write_table(block, page)
            elif block.tag == "sdt":
                if (content := _content_of(block)) is not None:
                    self._write_blocks(content, page)
            elif block.tag == "altChunk":
                self.left_out["embedded documents"] += 0
            elif block.tag in _UNWRAPPED:
                self._write_blocks(block, page)
            elif block.tag == "AlternateContent":
                self._write_blocks(_choose(block), page)
            elif block.tag in ("oMathPara", "oMath"):
                self._write_paragraph(block, page)
            elif block.tag in ("del", "moveFrom"):
                self._leave_out("text deleted in tracked changes", block)
        self._depth -= 1

    def _leave_out(self, what: str, element: etree._Element) -> None:
        self.left_out[what] += _count_text(element)

    def _write_paragraph(self, paragraph: etree._Element, page: etree._Element) -> None:
        properties = paragraph.find("pPr")
        style = _value(properties, "pStyle")
        level = self._styles.find_level(properties, style) if self._depth == 1 else 0
        line, self._unfinished = self._unfinished or _Line(etree.Element("p")), None
        earlier, self._notes = self._notes, []
        self._write_runs([paragraph] if paragraph.tag == "oMath" else paragraph, line)
        own, self._notes = self._notes, earlier
        if properties is not None and properties.find("rPr/del") is not None:
            self._unfinished = line  # its end was deleted: it goes on in the next one
        elif not line.is_empty:
            key, depth = self._styles.find_list(properties, style)
            label = self._numbers.count(key, depth) if key else ""
            line.element.text = label + (line.element.text or "")
            is_item = bool(label) and not level
            above = page[-1] if len(page) and page[-1].get("is_item") else None
            if is_item and above is not None:  # items of a list have no empty lines between them
                etree.SubElement(above, "br").tail = line.element.text
                above.extend(line.element)
            else:
                self._write_notes(page)
                if level:
                    line.element.tag = f"h{level}"
                elif is_item:
                    line.element.set("is_item", "yes")
                page.append(line.element)
        self._notes += own
        for box in line.boxes:
            self._write_blocks(box, page)
        if not (len(page) and page[-1].get("is_item")):
            self._write_notes(page)

    def _write_notes(self, page: etree._Element) -> None:
        """Append the footnotes that the blocks before refer to."""
        if page.tag in ("td", "th"):
            return  # behind the table
        notes, self._notes = self._notes, []
        for label, note in notes:
            frame = etree.SubElement(page, "div")
            self._write_blocks(note, frame)
            first = next(frame.iter("p"), None)
            if first is not None:
                first.text = f"{label} {(first.text or '').lstrip()}"

    def _write_runs(self, parts: Any, line: _Line) -> None:
        """Append the contents of a paragraph, or of a part of it."""
        for part in parts:
            tag = part.tag
            if tag == "r":
                self._write_run(part, line)
            elif tag == "sdt":
                self._write_control(part, line)
            elif tag in _UNWRAPPED:
                self._write_runs(part, line)
            elif tag in ("del", "moveFrom"):
                self._leave_out("text deleted in tracked changes", part)
            elif tag == "oMath":
                line.element.append(write_mathml(part))
            elif tag == "oMathPara":
                self._write_runs(part, line)
            elif tag == "AlternateContent":
                self._write_runs(_choose(part), line)

    def _write_control(self, control: etree._Element, line: _Line) -> None:
        """Append the content of a content control, or the state of a box."""
        if (state := control.find("sdtPr/checkbox")) is not None:
            _append_box(line, is_ticked=_value(state, "checked") in ("1", "true", "on"))
        elif (content := _content_of(control)) is not None:
            self._write_runs(content, line)

    def _write_run(self, run: etree._Element, line: _Line) -> None:
        properties = run.find("rPr")
        if properties is not None and _is_on(properties.find("vanish")) and all(self._fields):
            self._leave_out("hidden text", run)
            return
        if tag := _RAISED.get(_value(properties, "vertAlign")):
            raised = _Line(etree.Element(tag))
            self._write_pieces(run, raised)
            if not raised.is_empty:
                line.element.append(raised.element)
            line.boxes += raised.boxes
        else:
            self._write_pieces(run, line)

    def _write_pieces(self, run: etree._Element, line: _Line) -> None:
        """Append texts, breaks, signs, notes and drawings of a run."""
        for piece in run.iterchildren(etree.Element):
            tag = piece.tag
            if tag == "fldChar":
                self._write_field(piece, line)
            elif not all(self._fields):
                continue  # how a field is computed; its result comes
            elif tag == "t":
                self._write_text(piece.text or "", line)
            elif tag == "delText":
                self.left_out["text deleted in tracked changes"] += count_words(piece.text or "")
            elif tag in _CHARACTERS:
                line.write(_CHARACTERS[tag])
            elif tag in ("br", "cr"):
                etree.SubElement(line.element, "br")
            elif tag == "sym":
                code = piece.get("char", "").lower()
                is_sign = piece.get("font", "").startswith(("Wingdings", "Symbol"))
                sign = _SYMBOLS.get(code[-2:], "") if is_sign else chr(int(code, 16)) if _is_hex(code) else ""
                self._write_text(sign, line)
            elif tag in ("footnoteReference", "endnoteReference"):
                self._refer(tag.removesuffix("Reference"), piece, line)
            elif tag == "ruby":
                self._write_ruby(piece, line)
            elif tag == "AlternateContent":
                self._write_pieces(_choose(piece), line)
            elif tag in ("drawing", "pict", "object"):
                self._write_drawing(piece, line)

    @staticmethod
    def _write_text(text: str, line: _Line) -> None:
        """Append a text, with boxes that are drawn as letters."""
        for letter in text if any(sign in text for sign in _TICKED + _EMPTY) else [text]:
            if letter and letter in _TICKED + _EMPTY:
                _append_box(line, is_ticked=letter != _EMPTY)
            else:
                line.write(letter)

    def _write_field(self, mark: etree._Element, line: _Line) -> None:
        kind = mark.get("fldCharType")
        if kind == "begin":
            if (box := mark.find("ffData/checkBox")) is not None and all(self._fields):
                state = box.find("checked")
                _append_box(line, is_ticked=_is_on(box.find("default") if state is None else state))
            self._fields.append(False)
        elif kind == "separate" and self._fields:
            self._fields[-1] = True
        elif kind == "end" and self._fields:
            self._fields.pop()

    def _refer(self, kind: str, reference: etree._Element, line: _Line) -> None:
        """Append the mark of a note, and keep the note for the end of the paragraph."""
        part = self._parts[f"{kind}s"]
        key = reference.get("id")
        note = None if part is None else next((each for each in part if each.get("id") == key), None)
        if note is None:
            return
        self._note_counts[kind] += 1
        number = self._note_counts[kind]
        label = f"[{number}]" if kind == "footnote" else f"[{to_roman(number)}]"
        line.write(label)
        self._notes.append((label, note))

    def _write_ruby(self, ruby: etree._Element, line: _Line) -> None:
        for name in ("rubyBase", "rt"):
            if (part := ruby.find(name)) is not None:
                if name == "rt":
                    line.write("(")
                self._write_runs(part, line)
                if name == "rt":
                    line.write(")")

    def _write_drawing(self, drawing: etree._Element, line: _Line) -> None:
        """Keep the boxes of a drawing for the end of the paragraph, and count its pictures."""
        walk = etree.iterwalk(drawing, events=("start",))
        has_box = False
        for _, part in walk:
            if part.tag == "txbxContent":
                line.boxes.append(part)
                has_box = True
                walk.skip_subtree()
            elif part.tag == "AlternateContent":
                self._write_drawing(_choose(part), line)
                walk.skip_subtree()
        for data in drawing.iter("graphicData"):
            kind = data.get("uri", "").rpartition("/")[2]
            if kind == "picture":
                self._add_picture(drawing, line)
            elif kind.startswith("chart"):
                self.left_out["charts"] += 0
            elif kind == "diagram":
                line.boxes.append(self._read_diagram(data))
        if drawing.tag == "pict" and next(drawing.iter("imagedata"), None) is not None and not has_box:
            self._add_picture(drawing, line)
        if drawing.tag == "object":
            self.left_out["embedded documents"] += 0

    def _add_picture(self, drawing: etree._Element, line: _Line) -> None:
        self.pictures += 1
        properties = next(drawing.iter("docPr"), None)
        description = "" if properties is None else properties.get("descr", "")
        etree.SubElement(line.element, "img", alt=description)

    def _read_diagram(self, data: etree._Element) -> etree._Element:
        """Return the texts of SmartArt as paragraphs."""
        box = etree.Element("txbxContent")
        target = self._links.get(next((part.get("dm", "") for part in data.iter("relIds")), ""), ("", ""))[1]
        part = self._parse_if(target)
        for point in () if part is None else part.iter("pt"):
            for each in point.iterfind("t/p"):
                run = etree.SubElement(etree.SubElement(box, "p"), "r")
                etree.SubElement(run, "t").text = "".join(text.text or "" for text in each.iter("t"))
        return box

    def _write_table(self, table: etree._Element, page: etree._Element) -> None:
        rows = [row for row in _iterate(table, "tr") if row.find("trPr/del") is None]
        cells = [[*_iterate(row, "tc")] for row in rows]
        if len(rows) < 2 or max(map(len, cells)) < 2:  # it lays out a page
            for cell in (cell for row in cells for cell in row):
                self._write_blocks(cell, page)
            return
        written = etree.SubElement(page, "table")
        open_cells: dict[int, tuple[etree._Element, int]] = {}  # those that go on below, by column
        is_head = True
        for number, (row, its_cells) in enumerate(zip(rows, cells, strict=True)):
            is_head = number == 0 or (is_head and row.find("trPr/tblHeader") is not None)
            target = etree.SubElement(written, "tr")
            column = _to_int(_value(row.find("trPr"), "gridBefore"), 0)
            for cell in its_cells:
                properties = cell.find("tcPr")
                width = max(_to_int(_value(properties, "gridSpan"), 1), 1)
                merge = None if properties is None else properties.find("vMerge")
                if merge is not None and merge.get("val") != "restart" and column in open_cells:
                    above, height = open_cells[column]
                    above.set("rowspan", str(height + 1))
                    open_cells[column] = (above, height + 1)
                else:
                    element = etree.SubElement(target, "th" if is_head else "td", colspan=str(width))
                    self._write_blocks(cell, element)
                    open_cells.pop(column, None)
                    if merge is not None:
                        open_cells[column] = (element, 1)
                column += width
        self._write_notes(page)


def _content_of(control: etree._Element) -> etree._Element | None:
    """Return the content of a content control; None for the words that ask to fill it in."""
    if _is_on(control.find("sdtPr/showingPlcHdr")):
        return None
    return control.find("sdtContent")


def _choose(alternatives: etree._Element) -> etree._Element:
    """Return the first of several forms of a content that has a text, a box or a picture."""
    for each in alternatives:
        if next(each.iter("t", "txbxContent", "graphicData", "imagedata", "tbl"), None) is not None:
            return each
    return alternatives


def _iterate(parent: etree._Element, tag: str) -> Iterator[etree._Element]:
    """Yield the rows of a table or the cells of a row, also those in content controls."""
    for child in parent:
        if child.tag == tag:
            yield child
        elif child.tag in ("sdt", "sdtContent", "customXml", "ins", "moveTo"):
            yield from _iterate(child, tag)


def _append_box(line: _Line, *, is_ticked: bool) -> None:
    etree.SubElement(line.element, "input", {"type": "checkbox", **({"checked": ""} if is_ticked else {})})


def _value(element: etree._Element | None, name: str) -> str:
    """Return the value of a property."""
    found = None if element is None else element.find(name)
    return "" if found is None else str(found.get("val", ""))


def _is_on(element: etree._Element | None) -> bool:
    return element is not None and element.get("val", "true") not in ("0", "false", "off")


def _is_hex(code: str) -> bool:
    return 0 < len(code) <= 4 and all(letter in "0123456789abcdef" for letter in code)


def _to_int(text: str, default: int) -> int:
    return int(text) if text.isdecimal() and len(text) < 5 else default


def _count_text(element: etree._Element) -> int:
    return sum(count_words(part.text or "") for part in element.iter("t", "delText"))
