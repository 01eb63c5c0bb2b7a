"""How many a stage keeps is called ``k`` everywhere, and the names that these options had before still work."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest
from pydantic import Field

from agents.profiles.profile import SettingsError
from agents.settings import renamed
from agents.settings.presets import load_settings, settings_from
from agents.settings.renamed import RENAMED
from agents.stage import Context, Stage, StageOptions, stage_class, stage_names

OLD = [(stage, old, new) for stage, names in RENAMED.items() for old, new in names.items()]


@pytest.fixture(autouse=True)
def _warned_of_nothing() -> None:
    renamed._warn_of_old_name.cache_clear()


def test_what_says_how_many_are_kept_is_called_k() -> None:
    named = {(stage, name) for stage in stage_names() for name in stage_class(stage).Options.model_fields}
    things = r"(max|min|num|n|top)_?(chunks|entries|entities|pages|queries|objects|documents|evidence|pictures|k)|k\d"
    assert [each for each in sorted(named) if re.fullmatch(things, each[1])] == []
    assert {(stage, new) for stage, _, new in OLD} <= named
    assert not {(stage, old) for stage, old, _ in OLD} & named


@pytest.mark.parametrize(("stage", "old", "new"), OLD)
def test_an_old_name_works_in_a_preset_an_environment_variable_and_an_override(
    stage: str, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stages = f'stages = ["{stage}", "finalise"]\n'
    (tmp_path / "own.toml").write_text(f"{stages}[{stage}]\n{old} = 7\n[profiles.gpu.{stage}]\n{old} = 8\n")
    (tmp_path / "new.toml").write_text(f"{stages}[{stage}]\n{new} = 7\n")

    def value(preset: str = "own", profile: str = "embedded", **more: list[str]) -> int:
        settings = load_settings(preset, profile, tmp_path, **more)
        return int(getattr(settings.options(stage_class(stage)), new))

    assert (value(), value("new"), value(profile="gpu")) == (7, 7, 8)
    assert value(overrides=[f"{stage}.{old}=3"]) == value("new", overrides=[f"{stage}.{old}=3"]) == 3
    assert value(overrides=[f"{stage}.{new}=4"]) == 4
    monkeypatch.setenv(f"CRAG_{stage}__{old}".upper(), "5")
    assert value() == value("new") == 5
    assert value(overrides=[f"{stage}.{new}=6"]) == 6
    warning = f"the setting {stage}.{old} is called {stage}.{new} now"
    assert caplog.text.count(warning) == 1


def test_both_names_in_one_table_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"answer\.evidence is the old name of answer\.k, and both are set"):
        settings_from({"stages": ["answer", "finalise"], "answer": {"evidence": 3, "k": 4}})


def test_a_wrong_value_under_an_old_name_is_told_of_the_new_one() -> None:
    with pytest.raises(SettingsError, match=r"answer\.k=many: input should be a valid integer"):
        settings_from({"stages": ["answer", "finalise"]}, overrides=["answer.evidence=many"])


def test_a_stage_of_somebody_else_keeps_its_own_options(monkeypatch: pytest.MonkeyPatch) -> None:
    class Answer(Stage):
        """A stage that is called as one of this project."""

        name = "answer"

        class Options(StageOptions):
            evidence: int = Field(2, description="their own")
            k: int = Field(1, description="their own too")

        def run(self, turns: object, context: Context) -> None:
            del turns, context

    module = types.ModuleType("somebody_elses_answer")
    Answer.__module__ = module.__name__
    module.Answer = Answer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    settings = settings_from(
        {"stages": ["somebody_elses_answer:Answer", "finalise"]}, overrides=["answer.evidence=9", "answer.k=4"]
    )
    assert settings.options(Answer).model_dump() == {"evidence": 9, "k": 4}
