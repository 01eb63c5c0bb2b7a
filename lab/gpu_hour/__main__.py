"""Measure on a GPU what this repository computed or simulated, within an hour, and report it in one file.

    make gpu-hour                                   # or: python -m lab.gpu_hour --profiles gpu gpu_fp8

Each profile is checked by the preflight and answers twenty turns of the mini set, first with tiny random weights, which are made here, then
with its own if they are in the hub's cache (``--download`` fetches them). Every call of a model is timed beside the simulation, every
constant of the simulation is measured, and the most memory in use stands beside the plan. A step has a process of its own: one that
fails costs no other. What is measured is kept, so that the same command goes on where it stopped, also in the environment of another
vLLM. ``report.md`` in the folder is the file to send back: it names the GPU, but neither the machine nor a key.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field
from rich.console import Console

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Options
from agents.base.files import write_whole
from agents.profiles.profile import ROOT
from agents.settings.run_config import profile_names
from evaluation.commands import make_console, run_to_exit_status
from lab.gpu_hour.report import list_missing, write_report
from lab.gpu_hour.step import remove_names

FIRST_ENGINE, CURRENT_ENGINE = ("gpu", "gpu_fp8", "gpu_qwen"), ("gpu_current", "gpu_current_fp8")
"""Profiles of the challenge's image, and those of a current vLLM."""

_LAST_LINES = 15  # of a step that died, for the report


class HourOptions(Options):
    """Options of what is measured, and for how long."""

    profiles: tuple[str, ...] = Field((), description="profiles; default: those of the vLLM that is installed")
    preset: str = Field("best", description="preset")
    out: Path = Field(Path("results/gpu_hour"), description="folder of the report and of what is measured so far")
    turns: int = Field(20, ge=2, description="turns that each profile answers")
    minutes: float = Field(60.0, gt=0, description="no step starts after so many minutes")
    step_minutes: float = Field(20.0, gt=0, description="a step is ended after so many minutes")
    download: bool = Field(False, description="fetch weights that are missing from the hub, tens of GB a profile")
    again: bool = Field(False, description="measure anew what is there")
    cache: CacheOption = Field(DEFAULT_CACHE, description="folder that mini_crag_mm.prepare filled")


class Hour:
    """Steps, done one after another and kept in a folder."""

    def __init__(self, options: HourOptions, console: Console) -> None:
        self._options, self._console = options, console
        self._began = time.monotonic()
        self.results: dict[str, dict[str, Any]] = {}
        self.machine: str | None = None  # card and engine; what was measured on others is measured anew

    def run(self, name: str, command: Sequence[str], place: str) -> dict[str, Any]:
        """Run a step, unless it was measured before or the time is up.

        Args:
            name: Name of the step.
            command: Module of Python and its arguments; it writes the result to its ``--file``, or prints it.
            place: ``3/9``.
        """
        file = self._options.out / f"{name.replace(' ', '_')}.json"
        earlier_result = None if self._options.again else _read(file)
        if (
            earlier_result is not None
            and earlier_result["state"] == "done"
            and self.machine is not None
            and earlier_result.get("of") == self.machine
        ):
            return self._tell(name, place, earlier_result, "kept")
        if time.monotonic() - self._began > 60 * self._options.minutes:
            reason = f"the {self._options.minutes:g} minutes are over: run the same command again to go on"
            return self._tell(name, place, {"state": "not started", "reason": reason}, "")
        self._console.print(f"[{place}] {name} ...", markup=False, highlight=False)
        began = time.monotonic()
        file.unlink(missing_ok=True)
        printed, status = self._start(command, file.with_suffix(".log"))
        result = _read(file)
        if result is None and name.endswith("preflight"):
            result = _read_preflight(printed)
        if result is None:
            last = " / ".join(printed.strip().splitlines()[-_LAST_LINES:])
            result = {"state": "failed", "reason": f"the step ended with status {status}: {last}"}
        result = json.loads(
            remove_names(json.dumps({**result, "of": self.machine, "seconds": round(time.monotonic() - began, 1)}))
        )
        write_whole(file, json.dumps(result, indent=1))
        return self._tell(name, place, result, f"{result['seconds']:.0f} s")

    def _start(self, command: Sequence[str], log: Path) -> tuple[str, int | str]:
        """Run a program with a time limit, all that it starts included; return what it printed and its status."""
        environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1"}
        if not self._options.download:
            environment["HF_HUB_OFFLINE"] = "1"
        with log.open("w+", encoding="utf-8", errors="replace") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=ROOT,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            status: int | str
            try:
                status = process.wait(60 * self._options.step_minutes)
            except subprocess.TimeoutExpired:
                status = f"ended after {self._options.step_minutes:g} minutes"
            finally:
                _end_group(process)
            file.seek(0)
            return file.read(), status

    def _tell(self, name: str, place: str, result: dict[str, Any], aside: str) -> dict[str, Any]:
        self.results[name] = result
        reason = "" if result["state"] == "done" else f": {result.get('reason', '')[:200]}"
        line = f"[{place}] {name}: {result['state']}{reason}" + (f" ({aside})" if aside else "")
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        return result


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a step with the processes that its engine left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(file: Path) -> dict[str, Any] | None:
    """Read a step's result; None if there is none, or half of one."""
    try:
        result = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return result if isinstance(result, dict) and "state" in result else None


def _read_preflight(printed: str) -> dict[str, Any] | None:
    """Read the checks off what ``apps.preflight --json`` printed."""
    begin, end = printed.find("{\n"), printed.rfind("}")
    try:
        return {"state": "done", **json.loads(printed[begin : end + 1])}
    except ValueError:
        return None


def choose_profiles(vllm: str | None) -> tuple[str, ...]:
    """Return the profiles that a version of vLLM can run; all if there is none, for transformers to answer in its place."""
    if vllm is None:
        return FIRST_ENGINE + CURRENT_ENGINE
    return FIRST_ENGINE if vllm.startswith("0.10.") else CURRENT_ENGINE


def _measure(options: HourOptions) -> int:
    console = make_console()
    options.out.mkdir(parents=True, exist_ok=True)
    hour = Hour(options, console)

    def step(kind: str, name: str, place: str, *more: str) -> dict[str, Any]:
        file = (options.out / f"{name.replace(' ', '_')}.json").resolve()
        common = ("--preset", options.preset, "--turns", str(options.turns), "--cache", str(options.cache.resolve()))
        return hour.run(name, ("lab.gpu_hour.step", "--kind", kind, "--file", str(file), *common, *more), place)

    machine = step("machine", "machine", "1")
    vllm = machine.get("versions", {}).get("vllm")
    hour.machine = f"{machine.get('gpu') or 'no GPU'}, {f'vLLM {vllm}' if vllm else 'no vLLM'}"
    profiles = options.profiles or choose_profiles(vllm)
    if unknown := set(profiles) - set(profile_names()):
        raise ValueError(f"there is no profile {', '.join(sorted(unknown))}; profiles: {', '.join(profile_names())}")
    card = ("--gpu-gb", f"{machine['bytes'] / 1e9:.2f}") if machine.get("bytes") else ()
    names = [(profile, kind) for kind in ("preflight", "tiny", "real", "simulation") for profile in profiles]
    for number, (profile, kind) in enumerate(names, 2):
        place = f"{number}/{len(names) + 1}"
        if kind == "preflight":
            arguments = ("--quick", "--json", "--preset", options.preset, "--profile", profile, *card)
            hour.run(f"{profile} preflight", ("apps.preflight", *arguments), place)
        else:
            step(kind, f"{profile} {kind}", place, "--profile", profile)
        # After each step: what is measured is in the file even if the machine goes away.
        write_whole(
            options.out / "report.md", remove_names(write_report(_all_results(options.out, hour), options.preset))
        )
    return _end(console, options, hour)


def _all_results(out: Path, hour: Hour) -> dict[str, dict[str, Any]]:
    """Return the results of this run and those of other profiles in the folder."""
    results_by_stem = {file.stem.replace("_", " "): _read(file) for file in sorted(out.glob("*.json"))}
    stems = {name.replace("_", " ") for name in hour.results}
    others = {
        _name(stem): result for stem, result in results_by_stem.items() if result is not None and stem not in stems
    }
    return {**hour.results, **others}


def _name(stem: str) -> str:
    """Spell the name of a kept step as this run would: its profile with underscores."""
    *profile, kind = stem.split(" ")
    return f"{'_'.join(profile)} {kind}".strip()


def _end(console: Console, options: HourOptions, hour: Hour) -> int:
    """Say what was not measured and where the report is; return the exit status."""
    states = [result["state"] for result in hour.results.values()]
    console.print("not measured:", style="yellow")
    for line in list_missing(hour.results):
        console.print(f"- {line[:300]}", markup=False, highlight=False, soft_wrap=True)
    failed = sum(state in ("failed", "not started") for state in states)
    report = options.out / "report.md"
    if failed:
        console.print(f"INCOMPLETE: {failed} of {len(states)} steps failed or were not started; {report}", style="red")
    else:
        console.print(f"COMPLETE: send {report} back", style="green")
    return int(failed > 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all steps and write the report.

    Returns:
        0 if every step was measured, or cannot be measured on this machine; 1 if one failed or was not started; 2 for a wrong command line.
    """
    options = HourOptions.parse(arguments, description=__doc__)
    return run_to_exit_status(lambda: _measure(options), Console(stderr=True), (ValueError,))


if __name__ == "__main__":
    sys.exit(main())
