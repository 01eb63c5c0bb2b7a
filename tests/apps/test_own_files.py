"""The page serves the files of a collection, and what was read of them."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from starlette.testclient import TestClient

from apps.answering import About
from apps.details import render_introduction
from apps.own_files import link_files


def test_the_page_links_to_what_was_read_if_there_is_a_report(tmp_path: Path) -> None:
    report = tmp_path / "readings.md"
    report.write_text("# What crag index read\n")
    for found, status in ((report, 200), (None, 404)):
        app = FastAPI()
        link_files(app, tmp_path, found)
        assert TestClient(app).get("/readings").status_code == status
        introduction = render_introduction(About("best", "embedded", "museum", report=found), "", 0)
        assert ('href="/readings"' in introduction) == (found is not None)
