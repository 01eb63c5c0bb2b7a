"""An option of a stage that nothing sets is a constant: each differs from its default in a preset, an example, a page or an ablation."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agents.profiles.profile import PRESETS, PROFILES, ROOT, SettingsError
from agents.settings.presets import parse_assignment
from agents.stage import stage_class, stage_names
from evaluation.studies.variants import MORE_PARTS, PARTS

NEEDED_UNSET = {
    "cite.threshold": "a score of the profile's reranker, and rerankers have scales of their own",
    "coherence.k": "how many are kept: the paper has 5, a model with a longer context takes more",
    "documents.k": "how many are kept: the paper has 5, a model with a longer context takes more",
    "finalise.rules": "rules from outside of this project: none stands in it",
    "grounded_answer.entity_picture": "for a model that tells pictures apart better than the encoder of the search",
    "cross_check.own_minimum": "a probability of one's own model: `calibrate --fit own_knowledge` prints it",
    "cross_check.white_box": "as verify.white_box",
    "cross_check.weight_min": "as verify.weight_min",
    "cross_check.weight_mean": "as verify.weight_mean",
    "cross_check.white_box_threshold": "as verify.white_box_threshold",
    "cross_check.min_probability": "as verify.min_probability",
    "cross_check.mean_probability": "as verify.mean_probability",
    "verify.white_box": "line: for a model of one's own, after `calibrate --fit white_box`",
    "verify.weight_min": "of that line: `calibrate --fit white_box` prints it",
    "verify.weight_mean": "of that line: `calibrate --fit white_box` prints it",
    "verify.white_box_threshold": "of that line: `calibrate --fit white_box` prints it",
    "verify.min_probability": "of the released code's rule: probabilities of another model lie elsewhere",
    "verify.mean_probability": "of the released code's rule: probabilities of another model lie elsewhere",
}
"""Options that stay although nothing here sets them, each with the reason."""

_SETTING = re.compile(r"\b([a-z_0-9]+\.[a-z_0-9]+(?:=| = )(?:\[[^\]]*\]|\"[^\"]*\"|[^\s'\"`,;:)|]+))")

Setting = tuple[str, str, Any]  # stage, option, value


def flatten_tables(table: Mapping[str, Any]) -> Iterator[Setting]:
    """Yield what a preset, or one of its tables for a profile or a model, sets."""
    for overlays in ("profiles", "models"):
        for overlay in table.get(overlays, {}).values():
            yield from flatten_tables(overlay)
    for stage, options in table.items():
        if isinstance(options, Mapping) and stage not in ("profiles", "models"):
            yield from ((stage, option, value) for option, value in options.items())


def find_settings(text: str) -> Iterator[Setting]:
    """Yield what `stage.option=value` in a text sets."""
    for setting in _SETTING.findall(text):
        try:
            yield from flatten_tables(parse_assignment(setting.rstrip(".")))
        except SettingsError:
            continue  # prose that looks like one


def find_all_settings() -> Iterator[Setting]:
    """Yield all settings of presets, profiles, examples, pages and the parts that an ablation leaves out."""
    files: list[Path] = [path for folder in (PRESETS, PROFILES, ROOT / "examples") for path in folder.rglob("*.toml")]
    for path in files:
        text = path.read_text(encoding="utf-8")
        yield from flatten_tables(tomllib.loads(text))
        yield from find_settings(text)  # the comments, which name variants
    for page in (
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "lab" / "notes").glob("*.md"),
        *(ROOT / "examples").glob("*.*"),
    ):
        yield from find_settings(page.read_text(encoding="utf-8"))
    for part in (*PARTS, *MORE_PARTS):
        if part.switch is not None:
            key, off = part.switch
            yield (*key.split("."), off)  # type: ignore[misc]
        yield from (setting for text in part.besides for setting in find_settings(text))


def never_set() -> set[str]:
    """Return the options, as `stage.option`, that nothing sets to another value than their default."""
    unset: dict[str, tuple[type[Any], Any]] = {}
    for name in stage_names():
        options = stage_class(name).Options
        unset |= {f"{name}.{option}": (options, field.get_default()) for option, field in options.model_fields.items()}
    for stage, option, value in find_all_settings():
        options, default = unset.get(key := f"{stage}.{option}", (None, None))
        if options is not None and _value(options, option, value) != default:
            del unset[key]
    return set(unset)


def _value(options: type[Any], option: str, value: Any) -> Any:
    """Return a value as the option's type reads it; as it is where only the whole run could read it, such as a table or a path."""
    try:
        return getattr(options.model_validate({option: value}), option)
    except ValueError:
        return value


def test_every_option_is_set_by_something_or_kept_for_a_reason() -> None:
    unset = never_set()
    needless = sorted(unset - NEEDED_UNSET.keys())
    assert not needless, f"make constants of these, with their source: {', '.join(needless)}"
    assert sorted(NEEDED_UNSET.keys() - unset) == [], "these are set, or are gone: NEEDED_UNSET need not name them"


def test_a_setting_is_found_in_each_place() -> None:
    table = {"rerank": {"k": 3}, "models": {"a": {"rerank": {"threshold": 0.2}}}, "stages": ["rerank"]}
    assert set(flatten_tables(table)) == {("rerank", "k", 3), ("rerank", "threshold", 0.2)}
    text = '`--set coherence.metric=l1,look.read=false`; route.trained = "x.json".'
    assert set(find_settings(text)) == {
        ("coherence", "metric", "l1"),
        ("look", "read", False),
        ("route", "trained", "x.json"),
    }
