"""One step of the hour, in a process of its own: ``python -m lab.gpu_hour.step``; the command of the hour starts it."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Options
from agents.base.files import write_whole
from agents.base.secrets import scrub
from agents.profiles.profile import ROOT
from agents.settings.run_config import RunConfig
from evaluation.commands import summarise_error
from lab.gpu_hour import measure
from mini_crag_mm.loader import PreparedSet


class StepOptions(Options):
    """What one step measures, and where it writes."""

    kind: Literal["machine", "simulation", "tiny", "real"] = Field(description="what is measured")
    file: Path = Field(description="JSON file of the result")
    profile: str = Field("gpu", description="profile")
    preset: str = Field("best", description="preset")
    turns: int = Field(20, ge=1, description="turns that are answered")
    cache: CacheOption = Field(DEFAULT_CACHE, description="folder that mini_crag_mm.prepare filled")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure one step and write its result.

    Returns:
        0; 1 if it failed, or cannot be measured here. The file says why.
    """
    options = StepOptions.parse(arguments)
    missing: list[str] = []
    report: dict[str, Any]
    try:
        figures = _measure(options, missing)
        report = {"state": "done", **figures}
    except measure.NotMeasurableError as error:
        report = {"state": "not measured", "reason": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever ends a step is part of the report, and the other steps go on
        report = {"state": "failed", "reason": f"{type(error).__name__}: {summarise_error(error)}"}
    write_whole(options.file, remove_names(json.dumps({**report, "missing": missing}, indent=1)))
    return int(report["state"] != "done")


def _measure(options: StepOptions, missing: list[str]) -> dict[str, Any]:
    if options.kind == "machine":
        return measure.measure_machine(missing.append)
    config = RunConfig.read(options.preset, options.profile, cache=options.cache)
    if options.kind == "simulation":
        return measure.simulate_turns(config, options.turns)
    mini = PreparedSet(cache=options.cache)
    batches = measure.take_batches(mini, options.turns, config.settings.limits.batch_size)
    return measure.measure_profile(config, options.kind, batches, mini.search(), options.file.parent, missing.append)


def remove_names(text: str) -> str:
    """Take keys, folders of this machine and its name out of a text."""
    for name, word in ((str(ROOT), "."), (str(Path.home()), "~"), (socket.gethostname(), "HOST")):
        if len(name) > 3:
            text = text.replace(name, word)
    return scrub(text)


if __name__ == "__main__":
    sys.exit(main())
