"""``aicrowd.json``: written for a task, and checked against the models that would be loaded."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from agents.base.files import first_fault, format_os_error, parse_json, write_whole
from agents.base.named import is_path
from agents.base.revisions import LOCK_COMMAND, MAIN, NOT_LOADED, is_commit
from agents.profiles.profile import PRESETS, PROFILES, ROOT, Limits
from agents.profiles.weights import cached_revision, is_hub_id, submitted_revisions
from agents.settings.presets import Settings
from agents.settings.run_config import RunConfig
from agents.settings.stage_needs import find_searches
from apps.preflight.check import Check, check
from apps.preflight.checkpoints import SEARCH_WEB, list_checkpoints
from apps.preflight.image import read_dockerfile

EVALUATION_SECONDS = 7.5 * 3600
"""Seconds that the evaluator gives all questions together (the challenge's page; 4 hours before)."""

CHALLENGES: Mapping[int, str] = {1: "single-source-augmentation", 2: "multi-source-augmentation", 3: "multi-turn-qa"}
"""The challenge ids of the three tasks (CRAG-MM rules); task 1 has no web search."""


class HubModel(BaseModel):
    """An entry of ``hf_models``."""

    model_config = ConfigDict(extra="forbid")

    repo_id: str
    revision: str
    ignore_patterns: str | list[str] | None = None


class Submission(BaseModel):
    """Fields of ``aicrowd.json`` that the evaluator needs; others, such as authors, are kept as they are."""

    model_config = ConfigDict(extra="allow")

    challenge_id: Literal["single-source-augmentation", "multi-source-augmentation", "multi-turn-qa"]
    gpu: bool
    hf_models: list[HubModel]

    @property
    def task(self) -> int:
        """Number of the task, 1 to 3."""
        return next(number for number, name in CHALLENGES.items() if name == self.challenge_id)


def list_models(config: RunConfig, task: int) -> list[str]:
    """Return the hub models that a task can load, sorted; see ``list_revisions``."""
    return sorted(list_revisions(config, task))


def list_revisions(config: RunConfig, task: int) -> dict[str, set[str]]:
    """Return the hub models that a task can load, each with the revisions that profile and preset name.

    Raises:
        SettingsError: The profile names no model for a role of the preset.
    """
    named = [
        (each.path, each.revision)
        for each in list_checkpoints(config)
        if not (task == 1 and each.roles == (SEARCH_WEB,))
    ]
    return {model: {revision for path, revision in named if path == model} for model, _ in named if is_hub_id(model)}


def write_submission(path: Path, task: int, config: RunConfig) -> dict[str, Any]:
    """Write ``aicrowd.json`` for a task; other fields of an older file, such as authors, stay.

    A model gets the commit of the profile; else the revision that the older file has for it, that of the local Hugging Face cache, or
    ``main``.

    Raises:
        ValueError: The older file is no JSON object.
    """
    old = _parse_older(path)
    earlier_revisions = submitted_revisions(path)
    models = []
    for model, revisions in sorted(list_revisions(config, task).items()):
        commits = sorted(filter(is_commit, revisions))
        revision = commits[0] if commits else earlier_revisions.get(model) or cached_revision(model) or MAIN
        models.append({"repo_id": model, "revision": revision, "ignore_patterns": list(NOT_LOADED)})
    table = {**old, "challenge_id": CHALLENGES[task], "gpu": True, "hf_models": models}
    write_whole(path, json.dumps(table, indent=2) + "\n")
    return table


def _parse_older(path: Path) -> dict[str, Any]:
    """Parse the file of an earlier run; {} if there is none.

    Raises:
        ValueError: The file is no JSON object.
    """
    try:
        table = parse_json(path.read_bytes()) if path.is_file() else {}
    except ValueError as error:
        raise ValueError(f"{path} is no JSON ({error}); remove it, and it is written anew") from error
    if not isinstance(table, dict):
        raise ValueError(f"{path} is no JSON object; remove it, and it is written anew")
    return table


def read_submission(path: Path, fix: str) -> Submission | Check:
    """Read ``aicrowd.json``; return a failed check if it cannot be read."""
    try:
        return Submission.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        there_is_none = isinstance(error, FileNotFoundError)
        finding = (
            first_fault(error)
            if isinstance(error, ValidationError)
            else "there is none"
            if there_is_none
            else format_os_error(error)
        )
        is_broken = not isinstance(error, FileNotFoundError)
        return Check("aicrowd.json", "failed", finding, f"remove {path.name}, then {fix}" if is_broken else fix)


def check_submission(path: Path, config: RunConfig) -> list[Check]:
    """Check that ``aicrowd.json`` is valid, lists exactly the models to load, and suits the preset."""
    submission = read_submission(path, "python -m apps.preflight --task 1|2|3")
    if isinstance(submission, Check):
        return [submission]
    task = submission.task
    again = f"python -m apps.preflight --task {task}"
    listed = [model.repo_id for model in submission.hf_models]
    used_models = list_models(config, task)
    wrong = [f"missing: {model}" for model in used_models if model not in listed]
    wrong += [f"never loaded: {model}" for model in listed if model not in used_models]
    wrong += ["a model is listed twice"] * (len(set(listed)) < len(listed))
    images, web = find_searches(config.settings)
    lacking = "image" if not images else "" if web or task == 1 else "web"
    searched = f"{task}: image{' and web' * (task > 1)} search"
    searched += f", but the preset makes no {lacking} search" * bool(lacking)
    valid = f"valid, {submission.challenge_id}" if submission.gpu else "gpu is false"
    return [
        check("aicrowd.json", submission.gpu, valid, f"the profile {config.profile.name} needs one: {again}"),
        check("models listed", not wrong, "; ".join(wrong) or f"{len(used_models)}, as the preset loads them", again),
        check_revisions(submission, list_revisions(config, task), f"{LOCK_COMMAND}, or {again}"),
        check("task", not lacking, searched, "take another preset" + ", or --task 1" * images),
    ]


def check_revisions(
    submission: Submission, revisions_by_model: Mapping[str, set[str]], fix: str, pin: str = LOCK_COMMAND
) -> Check:
    """Check that each model has one commit, in ``aicrowd.json`` and in the profile.

    A branch, such as the starter kit's ``main``, may move; without a name the evaluator fetches nothing, and of two commits it fetches the
    one that the agent does not load.
    """
    name = "revisions pinned"
    unnamed = sorted(model.repo_id for model in submission.hf_models if not model.revision)
    if unnamed:
        return Check(name, "failed", f"no revision for {', '.join(unnamed)}", fix)
    listed = {model.repo_id: model.revision for model in submission.hf_models}
    differing = sorted(
        f"{model}@{listed[model]}, but @{revision} in the profile"
        for model, revisions in revisions_by_model.items()
        for revision in revisions
        if model in listed and is_commit(revision) and revision != listed[model]
    )
    if differing:
        return Check(name, "failed", f"aicrowd.json names {'; '.join(differing)}", fix)
    loose = {f"{model}@{revision}" for model, revision in listed.items() if not is_commit(revision)}
    unpinned = {model for model, revisions in revisions_by_model.items() if not all(map(is_commit, revisions))}
    if loose or unpinned:
        findings = [f"aicrowd.json: {', '.join(sorted(loose))}"] * bool(loose)
        findings += [f"profile: {', '.join(sorted(unpinned))}"] * bool(unpinned)
        return Check(name, "warning", f"no commit, so that the weights may change: {'; '.join(findings)}", pin)
    return Check(name, "ok", "each a commit" + ", the same in profile and aicrowd.json" * bool(revisions_by_model))


def check_limits(settings: Settings) -> Check:
    """Check that the agent keeps the challenge's limits of time and length, the defaults of ``Limits``."""
    allowed, ours = Limits(), settings.limits
    wrong = [
        f"{field} is {getattr(ours, field):g}, the challenge allows {getattr(allowed, field):g}"
        for field in ("seconds_per_turn", "seconds_per_dialog", "answer_tokens")
        if getattr(ours, field) > getattr(allowed, field)
    ]
    slowest = int(EVALUATION_SECONDS / ours.seconds_per_turn)
    finding = (
        f"{ours.seconds_per_turn:g} s a turn, {ours.seconds_per_dialog:g} s a dialog, {ours.batch_size} turns a call; the evaluation's "
        f"{EVALUATION_SECONDS / 3600:g} hours hold {slowest:,} turns that take all their time"
    )
    return check(
        "limits", not wrong, "; ".join(wrong) or finding, "lower it under [limits] of the profile or the preset"
    )


def check_gate(config: RunConfig) -> Check:
    """Check that the preset's gate was fitted to these models."""
    if config.gate_note is not None:
        return Check("gate", "warning", config.gate_note, "python -m evaluation.studies.calibrate --help")
    return Check("gate", "ok", "fitted to these models, or the preset has none")


def check_image_choices(preset: str, profile: str, dockerfile: Path) -> list[Check]:
    """Check that the image would run this preset under this profile; its default is ``best`` under ``gpu``.

    Args:
        preset: Name of the preset, or the path of its file.
        profile: Name of the profile, or the path of its file.
        dockerfile: The image's Dockerfile; its working directory is the repository.
    """
    checks = []
    for name, choice, runs, folder in zip(
        ("preset", "profile"), (preset, profile), read_image_choices(dockerfile), (PRESETS, PROFILES), strict=True
    ):
        variable = f"CRAG_{name.upper()}"
        file = _locate(choice, folder, Path.cwd())
        good = file == _locate(runs, folder, ROOT)
        value = file.stem if file.parent == folder else choice
        fix = f"ENV {variable}={value} in the Dockerfile, or leave --{name} out to check what the image runs"
        if not file.is_relative_to(ROOT):  # the image does not have it
            good, fix = False, f"copy {choice} to {folder.name}/{file.name}, then {variable}={file.stem}"
        checks.append(check(name, good, f"the image runs {runs}", fix))
    return checks


def read_image_choices(dockerfile: Path) -> tuple[str, str]:
    """Return the preset and the profile that the image runs: those of its Dockerfile, else ``best`` under ``gpu``."""
    env = read_dockerfile(dockerfile).env if dockerfile.is_file() else {}
    return env.get("CRAG_PRESET") or "best", env.get("CRAG_PROFILE") or "gpu"


def _locate(choice: str, folder: Path, start: Path) -> Path:
    """Return the file of a preset or profile: in its folder by its name, or by a path from ``start``."""
    return (start / Path(choice).expanduser()).resolve() if is_path(choice) else folder / f"{choice}.toml"
