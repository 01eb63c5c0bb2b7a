"""Command line of the preflight: a table of checks, and exit status 0 where none failed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from agents.memory_plan import MemoryPlanError, require_fit
from agents.preflight.check import Check, failed, guarded, passed
from agents.preflight.image import check_dockerfile, check_requirements
from agents.preflight.running import check_import, check_rehearsal
from agents.preflight.submission import CHALLENGES, check_limits, check_preset, check_submission, wanted_models, write
from agents.prompts import PromptLibrary
from agents.runtime.plan import plan_memory
from agents.runtime.revisions import pins
from agents.settings import PROMPTS, ROOT, Profile, Settings, SettingsError, load_profile, load_settings

_COLOURS = {"ok": "green", "failed": "red", "skipped": "yellow"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks; 1 where one failed, 2 for a wrong command line."""
    parser = argparse.ArgumentParser(prog="python -m agents.preflight", description=__doc__)
    parser.add_argument("--preset", default="best", help="the preset that is submitted")
    parser.add_argument("--profile", default="gpu", help="the profile that it runs under at the competition")
    parser.add_argument("--task", type=int, choices=sorted(CHALLENGES), help="first write aicrowd.json for this task")
    parser.add_argument("--quick", action="store_true", help="without resolving the requirements")
    parser.add_argument("--cache", type=Path, help="cache folder with the local indices")
    options = parser.parse_args(arguments)
    try:
        settings, profile = load_settings(options.preset, options.profile), load_profile(options.profile)
        if options.task is not None:
            models = wanted_models(settings, profile, PromptLibrary(PROMPTS), options.task)
            write(ROOT / "aicrowd.json", options.task, models, pins())
    except (SettingsError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    checks = run(settings, profile, options.preset, quick=options.quick, cache=options.cache)
    Console(width=150).print(table(checks, f"{options.preset} under {options.profile}"))
    return int(any(check.state == "failed" for check in checks))


def run(settings: Settings, profile: Profile, preset: str, *, quick: bool, cache: Path | None) -> list[Check]:
    """All checks, in the order of the table."""
    prompts = PromptLibrary(PROMPTS)
    checks = guarded("aicrowd.json", lambda: check_submission(ROOT / "aicrowd.json", settings, profile, prompts))
    task = next((number for number, name in CHALLENGES.items() if any(name in check.found for check in checks)), 2)
    checks += guarded("preset", lambda: check_preset(preset, ROOT / "Dockerfile"))
    checks += guarded("limits", lambda: check_limits(settings))
    checks += guarded("memory plan", lambda: check_memory(settings, profile, prompts))
    checks += guarded("requirements", lambda: check_requirements(ROOT / "requirements.txt", quick))
    checks += guarded("Dockerfile", lambda: check_dockerfile(ROOT / "Dockerfile"))
    checks += guarded("import of agents.user_config", check_import)
    checks += guarded("offline run", lambda: check_rehearsal(preset, task, cache))
    return checks


def check_memory(settings: Settings, profile: Profile, prompts: PromptLibrary) -> Check:
    """Whether the models fit the competition's GPU."""
    plan = plan_memory(settings, profile, prompts)
    try:
        require_fit(plan, settings, profile, prompts)
    except MemoryPlanError as error:
        return failed("memory plan", str(error), "python -m agents.memory_plan")
    return passed("memory plan", f"{plan.needed / 1e9:.1f} of {plan.capacity / 1e9:.0f} GB")


def table(checks: Sequence[Check], title: str) -> Table:
    """The checks for people."""
    bad = sum(check.state == "failed" for check in checks)
    shown = Table(title=f"preflight: {title}", caption=f"{bad} failed" if bad else "ready to submit", show_lines=True)
    for column in ("check", "state", "found", "mend"):
        shown.add_column(column, overflow="fold")
    for check in checks:
        shown.add_row(check.name, f"[{_COLOURS[check.state]}]{check.state}[/]", check.found, check.mend)
    return shown


if __name__ == "__main__":
    sys.exit(main())
