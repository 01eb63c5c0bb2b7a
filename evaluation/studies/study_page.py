"""What a study of saved answers leaves in a folder: its numbers as JSON, its tables and plots as one HTML file that loads nothing."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from evaluation.files.manifest import write_json
from evaluation.report.html_report import write_html
from evaluation.studies.result_tables import ResultTable


def publish(
    place: Path,
    content: Mapping[str, Any],
    title: str,
    tables: Sequence[ResultTable],
    console: Console,
    plots: Sequence[Path] = (),
) -> None:
    """Write PLACE.json and PLACE.html, with plots (PNG files) above the tables, and say so."""
    write_json(place.with_suffix(".json"), content)
    pictures = [base64.b64encode(plot.read_bytes()).decode() for plot in plots]
    page = write_html(place.with_suffix(".html"), "study.html.j2", title=title, tables=tables, pictures=pictures)
    console.print(f"written: {page} and .json", markup=False, soft_wrap=True)
