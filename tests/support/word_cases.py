"""Small documents of Word, each with the text that a person reads in it: what Word itself, LibreOffice and Google write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.office_documents import paragraph, word_table

_WPS = "http://schemas.microsoft.com/office/word/2010/wordprocessingShape"
_MC = "http://schemas.openxmlformats.org/markup-compatibility/2006"
_W14 = "http://schemas.microsoft.com/office/word/2010/wordml"
_VML = "urn:schemas-microsoft-com:vml"
_MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"
_WP = "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"
_A = "http://schemas.openxmlformats.org/drawingml/2006/main"


@dataclass(frozen=True)
class WordCase:
    """A document and its reading.

    Attributes:
        body: XML of its body.
        shown: The Markdown that a reader should make of it; blank lines do not count.
        parts: XML of its other parts by name: styles, numbering, header1, footnotes ...
        left_out: Words of the report, in order.
    """

    body: str
    shown: str
    parts: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def _run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def _p(*runs: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr>{''.join(runs)}</w:p>"


def _box(content: str) -> str:
    return (
        f'<w:r><w:drawing><wp:inline xmlns:wp="{_WP}"><a:graphic xmlns:a="{_A}"><a:graphicData uri="{_WPS}">'
        f'<wps:wsp xmlns:wps="{_WPS}"><wps:txbx><w:txbxContent>{content}</w:txbxContent></wps:txbx></wps:wsp>'
        "</a:graphicData></a:graphic></wp:inline></w:drawing></w:r>"
    )


def _old_box(content: str) -> str:
    return (
        f'<w:r><w:pict><v:shape xmlns:v="{_VML}"><v:textbox><w:txbxContent>{content}</w:txbxContent></v:textbox>'
        "</v:shape></w:pict></w:r>"
    )


def _with_fallback(content: str) -> str:
    choice = _box(content).removeprefix("<w:r>").removesuffix("</w:r>")
    old = _old_box(content).removeprefix("<w:r>").removesuffix("</w:r>")
    return (
        f'<w:r><mc:AlternateContent xmlns:mc="{_MC}"><mc:Choice Requires="wps">{choice}</mc:Choice>'
        f"<mc:Fallback>{old}</mc:Fallback></mc:AlternateContent></w:r>"
    )


def _tick(*, is_ticked: bool) -> str:
    sign = "\u2612" if is_ticked else "\u2610"
    return (
        f'<w:sdt><w:sdtPr><w14:checkbox xmlns:w14="{_W14}"><w14:checked w14:val="{int(is_ticked)}"/></w14:checkbox></w:sdtPr>'
        f"<w:sdtContent>{_run(sign)}</w:sdtContent></w:sdt>"
    )


def _form_tick(*, is_ticked: bool) -> str:
    return (
        f'<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:checkBox><w:default w:val="0"/>'
        f"{'<w:checked/>' if is_ticked else ''}</w:checkBox></w:ffData></w:fldChar></w:r>"
        "<w:r><w:instrText> FORMCHECKBOX </w:instrText></w:r>"
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )


def _sdt(content: str, properties: str = "") -> str:
    return f"<w:sdt><w:sdtPr>{properties}</w:sdtPr><w:sdtContent>{content}</w:sdtContent></w:sdt>"


def _item(text: str, level: int = 0, number: int = 1) -> str:
    return _p(_run(text), properties=f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>')


def _level(level: int, form: str, text: str, start: int = 1, style: str = "") -> str:
    link = f'<w:pStyle w:val="{style}"/>' if style else ""
    return f'<w:lvl w:ilvl="{level}"><w:start w:val="{start}"/><w:numFmt w:val="{form}"/>{link}<w:lvlText w:val="{text}"/></w:lvl>'


def _numbering(*levels: str, overrides: str = "") -> str:
    return (
        f'<w:abstractNum w:abstractNumId="0">{"".join(levels)}</w:abstractNum>'
        f'<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
        f'<w:num w:numId="2"><w:abstractNumId w:val="0"/>{overrides}</w:num>'
    )


def _style(key: str, name: str, content: str = "", based_on: str = "") -> str:
    base = f'<w:basedOn w:val="{based_on}"/>' if based_on else ""
    return f'<w:style w:type="paragraph" w:styleId="{key}"><w:name w:val="{name}"/>{base}<w:pPr>{content}</w:pPr></w:style>'


_LISTS = _numbering(_level(0, "decimal", "%1."), _level(1, "lowerLetter", "%2)"), _level(2, "bullet", "\uf0b7"))
_HEADINGS = _style("Heading1", "heading 1") + _style("Heading2", "heading 2") + _style("Title", "Title")


def _field(instruction: str, result: str) -> str:
    return (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
        f"<w:r><w:instrText> {instruction} </w:instrText></w:r>"
        f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{_run(result)}<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )


def _cell(*content: str, span: int = 1, merge: str = "") -> str:
    down = "" if not merge else "<w:vMerge/>" if merge == "on" else '<w:vMerge w:val="restart"/>'
    return f'<w:tc><w:tcPr><w:gridSpan w:val="{span}"/>{down}</w:tcPr>{"".join(content) or _p()}</w:tc>'


def _table(*rows: str) -> str:
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"


def _math(content: str) -> str:
    return f'<m:oMath xmlns:m="{_MATH}">{content}</m:oMath>'


def _m(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


WORD_CASES: dict[str, WordCase] = {
    "a short document stands once": WordCase(paragraph("The ferry leaves at 9:30."), "The ferry leaves at 9:30."),
    "title and headings": WordCase(
        paragraph("The baths", "Title")
        + paragraph("Prices", "Heading1")
        + paragraph("Adults pay 9 euros.")
        + paragraph("Children", "Heading2")
        + paragraph("Children pay 5 euros."),
        "# The baths\n# Prices\nAdults pay 9 euros.\n## Children\nChildren pay 5 euros.",
        {"styles": _HEADINGS},
    ),
    "headings of a German Word, of a style of one's own, and by outline level": WordCase(
        paragraph("Preise", "berschrift1")
        + paragraph("Kinder", "Mine")
        + _p(_run("Hunde"), properties='<w:outlineLvl w:val="2"/>'),
        "# Preise\n## Kinder\n### Hunde",
        {
            "styles": _style("berschrift1", "heading 1", '<w:outlineLvl w:val="0"/>')
            + _style("Base", "heading 2")
            + _style("Mine", "My heading", based_on="Base")
        },
    ),
    "a text box without fallback": WordCase(
        _p(_run("The lighthouse."), _box(paragraph("Entry costs 14 euros.") + paragraph("It has 96 steps."))),
        "The lighthouse.\nEntry costs 14 euros.\nIt has 96 steps.",
    ),
    "a text box with the fallback of Word": WordCase(
        _p(_run("The lighthouse."), _with_fallback(paragraph("Entry costs 14 euros."))),
        "The lighthouse.\nEntry costs 14 euros.",
    ),
    "an old text box": WordCase(_p(_old_box(paragraph("Entry costs 14 euros."))), "Entry costs 14 euros."),
    "a cover of two boxes": WordCase(
        _p(_box(paragraph("Annual report")), _box(paragraph("2026"))), "Annual report\n2026"
    ),
    "a table in a text box": WordCase(
        _p(_run("Prices:"), _box(word_table(["Visitor", "Price"], ["Adult", "9 euros"]))),
        "Prices:\n| Visitor | Price |\n|---|---|\n| Adult | 9 euros |",
    ),
    "ticked and empty content controls": WordCase(
        paragraph("What is ticked is allowed:")
        + _p(_tick(is_ticked=False), _run(" Dogs"))
        + _p(_tick(is_ticked=True), _run(" Bicycles"))
        + _p(_run("Wheelchairs: "), _tick(is_ticked=False), _run(" yes")),
        "What is ticked is allowed:\n[ ] Dogs\n[x] Bicycles\nWheelchairs: [ ] yes",
    ),
    "ticked and empty form fields": WordCase(
        _p(_form_tick(is_ticked=True), _run(" Dogs "), _form_tick(is_ticked=False), _run(" Drones")),
        "[x] Dogs [ ] Drones",
    ),
    "boxes drawn as letters and as signs of Wingdings": WordCase(
        _p(_run("\u2611 Dogs \u2610 Drones "), '<w:r><w:sym w:font="Wingdings" w:char="F0FE"/></w:r>', _run(" Bells")),
        "[x] Dogs [ ] Drones [x] Bells",
    ),
    "numbers of a list": WordCase(
        paragraph("Stations:")
        + _item("Harbour gate")
        + _item("Lamp room")
        + _item("up", 1)
        + _item("down", 1)
        + _item("Quay"),
        "Stations:\n1. Harbour gate\n2. Lamp room\na) up\nb) down\n3. Quay",
        {"numbering": _LISTS},
    ),
    "a list that begins at four and goes on behind a paragraph": WordCase(
        _item("Mill", number=2) + paragraph("It grinds rye.") + _item("Bridge", number=2),
        "4. Mill\nIt grinds rye.\n5. Bridge",
        {
            "numbering": _numbering(
                _level(0, "decimal", "%1."),
                overrides='<w:lvlOverride w:ilvl="0"><w:startOverride w:val="4"/></w:lvlOverride>',
            )
        },
    ),
    "Roman numbers and brackets": WordCase(
        _item("Mill") + _item("Bridge") + _item("Boats", 1),
        "Part I: Mill\nPart II: Bridge\n(II.A) Boats",
        {"numbering": _numbering(_level(0, "upperRoman", "Part %1:"), _level(1, "upperLetter", "(%1.%2)"))},
    ),
    "bullets": WordCase(_item("Harbour", 2) + _item("Quay", 2), "- Harbour\n- Quay", {"numbering": _LISTS}),
    "numbered headings": WordCase(
        paragraph("Prices", "Heading1") + paragraph("Hours", "Heading1") + paragraph("Winter", "Heading2"),
        "# 1 Prices\n# 2 Hours\n## 2.1 Winter",
        {
            "numbering": _numbering(
                _level(0, "decimal", "%1", style="Heading1"), _level(1, "decimal", "%1.%2", style="Heading2")
            ),
            "styles": _style("Heading1", "heading 1", '<w:numPr><w:numId w:val="1"/></w:numPr>')
            + _style("Heading2", "heading 2", '<w:numPr><w:ilvl w:val="1"/><w:numId w:val="1"/></w:numPr>'),
        },
    ),
    "page header and footer": WordCase(
        paragraph("Adults pay 9 euros."),
        "Valid from 1 May 2026\nAdults pay 9 euros.\nNorrvik Baths, page 1",
        {
            "header1": paragraph("Valid from 1 May 2026"),
            "footer1": _p(_run("Norrvik Baths, page "), _field("PAGE", "1")),
        },
    ),
    "footnotes and endnotes": WordCase(
        _p(
            _run("Built in 1862"),
            '<w:r><w:footnoteReference w:id="2"/></w:r>',
            _run(" of oak"),
            '<w:r><w:endnoteReference w:id="2"/></w:r>',
        ),
        "Built in 1862[1] of oak[i]\n[1] Burnt in 1907.\n[i] From Gotland.",
        {
            "footnotes": '<w:footnote w:id="-1" w:type="separator"><w:p/></w:footnote>'
            f'<w:footnote w:id="2">{_p("<w:r><w:footnoteRef/></w:r>", _run(" Burnt in 1907."))}</w:footnote>',
            "endnotes": f'<w:endnote w:id="2">{paragraph("From Gotland.")}</w:endnote>',
        },
    ),
    "tracked changes": WordCase(
        _p(
            _run("It opens at "),
            '<w:del w:id="1"><w:r><w:delText>9:00</w:delText></w:r></w:del>',
            f'<w:ins w:id="2">{_run("10:00")}</w:ins>',
            f'<w:moveFrom w:id="3">{_run(" on Monday")}</w:moveFrom>',
            f'<w:moveTo w:id="4">{_run(" on Friday")}</w:moveTo>',
        ),
        "It opens at 10:00 on Friday",
        left_out=("text deleted in tracked changes",),
    ),
    "a paragraph mark deleted": WordCase(
        '<w:p><w:pPr><w:rPr><w:del w:id="1"/></w:rPr></w:pPr>' + _run("It opens ") + "</w:p>" + paragraph("at ten."),
        "It opens at ten.",
    ),
    "hidden text": WordCase(
        _p(_run("It opens at 10."), _run(" Ask Per for the key.", "<w:vanish/>")),
        "It opens at 10.",
        left_out=("hidden text",),
    ),
    "comments": WordCase(
        _p('<w:commentRangeStart w:id="1"/>', _run("It opens at 10."), '<w:r><w:commentReference w:id="1"/></w:r>'),
        "It opens at 10.",
        {"comments": f'<w:comment w:id="1">{paragraph("Is that so?")}</w:comment>'},
        ("comments",),
    ),
    "results of fields": WordCase(
        _p(
            _run("See page "),
            _field("PAGEREF _Ref1", "12"),
            _run(", "),
            _field('HYPERLINK "http://example.org"', "our site"),
            _run(", "),
            f'<w:fldSimple w:instr="DATE">{_run("20 June 2026")}</w:fldSimple>',
        ),
        "See page 12, our site, 20 June 2026",
    ),
    "a field within a field": WordCase(
        _p(
            '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>IF </w:instrText></w:r>',
            _field("DOCPROPERTY a", "hidden"),
            '<w:r><w:fldChar w:fldCharType="separate"/></w:r>',
            _run("9 euros"),
            '<w:r><w:fldChar w:fldCharType="end"/></w:r>',
        ),
        "9 euros",
    ),
    "content controls around text, paragraphs, rows and cells": WordCase(
        _p(_run("Price: "), _sdt(_run("9 euros")))
        + _sdt(paragraph("Open daily."))
        + f"<w:tbl><w:tr>{_cell(paragraph('Visitor'))}{_cell(paragraph('Price'))}</w:tr>"
        + _sdt(f"<w:tr>{_cell(paragraph('Adult'))}{_sdt(_cell(paragraph('9 euros')))}</w:tr>")
        + "</w:tbl>",
        "Price: 9 euros\nOpen daily.\n| Visitor | Price |\n|---|---|\n| Adult | 9 euros |",
    ),
    "an unfilled content control": WordCase(
        _p(_run("Name: "), _sdt(_run("Click here to enter text."), "<w:showingPlcHdr/>")), "Name:"
    ),
    "merged cells": WordCase(
        _table(
            _cell(paragraph("Place")) + _cell(paragraph("Price"), span=2),
            _cell(paragraph("Mill"), merge="begin") + _cell(paragraph("adult")) + _cell(paragraph("9")),
            _cell(merge="on") + _cell(paragraph("child")) + _cell(paragraph("5")),
        ),
        "| Place | Price | Price |\n|---|---|---|\n| Mill | adult | 9 |\n| Mill | child | 5 |",
    ),
    "several lines, a list and a table in a cell": WordCase(
        _table(
            _cell(paragraph("Boat")) + _cell(paragraph("Notes")),
            _cell(paragraph("Ann")) + _cell(paragraph("Built in 1900."), _item("Oak"), _item("Pine")),
            _cell(paragraph("Bob")) + _cell(word_table(["Length", "12 m"]), paragraph("")),
        ),
        "| Boat | Notes |\n|---|---|\n| Ann | Built in 1900. 1. Oak 2. Pine |\n| Bob | Length 12 m |",
        {"numbering": _LISTS},
    ),
    "a table of one cell lays out": WordCase(
        _table(_cell(paragraph("Note: closed on 24 December."))), "Note: closed on 24 December."
    ),
    "columns beside each other that a table lays out": WordCase(
        _table(_cell(paragraph("Adults pay 9 euros.")) + _cell(paragraph("Open from 9 to 17."))),
        "Adults pay 9 euros.\nOpen from 9 to 17.",
    ),
    "powers, isotopes, tabs, breaks and hyphens": WordCase(
        _p(
            _run("It holds 10"),
            _run("6", '<w:vertAlign w:val="superscript"/>'),
            _run(" litres of H"),
            _run("2", '<w:vertAlign w:val="subscript"/>'),
            _run("O;"),
            "<w:r><w:tab/><w:t>1874</w:t><w:noBreakHyphen/><w:t>1880</w:t><w:br/><w:t>photo</w:t><w:softHyphen/><w:t>grapher</w:t></w:r>",
        ),
        "It holds 10^6 litres of H2O; 1874-1880\nphotographer",
    ),
    "formulas": WordCase(
        _p(
            _run("Distance "),
            _math(_m("d=3.57") + f"<m:rad><m:radPr/><m:deg/><m:e>{_m('26')}</m:e></m:rad>"),
            _run(" km, "),
            _math(f"<m:f><m:num>{_m('1')}</m:num><m:den>{_m('2')}</m:den></m:f>"),
            _run(" and "),
            _math(f"<m:sSup><m:e>{_m('x')}</m:e><m:sup>{_m('2')}</m:sup></m:sSup>"),
        ),
        "Distance d=3.57 sqrt(26) km, 1/2 and x^2",
    ),
    "letters in tags of old programs": WordCase(
        "<w:p>"
        f'<w:smartTag w:element="place">{_run("Norrvik")}</w:smartTag>'
        f'<w:customXml w:element="a">{_run(" opens")}</w:customXml>'
        f'<w:hyperlink>{_run(" on 1 May")}</w:hyperlink><w:bdo w:val="ltr">{_run(" at ten")}</w:bdo></w:p>',
        "Norrvik opens on 1 May at ten",
    ),
    "small letters above others": WordCase(
        _p(
            f"<w:r><w:ruby><w:rt>{_run('とうきょう')}</w:rt><w:rubyBase>{_run('東京')}</w:rubyBase></w:ruby></w:r>",
            _run("の駅"),
        ),
        "東京(とうきょう)の駅",
    ),
    "signs that are no Markdown": WordCase(_p(_run("# 5 is a|b and *not* 2_000")), r"\# 5 is a|b and *not* 2_000"),
    "a picture and a chart": WordCase(
        _p(
            _run("The harbour."),
            f'<w:r><w:drawing><wp:inline xmlns:wp="{_WP}"><wp:docPr id="1" name="Picture 1" descr="A ferry"/>'
            f'<a:graphic xmlns:a="{_A}"><a:graphicData uri="http://schemas.openxmlformats.org/drawingml/2006/picture"/></a:graphic>'
            "</wp:inline></w:drawing></w:r>",
            f'<w:r><w:drawing><wp:inline xmlns:wp="{_WP}"><a:graphic xmlns:a="{_A}">'
            '<a:graphicData uri="http://schemas.openxmlformats.org/drawingml/2006/chart"/></a:graphic>'
            "</wp:inline></w:drawing></w:r>",
        ),
        "The harbour. (picture: A ferry)",
        left_out=("charts",),
    ),
    "an embedded document": WordCase(paragraph("Rules:") + "<w:altChunk/>", "Rules:", left_out=("embedded documents",)),
    "Hebrew": WordCase(_p(_run("העיר נוסדה ב-1862")), "העיר נוסדה ב-1862"),
}
