"""``python -m tools.install`` on real uv and pip, and a package of the test's own."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

import pytest

from tools import install

NAME = "made_for_a_test"
METADATA = f"{NAME}-1.0.dist-info"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel in a folder that pip is told of, as the only place to look in."""
    files = {
        f"{NAME}.py": "VALUE = 1\n",
        f"{METADATA}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n",
        f"{METADATA}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [f"{name},sha256={_digest(text)},{len(text)}\n" for name, text in files.items()]
    path = tmp_path / "wheels" / f"{NAME}-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in (files | {f"{METADATA}/RECORD": "".join(record)}).items():
            archive.writestr(name, text)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def lock(folder: Path, digest: str) -> str:
    path = folder / "lock.txt"
    path.write_text(f"made-for-a-test==1.0 --hash=sha256:{digest}\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("uv_works", [True, False])
def test_a_lock_is_installed_by_uv_and_where_that_fails_by_pip(
    wheel: Path, tmp_path: Path, uv_works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not uv_works:
        monkeypatch.setenv("UV_LINK_MODE", "none that uv knows")
    target = tmp_path / "target"
    assert install.main(["--target", str(target), lock(tmp_path, hashlib.sha256(wheel.read_bytes()).hexdigest())]) == 0
    assert (target / f"{NAME}.py").read_text(encoding="utf-8") == "VALUE = 1\n"
    assert (target / METADATA / "INSTALLER").read_text(encoding="utf-8").strip() == ("uv" if uv_works else "pip")


def test_another_package_than_the_locked_one_is_not_installed(wheel: Path, tmp_path: Path) -> None:
    assert install.main(["--target", str(tmp_path / "target"), lock(tmp_path, "0" * 64)]) != 0
    assert not (tmp_path / "target" / f"{NAME}.py").exists()


def test_uv_looks_where_pip_is_told_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_INDEX_URL", "PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    config_file = tmp_path / "pip.conf"
    config_file.write_text(
        "[global]\nindex-url = https://one.example/simple\nextra-index-url = https://file.example/simple\n"
        "[install]\nindex-url = https://two.example/simple\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config_file))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://three.example/a https://three.example/b")
    options = install.uv_options(install.pip_settings())
    places = list(zip(options[3::2], options[4::2], strict=True))
    assert [place for place in places if place[0] in ("--default-index", "--index")] == [
        ("--default-index", "https://two.example/simple"),
        ("--index", "https://three.example/a"),
        ("--index", "https://three.example/b"),
    ]


def test_without_a_lock_it_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert install.main(["--target", "folder"]) == 2
    assert "usage: python -m tools.install" in capsys.readouterr().err
