"""The commands of the generator and of `prepare`: exit statuses, what they print, what is made again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from agents.models import vision
from agents.models.vision.object_embedding import MEAN_FILE
from mini_crag_mm import prepare
from mini_crag_mm.generator import __main__ as command
from mini_crag_mm.generator import set_rules
from mini_crag_mm.loader import SetPaths
from mini_crag_mm.organiser_format import STAMP


@pytest.fixture
def here(built: SetPaths, monkeypatch: pytest.MonkeyPatch) -> SetPaths:
    """The command works on the tiny set."""
    monkeypatch.setattr(command, "SetPaths", lambda: built)
    return built


def test_check_lists_what_is_wrong(here: SetPaths, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--check"]) == 1
    printed = capsys.readouterr().out
    assert "error: only 3 entities; at least 200 are wanted" in printed
    assert "validation: 2 entities, 1 own pages, 2 wiki pages, 2 scenes, 1 egocentric, 3 single, 0 dialogs" in printed


def test_what_is_missing_is_made(here: SetPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_rules, "check_counts", lambda content: ())
    here.kg("validation").unlink()
    here.own_pages.unlink()
    assert command.main([]) == 0
    assert here.kg("validation").exists() and here.own_pages.exists()


def test_faulty_yaml_ends_it(here: SetPaths, capsys: pytest.CaptureFixture[str]) -> None:
    (here.content / "tst" / "single.yaml").write_text("- {id: half}")
    assert command.main([]) == 1
    assert "single.yaml: half: split" in capsys.readouterr().err


def test_indices_are_built_again_where_pictures_are_embedded_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / STAMP).write_text("built")
    code = tmp_path / "vision"
    code.mkdir()
    for file in (Path(vision.__file__ or "").parent).glob("object_embedding*.*"):
        (code / file.name).write_bytes(file.read_bytes())
    before = prepare.compute_fingerprint(tmp_path / "datasets")
    monkeypatch.setattr(vision, "__file__", str(code / "__init__.py"))
    assert prepare.compute_fingerprint(tmp_path / "datasets") == before
    (code / MEAN_FILE.name).write_bytes(b"another mean")
    assert prepare.compute_fingerprint(tmp_path / "datasets") != before


@pytest.fixture
def prepare_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Prepare validation with these options; return whether its indices were built."""
    for name in ("write_entry_pictures", "write_full_pages"):
        monkeypatch.setattr(prepare, name, lambda *_: None)
    monkeypatch.setattr(prepare, "build_datasets", lambda folder: SimpleNamespace(root=folder))
    monkeypatch.setattr(prepare, "compute_fingerprint", lambda _: "abc")

    def call(*arguments: str, killed: bool = False) -> bool:
        built: list[str] = []

        def build(split: str, *_: object, **__: object) -> None:
            built.append(split)
            if killed:
                raise KeyboardInterrupt

        monkeypatch.setattr(prepare, "build_indices", build)
        with pytest.raises(KeyboardInterrupt) if killed else nullcontext():
            prepare.main(["--split", "validation", "--cache", str(tmp_path), *arguments])
        return built == ["validation"]

    return call


def test_indices_are_built_again_where_another_call_has_written_others(prepare_validation: Callable[..., bool]) -> None:
    calls = (["1200"], ["1200"], ["-1"], ["1200"], ["1200", "--chunk-words", "20"], ["1200"], ["1200"])
    built = [prepare_validation("--background", *arguments) for arguments in calls]
    assert built == [True, False, True, True, True, True, False]
    assert prepare_validation("--background", "7", killed=True)
    assert prepare_validation("--background", "1200"), "the killed call may have written one of its indices"
