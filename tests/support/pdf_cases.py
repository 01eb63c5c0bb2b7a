"""Small PDFs, each with the text that a person reads in it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.pdf_files import (
    ALEF,
    BET,
    FFI,
    FI,
    GIMEL,
    PICTURE,
    SOFT_HYPHEN,
    draw_rules,
    make_pdf,
    show,
    show_rows,
    show_turned,
)

MILL = [
    "The mill of Osterby was",
    "built in 1862 by the engineer",
    "Nils Berg, who came from the",
    "north. It ground rye.",
]
BRIDGE = [
    "The bridge beside it is older:",
    "it was raised in 1790 for the",
    "miller Per Holm by the mason",
    "Anna Lindqvist.",
]
ISLAND = [
    "The island in the lake has",
    "a chapel of 1655 with bells",
    "that were cast in Malmo and",
    "rung until 1907.",
]
_MILL_TEXT, _BRIDGE_TEXT, _ISLAND_TEXT = (" ".join(lines) for lines in (MILL, BRIDGE, ISLAND))
_TICKETS = [["Visitor", "Price", "Hours"], ["Adult", "9 euros", "9 to 17"], ["Child", "5 euros", "9 to 12"]]
_TABLE = "| Visitor | Price | Hours |\n|---|---|---|\n| Adult | 9 euros | 9 to 17 |\n| Child | 5 euros | 9 to 12 |"
_FERRY = [
    "The ferry to the island costs",
    "12 euros for a grown person and",
    "half of that for children of up to",
    "14 years. Dogs are free of charge.",
]
_FERRY_TEXT = " ".join(_FERRY)
_RULES = draw_rules([55, 195, 345, 500], [88, 103, 118, 133])


@dataclass(frozen=True)
class PdfCase:
    """A page, or several, and its reading.

    Attributes:
        pages: Operators of each page.
        shown: The Markdown that a reader should make of the pages together; blank lines do not count.
        rotate: Rotation of the pages, in degrees.
        left_out: Words of the report, in order.
        box: Part of the page that is shown.
    """

    pages: str | tuple[str, ...]
    shown: str
    rotate: int = 0
    left_out: tuple[str, ...] = ()
    box: str = ""

    def make(self) -> bytes:
        """Return the file."""
        pages = (self.pages,) if isinstance(self.pages, str) else self.pages
        return make_pdf(*pages, rotate=self.rotate, crop_box=self.box)


def _lines(lines: list[str], x: float = 60, top: float = 100, step: float = 15, size: float = 12) -> str:
    return "".join(show(x, top + step * number, line, size) for number, line in enumerate(lines))


def _turned(lines: list[str], angle: int) -> str:
    """Return lines turned on their page; they are read from their own left to their own right."""
    return "".join(
        show_turned(*{90: (100 + 15 * n, 300), -90: (500 - 15 * n, 700), 180: (500, 500 + 15 * n)}[angle], line, angle)
        for n, line in enumerate(lines)
    )


PDF_CASES: dict[str, PdfCase] = {
    "sentences go on over the ends of lines": PdfCase(_lines(MILL), _MILL_TEXT),
    "paragraphs apart by a blank": PdfCase(_lines(MILL) + _lines(BRIDGE, top=180), f"{_MILL_TEXT}\n{_BRIDGE_TEXT}"),
    "paragraphs with a first line further in": PdfCase(
        "".join(
            _lines([lines[0]], 75, 100 + 60 * n) + _lines(lines[1:], 60, 115 + 60 * n)
            for n, lines in enumerate((MILL, BRIDGE))
        ),
        f"{_MILL_TEXT}\n{_BRIDGE_TEXT}",
    ),
    "paragraphs that end with a short line": PdfCase(
        _lines([*_FERRY[:3], "14 years.", *MILL]), f"{' '.join(_FERRY[:3])} 14 years.\n{_MILL_TEXT}"
    ),
    "two columns": PdfCase(show_rows(zip(MILL, BRIDGE, strict=True), [60, 320]), f"{_MILL_TEXT}\n{_BRIDGE_TEXT}"),
    "three columns": PdfCase(
        show_rows(zip(MILL, BRIDGE, ISLAND, strict=True), [30, 220, 420]),
        f"{_MILL_TEXT}\n{_BRIDGE_TEXT}\n{_ISLAND_TEXT}",
    ),
    "two columns that the file holds line by line, below a heading": PdfCase(
        show(60, 60, "Osterby", 20) + show_rows(zip(MILL, BRIDGE, strict=True), [60, 320]),
        f"# Osterby\n{_MILL_TEXT}\n{_BRIDGE_TEXT}",
    ),
    "headings by size": PdfCase(
        show(60, 60, "The baths", 24)
        + _lines(MILL, top=100)
        + show(60, 190, "Prices", 16)
        + _lines(BRIDGE, top=220)
        + show(60, 310, "Hours", 16)
        + _lines(ISLAND, top=340),
        f"# The baths\n{_MILL_TEXT}\n## Prices\n{_BRIDGE_TEXT}\n## Hours\n{_ISLAND_TEXT}",
    ),
    "a heading of two lines": PdfCase(
        show(60, 60, "The baths of Norrvik", 20) + show(60, 84, "and their prices", 20) + _lines(MILL, top=120),
        f"# The baths of Norrvik and their prices\n{_MILL_TEXT}",
    ),
    "headings have the same level on all pages": PdfCase(
        (
            show(60, 60, "The baths", 24)
            + show(60, 90, "Prices", 16)
            + _lines(MILL, top=120)
            + _lines(BRIDGE, top=200),
            show(60, 60, "Hours", 16) + _lines(ISLAND, top=100) + _lines(BRIDGE, top=200),
        ),
        f"# The baths\n## Prices\n{_MILL_TEXT}\n{_BRIDGE_TEXT}\n## Hours\n{_ISLAND_TEXT}\n{_BRIDGE_TEXT}",
    ),
    "a plain table": PdfCase(
        show(60, 60, "Tickets are sold at the door of the old mill.")
        + show_rows(_TICKETS, [60, 200, 350])
        + show(60, 170, "Groups call us."),
        f"Tickets are sold at the door of the old mill.\n{_TABLE}\nGroups call us.",
    ),
    "a ruled table": PdfCase(show_rows(_TICKETS, [60, 200, 350]) + _RULES, _TABLE),
    "a table with a cell of two lines": PdfCase(
        show_rows(
            [
                ["Boat", "Year", "Note"],
                ["Ann", "1900", "A boat of oak that car-"],
                ["", "", "ried mail."],
                ["Bob", "", "It sank."],
            ],
            [60, 200, 350],
        ),
        "| Boat | Year | Note |\n|---|---|---|\n| Ann | 1900 | A boat of oak that carried mail. |\n| Bob |  | It sank. |",
    ),
    "a list with bullets": PdfCase(
        _lines(["Bring with you:", "\\267 a towel of your own", "\\267 a coin of 1 euro", "\\267 soap"]),
        "Bring with you:\n- a towel of your own\n- a coin of 1 euro\n- soap",
    ),
    "a list with numbers": PdfCase(
        _lines(["Stations:", "1. Harbour gate", "2. Lamp room", "3. Quay"]),
        "Stations:\n1. Harbour gate\n2. Lamp room\n3. Quay",
    ),
    "bold by printing twice": PdfCase(
        "".join(show(60 + dx, 100 + 15 * n, line) for n, line in enumerate(MILL) for dx in (0, 0.4)), _MILL_TEXT
    ),
    "bold by printing four times": PdfCase(
        "".join(show(60 + dx, 100 + dy, MILL[1]) for dx in (0, 0.4) for dy in (0, 0.4)), MILL[1]
    ),
    "a shadow": PdfCase(
        "".join(
            f"0.7 g {show(61.2, 101.2 + 15 * n, line)}0 g {show(60, 100 + 15 * n, line)}" for n, line in enumerate(MILL)
        ),
        _MILL_TEXT,
    ),
    "double letters are no doubled print": PdfCase(
        show(60, 100, "1100 balloons of class II, 22 cubic feet"), "1100 balloons of class II, 22 cubic feet"
    ),
    "text turned to the left on an upright page": PdfCase(_turned(_FERRY, 90), _FERRY_TEXT),
    "text turned to the right on an upright page": PdfCase(_turned(_FERRY, -90), _FERRY_TEXT),
    "text upside down": PdfCase(_turned(_FERRY, 180), _FERRY_TEXT),
    "text turned on a page turned for it": PdfCase(_turned(_FERRY, 90), _FERRY_TEXT, rotate=90),
    "upright text on a page that is turned": PdfCase(_lines(_FERRY), _FERRY_TEXT, rotate=90),
    "a page upside down": PdfCase(_lines(_FERRY), _FERRY_TEXT, rotate=180),
    "a table turned on its page": PdfCase(
        "".join(
            show_turned(100 + 15 * row, 300 + 140 * column, text, 90)
            for row, cells in enumerate(_TICKETS)
            for column, text in enumerate(cells)
        ),
        _TABLE,
    ),
    "a label at the side": PdfCase(
        _lines(_FERRY) + show_turned(30, 690, "Tickets 2026", 90), f"{_FERRY_TEXT}\nTickets 2026"
    ),
    "hyphens at the ends of lines": PdfCase(
        _lines(
            [
                f"The o{FFI}ce of the archi-",
                f"tecture {FI}rm by Ann-",
                "Marie, 1874-",
                f"1880, photogra{SOFT_HYPHEN}",
                "phers of all",
            ]
        ),
        "The office of the architecture firm by Ann-Marie, 1874-1880, photographers of all",
    ),
    "powers and notes": PdfCase(
        show(60, 100, "The pool holds 10") + show(154.1, 95, "6", 7) + show(163, 100, "litres."),
        "The pool holds 10^6 litres.",
    ),
    "Hebrew": PdfCase(show(60, 100, f"1862 {GIMEL}{BET}{ALEF} {BET}{ALEF}"), "\u05d0\u05d1 \u05d0\u05d1\u05d2 1862"),
    "blanks that are distances": PdfCase(
        "BT /F1 12 Tf 60 700 Td [(The) -300 (ferry) -300 (costs) -300 (12) -300 (euros.)] TJ ET\n",
        "The ferry costs 12 euros.",
    ),
    "letters drawn one by one, out of order": PdfCase(
        "".join(show(60 + 8 * n, 100, letter) for n, letter in [*enumerate("WALRUS")][::-1]), "WALRUS"
    ),
    "a scan with its text below": PdfCase(
        PICTURE + "BT 3 Tr ET\n" + _lines(_FERRY), _FERRY_TEXT, left_out=("text in pictures",)
    ),
    "a picture and text": PdfCase(_lines(_FERRY) + PICTURE, _FERRY_TEXT, left_out=("text in pictures",)),
    "text outside of the page": PdfCase(
        show(60, 100, "Entry costs 9 euros.") + show(60, -200, "Draft 3") + show(700, 100, "cut here"),
        "Entry costs 9 euros.",
        left_out=("text outside of the page",),
    ),
    "text outside of the part that is shown": PdfCase(
        show(60, 100, "Entry costs 9 euros.") + show(60, 780, "printer's mark"),
        "Entry costs 9 euros.",
        box="0 50 600 800",
        left_out=("text outside of the page",),
    ),
    "signs at the beginning of lines": PdfCase(_lines(["# 5 is the boat of Per"]), r"\# 5 is the boat of Per"),
    "a table of contents": PdfCase(
        _lines(["Prices . . . . . . . . . . . . . . . . 3", "Hours . . . . . . . . . . . . . . . . 12"]),
        "Prices ... 3\nHours ... 12",
    ),
}
