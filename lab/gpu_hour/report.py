"""The report of the hour: tables in Markdown, and all figures as JSON behind them, in one file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agents.models.architecture import ArchitectureError
from agents.settings.run_config import RunConfig
from lab.benchmarks.latency.call_seconds import place_models
from lab.benchmarks.latency.cost import Machine
from lab.gpu_hour.constants import compare_constants

Steps = Mapping[str, Mapping[str, Any]]
"""Name of a step, such as ``gpu tiny``, to its result."""

_GB = 1e9


def write_report(steps: Steps, preset: str) -> str:
    """Write the report of all steps."""
    machine = steps.get("machine", {})
    num_done = sum(step["state"] == "done" for step in steps.values())
    versions = ", ".join(f"{name} {number}" for name, number in machine.get("versions", {}).items() if number)
    card = f"{machine['gpu']}, {_gb(machine['bytes'])} GB" if machine.get("gpu") else "no GPU"
    parts = [
        "# Measured in an hour on a GPU\n",
        f"{card}; {machine.get('processors')} processors; Python {machine.get('python')}, {versions}. "
        f"Preset `{preset}`. {num_done} of {len(steps)} steps are measured.\n",
        "## Not measured\n",
        *(f"- {line}\n" for line in list_missing(steps)),
        "\n## Seconds a turn\n",
        _table(
            (
                "profile",
                "weights",
                "turns",
                "batch",
                "mean",
                "slowest",
                "longest dialog",
                "late",
                "simulated mean",
                "failed",
            ),
            _turn_rows(steps),
        ),
        "\n## Constants of the simulation\n",
        *_constant_tables(steps, preset),
        "\n## Memory in GB\n",
        _table(
            ("profile", "weights", "before", "loaded", "worst", "while", "plan", "of the card, with 1 GB free"),
            _memory_rows(steps),
        ),
        "\n## Seconds of calls\n",
        _table(("profile", "weights", "call", "calls", "items", "measured", "simulated"), _call_rows(steps)),
        "\n## Preflight\n",
        _table(("profile", "check", "state", "found"), _check_rows(steps)),
        "\n## All figures\n",
        "```json\n" + json.dumps(steps, indent=1, ensure_ascii=False) + "\n```\n",
    ]
    return "".join(parts)


def list_missing(steps: Steps) -> list[str]:
    """List what could not be measured, each with its reason."""
    names_by_reason: dict[str, list[str]] = {}
    for name, step in steps.items():
        reasons = [] if step["state"] == "done" else [f"everything ({step['state']}): {step.get('reason', '')}"]
        for reason in (*reasons, *step.get("missing", ())):
            names_by_reason.setdefault(reason, []).append(name)
    return [f"{', '.join(names)}: {reason}" for reason, names in names_by_reason.items()] or ["nothing is missing"]


def _list_measured(steps: Steps) -> Iterable[tuple[str, str, Mapping[str, Any]]]:
    """Yield profile, weights and result of the steps that answered turns."""
    for name, step in steps.items():
        if "turns" in step and isinstance(step["turns"], Mapping):
            profile, weights = name.rsplit(" ", 1)
            yield profile, weights, step


def _turn_rows(steps: Steps) -> Iterable[tuple[str, ...]]:
    for profile, weights, step in _list_measured(steps):
        turns = step["turns"]
        simulated = steps.get(f"{profile} simulation", {}).get("mean")
        seconds = (turns["mean"], turns["slowest"], turns["longest_dialog"])
        failed = "; ".join(f"{number} x {reason}" for reason, number in turns["failed"].items()) or "0"
        engine = "" if step["engine"] == "vllm" else f" ({step['engine']})"
        yield (
            *(profile, weights + engine, str(turns["turns"]), str(turns["batch"])),
            *map("{:.2f}".format, seconds),
            *(str(turns["late"]), "" if simulated is None or weights == "tiny" else f"{simulated:.2f}", failed),
        )


def _constant_tables(steps: Steps, preset: str) -> Iterable[str]:
    """Yield a table of the constants for each profile that answered turns."""
    rates = steps.get("machine", {}).get("rates", {})
    for profile in dict.fromkeys(profile for profile, _, _ in _list_measured(steps)):
        tiny = steps.get(f"{profile} tiny", {}).get("constants", {})
        real = steps.get(f"{profile} real", {}).get("constants", {})
        model = None
        if real:
            try:
                chat = place_models(RunConfig.read(preset, profile))["chat"]
                model = (chat.architecture, chat.dtype)
            except (ArchitectureError, KeyError):  # a model of its own: shares of the rates need its config.json
                model = None
        rows = [
            (each.name, f"{each.simulated:.4g}", "" if each.measured is None else f"{each.measured:.4g}", each.how)
            for each in compare_constants(Machine.read(), rates, tiny, real, model)
        ]
        yield f"\n`{profile}`; an empty cell was not measured:\n\n"
        yield _table(("constant", "simulation, L40S", "measured", "how"), rows)


def _memory_rows(steps: Steps) -> Iterable[tuple[str, ...]]:
    for profile, weights, step in _list_measured(steps):
        memory = step["memory"]
        plan = memory.get("planned")
        card = memory.get("card")
        yield (
            *(profile, weights, *(_gb(memory[name]) for name in ("before", "loaded", "worst"))),
            memory["worst_during"],
            "" if plan is None else _gb(plan),
            "" if card is None else _gb(card - memory["margin"]),
        )


def _call_rows(steps: Steps) -> Iterable[tuple[str, ...]]:
    for profile, weights, step in _list_measured(steps):
        for row in step["calls"]:
            simulated = row["simulated"]
            yield (
                *(profile, weights, row["call"], str(row["calls"]), str(row["items"]), f"{row['measured']:.3f}"),
                "" if simulated is None else f"{simulated:.3f}",
            )


def _check_rows(steps: Steps) -> Iterable[tuple[str, ...]]:
    for name, step in steps.items():
        for check in step.get("checks", ()):
            yield name.removesuffix(" preflight"), check["name"], check["state"], check["found"]


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    clean = ([" ".join(cell.replace("|", "/").split()) for cell in line] for line in lines)
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in clean)


def _gb(count: float) -> str:
    return f"{count / _GB:.2f}"
