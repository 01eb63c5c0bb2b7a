"""Simulated seconds a turn of presets on one NVIDIA L40S, and what the guard does to keep the limits.

    python -m lab.benchmarks.latency_sim --presets best qa_dragon --profile gpu_fp8

Nothing here runs on a GPU. The real stages answer turns of the mini data set in batches of 1, 4, 8 and 16 under a preset's settings for
the GPU. Chat models have stand-ins (``latency/stand_ins.py``). Each call takes the seconds of a token-cost model
(``latency/cost.py``; its figures and their sources are in ``l40s.toml``) on a simulated clock, by which the guard plans: a batch
of N has N times the limit of a turn. Every reply runs to its limit, and the stand-in never says what would end a turn early: the figures
are upper bounds of the model. Engines with a prefix cache read no prompt's beginning twice, unless ``--no-prefix-cache`` is given.
Questions and dialogs are asked of one agent each, in the order of the organiser's evaluator. Nothing is learnt beforehand.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field

from agents.settings.run_config import RunConfig, preset_names
from apps.preflight.memory import estimate_memory
from apps.preflight.submission import EVALUATION_SECONDS
from evaluation.commands import make_console
from evaluation.run.batches import schedule_by_queue
from lab.benchmarks.common import BenchmarkOptions, build_table, run
from lab.benchmarks.latency.call_seconds import estimate_seconds, place_models
from lab.benchmarks.latency.cost import Machine, count_picture_tokens
from lab.benchmarks.latency.prefix_cache import make_prefix_caches
from lab.benchmarks.latency.simulated_agent import AgentCall, SimulatedAgent, SimulatedTime
from mini_crag_mm.loader import KINDS, AskedTurn, PreparedSet
from tests.support.local_configs import use_local_configs

_PROMPTS_KEPT = 2
"""Prompts in the prefix cache for each that is answered at once: it has room for as many of the longest, and most are shorter."""


@dataclass(frozen=True)
class Simulation:
    """Result of one preset with one size of batches."""

    calls: tuple[AgentCall, ...]
    cut_replies: int
    chat_calls: int
    prompt_tokens: float
    known_tokens: float

    @property
    def times(self) -> list[float]:
        """Seconds of each turn as the challenge counts them."""
        return [call.seconds_per_turn for call in self.calls for _ in call.sessions]

    @property
    def dialogs(self) -> dict[str, float]:
        """Seconds of each session."""
        total: dict[str, float] = {}
        for call in self.calls:
            for session in call.sessions:
                total[session] = total.get(session, 0.0) + call.seconds_per_turn
        return total

    def count_late(self, seconds_per_dialog: float) -> int:
        """Count the calls and dialogs that took too long."""
        calls = sum(call.late for call in self.calls)
        return calls + sum(seconds > seconds_per_dialog for seconds in self.dialogs.values())

    def count_guarded(self) -> dict[str, Counter[str]]:
        """Count by calls how often each stage was run, reduced or skipped.

        Stages that always ran whole are left out.
        """
        counts_by_stage: dict[str, Counter[str]] = {}
        for call in self.calls:
            for record in call.stages:
                counts_by_stage.setdefault(record.stage, Counter())[record.status] += 1
        return {stage: counts for stage, counts in counts_by_stage.items() if set(counts) != {"ran"}}


def simulate(
    config: RunConfig, options: LatencyOptions, size: int, machine: Machine, known_answers: dict[Hashable, Any]
) -> Simulation:
    """Answer the turns of the mini set in batches of one size."""
    models = place_models(config)
    embedded = RunConfig.read(profile="embedded", cache=options.cache).models()
    mini = PreparedSet(options.split, options.cache)
    pipeline = mini.search()
    caching = {role: model for role, model in models.items() if model.keeps_prefixes and not options.no_prefix_cache}
    prefixes = make_prefix_caches(config, {role: _PROMPTS_KEPT * model.at_once for role, model in caching.items()})
    calls: list[AgentCall] = []
    cut = chats = 0
    prompt_tokens = known_tokens = 0.0
    for kind, sessions in zip(KINDS, (options.questions, options.dialogs), strict=True):
        time = SimulatedTime(lambda call: estimate_seconds(call, models, machine, options.reply_share))
        agent = SimulatedAgent(config, pipeline, embedded, time, machine.overhead["turn"], known_answers, prefixes)
        calls += [agent.call(batch) for batch in make_batches(list(mini.turns(sessions, (kind,))), size)]
        cut += agent.cut_replies
        for call in time.take():
            if call.method == "chat" and call.role in models:
                model = models[call.role].architecture
                chats += call.items
                prompt_tokens += call.characters / machine.characters + count_picture_tokens(model, call.pictures)
                known_tokens += call.known_characters / machine.characters
                known_tokens += count_picture_tokens(model, call.known_pictures)
    return Simulation(tuple(calls), cut, chats, prompt_tokens, known_tokens)


def make_batches(turns: Sequence[AskedTurn], size: int) -> list[list[AskedTurn]]:
    """Batch turns, given session by session, as an evaluator of the organiser does."""
    sessions: dict[str, list[AskedTurn]] = {}
    for turn in turns:
        sessions.setdefault(turn.session.session_id, []).append(turn)
    of_each = list(sessions.values())
    slots = schedule_by_queue([len(turns) for turns in of_each], size)
    return [[of_each[slot.session][slot.turn] for slot in batch] for batch in slots]


def _measure(options: LatencyOptions) -> int:
    console = make_console()
    machine = Machine.read()
    rows: list[tuple[str, ...]] = []
    guarded: list[tuple[str, ...]] = []
    slow: list[str] = []
    known_answers: dict[Hashable, Any] = {}
    for preset in options.presets or preset_names():
        config = RunConfig.read(preset, options.profile, cache=options.cache)
        results = {size: simulate(config, options, size, machine, known_answers) for size in options.batches}
        memory, at_once = estimate_memory(use_local_configs(config)).needed / 1e9, place_models(config)["chat"].at_once
        for size, result in results.items():
            late = result.count_late(config.settings.limits.seconds_per_dialog)
            mean = statistics.mean(result.times)
            if late:
                slow.append(f"{preset} in batches of {size}")
            first = (preset, f"{memory:.1f}", str(at_once)) if size == options.batches[0] else ("", "", "")
            numbers = (mean, float(np.percentile(result.times, 95)), max(result.times), max(result.dialogs.values()))
            whole = sum(call.whole for call in result.calls)
            counts = (
                f"{whole}/{len(result.calls)}",
                str(result.cut_replies),
                str(late),
                f"{EVALUATION_SECONDS / mean:,.0f}",
            )
            rows.append(
                (
                    *first,
                    str(size),
                    f"{result.chat_calls / len(result.times):.2f}",
                    f"{result.prompt_tokens / len(result.times):.0f}",
                    f"{result.known_tokens / len(result.times):.0f}",
                    *map("{:.2f}".format, numbers),
                    *counts,
                )
            )
        num_guarded = {size: result.count_guarded() for size, result in results.items()}
        for stage in config.settings.stages:
            if any(stage in result for result in num_guarded.values()):
                ways = (num_guarded[size].get(stage) for size in options.batches)
                guarded.append((preset, stage, *(_format_counts(counts) for counts in ways)))
    headings = (
        *("preset", "GB", "prompts at once", "batch", "chat calls a turn"),
        *("prompt tokens a turn", "in the prefix cache"),
        *("mean", "p95", "max", "longest dialog", "calls whole", "replies cut", "late", "turns in 7.5 h"),
    )
    console.print(build_table(f"seconds a turn on one L40S under {options.profile}, simulated", headings, rows))
    title = "calls in which the guard let a stage run / reduced it / skipped it"
    sizes = (f"batch {size}" for size in options.batches)
    console.print(build_table(title, ("preset", "stage", *sizes), guarded, left_columns=2))
    published = ", ".join(f"{seconds:.2f}" for seconds in machine.published)
    console.print(f"QA-Dragon published (tasks 1 to 3): {published} s")
    if slow:
        console.print(f"late: {', '.join(slow)}", style="red")
    return int(bool(slow))


def _format_counts(counts: Counter[str] | None) -> str:
    return "all run" if counts is None else " / ".join(str(counts[way]) for way in ("ran", "reduced", "skipped"))


class LatencyOptions(BenchmarkOptions):
    """Options of what is simulated."""

    presets: tuple[str, ...] = Field((), description="presets; default: all")
    profile: str = Field("gpu", description="profile of an L40S")
    batches: tuple[int, ...] = Field((1, 4, 8, 16), description="turns in one call")
    questions: int = Field(32, description="sessions of the single-turn data set")
    dialogs: int = Field(8, description="sessions of the multi-turn data set")
    no_prefix_cache: bool = Field(False, description="read every prompt whole")
    reply_share: float = Field(1.0, description="share of its limit that a reply takes")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables.

    Returns:
        0; 1 if a preset is too slow; 2 if one cannot be simulated.
    """
    return run(_measure, LatencyOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
