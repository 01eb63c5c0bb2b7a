"""Model calls of a preset under a profile, for one turn and for a batch, and its prompts as filled in.

    python -m lab.benchmarks.model_calls --preset best --profile gpu --batches 1 8

Questions of the mini data set go through the stages with the preset's settings for that profile. Its models are not available everywhere,
so those of ``--models`` answer instead. The words of a prompt are the preset's; the evidence, crops and earlier replies in it are theirs.
No stage is reduced for want of time. Without ``--prompts`` only calls are counted, and chat models have stand-ins.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any, cast

from pydantic import Field
from rich.console import Console
from rich.markup import escape

from agents.record import Exchange
from agents.runner.pipeline import Pipeline
from agents.search.gateway import SearchGateway
from agents.settings.run_config import RunConfig
from agents.turn import Turn
from evaluation.commands import make_console
from lab.benchmarks.common import BenchmarkOptions, build_table, make_turn, run
from lab.benchmarks.latency.stand_ins import PicturedSearch, replace_chat
from mini_crag_mm.loader import PreparedSet
from tests.support.meter import CallLog, Metered, ModelCall, ModelsBy


class CallsOptions(BenchmarkOptions):
    """Options of what is asked."""

    preset: str = Field("best", description="preset")
    profile: str = Field("gpu", description="profile whose settings hold")
    models: str = Field("embedded_batch", description="profile whose models and search answer")
    batches: tuple[int, ...] = Field((1, 8), description="sizes of the batches")
    skip: int = Field(0, ge=0, description="questions passed over before the first")
    prompts: bool = Field(False, description="print the prompts of the first turn with their replies")


def _measure(options: CallsOptions) -> int:
    console = make_console()
    asking = RunConfig.read(options.preset, options.profile, cache=options.cache)
    config = RunConfig.read(profile=options.models, cache=options.cache)
    mini = PreparedSet(options.split, options.cache)
    models, pipeline = config.models(), mini.search()
    get_model = models.get if options.prompts else partial(replace_chat, models)
    rows: dict[tuple[str, str, str], list[str]] = {}
    for place, size in enumerate(options.batches):
        log = CallLog()
        metered = ModelsBy(lambda role, log=log: Metered(get_model(role), role, log), sees=asking.profile.sees)  # type: ignore[misc]
        search = cast(SearchGateway, Metered(PicturedSearch(pipeline), "search", log))
        stages = Pipeline(asking.settings, metered, search, asking.prompts)
        turns = [
            make_turn(each) for each in islice(mini.turns(kinds=("single-turn",)), options.skip, options.skip + size)
        ]
        names = [stage.name for stage in stages.stages]
        log.running = lambda turns=turns, names=names: names[len(turns[0].records)]  # type: ignore[misc]
        finished_turns = stages.run(turns)
        for key, counts in _count_calls(log.take()).items():
            rows.setdefault(key, [""] * len(options.batches))[place] = counts
        if options.prompts and place == 0:
            _show(finished_turns[0], console)
    headings = ("stage", "model", "call", *(f"batch of {size}: calls x items" for size in options.batches))
    title = f"{options.preset} under {options.profile}"
    console.print(build_table(title, headings, [(*key, *counts) for key, counts in rows.items()], left_columns=3))
    return 0


def _count_calls(calls: Sequence[ModelCall]) -> dict[tuple[str, str, str], str]:
    """Count the calls, and the items of them all, by stage, role and method."""
    keys = [(call.stage, call.role, call.method) for call in calls]
    items: Counter[tuple[str, str, str]] = Counter()
    for key, call in zip(keys, calls, strict=True):
        items[key] += call.items
    return {key: f"{count} x {items[key]}" for key, count in Counter(keys).items()}


def _show(turn: Turn, console: Console) -> None:
    for stage in turn.records:
        for exchange in stage.exchanges:
            console.rule(f"{stage.stage}: {exchange.prompt}")
            console.print(escape(_render(exchange)), highlight=False)


def _render(exchange: Exchange) -> str:
    lines = [f"[{message.role}]{_format_pictures(message.images)}\n{message.content}" for message in exchange.messages]
    return "\n".join([*lines, "[reply]", exchange.reply])


def _format_pictures(images: Sequence[Any]) -> str:
    return f" with {len(images)} picture{'s' * (len(images) > 1)}" if images else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the calls and prompts.

    Returns:
        0, or 2 if a model or the mini set is missing.
    """
    return run(_measure, CallsOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
