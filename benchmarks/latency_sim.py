"""Seconds a turn that presets would take on one NVIDIA L40S, simulated: nothing here runs on a GPU.

    python -m benchmarks.latency_sim --presets best qa_dragon --profile gpu_fp8

The calls that each turn of the mini data set makes under a preset's settings for the GPU are recorded once
(``benchmarks/latency/recorded_calls.py``), kept in ``--records``, and replayed in batches through a token-cost model
(``benchmarks/latency/cost.py``; its figures and their sources are in ``l40s.toml``). Every reply is taken to run to its limit, and the
stand-in never says what would end a turn early: the figures are upper bounds of the model.
"""

from __future__ import annotations

import hashlib
import statistics
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from pydantic import Field

from agents.models.pixels import to_rgb
from agents.settings.named import name_of
from agents.settings.profiles import PROMPTS
from agents.settings.run_config import RunConfig, preset_names
from agents.turn import Turn
from apps.preflight.memory import memory_of
from benchmarks.common import BenchmarkOptions, run, table_of
from benchmarks.latency.cost import Machine
from benchmarks.latency.meter import ModelCall
from benchmarks.latency.recorded_calls import read, record, write
from benchmarks.latency.replayed_calls import placed_models, turn_seconds, with_configs
from evaluation.commands import output
from mini_crag_mm.loader import KINDS, PreparedSet

BATCHES = (1, 8, 16)
MEAN_LIMIT, MAX_LIMIT, DIALOG_LIMIT = 4.0, 10.0, 30.0
"""Seconds that presets keep, asked by themselves: all of them the challenge's 10 a turn, `best` 4 on average and its 30 a dialog."""


def _measure(options: LatencyOptions) -> int:
    console = output()
    machine = Machine.read()
    rows: list[tuple[str, ...]] = []
    slow: list[str] = []
    for preset in options.presets or preset_names():
        config = RunConfig.read(preset, options.profile, cache=options.cache)
        settings, models = config.settings, placed_models(config)
        memory = memory_of(with_configs(config))
        records = recorded(config, options)
        sets = (PreparedSet(options.split, options.cache).sessions(kind) for kind in KINDS)
        dialogs = [len(session.turns) for data in sets for session in data.sessions[: options.sessions]]
        asked = statistics.mean(sum(call.method == "chat" for call in calls) for calls in records)
        for size in BATCHES:
            times = turn_seconds(records, size, settings.stages, models, machine, options.reply_share)
            p50, p95 = np.percentile(times, (50, 95))
            first, dialog = ("", "", "", ""), ""
            if size == BATCHES[0]:  # nothing else is asked meanwhile: the least that a dialog takes
                longest = max(sum(part) for part in parts_of(times, dialogs))
                first = (preset, f"{memory.needed / 1e9:.1f}", str(models["chat"].at_once), f"{asked:.2f}")
                dialog = f"{longest:.2f}"
                ours = preset == "best" and (statistics.mean(times) >= MEAN_LIMIT or longest >= DIALOG_LIMIT)
                if ours or max(times) >= MAX_LIMIT:
                    slow.append(preset)
            numbers = (f"{value:.2f}" for value in (statistics.mean(times), p50, p95, max(times)))
            rows.append((*first, str(size), *numbers, dialog))
    headings = (
        *("preset", "GB", "prompts at once", "chat calls a turn", "batch"),
        *("mean", "p50", "p95", "max", "longest dialog"),
    )
    console.print(table_of(f"seconds a turn on one L40S under {options.profile}, simulated", headings, rows))
    published = ", ".join(f"{seconds:.2f}" for seconds in machine.published)
    console.print(f"QA-Dragon published (tasks 1 to 3): {published} s")
    if slow:
        limits = f"{MAX_LIMIT:.0f} s a turn (best: {MEAN_LIMIT:.0f} s on average, {DIALOG_LIMIT:.0f} s a dialog)"
        console.print(f"over {limits}: {', '.join(slow)}", style="red")
    return int(bool(slow))


def parts_of(times: Sequence[float], lengths: Sequence[int]) -> Iterator[Sequence[float]]:
    """Seconds of the turns of each session. Raises ValueError where there are more or fewer turns than the sessions have."""
    if len(times) != sum(lengths):
        raise ValueError(f"{len(times)} turns were recorded, the sessions have {sum(lengths)}")
    rest = iter(times)
    for length in lengths:
        yield list(islice(rest, length))


def recorded(config: RunConfig, options: LatencyOptions) -> list[list[ModelCall]]:
    """The records of a preset, made where there are none of its present settings."""
    prompts = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(PROMPTS.rglob("*.j2")))).hexdigest()[:8]
    name = f"{name_of(config.preset)}-{config.digest}-{prompts}-{options.split}-{options.sessions}.jsonl"
    path = options.records / name
    if not path.is_file():
        mini = PreparedSet(options.split, options.cache)
        pipeline = mini.search()
        turns = mini.turns(options.sessions)
        asked = (Turn(each.turn.query, each.image and to_rgb(each.image), each.history) for each in turns)
        models = RunConfig.read(profile="embedded", cache=options.cache).models()
        write(record(asked, config.settings, pipeline, models), path)
    return read(path)


class LatencyOptions(BenchmarkOptions):
    """What is simulated."""

    presets: tuple[str, ...] = Field((), description="presets; not given: all")
    profile: str = Field("gpu", description="profile of an L40S")
    sessions: int = Field(12, description="sessions of each data set")
    reply_share: float = Field(1.0, description="share of its limit that a reply takes")
    records: Path = Field(Path(".cache/latency"), description="folder of the recorded calls")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 where a preset is too slow, 2 where a preset cannot be recorded."""
    return run(_measure, LatencyOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
