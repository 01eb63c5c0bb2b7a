"""The tables and plots of a study as one HTML file that loads nothing from elsewhere."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from evaluation.studies.result_tables import ResultTable


def write_page(path: Path, title: str, tables: Sequence[ResultTable], plots: Sequence[Path] = ()) -> None:
    """Write the page.

    Args:
        plots: PNG files, shown above the tables.
    """
    environment = Environment(
        loader=PackageLoader("evaluation.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pictures = [base64.b64encode(plot.read_bytes()).decode() for plot in plots]
    html = environment.get_template("study.html.j2").render(title=title, tables=tables, pictures=pictures)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html, encoding="utf-8")
