"""Measures readers of Word, PDF and Excel on the tests' cases, as ``html_readers`` does: what is lost, invented, doubled, out of order.

Readers that are not installed are left out, so that others can be tried in an environment of their own:
``python -m lab.benchmarks.office_readers word|pdf|excel [READER ...]``.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from lab.benchmarks.html_readers import compare
from tests.support.number_formats import NUMBER_FORMATS
from tests.support.office_documents import write_word
from tests.support.pdf_cases import PDF_CASES
from tests.support.word_cases import WORD_CASES

Read = Callable[[Path], str]


def project() -> Read:
    """Return the project's readers."""
    pdf: Any = import_module("agents.search.documents.pdf")
    word: Any = import_module("agents.search.documents.word")
    sheets: Any = import_module("agents.search.documents.sheets")

    def read(path: Path) -> str:
        if path.suffix == ".docx":
            return str(word.read_word(path).text)
        parts = pdf.read_pdf(path) if path.suffix == ".pdf" else sheets.read_workbook(path)
        return "\n".join(each.text for each in parts.values())

    return read


def markitdown() -> Read:
    """Return markitdown."""
    reader = import_module("markitdown").MarkItDown()
    return lambda path: str(reader.convert(str(path)).text_content)


def kreuzberg() -> Read:
    """Return kreuzberg."""
    library: Any = import_module("kreuzberg")
    config = library.ExtractionConfig(output_format="markdown")
    return lambda path: str(library.extract_file_sync(str(path), config=config).content)


def docling() -> Read:
    """Return docling without its models, which reads Word and Excel."""
    word: Any = import_module("docling.backend.msword_backend")
    excel: Any = import_module("docling.backend.msexcel_backend")
    document: Any = import_module("docling.datamodel.document")
    formats: Any = import_module("docling.datamodel.base_models").InputFormat

    def read(path: Path) -> str:
        backend, kind = (
            (word.MsWordDocumentBackend, formats.DOCX)
            if path.suffix == ".docx"
            else (excel.MsExcelDocumentBackend, formats.XLSX)
        )
        source = document.InputDocument(path_or_stream=path, format=kind, backend=backend, filename=path.name)
        return str(backend(source, path).convert().export_to_markdown())

    return read


def office_oxide() -> Read:
    """Return office_oxide, which is written in Rust."""
    library: Any = import_module("office_oxide")

    def read(path: Path) -> str:
        with library.Document.open(str(path)) as document:
            return str(document.to_markdown())

    return read


def mammoth() -> Read:
    """Return mammoth, which reads Word."""
    library: Any = import_module("mammoth")

    def read(path: Path) -> str:
        with path.open("rb") as file:
            return str(library.convert_to_markdown(file).value)

    return read


def docx2python() -> Read:
    """Return docx2python."""
    library: Any = import_module("docx2python")

    def read(path: Path) -> str:
        with library.docx2python(path) as document:
            return str(document.text)

    return read


def pdfplumber() -> Read:
    """Return pdfplumber without letters that are printed twice."""
    library: Any = import_module("pdfplumber")

    def read(path: Path) -> str:
        with library.open(path) as document:
            return "\n".join(page.dedupe_chars().extract_text() for page in document.pages)

    return read


def pdfminer() -> Read:
    """Return pdfminer.six."""
    library: Any = import_module("pdfminer.high_level")
    return lambda path: str(library.extract_text(path))


def pypdfium2() -> Read:
    """Return the text of PDFium."""
    library: Any = import_module("pypdfium2")
    return lambda path: "\n".join(page.get_textpage().get_text_bounded() for page in library.PdfDocument(path))


def pdf_oxide() -> Read:
    """Return pdf_oxide, which is written in Rust."""
    library: Any = import_module("pdf_oxide")

    def read(path: Path) -> str:
        document = library.PdfDocument(str(path))
        return "\n".join(document.to_markdown(number) for number in range(document.page_count()))

    return read


def openpyxl() -> Read:
    """Return the values of openpyxl, as most readers of tables take them."""
    library: Any = import_module("openpyxl")

    def read(path: Path) -> str:
        sheet = library.load_workbook(path, data_only=True).active
        return "\n".join(" | ".join("" if cell is None else str(cell) for cell in row) for row in sheet.values)

    return read


def calamine() -> Read:
    """Return the values of python-calamine."""
    library: Any = import_module("python_calamine")
    return lambda path: "\n".join(
        " | ".join(map(str, row)) for row in library.load_workbook(path).get_sheet_by_index(0).to_python()
    )


READERS: Mapping[str, tuple[Callable[[], Read], ...]] = {
    "word": (project, markitdown, kreuzberg, docling, office_oxide, mammoth, docx2python),
    "pdf": (project, markitdown, kreuzberg, pdfplumber, pdfminer, pypdfium2, pdf_oxide),
    "excel": (project, markitdown, kreuzberg, docling, office_oxide, openpyxl, calamine),
}


def write_cases(kind: str, folder: Path) -> Iterator[tuple[str, Path, str]]:
    """Write the files of the cases, and yield each with its name and the text that a person reads."""
    if kind == "word":
        for number, (name, case) in enumerate(WORD_CASES.items()):
            write_word(path := folder / f"{number}.docx", case.body, case.parts)
            yield name, path, case.shown
    elif kind == "pdf":
        for number, (name, page) in enumerate(PDF_CASES.items()):
            (path := folder / f"{number}.pdf").write_bytes(page.make())
            yield name, path, page.shown
    else:
        library: Any = import_module("openpyxl")
        for number, (value, number_format, shown) in enumerate(NUMBER_FORMATS):
            book = library.Workbook()
            book.active.append(["Thing", "Value"])
            book.active.append(["Lamp", value])
            book.active["B2"].number_format = number_format
            book.save(path := folder / f"{number}.xlsx")
            yield f"{value!r} in {number_format}", path, f"Thing Value Lamp {shown}"


def main(arguments: list[str]) -> None:
    """Print a row for each reader of a format; "-v" prints each case that is not whole."""
    kind, *names = arguments
    chosen = {name for name in names if name != "-v"}
    columns = ("lost", "figures", "invented", "doubled", "moved", "failed")
    with tempfile.TemporaryDirectory() as folder:
        cases = [*write_cases(kind, Path(folder))]
        print(f"| reader | whole of {len(cases)} | {' | '.join(columns)} | seconds |\n|---|" + "---:|" * 8)
        for make in READERS[kind]:
            try:
                read = make() if not chosen or make.__name__ in chosen else None
            except ImportError:
                continue
            if read is None:
                continue
            whole, faults, start = 0, Counter[str](), time.perf_counter()
            for name, path, shown in cases:
                with redirect_stderr(StringIO()):
                    try:
                        got = read(path)
                    except Exception:  # noqa: BLE001 - a reader that fails loses all
                        got = ""
                        faults["failed"] += 1
                found = compare(shown, sheet_names_apart(got) if kind == "excel" else got)
                whole += not found.total()
                faults += found
                if "-v" in names and found.total():
                    print(f"  {name}: {dict(+found)}\n    {got[:300]!r}")
            seconds = time.perf_counter() - start
            print(
                f"| {make.__name__} | {whole} | {' | '.join(str(faults[name]) for name in columns)} | {seconds:.2f} |"
            )


def sheet_names_apart(text: str) -> str:
    """Remove the name of the sheet, which some readers write above it."""
    return "\n".join(line for line in text.splitlines() if line.strip(" #*") != "Sheet")


if __name__ == "__main__":
    main(sys.argv[1:])
