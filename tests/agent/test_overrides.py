"""Settings replaced from the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from agents.settings.presets import settings_from
from agents.settings.profiles import SettingsError
from agents.settings.run_config import RunConfig

BASE = {"stages": ("understand", "answer", "finalise"), "finalise": {"max_idk": 0.5}}


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
    changed = settings_from(BASE, overrides=["rerank.k=3", "rerank.k=4", 'stages=["answer", "finalise"]'])
    assert changed.rerank.k == 4
    assert changed.stages == ("answer", "finalise")


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("queries.splt=none", "no setting 'queries.splt'; did you mean 'split'? known in queries: fuse_entity, "),
        ("querys.split=none", "no setting 'querys'; did you mean 'queries'? known: description, stages, "),
        ("queries.split.deep=1", "no setting 'queries.split.deep'"),
        ("split=none", "no setting 'split'; known: description, stages, "),
        ("queries.split=often", "queries.split=often: input should be 'none'"),
        ("rerank.k=many", "rerank.k=many: input should be a valid integer"),
        ("rerank.k=0", "rerank.k=0: input should be greater than or equal to 1"),
        ("rerank.k", "is no assignment"),
        ("=3", "is no assignment"),
    ],
)
def test_what_does_not_fit_is_said(assignment: str, said: str) -> None:
    with pytest.raises(SettingsError) as error:
        settings_from(BASE, overrides=[assignment])
    assert said in str(error.value)


def test_the_environment_stands_between_the_preset_and_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAG_FINALISE__MAX_IDK", "0.25")
    monkeypatch.setenv("CRAG_LIMITS__BATCH_SIZE", "3")
    assert settings_from(BASE).finalise.max_idk == 0.25
    changed = settings_from(BASE, overrides=["limits.batch_size=4"])
    assert (changed.finalise.max_idk, changed.limits.batch_size) == (0.25, 4)
    monkeypatch.setenv("CRAG_LIMITS__BATCH_SIZE", "many")
    with pytest.raises(SettingsError, match=r"limits\.batch_size"):
        settings_from(BASE)


def test_a_digest_follows_the_settings_and_not_their_description() -> None:
    plain = RunConfig.read("direct_rag", "embedded")
    other = dataclasses.replace(plain, settings=plain.settings.model_copy(update={"description": "other words"}))

    def digest(**options: Sequence[str]) -> str:
        return RunConfig.read("direct_rag", "embedded", **options).digest  # type: ignore[arg-type]

    assert plain.digest == other.digest
    assert plain.digest == digest(overrides=["queries.fuse_entity=false"])
    assert plain.digest != digest(overrides=["rerank.k=2"])
    assert plain.digest != digest(without=["rerank"])


@pytest.mark.parametrize(
    "override", ["limits.margin_seconds=20", "limits.margin_seconds=10", "limits.seconds_per_turn=1"]
)
def test_a_margin_that_leaves_no_time_is_refused_in_one_line(override: str) -> None:
    with pytest.raises(SettingsError, match=r"margin_seconds \(\d+\) has to be below seconds_per_turn") as error:
        settings_from(BASE, overrides=[override])
    assert "\n" not in str(error.value)
    assert settings_from(BASE, overrides=["limits.margin_seconds=9.5"]).limits.margin_seconds == 9.5
