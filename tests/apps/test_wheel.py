"""The wheel has all that the code reads, and the command works from it outside of the checkout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from pytest_httpserver import HTTPServer

from agents.base.data_folder import ROOT
from tests.support.chat_server import serve_chat
from tools.install import pip_settings, uv_options

pytest.importorskip("hatchling", reason="hatchling is not installed: make test installs it")

WHEEL = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
    "wheel"
]
FOLDERS: Mapping[str, str] = WHEEL["force-include"]
FRESH = bool(os.environ.get("FRESH_WHEEL"))
PHOTO = ROOT / "examples" / "zoo" / "photos" / "bindi.webp"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built without an index of packages."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel.

    It has the packages of this environment behind it. Their ``.pth`` files are not read: the checkout stays out. With FRESH_WHEEL set
    (`make test-wheel`) it has what the wheel asks for instead, in the newest versions that the index of packages has.
    """
    folder = tmp_path_factory.mktemp("installation")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    if FRESH:
        torch = re.search("^torch==([0-9.]+)", (ROOT / "requirements" / "torch-pypi.txt").read_text(), re.MULTILINE)
        (folder / "constraints.txt").write_text(
            f"torch<={torch and torch[1]}\n"
        )  # of which there is a build without CUDA
        options = [*uv_options(pip_settings()), "--constraint", str(folder / "constraints.txt")]
        install = ["uv", "pip", "install", "--quiet", "--python", str(python), *options]
    else:
        said = "import sysconfig; print(sysconfig.get_path('purelib'))"
        purelib = Path(subprocess.run([python, "-c", said], capture_output=True, text=True, check=True).stdout.strip())
        behind = [path for path in sys.path if path.endswith("site-packages")]
        (purelib / "behind.pth").write_text("\n".join(behind), encoding="utf-8")
        install = ["pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    installed = subprocess.run([sys.executable, "-m", *install, str(wheel)], capture_output=True, text=True)
    assert installed.returncode == 0, installed.stderr
    return folder


def run(installation: Path, place: Path, name: str, *arguments: str) -> str:
    """Run a program of the environment in a folder outside of the checkout; return what it prints."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("CRAG_", "PYTHON", "XDG_"))
    }
    command = [str(installation / "bin" / name), *arguments]
    ended = subprocess.run(command, cwd=place, env=environment | {"HOME": str(place)}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_it_has_every_file_of_the_packages_and_of_the_folders_beside_them(wheel: Path) -> None:
    listed = ["git", "ls-files", *WHEEL["packages"], *FOLDERS]
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    places = {name: name for name in WHEEL["packages"]} | dict(FOLDERS)
    split = [name.partition("/") for name in files if (ROOT / name).exists()]
    contents = ZipFile(wheel).namelist()
    assert {f"{places[folder]}/{rest}" for folder, _, rest in split} <= {*contents}
    for suffix in (".toml", ".j2", ".json", ".yaml", ".npy", "py.typed"):
        assert any(name.endswith(suffix) for name in contents), suffix
    tops = {name.partition("/")[0] for name in contents if ".dist-info/" not in name}
    assert tops == {*WHEEL["packages"], *(place.partition("/")[0] for place in FOLDERS.values())}


def test_what_is_installed_is_what_runs(installation: Path, tmp_path: Path) -> None:
    code = (
        "from agents.base import cache_folder, data_folder; from evaluation.files import manifest; "
        "print(data_folder.data_path('presets'), cache_folder.DEFAULT_CACHE, repr(manifest.current_commit()))"
    )
    presets, cache, commit = run(installation, tmp_path, "python", "-c", code).split()
    assert Path(presets).is_relative_to(installation) and Path(cache).is_relative_to(tmp_path) and commit == "''"
    assert run(installation, tmp_path, "crag", "--version") == run_here("--version")
    assert run(installation, tmp_path, "crag", "--help") == run_here("--help")


def run_here(*arguments: str) -> str:
    """Run the command from the checkout; return what it prints."""
    command = [sys.executable, "-m", "apps.crag", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_it_answers_a_question(installation: Path, tmp_path: Path, httpserver: HTTPServer) -> None:
    bodies = serve_chat(httpserver, lambda _: "It is a koala.", models=("m",))
    server = f"--profile server_embedded --base-url {httpserver.url_for('/v1')} --model-name m --no-probe".split()
    alone = ["--preset", "vlm_only", "--no-web", "--no-images"]
    printed = run(installation, tmp_path, "crag", "ask", *server, *alone, "--json", str(PHOTO), "What animal is this?")
    answer: dict[str, Any] = json.loads(printed)
    assert answer["answer"] == "It is a koala." and len(bodies) == 1
