"""What each step of the hour measures; every step runs in a process of its own and returns plain data."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import os
import platform
import statistics
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any

from agents.crag_agent import CragAgent
from agents.models.architecture import ArchitectureError
from agents.models.base import MultimodalPair
from agents.settings.run_config import RunConfig
from agents.settings.stage_needs import list_roles
from apps.preflight.checkpoints import list_checkpoints
from apps.preflight.memory import MARGIN, Memory, estimate_memory
from lab.benchmarks.latency.call_seconds import estimate_seconds, place_models
from lab.benchmarks.latency.cost import Machine
from lab.benchmarks.latency.simulated_agent import SimulatedAgent, SimulatedTime
from lab.benchmarks.latency_sim import make_batches
from lab.gpu_hour.constants import REPEATS, measure_chat, measure_rates
from lab.gpu_hour.timed import CallTimes, MemoryWatch, TimedModels
from lab.gpu_hour.tiny import ENGINE, with_tiny_weights
from mini_crag_mm.loader import AskedTurn, PreparedSet
from tests.support.local_configs import use_local_configs

Report = dict[str, Any]
Note = Callable[[str], None]
"""Takes what could not be measured, with its reason."""

_PACKAGES = ("torch", "vllm", "transformers", "flash-attn")
_WEIGHTS = (".safetensors", ".bin")
_SINGLE_SHARE = 0.6  # share of single questions among the turns; the others belong to dialogs


class NotMeasurableError(RuntimeError):
    """A step cannot be measured here; the message says what is missing and what to do."""


def has_gpu() -> bool:
    """Return whether torch has a GPU."""
    import torch

    return bool(torch.cuda.is_available())


def has_engine() -> bool:
    """Return whether vLLM is installed."""
    return importlib.util.find_spec("vllm") is not None


def describe_machine() -> Report:
    """Return the GPU's name and memory, processors, and versions; no name of the host."""
    import torch

    machine: Report = {"gpu": None, "processors": os.cpu_count(), "python": platform.python_version(), "versions": {}}
    for name in _PACKAGES:
        try:
            machine["versions"][name] = version(name)
        except PackageNotFoundError:
            machine["versions"][name] = None
    if has_gpu():
        card = torch.cuda.get_device_properties(0)
        free, total = torch.cuda.mem_get_info()
        machine |= {"gpu": card.name, "bytes": total, "free_bytes": free, "cuda": torch.version.cuda}
    return machine


def measure_machine(note: Note) -> Report:
    """Measure what the machine is and does without any model."""
    if not has_gpu():
        note("rates of the GPU: torch has no GPU here, the rates are the processor's")
    machine = describe_machine()
    return {**machine, "rates": measure_rates(has_gpu=machine["gpu"] is not None)}


def simulate_turns(config: RunConfig, turns: int) -> Report:
    """Simulate the turns of the hour with the profile's own weights on an L40S."""
    machine, models = Machine.read(), place_models(config)
    embedded = RunConfig.read(profile="embedded", cache=config.cache).models()
    known_answers: dict[Hashable, Any] = {}
    time_ = SimulatedTime(lambda call: estimate_seconds(call, models, machine))
    mini = PreparedSet(cache=config.cache)
    agent = SimulatedAgent(config, mini.search(), embedded, time_, machine.overhead["turn"], known_answers)
    calls = [agent.call(batch) for batch in take_batches(mini, turns, config.settings.limits.batch_size)]
    return _summarise([(call.seconds, call.sessions) for call in calls], config)


def take_batches(mini: PreparedSet, turns: int, size: int) -> list[list[AskedTurn]]:
    """Batch turns of the mini set as an evaluator does: questions first, then dialogs."""
    single = math.ceil(_SINGLE_SHARE * turns)
    turns_by_kind = [
        list(islice(mini.turns(kinds=("single-turn",)), single)),
        list(islice(mini.turns(kinds=("multi-turn",)), turns - single)),
    ]
    return [batch for kind in turns_by_kind if kind for batch in make_batches(kind, size)]


def measure_profile(
    config: RunConfig, weights: str, batches: Sequence[Sequence[AskedTurn]], pipeline: Any, folder: Path, note: Note
) -> Report:
    """Answer turns under a profile and time every call; then measure the constants of the simulation.

    Args:
        config: Preset and profile.
        weights: ``tiny`` for random ones, saved below ``folder``, or ``real``.
        batches: Turns of each call.
        pipeline: Search of the agent.
        folder: Folder of the report.
        note: Takes what could not be measured.

    Raises:
        NotMeasurableError: Weights or memory are missing.
        ModelError, SearchError, SettingsError: As for an agent.
    """
    gpu, engine = has_gpu(), has_engine()
    if weights == "tiny":
        config = with_tiny_weights(config, folder / "tiny", has_engine=engine, has_gpu=gpu)
    else:
        _require_weights(config, gpu=gpu, engine=engine)
    if not gpu:
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
        note("memory of the GPU: torch has no GPU here, the memory is that of this process")
    if not engine:
        note("the engine: vLLM is not installed, transformers answers in its place")
    characters, count_tokens = _read_tokenizer(config, [each.turn.query for batch in batches for each in batch])
    times = CallTimes(characters)
    models = TimedModels(config.models(), times)
    report: Report = {"characters": characters, "engine": config.profile.models["chat"]["kind"]}
    with MemoryWatch(times) as memory:
        agent = CragAgent.from_config(config, pipeline, models=models)
        records: list[Report] = []
        agent.trace_to(None, records.extend)
        started = agent.warm_up()
        report["start_up"] = {"seconds": started.seconds, "failures": [str(step) for step in started.failures]}
        loaded = memory.worst
        times.calls.clear()
        answered = []
        for batch in batches:
            began = time.perf_counter()
            agent.batch_generate_response(
                [each.turn.query for each in batch],
                [each.image for each in batch],
                [list(each.history) for each in batch],
            )
            answered.append((time.perf_counter() - began, tuple(each.session.session_id for each in batch)))
    report["turns"] = _summarise(answered, config) | _summarise_records(records)
    report["calls"] = _compare_calls(times, config, gpu=gpu)
    report["memory"] = _compare_memory(memory, loaded, config, gpu=gpu)
    own = _own_seconds(answered, times, records)
    report["constants"] = {
        **_measure_small(models, config),
        **measure_chat(
            models.get("chat"),
            int(config.profile.models["chat"].get("max_batch", 1)),
            count_tokens,
            sees=config.profile.sees,
        ),
        **_measure_search(pipeline),
        **_measure_transformers(models, config, weights, count_tokens),
        "turn": own,
        "characters": characters,
    }
    note("search over 2.7 million chunks: the index of the mini set was searched")
    return report


def _require_weights(config: RunConfig, *, gpu: bool, engine: bool) -> None:
    if not gpu:
        raise NotMeasurableError("real weights need a GPU, and torch has none here")
    if not engine and config.profile.models["chat"]["kind"] == ENGINE:
        raise NotMeasurableError("real weights need vLLM: install requirements.txt or requirements/gpu_current.txt")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    offline = os.environ.get("HF_HUB_OFFLINE") == "1"
    for each in list_checkpoints(config):
        if each.kind == "organiser":
            continue
        try:
            place = snapshot_download(
                each.path,
                revision=each.revision,
                local_files_only=offline,
                ignore_patterns=["original/*", "onnx/*", "*.h5", "*.msgpack"],
            )
        except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
            raise NotMeasurableError(
                f"the weights of {each.path} are not here ({type(error).__name__}): hf download {each.path}, or --download"
            ) from error
        if not any(path.suffix in _WEIGHTS for path in Path(place).iterdir()):
            raise NotMeasurableError(f"the cache holds {each.path} without weights: hf download {each.path}")


def _read_tokenizer(config: RunConfig, texts: Sequence[str]) -> tuple[float, Callable[[str], int]]:
    """Return the characters of a token of the chat model in these texts, and a counter of tokens."""
    from transformers import AutoTokenizer

    spec = config.profile.models["chat"]
    words = AutoTokenizer.from_pretrained(spec["path"], revision=spec.get("revision", "main"))

    def count(text: str) -> int:
        return len(words(text, add_special_tokens=False)["input_ids"])

    return sum(map(len, texts)) / max(1, sum(map(count, texts))), count


def _summarise(calls: Sequence[tuple[float, Sequence[str]]], config: RunConfig) -> Report:
    """Summarise the seconds of calls, each with the sessions of its turns."""
    limits = config.settings.limits
    each = [seconds / len(sessions) for seconds, sessions in calls for _ in sessions]
    dialogs: Counter[str] = Counter()
    for seconds, sessions in calls:
        for session in sessions:
            dialogs[session] += seconds / len(sessions)  # type: ignore[assignment]
    late = sum(seconds > limits.seconds_per_turn * len(sessions) for seconds, sessions in calls)
    late += sum(seconds > limits.seconds_per_dialog for seconds in dialogs.values())
    return {
        "turns": len(each),
        "batch": max(len(sessions) for _, sessions in calls),
        "mean": statistics.mean(each),
        "slowest": max(each),
        "longest_dialog": max(dialogs.values()),
        "late": late,
    }


def _summarise_records(records: Sequence[Report]) -> Report:
    stages: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for record in records:
        for stage in record["stages"]:
            if stage.get("status") in ("failed", "hung"):
                faults[f"{stage['stage']}: {stage.get('reason', '')}"[:300]] += 1
            elif stage.get("status") != "ran":
                stages[f"{stage['stage']} {stage.get('status')}"] += 1
    return {"not_whole": dict(stages), "failed": dict(faults)}


def _compare_calls(times: CallTimes, config: RunConfig, *, gpu: bool) -> list[Report]:
    """Put the seconds of each kind of call beside those of the simulation, for replies as long as they were."""
    machine = dataclasses.replace(Machine.read(), characters=times.characters)
    placed = place_models(config) if gpu else {}
    rows: dict[str, Report] = {}
    for call, seconds in times.calls:
        row = rows.setdefault(
            f"{call.role}.{call.method}", {"calls": 0, "items": 0, "measured": 0.0, "simulated": 0.0 if gpu else None}
        )
        row["calls"] += 1
        row["items"] += call.items
        row["measured"] += seconds
        if gpu:
            row["simulated"] += estimate_seconds(call, placed, machine)
    return [{"call": name, **row} for name, row in sorted(rows.items(), key=lambda item: -item[1]["measured"])]


def _compare_memory(watch: MemoryWatch, loaded: int, config: RunConfig, *, gpu: bool) -> Report:
    """Put the memory in use at its worst moment beside the plan."""
    report: Report = {
        "before": watch.before,
        "loaded": loaded,
        "worst": watch.worst,
        "worst_during": watch.worst_during,
    }
    if not gpu:
        return {**report, "planned": None}
    card = int(describe_machine()["bytes"])
    try:
        plan = estimate_memory(use_local_configs(config), card)
    except ArchitectureError as error:
        return {**report, "planned": None, "reason": str(error)}
    return {**report, "card": card, "margin": MARGIN, "needed": plan.needed, "planned": plan_worst(plan)}


def plan_worst(plan: Memory) -> int:
    """Return the bytes in use at the worst moment by the plan: engines fill the share of the card that they are given."""
    engines = [row for row in plan.rows if row.engine]
    share = sum(float(row.checkpoint.options["gpu_memory_utilization"]) for row in engines)
    return round(share * plan.card) + plan.needed - sum(row.within_share for row in engines)


def _measure_small(models: TimedModels, config: RunConfig) -> dict[str, float]:
    """Return the seconds of a call of a small model with one item, the median of those that the preset loads."""
    from PIL import Image

    picture = Image.new("RGB", (320, 240), "gray")
    items: dict[str, tuple[Any, ...]] = {
        "encode": (["How tall is it?"],),
        "score_multimodal": ([MultimodalPair("How tall?", picture, "It is tall.")],),
        "score": ([("How tall?", "It is tall.")],),
        "detect": ([picture], [["tower"]]),
        "match": ([picture], ["tower"]),
    }
    seconds = []
    for role in list_roles(config.settings, config.prompts):
        if "path" not in str(config.profile.models.get(role)) or role in ("chat", "small_chat"):
            continue
        model = models.get(role)
        method = next((name for name in items if hasattr(model, name)), None)
        if method is not None:
            seconds.append(min(_seconds(lambda: getattr(model, method)(*items[method])) for _ in range(REPEATS)))  # noqa: B023
    return {"call": statistics.median(seconds)} if seconds else {}


def _measure_search(pipeline: Any) -> dict[str, float]:
    pipeline("warm up", k=30)
    return {"vector_query": min(_seconds(lambda: pipeline("How tall is the old tower?", k=30)) for _ in range(REPEATS))}


def _measure_transformers(
    models: TimedModels, config: RunConfig, weights: str, count_tokens: Callable[[str], int]
) -> dict[str, float]:
    if weights != "tiny" or config.profile.models.get("small_chat", {}).get("kind") != "transformers":
        return {}
    seconds = measure_chat(models.get("small_chat"), 1, count_tokens, sees=False)
    return {"transformers_step": seconds["step"]} if "step" in seconds else {}


def _own_seconds(answered: Sequence[tuple[float, Any]], times: CallTimes, records: Sequence[Report]) -> float:
    """Return the seconds of a turn outside of models and search."""
    searches = {
        (record["batch"], stage["stage"]): stage.get("seconds", 0.0)
        for record in records
        for stage in record["stages"]
        if stage["stage"] in ("image_search", "web_search")
    }
    whole = sum(seconds for seconds, _ in answered)
    models = sum(seconds for _, seconds in times.calls)
    own = whole - models - float(sum(searches.values()))
    return max(0.0, own) / sum(len(sessions) for _, sessions in answered)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
