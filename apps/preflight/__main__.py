"""Command line of the preflight: a table of checks, and exit status 0 where none failed."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from agents.models.architecture import ArchitectureError
from agents.models.base import ModelError
from agents.runtime.files import told
from agents.runtime.weights import SUBMISSION
from agents.settings.profiles import ROOT, SettingsError
from agents.settings.run_config import DEFAULT_CACHE, RunConfig
from apps.preflight.check import Check, check, guarded
from apps.preflight.memory import L40S_BYTES, memory_of
from apps.preflight.rehearsal import check_import, check_rehearsal
from apps.preflight.repository import check_dockerfile, check_files, check_requirements
from apps.preflight.submission import CHALLENGES, check_limits, check_preset, check_submission, write

_COLOURS = {"ok": "green", "failed": "red", "skipped": "yellow"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks; 1 where one failed, 2 for a wrong command line."""
    parser = argparse.ArgumentParser(prog="python -m apps.preflight", description=__doc__)
    parser.add_argument("--preset", default="best", help="the preset that is submitted")
    parser.add_argument("--profile", default="gpu", help="the profile that it runs under at the competition")
    parser.add_argument("--task", type=int, choices=sorted(CHALLENGES), help="first write aicrowd.json for this task")
    parser.add_argument("--quick", action="store_true", help="neither resolve the requirements nor call the agent")
    parser.add_argument(
        "--gpu-gb",
        type=float,
        default=L40S_BYTES / 1e9,
        help="memory of the GPU that may be used (default: 47, of the 48 GB of an L40S)",
    )
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="cache folder with the local indices")
    options = parser.parse_args(arguments)
    try:
        config = RunConfig.read(options.preset, options.profile, cache=options.cache)
        if options.task is not None:
            write(SUBMISSION, options.task, config)
    except (SettingsError, ModelError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {told(error)}", file=sys.stderr)
        return 1
    checks = run(config, capacity=round(1e9 * options.gpu_gb), quick=options.quick)
    failed = sum(each.state == "failed" for each in checks)
    shown = Table(title=f"preflight: {options.preset} under {options.profile}", show_lines=True)
    shown.caption = f"{failed} failed" if failed else "ready to submit"
    for column in ("check", "state", "found", "what to do"):
        shown.add_column(column, overflow="fold")
    for each in checks:
        shown.add_row(each.name, f"[{_COLOURS[each.state]}]{each.state}[/]", each.found, each.fix)
    Console(width=150).print(shown)
    return int(failed > 0)


def run(config: RunConfig, *, capacity: int = L40S_BYTES, quick: bool = False) -> list[Check]:
    """All checks, in the order of the table."""
    checks = guarded("aicrowd.json", lambda: check_submission(SUBMISSION, config))
    task = next((number for number, name in CHALLENGES.items() if any(name in each.found for each in checks)), 2)
    checks += guarded("preset", lambda: check_preset(config.preset, ROOT / "Dockerfile"))
    checks += guarded("limits", lambda: check_limits(config.settings))
    checks += guarded("memory", lambda: check_memory(config, capacity))
    checks += guarded("requirements", lambda: check_requirements(ROOT / "requirements.txt", quick=quick))
    checks += guarded("Dockerfile", lambda: check_dockerfile(ROOT / "Dockerfile"))
    checks += guarded("files", lambda: check_files(ROOT))
    checks += guarded("import of agents.user_config", check_import)
    checks += guarded("rehearsal", lambda: check_rehearsal(config, task, quick=quick))
    return checks


def check_memory(config: RunConfig, capacity: int) -> Check:
    """Whether the models fit a GPU of so many bytes."""
    try:
        memory = memory_of(config, capacity)
    except ArchitectureError as error:
        return Check("memory", "skipped", str(error), "run it where the models are in the local Hugging Face cache")
    problems, fix = memory.problems(), f"change [models] of profiles/{config.profile.name}.toml"
    return check("memory", not problems, "; ".join([*problems, str(memory)]), fix)


if __name__ == "__main__":
    sys.exit(main())
