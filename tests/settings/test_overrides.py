"""Settings replaced from the command line."""

from __future__ import annotations

import dataclasses
import logging
import re
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agents.profiles.profile import PRESETS, PROFILES, ROOT, SettingsError, load_profile, names
from agents.settings.presets import BLIND, BLIND_COLLECTION, VARIABLES, load_settings, settings_from
from agents.settings.run_config import RunConfig

BASE = {"stages": ("understand", "route", "queries", "rerank", "answer", "finalise"), "finalise": {"max_idk": 0.5}}


@pytest.mark.parametrize(
    ("assignment", "table", "name", "value"),
    [
        ("queries.split=none", "queries", "split", "none"),  # no TOML: text
        ('queries.split="rules"', "queries", "split", "rules"),
        ("queries.fuse_entity=false", "queries", "fuse_entity", False),
        (" rerank.k = 3 ", "rerank", "k", 3),
        ("finalise.max_idk=null", "finalise", "max_idk", None),
        ('finalise.verified_by=["model"]', "finalise", "verified_by", ("model",)),
        ("route.trained=presets/router.json", "route", "trained", "presets/router.json"),
    ],
)
def test_a_setting_is_replaced(assignment: str, table: str, name: str, value: object) -> None:
    changed = settings_from(BASE, overrides=[assignment])
    assert getattr(getattr(changed, table), name) == value
    before = settings_from(BASE)
    others = set(type(before).model_fields) - {table}
    assert all(getattr(changed, other) == getattr(before, other) for other in others)


def test_the_last_of_two_assignments_wins_and_stages_can_be_named() -> None:
    changed = settings_from(BASE, overrides=["rerank.k=3", "rerank.k=4", 'stages=["rerank", "finalise"]'])
    assert changed.rerank.k == 4
    assert changed.stages == ("rerank", "finalise")


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("queries.splt=none", "no setting 'queries.splt'; did you mean 'split'? known in queries: fuse_entity, "),
        ("querys.split=none", "no setting 'querys.split'; did you mean 'queries.split'? known: description, stages, "),
        ("queries.split.deep=1", "no setting 'queries.split.deep'"),
        ("split=none", "no setting 'split'; known: description, stages, "),
        ("queries.split=often", "queries.split=often: input should be 'none'"),
        ("rerank.k=many", "rerank.k=many: input should be a valid integer"),
        ("rerank.k=0", "rerank.k=0: input should be greater than or equal to 1"),
        ("rerank.k", "is no assignment"),
        ("=3", "is no assignment"),
    ],
)
def test_what_does_not_fit_is_said(assignment: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        settings_from(BASE, overrides=[assignment])
    assert message in str(error.value)


def test_the_environment_stands_between_the_preset_and_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAG_FINALISE__MAX_IDK", "0.25")
    monkeypatch.setenv("CRAG_LIMITS__BATCH_SIZE", "3")
    assert settings_from(BASE).finalise.max_idk == 0.25
    changed = settings_from(BASE, overrides=["limits.batch_size=4"])
    assert (changed.finalise.max_idk, changed.limits.batch_size) == (0.25, 4)
    monkeypatch.setenv("CRAG_LIMITS__BATCH_SIZE", "many")
    with pytest.raises(SettingsError, match=r"^environment variable CRAG_LIMITS__BATCH_SIZE=many: input should be"):
        settings_from(BASE)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("CRAG_ANSWER__K", "abc", "CRAG_ANSWER__K=abc: input should be a valid integer"),
        ("crag_answer__k", "abc", "crag_answer__k=abc: input should be a valid integer"),
        ("CRAG_ANSWER__KK", "1", "CRAG_ANSWER__KK=1: there is no setting 'answer.kk'; did you mean 'k'?"),
        ("CRAG_ANSWER", "3", "CRAG_ANSWER=3: input should be a valid dictionary"),
        ("CRAG_ANSWER", "{", "CRAG_... is malformed: "),
    ],
)
def test_a_wrong_variable_is_blamed_and_the_preset_is_not(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as error:
        load_settings("best", "embedded")
    assert str(error.value).startswith(f"environment variable {message}")
    if "malformed" not in message:
        with pytest.raises(SettingsError, match=r"^answer\.k=x: "):
            monkeypatch.delenv(name)
            load_settings("best", "embedded", overrides=["answer.k=x"])


def test_a_digest_follows_the_settings_and_not_their_description() -> None:
    plain = RunConfig.read("direct_rag", "embedded")
    other = dataclasses.replace(plain, settings=plain.settings.model_copy(update={"description": "other words"}))

    def digest(**options: Sequence[str]) -> str:
        return RunConfig.read("direct_rag", "embedded", **options).digest  # type: ignore[arg-type]

    assert plain.digest == other.digest
    assert plain.digest == digest(overrides=["queries.fuse_entity=false"])
    assert plain.digest != digest(overrides=["rerank.k=2"])
    assert plain.digest != digest(without=["rerank"])


REFUSED = [  # preset, key, what is meant
    ("best", "rerank.k", "(preset 'best' has no stage 'rerank'); did you mean 'two_stage_rerank.k"),
    ("cruise", "two_stage_rerank.k", "(preset 'cruise' has no stage 'two_stage_rerank'); did you mean 'rerank.k'?"),
    ("best", "answr.k", "; did you mean 'answer.k'?"),
    ("best", "limts.batch_size", "; did you mean 'limits.batch_size'?"),
    ("vlm_only", "consistency.k", "(preset 'vlm_only' has no stage 'consistency'); known: description, "),
]


@pytest.mark.parametrize(("preset", "key", "suggestion"), REFUSED)
def test_a_setting_of_a_stage_that_the_preset_does_not_have_is_refused(preset: str, key: str, suggestion: str) -> None:
    with pytest.raises(SettingsError) as error:
        RunConfig.read(preset, "embedded", overrides=[f"{key}=3"])
    assert f"there is no setting '{key}'" in str(error.value) and suggestion in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("preset", "key", "suggestion"), REFUSED)
def test_an_environment_variable_that_names_nothing_is_refused(
    preset: str, key: str, suggestion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "CRAG_" + key.replace(".", "__").upper()
    monkeypatch.setenv(variable, "3")
    with pytest.raises(SettingsError) as error:
        RunConfig.read(preset, "embedded")
    assert f"environment variable {variable} names no setting" in str(error.value)
    if "did you mean" in suggestion:
        offered = suggestion.partition("did you mean '")[2].rstrip("'?").replace(".", "__").upper()
        assert f"did you mean 'CRAG_{offered}" in str(error.value)


def test_variables_of_other_presets_do_not_stop_a_profile_from_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judges and calibration want the models of a profile alone."""
    monkeypatch.setenv("CRAG_RERANK__K", "3")
    assert RunConfig.read("direct_rag", "embedded").settings.rerank.k == 3
    assert RunConfig.of_profile("embedded").profile.name == "embedded"


def test_an_unknown_variable_does_not_stop_the_evaluators_agent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its machine may have variables of its own; a command, such as the preflight, refuses them."""
    monkeypatch.setenv("CRAG_MOCK_API_URL", "http://localhost:8000")
    monkeypatch.setenv("CRAG_PROFILE", "embedded")
    with caplog.at_level(logging.WARNING):
        assert RunConfig.from_environment().preset == "best"
    assert ["CRAG_MOCK_API_URL" in record.getMessage() for record in caplog.records] == [True]
    with pytest.raises(SettingsError, match="environment variable CRAG_MOCK_API_URL names no setting"):
        RunConfig.read("best", "embedded")


def test_every_variable_of_the_repository_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that code, profiles, images and pages name are settings, or stand in ``VARIABLES``."""
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    made_up = {"CRAG_NAME", "CRAG_SHORTEN__MAX_WORDS", "CRAG_MOCK_API_URL"}
    made_up |= {"CRAG_BACKEND", "CRAG_TASK_MODE"}  # of other repositories' agents
    variables = {
        name
        for file in files
        if file and not file.startswith("tests/") and (ROOT / file).suffix in {"", ".py", ".md", ".toml", ".cpu"}
        for name in re.findall(r"\bCRAG_[A-Z][A-Z0-9_]*\b", (ROOT / file).read_text(encoding="utf-8"))
    }
    assert len(variables) >= len(VARIABLES), "the files were read"
    settings = {name for name in variables - VARIABLES - made_up if "__" in name}
    assert variables - made_up == VARIABLES | settings
    for name in settings:
        monkeypatch.setenv(name, "3")
        RunConfig.read("best", "embedded")
        monkeypatch.delenv(name)


@pytest.mark.parametrize("value", ["rerank.k=many", "rerank.most=3"])
def test_a_missing_stage_is_reported_before_its_wrong_options(value: str) -> None:
    with pytest.raises(SettingsError, match="preset 'best' has no stage 'rerank'"):
        RunConfig.read("best", "embedded", overrides=["answer.k=3", value])


def test_what_is_left_out_cannot_be_set() -> None:
    with pytest.raises(SettingsError, match=r"rerank\.k=3 would change nothing: stage 'rerank' is left out"):
        RunConfig.read("direct_rag", "embedded", overrides=["rerank.k=3"], without=["reranking"])
    changed = RunConfig.read("direct_rag", "embedded", overrides=["rerank.k=3"], without=["web_search"])
    assert changed.settings.rerank.k == 3


def test_a_stage_that_another_needs_can_be_set_where_it_is_needed() -> None:
    """``finalise.cite`` puts the stage ``cite`` into any preset."""
    with pytest.raises(
        SettingsError, match=r"no setting 'cite\.threshold' \(preset 'direct_rag' has no stage 'cite'\)"
    ):
        RunConfig.read("direct_rag", "embedded", overrides=["cite.threshold=0.25"])
    overrides = ["cite.threshold=0.25", "finalise.cite=true"]
    assert RunConfig.read("direct_rag", "embedded", overrides=overrides).settings.cite.threshold == 0.25


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ("[rerank]\nk = 3", r"\[rerank\] changes nothing: there is no setting 'rerank'"),
        ("[profiles.other.rerank]\nk = 3", r'\[profiles\."other"\.rerank\] changes nothing'),
        ('[models."a + b".rerank]\nk = 3', r'\[models\."a \+ b"\.rerank\] changes nothing'),
        ("[profiles.other.rerankk]\nk = 3", r"\[profiles\.\"other\"\] there is no setting 'rerankk'"),
    ],
)
def test_a_preset_has_no_table_for_a_stage_that_it_lacks(tmp_path: Path, tables: str, message: str) -> None:
    """Whether or not the table holds under the profile at hand."""
    stages = 'stages = ["two_stage_rerank", "answer", "finalise"]\n'
    (tmp_path / "p.toml").write_text(f"{stages}[two_stage_rerank]\nk = 2\n{tables}\n")
    with pytest.raises(SettingsError, match=f"preset 'p' is malformed: {message}") as error:
        load_settings("p", "embedded", tmp_path)
    assert "\n" not in str(error.value)


def test_a_preset_keeps_its_tables_where_its_stages_are_replaced() -> None:
    changed = RunConfig.read("cruise", "embedded", overrides=['stages=["answer", "finalise"]']).settings
    assert changed.stages == ("answer", "finalise")


@pytest.mark.parametrize("preset", names(PRESETS))
def test_every_overlay_of_a_preset_is_well_formed(preset: str) -> None:
    """Also those that no profile has now; each names a profile that there is."""
    table: dict[str, Any] = tomllib.loads((PRESETS / f"{preset}.toml").read_text(encoding="utf-8"))
    profiles, models = table.pop("profiles", {}), table.pop("models", {})
    assert set(profiles) <= {*names(PROFILES), BLIND, BLIND_COLLECTION}
    blind = profiles.get(BLIND, {})
    for overlay in (*profiles.values(), *models.values()):
        stages = {
            stage
            for tables in ((table, overlay), (table, blind, overlay))
            for stage in settings_from(*tables).stage_classes
        }
        assert {*overlay} <= {*stages, "limits", "stages"}


def test_what_is_for_models_that_do_not_see_holds_under_every_such_profile(tmp_path: Path) -> None:
    """Also under one of somebody's own, which no table of a preset names; a table after it has the last word."""
    (tmp_path / "told.toml").write_text('sees = false\n[models.chat]\nkind = "own.module:Chat"\n')
    told, sees = load_profile("told", tmp_path), load_profile("server")
    assert load_settings("best", told).stages[:2] == ("understand", "look_by_words")
    assert load_settings("best", sees).stages[0] == "look"
    assert (load_settings("best", told).answer.k, load_settings("best", "embedded").answer.k) == (16, 5)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "override", ["limits.margin_seconds=20", "limits.margin_seconds=10", "limits.seconds_per_turn=1"]
)
def test_a_margin_that_leaves_no_time_is_refused_in_one_line(override: str) -> None:
    with pytest.raises(SettingsError, match=r"margin_seconds \(\d+\) has to be below seconds_per_turn") as error:
        settings_from(BASE, overrides=[override])
    assert "\n" not in str(error.value)
    assert settings_from(BASE, overrides=["limits.margin_seconds=9.5"]).limits.margin_seconds == 9.5
