"""``aicrowd.json``: what the organiser reads of a submission, written for a task and checked against what would be loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from agents.preflight.check import Check, failed, passed
from agents.prompts import PromptLibrary
from agents.runtime.checkpoints import SEARCH_WEB, checkpoints_of
from agents.runtime.revisions import REVISIONS, Pin, is_commit, is_hub_id
from agents.settings import ROOT, Limits, Profile, Settings

CHALLENGES: Mapping[int, str] = {1: "single-source-augmentation", 2: "multi-source-augmentation", 3: "multi-turn-qa"}
"""The challenge ids of the three tasks (CRAG-MM rules); task 1 has no web search."""


class HubModel(BaseModel):
    """An entry of ``hf_models``."""

    model_config = ConfigDict(extra="forbid")

    repo_id: str
    revision: str
    ignore_patterns: str | list[str] | None = None


class Submission(BaseModel):
    """The fields of ``aicrowd.json`` that the evaluator needs; others, such as authors, are kept as they are."""

    model_config = ConfigDict(extra="allow")

    challenge_id: Literal["single-source-augmentation", "multi-source-augmentation", "multi-turn-qa"]
    gpu: bool
    hf_models: list[HubModel]

    @property
    def task(self) -> int:
        """1, 2 or 3."""
        return next(number for number, name in CHALLENGES.items() if name == self.challenge_id)


def wanted_models(settings: Settings, profile: Profile, prompts: PromptLibrary, task: int) -> list[str]:
    """The hub models that the agent, or the organiser's pipeline inside it, can load in a task, sorted.

    Raises:
        agents.settings.SettingsError: The profile names no model for a role of the preset.
    """
    found = {
        checkpoint.path
        for checkpoint in checkpoints_of(settings, profile, prompts)
        if not (task == 1 and checkpoint.roles == (SEARCH_WEB,))
    }
    if settings.lora is not None:
        found.add(settings.lora.path)
    return sorted(path for path in found if is_hub_id(path))


def write(path: Path, task: int, models: Iterable[str], known: Mapping[str, Pin]) -> dict[str, Any]:
    """Write ``aicrowd.json`` for a task; fields of an older one that are not ours, such as authors, stay.

    Raises:
        ValueError: The file that is there is not JSON.
    """
    old = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    table = {**old, "challenge_id": CHALLENGES[task], "gpu": True, "hf_models": []}
    for model in models:
        pin = known.get(model, Pin())
        entry: dict[str, Any] = {"repo_id": model, "revision": pin.revision}
        if pin.ignore_patterns:
            entry["ignore_patterns"] = list(pin.ignore_patterns)
        table["hf_models"].append(entry)
    path.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    return table


def check_submission(path: Path, settings: Settings, profile: Profile, prompts: PromptLibrary) -> list[Check]:
    """Whether ``aicrowd.json`` is valid, lists what would be loaded and nothing more, and names a task the preset is made for."""
    name = "aicrowd.json"
    try:
        submission = Submission.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return [failed(name, "there is none", "python -m agents.preflight --task 1|2|3")]
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "file"
        return [failed(name, f"{where}: {first['msg']}", "python -m agents.preflight --task 1|2|3")]
    task = submission.task
    again = f"python -m agents.preflight --task {task}"
    checks = [
        passed(name, f"valid, {submission.challenge_id}")
        if submission.gpu
        else failed(name, "gpu is false", f"the profile {profile.name} needs one: {again}")
    ]
    listed = {model.repo_id: model.revision for model in submission.hf_models}
    wanted = set(wanted_models(settings, profile, prompts, task))
    missing, needless = sorted(wanted - set(listed)), sorted(set(listed) - wanted)
    if missing or needless or len(listed) < len(submission.hf_models):
        said = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"never loaded: {', '.join(needless)}"] * bool(
            needless
        )
        checks.append(failed("models listed", "; ".join(said) or "a model is listed twice", again))
    else:
        checks.append(passed("models listed", f"{len(wanted)}, as the preset loads them"))
    loose = sorted(model for model, revision in listed.items() if not is_commit(revision))
    if loose:
        mend = (
            f"for each, the 40 digits of its newest commit (huggingface.co/{loose[0]}/commits/main, and so on) as revision in "
            f"{REVISIONS.relative_to(ROOT)}; or `hf download` each, so that the local cache knows it; then {again}"
        )
        checks.append(failed("revisions pinned", f"no commit for {', '.join(loose)}", mend))
    else:
        checks.append(passed("revisions pinned", "each a commit"))
    return [*checks, check_task(submission, settings)]


def check_task(submission: Submission, settings: Settings) -> Check:
    """Whether the task and the preset's searches agree."""
    name, images, web = "task", "image_search" in settings.stages, "web_search" in settings.stages
    if submission.task == 1:
        if not images:
            return failed(name, "task 1 is about image search, and the preset makes none", "take another preset")
        return passed(name, "1: image search" + ("; web_search has nothing to search and is idle" if web else ""))
    if not (images and web):
        lacking = "image" if not images else "web"
        return failed(
            name,
            f"task {submission.task} has image and web search, the preset makes no {lacking} search",
            "take another preset, or --task 1",
        )
    return passed(name, f"{submission.task}: image and web search")


def check_limits(settings: Settings) -> Check:
    """Whether the agent would stop within the challenge's limits, and answer within its length: the defaults of ``Limits``."""
    name, allowed, ours = "limits", Limits(), settings.limits
    wrong = [
        f"{field} is {getattr(ours, field):g}, the challenge allows {getattr(allowed, field):g}"
        for field in ("seconds_per_turn", "seconds_per_dialog", "answer_tokens")
        if getattr(ours, field) > getattr(allowed, field)
    ]
    if wrong:
        return failed(name, "; ".join(wrong), "lower it under [limits] of the profile or the preset")
    return passed(
        name,
        f"{ours.seconds_per_turn:g} s a turn, {ours.seconds_per_dialog:g} s a dialog, {ours.batch_size} turns a call",
    )


def check_preset(preset: str, dockerfile: Path) -> Check:
    """Whether the image would run the preset that is checked: ``agents/user_config.py`` runs ``best`` unless told otherwise."""
    text = dockerfile.read_text(encoding="utf-8") if dockerfile.is_file() else ""
    told = re.search(r"\bCRAG_PRESET=[\"']?([\w-]+)", text)
    runs = told.group(1) if told else "best"
    if runs == preset:
        return passed("preset", f"the image runs {runs}")
    return failed("preset", f"the image runs {runs}, not {preset}", f"ENV CRAG_PRESET={preset} in the Dockerfile")
