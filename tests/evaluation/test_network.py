"""Whether data sets and pictures may come from the network is the user's to say (HF_HUB_OFFLINE), not the profile's."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from agents.profiles.profile import ROOT
from agents.settings.run_config import profile_names
from tests.evaluation.worlds import picture, row, write_dataset

SIZES = [(60, 40), (30, 50)]


def _png(size: tuple[int, int]) -> bytes:
    file = io.BytesIO()
    picture(size=size).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(params=["online", "offline"])
def profile_runs(
    request: pytest.FixtureRequest, tmp_path: Path, httpserver: HTTPServer
) -> tuple[str, dict[str, Any], list[str]]:
    """Every profile run with a hub and pictures in reach: whether the switch was set, what came of it, what was asked of them."""
    rows = []
    for number, size in enumerate(SIZES):
        httpserver.expect_request(f"/{number}.png").respond_with_data(_png(size), content_type="image/png")
        rows.append(row(f"s{number}", 2, "v0.1.2", None, httpserver.url_for(f"/{number}.png")))
    httpserver.expect_request(re.compile("/.*")).respond_with_data("Entry not found", status=404)  # the hub has nothing
    write_dataset(tmp_path, rows, "v0.1.2")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "OPENAI_"))}
    env = {**clean, "HF_ENDPOINT": httpserver.url_for("").rstrip("/"), "HF_HOME": str(tmp_path / "users")}
    switch = {"HF_HUB_OFFLINE": "1"} if request.param == "offline" else {}
    command = [sys.executable, "-m", "tests.evaluation.every_profile_run", str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**env, **switch})
    assert process.returncode == 0, process.stderr
    return request.param, json.loads(process.stdout.splitlines()[-1]), [call.path for call, _ in httpserver.log]


def test_the_user_alone_decides_whether_the_network_is_asked(
    profile_runs: tuple[str, dict[str, Any], list[str]],
) -> None:
    """In either case the public set is not there (status 2); a local copy with pictures by URL gets them where the network may be asked."""
    switch, outcomes, paths = profile_runs
    assert set(outcomes) == set(profile_names())
    assert {profile: (each["public"], each["local"]) for profile, each in outcomes.items()} == dict.fromkeys(
        outcomes, (2, 0)
    )
    named = {name for name in outcomes if any("crag-mm-single-turn-public" in path and name in path for path in paths)}
    photo_sizes = {
        profile: {tuple(size) if size else None for size in each["seen"]} for profile, each in outcomes.items()
    }
    online = switch == "online"
    assert named == (set(outcomes) if online else set())
    assert all(sizes == (set(SIZES) if online else {None}) for sizes in photo_sizes.values())
    assert online or paths == []
