"""``python -m apps.preflight``: print a table of checks, with exit status 0 if none failed."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Flag
from agents.base.console import SafeConsole
from agents.base.files import format_os_error
from agents.base.named import is_path
from agents.base.printing import print_error
from agents.models.base import ModelError
from agents.profiles.profile import ROOT, SettingsError
from agents.profiles.weights import SUBMISSION
from agents.settings.run_config import RunConfig, preset_names, profile_names
from agents.settings.shared_options import JsonOptions, ModelOptions, print_json
from apps.preflight.admission import check_models
from apps.preflight.architecture import ArchitectureError
from apps.preflight.check import Check, check, run_check
from apps.preflight.fork import run_fork
from apps.preflight.hub_access import check_access
from apps.preflight.memory import L40S_BYTES, estimate_memory
from apps.preflight.rehearsal import REHEARSAL_PROFILE, Submitted, check_submitted
from apps.preflight.repository import check_dockerfile, check_files, check_requirements
from apps.preflight.submission import (
    CHALLENGES,
    check_gate,
    check_image_choices,
    check_limits,
    check_submission,
    list_models,
    read_image_choices,
    write_submission,
)
from evaluation.records import EvaluationError

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red", "skipped": "yellow"}


class PreflightOptions(ModelOptions, JsonOptions):
    """Check that this repository can be submitted.

    The checks are of files, access to models, limits, memory and requirements, and a rehearsal of the evaluator.
    The status is 0 if no check failed, 1 if one did. Nothing is written without --task.
    """

    group = "submission"

    preset: Annotated[str | None, Flag(metavar="NAME", suggested=tuple(preset_names()))] = Field(
        None,
        description="preset to submit, by name or by the path of a .toml file; default: the Dockerfile's (CRAG_PRESET), or best",
    )
    profile: Annotated[str | None, Flag(metavar="NAME", suggested=tuple(profile_names()))] = Field(
        None,
        description="profile at the competition, by name or path; default: the Dockerfile's (CRAG_PROFILE), or gpu",
    )
    rehearsal_profile: Annotated[str, Flag(metavar="NAME", suggested=tuple(profile_names()))] = Field(
        REHEARSAL_PROFILE,
        description="profile under which an agent of ours is rehearsed on this machine; gpu where there is one",
    )
    task: Literal[1, 2, 3] | None = Field(None, description="first write aicrowd.json for this task")
    quick: bool = Field(False, description="skip the hub, the requirements and calls of the agent")
    gpu_gb: float = Field(
        L40S_BYTES / 1e9, description="memory of the GPU in GB, as torch reports it; 1 GB of it stays free"
    )
    cache: CacheOption = Field(DEFAULT_CACHE, description="cache folder with the local indices")
    agent_root: Annotated[Path | None, Flag(metavar="DIR")] = Field(
        None,
        description="fork of the starter kit to check in place of this repository: its aicrowd.json, image, files and agents.user_config; "
        "--preset, --profile and the model's options do not concern it",
    )
    agent_python: Annotated[Path | None, Flag(metavar="FILE")] = Field(
        None, description="interpreter of the fork; default: .venv/bin/python in --agent-root, or this one"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.agent_root is not None and self.task is not None:
            raise ValueError("--task writes the aicrowd.json of this repository; that of a fork names its task itself")
        if self.agent_python is not None and self.agent_root is None:
            raise ValueError("--agent-python goes with --agent-root")
        return self


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks.

    Returns:
        0; 1 if a check failed; 2 for a wrong command line.
    """
    options = PreflightOptions.parse(arguments)
    try:
        if options.agent_root is not None:
            checks = run_fork(options.agent_root, options.agent_python, options.cache, quick=options.quick)
            return _report(f"preflight: {options.agent_root}", checks, as_json=options.as_json)
        of_image = [str(ROOT / name) if is_path(name) else name for name in read_image_choices(ROOT / "Dockerfile")]
        preset, profile = options.preset or of_image[0], options.profile or of_image[1]
        config = RunConfig.read(
            preset,
            profile,
            chat_model=options.model_name,
            base_url=options.base_url,
            server=options.server,
            cache=options.cache,
        )
        if options.task is not None:
            write_submission(SUBMISSION, options.task, config)
    except (EvaluationError, SettingsError, ModelError, ValueError) as error:
        print_error(f"error: {error}")
        return 1
    except OSError as error:
        print_error(f"error: {format_os_error(error)}")
        return 1
    checks = run(
        config,
        profile,
        capacity=round(1e9 * options.gpu_gb),
        quick=options.quick,
        rehearsal_profile=options.rehearsal_profile,
    )
    return _report(f"preflight: {preset} under {profile}", checks, as_json=options.as_json)


def _report(title: str, checks: Sequence[Check], *, as_json: bool) -> int:
    """Print the checks as a table or as JSON; return the exit status."""
    failed = sum(each.state == "failed" for each in checks)
    if as_json:
        print_json({"failed": failed, "ready": is_ready(checks), "checks": [asdict(each) for each in checks]})
        return int(failed > 0)
    table = Table(title=escape(title), show_lines=True)
    table.caption = conclude(checks)
    for column in ("check", "state", "found", "what to do"):
        table.add_column(column, overflow="fold")
    for each in checks:
        table.add_row(Text(each.name), Text(each.state, _COLOURS[each.state]), Text(each.found), Text(each.fix))
    SafeConsole(width=150).print(table)
    return int(failed > 0)


def is_ready(checks: Sequence[Check]) -> bool:
    """Return whether no check failed, and none that decides was skipped."""
    return not any(each.state == "failed" or (each.state == "skipped" and each.decides) for each in checks)


def conclude(checks: Sequence[Check]) -> str:
    """Return the caption of the table: failures, undecided checks, or *ready to submit*."""
    names = {
        state: [each.name for each in checks if each.state == state and (each.decides or state != "skipped")]
        for state in ("failed", "skipped", "warning")
    }
    findings = [f"{len(names['failed'])} failed"] if names["failed"] else []
    if names["skipped"]:
        findings.append(f"not known, since skipped: {', '.join(names['skipped'])}")
    warnings = f"; look at the warnings: {', '.join(names['warning'])}" if names["warning"] else ""
    return ("; ".join(findings) or "ready to submit") + warnings


def run(
    config: RunConfig,
    profile: str,
    *,
    capacity: int = L40S_BYTES,
    quick: bool = False,
    rehearsal_profile: str = REHEARSAL_PROFILE,
) -> list[Check]:
    """Run all checks, in the order of the table; ``profile`` is its name or path, as it was given."""
    checks = run_check("aicrowd.json", lambda: check_submission(SUBMISSION, config))
    task = next((number for number, name in CHALLENGES.items() if any(name in each.found for each in checks)), 2)
    checks += run_check("models admitted", lambda: check_models(config))
    checks += run_check("access to models", lambda: check_access(list_models(config, task), quick=quick))
    checks += run_check("preset and profile", lambda: check_image_choices(config.preset, profile, ROOT / "Dockerfile"))
    checks += run_check("gate", lambda: check_gate(config))
    checks += run_check("limits", lambda: check_limits(config.settings))
    checks += run_check("memory", lambda: check_memory(config, capacity))
    checks += run_check("requirements", lambda: check_requirements(ROOT / "requirements.txt", quick=quick))
    checks += run_check("Dockerfile", lambda: check_dockerfile(ROOT / "Dockerfile"))
    checks += run_check("files", lambda: check_files(ROOT))
    submitted = Submitted(ROOT, Path(sys.executable), config.cache, task, rehearsal_profile)
    return checks + run_check("rehearsal", lambda: check_submitted(submitted, quick=quick))


def check_memory(config: RunConfig, capacity: int) -> Check:
    """Check that the models fit a GPU of ``capacity`` bytes."""
    try:
        memory = estimate_memory(config, capacity)
    except ArchitectureError as error:
        return Check("memory", "skipped", str(error), "run it where the models are in the local Hugging Face cache")
    if not memory.rows:
        return Check("memory", "ok", "no model on a GPU")
    problems, fix = memory.problems(), f"change [models] of profiles/{config.profile.name}.toml"
    return check("memory", not problems, "; ".join([*problems, str(memory)]), fix)


if __name__ == "__main__":
    sys.exit(main())
