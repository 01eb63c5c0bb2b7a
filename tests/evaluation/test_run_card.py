"""The card of a run: what it says, and that it says nothing of the machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from evaluation.files import manifest
from evaluation.files.manifest import list_models, read_manifest, write_manifest
from evaluation.report.run_card import make_card, omit_card_fields
from evaluation.run import command
from evaluation.studies import flips, leaderboard
from evaluation.studies.figures import Result, compute_figures
from evaluation.studies.result_tables import describe_runs
from evaluation.studies.variants import Variant
from tests.evaluation.worlds import ScriptedCragAgent, judged, picture, row, use_agent, write_dataset

ROOT = Path(__file__).parents[2]


def test_a_card_tells_each_value_once_and_no_folder() -> None:
    one = {
        "date": "2026-02-03, 2026-02-04", "commit": "abc1234, def5678-dirty", "preset": "/home/me/my presets/mine.toml",
        "models": {"chat": "/srv/models/x.gguf + eyes", "text_encoder": "BAAI/bge-m3"}, "judge": "local:/home/me/p.toml (kappa 0.5)",
    }  # fmt: skip
    other = {"date": "2026-02-04", "models": {"chat": "gpt at https://here/v1/x"}, "set": "a=1"}
    assert make_card([one, other], 12) == {
        "date": "2026-02-03, 2026-02-04",
        "commit": "abc1234, def5678 with changes",
        "preset": "mine",
        "models": "chat x.gguf + eyes, gpt at https://here/v1/x; text encoder BAAI/bge-m3",
        "turns": "12",
        "judge": "local:p.toml (kappa 0.5)",
    }
    assert make_card([{}], 3) == {"turns": "3"}
    assert omit_card_fields({**other, "without": ""}) == {"set": "a=1"}


@pytest.mark.parametrize("models", ["x", ["a"], 5, None, {}, {"chat": None}, True])
def test_malformed_models_are_none(models: Any) -> None:
    about = {"preset": "mine", "models": models}
    assert list_models(about) == {}
    assert make_card([about, {"models": {"chat": "x"}}], 3) == {"preset": "mine", "models": "chat x", "turns": "3"}
    turns = judged("ch")
    result = Result(Variant("mine", "mine"), "single-turn", compute_figures(turns), turns, about)
    assert not any("model" in note for note in describe_runs([result]))


def test_runs_without_a_date_are_read(tmp_path: Path) -> None:
    about = read_manifest(ROOT / "mini_crag_mm/answers/public_test_full_pages/best/single-turn")
    assert make_card([about], 139)["date"] == about.pop("date")
    card = make_card([about], 139)
    assert "date" not in card and (card["preset"], card["commit"], card["turns"]) == ("best", "a969459c", "139")
    write_manifest(tmp_path, about, resume=False)
    write_manifest(tmp_path, about, resume=True)
    assert read_manifest(tmp_path) == about


def test_the_days_of_a_run_are_noted_when_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "current_commit", lambda: "abc1234")
    for day in ("2026-02-03", "2026-02-03", "2026-02-05"):
        monkeypatch.setattr(manifest, "today", lambda day=day: day)
        manifest.record_start(tmp_path)
    assert read_manifest(tmp_path) == {"date": "2026-02-03, 2026-02-05", "commit": "abc1234"}
    monkeypatch.undo()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", manifest.today())


def test_every_page_has_the_cards_of_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dataset(tmp_path, [row(name, 2, "v0.1.2", picture(), None) for name in "ab"], "v0.1.2")
    monkeypatch.setattr(manifest, "current_commit", lambda: "abc1234-dirty")
    monkeypatch.setattr(manifest, "today", lambda: "2026-02-03")
    answer = iter(["number 0", "number 7"] * 4)
    use_agent(monkeypatch, lambda *_, **__: ScriptedCragAgent(lambda *_: next(answer)))
    runs = [str(tmp_path / name) for name in ("one", "two")]
    places = ["--dataset", str(tmp_path), "--cache", str(tmp_path / "cache")]
    for run in runs:
        assert command.main(["--dataset-type", "multi-turn", *places, "--output-dir", run, "--preset", "best"]) == 0
    out = ["--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")]
    assert leaderboard.main([*runs, *out]) == 0
    assert flips.main([*runs, *out]) == 0
    pages = [
        Path(runs[0]) / "report.html",
        *(tmp_path / "out" / f"{name}.html" for name in ("leaderboard", "flips")),
    ]
    for page in pages:
        text = page.read_text()
        for value in (
            "2026-02-03",
            "abc1234 with changes",
            "best",
            "embedded",
            "chat scripted",
            "crag-mm-multi-turn-public@v0.1.2/validation",
        ):
            assert re.search(rf">{re.escape(value)}<", text), (page.name, value)
        assert ">4<" in text and str(tmp_path) not in text
    for page in pages[:3]:
        assert ">rule<" in page.read_text() and ">ours<" in page.read_text()
