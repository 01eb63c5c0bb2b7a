"""The commands: exit statuses and what they print."""

from __future__ import annotations

from types import ModuleType

import pytest

from mini_crag_mm.generator import __main__ as build
from mini_crag_mm.generator import check, compose, kg, photos, wiki
from mini_crag_mm.generator.paths import DemoPaths


@pytest.fixture
def here(built: DemoPaths, monkeypatch: pytest.MonkeyPatch) -> DemoPaths:
    """All commands work on the tiny set."""
    modules: list[ModuleType] = [build, check, compose, kg, photos, wiki]
    for module in modules:
        monkeypatch.setattr(module, "DemoPaths", lambda: built)
    return built


def test_check_lists_what_is_wrong(here: DemoPaths, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main() == 1
    printed = capsys.readouterr().out
    assert "error: only 3 entities; at least 200 are wanted" in printed
    assert "validation: 2 entities, 1 own pages, 2 wiki pages, 2 scenes, 1 egocentric, 3 single, 0 dialogs" in printed


def test_build_runs_all_steps(here: DemoPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "check_counts", lambda content: ())
    here.kg("validation").unlink()
    here.own_pages.unlink()
    (here.scenes / "t_s001.webp").unlink()
    assert build.main([]) == 0
    assert here.kg("validation").exists() and here.own_pages.exists() and (here.scenes / "t_s001.webp").exists()


def test_build_stops_at_faulty_yaml(here: DemoPaths, capsys: pytest.CaptureFixture[str]) -> None:
    (here.content / "tst" / "single.yaml").write_text("- {id: half}")
    assert build.main([]) == 1
    assert "single.yaml: half: split" in capsys.readouterr().err


def test_photos_need_all_their_folders(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build.main(["--photos", "--stamps", "x"])
    assert "missing: gcompris, skimage, sklearn, gradio" in capsys.readouterr().err


def test_single_steps(here: DemoPaths, capsys: pytest.CaptureFixture[str]) -> None:
    assert (kg.main(), wiki.main(), compose.main([])) == (0, 0, 0)
    (here.photos / "red_square.webp").unlink()
    assert compose.main(["--force"]) == 1
    assert "photo of red_square" in capsys.readouterr().err
