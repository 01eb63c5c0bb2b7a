"""Overhead of the agent in milliseconds a turn: all but the time of models and search, of reading pages and comparing pictures.

    python -m lab.benchmarks.overhead --presets best direct_rag cruise

Each batch of the mini set goes through the agent twice. The first time the embedded profile's models and search answer (a stand-in for
chat). The second time they repeat their answers at once: what that call takes is the agent's own, its record of each turn included. Pages
are read and pictures are compared anew in each call (``WORK``); that is work as a model's is, and has columns of its own. The fastest of
``--repeats`` calls counts.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from itertools import islice
from statistics import mean
from typing import Any
from unittest import mock

from pydantic import Field

from agents.crag_agent import CragAgent
from agents.models.vision import same_picture
from agents.profiles.model_set import ModelSet
from agents.search import retrieved
from agents.search.pages.page_reader import PageReader
from agents.settings.run_config import RunConfig, preset_names
from agents.texts import wikitext
from evaluation.commands import make_console
from lab.benchmarks.common import BenchmarkOptions, build_table, run
from lab.benchmarks.latency.cost import Machine
from lab.benchmarks.latency.stand_ins import replace_chat
from mini_crag_mm.loader import AskedTurn, PreparedSet
from tests.support.meter import SIZES, ModelsBy

MAX_MILLISECONDS = 1000 * Machine.read().overhead["turn"]
"""Own time of a turn that ``latency_sim`` counts; with more, its seconds are too few."""

PAGES, PICTURES = "pages read", "pictures compared"
WORK: Mapping[str, tuple[tuple[Any, str], ...]] = {
    PAGES: ((PageReader, "__call__"),),
    PICTURES: (
        (same_picture.PictureFeatures, "get_features"),
        (same_picture.PictureFeatures, "get_photo_features"),
        (same_picture, "match"),
        (same_picture.Matches, "inliers"),
    ),
}
"""Kinds of work without a model, and the functions that do it; none of them calls another."""

OWN = "own"


class Replay:
    """Replay of a model or the search: after ``again``, calls get the answers of the first time, in order."""

    def __init__(self, behind: Any) -> None:
        self._behind = behind
        self._answers: dict[tuple[str, int], Any] = {}
        self._num_calls: Counter[str] = Counter()

    def rewind(self) -> None:
        """Replay the answers from the beginning."""
        self._num_calls.clear()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Search."""
        return self._answer("search", self._behind, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._behind, name)
        if name not in SIZES:
            return value
        return lambda *args, **kwargs: self._answer(name, value, *args, **kwargs)

    def _answer(self, name: str, ask: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        key = (name, self._num_calls[name])
        self._num_calls[name] += 1
        if key not in self._answers:
            self._answers[key] = ask(*args, **kwargs)
        return self._answers[key]


def forget_texts() -> None:
    """Clear the caches of cleaned texts, because other turns would find other ones."""
    for module in (retrieved, wikitext):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


@contextmanager
def time_work() -> Iterator[Mapping[str, float]]:
    """Count the seconds of each kind of work as long as the context lasts."""
    seconds = dict.fromkeys(WORK, 0.0)

    def time_calls(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                seconds[kind] += time.perf_counter() - began

        return timed

    with ExitStack() as replaced:
        for kind, functions in WORK.items():
            for owner, name in functions:
                replaced.enter_context(mock.patch.object(owner, name, time_calls(kind, getattr(owner, name))))
        yield seconds


def measure_milliseconds(
    config: RunConfig, models: ModelSet, pipeline: Any, batch: Sequence[AskedTurn], repeats: int
) -> dict[str, float]:
    """Measure the milliseconds for a turn of this batch: of each kind of work, and ``OWN``, the agent's own."""
    search = Replay(pipeline)
    remembered: dict[str, Replay] = {}

    def model(role: str) -> Replay:
        if role not in remembered:
            remembered[role] = Replay(replace_chat(models, role))
        return remembered[role]

    queries = [each.turn.query for each in batch]
    calls: list[dict[str, float]] = []
    for _ in range(repeats + 1):
        forget_texts()
        # A new agent has seen none of the photos. It gets a plain function: of the organiser's pipeline itself it would use the parts.
        agent = CragAgent.from_config(config, lambda query, k: search(query, k=k), models=ModelsBy(model))
        agent.trace_to(None, lambda _: None)  # as every evaluation and application does
        for each in (search, *remembered.values()):
            each.rewind()
        with time_work() as work:
            began = time.perf_counter()
            agent.batch_generate_response(
                queries, [each.image for each in batch], [list(each.history) for each in batch]
            )
            own = time.perf_counter() - began - sum(work.values())
        calls.append({OWN: own, **work})
    fastest = min(calls[1:], key=lambda call: call[OWN])
    return {kind: 1000 * seconds / len(batch) for kind, seconds in fastest.items()}


def _measure(options: OverheadOptions) -> int:
    mini = PreparedSet(options.split, options.cache)
    pipeline = mini.search()
    models = RunConfig.read(profile="embedded", cache=options.cache).models()
    turns = iter(mini.turns(kinds=("single-turn",)))
    batches = [list(islice(turns, options.batch)) for _ in range(options.batches)]
    rows, slow = [], []
    for preset in options.presets or preset_names():
        config = RunConfig.read(preset, "embedded", overrides=["limits.seconds_per_turn=600"], cache=options.cache)
        measured = [measure_milliseconds(config, models, pipeline, batch, options.repeats) for batch in batches]
        own = [milliseconds[OWN] for milliseconds in measured]
        work = [mean(milliseconds[kind] for milliseconds in measured) for kind in WORK]
        rows.append((preset, *(f"{figure:.1f}" for figure in (mean(own), max(own), *work))))
        if mean(own) > MAX_MILLISECONDS:
            slow.append(preset)
    console = make_console()
    title = f"milliseconds a turn, batches of {options.batch}"
    console.print(build_table(title, ("preset", "own", "own, slowest batch", *WORK), rows))
    if slow:
        console.print(f"own time over {MAX_MILLISECONDS:.0f} ms: {', '.join(slow)}", style="red")
    return int(bool(slow))


class OverheadOptions(BenchmarkOptions):
    """Options of what is timed, and how often."""

    presets: tuple[str, ...] = Field((), description="presets; default: all")
    batch: int = Field(16, description="turns in one call")
    batches: int = Field(3, description="batches of the data set")
    repeats: int = Field(20, description="calls of which the fastest counts")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table.

    Returns:
        0; 1 if a preset takes too long; 2 if it cannot be measured.
    """
    return run(_measure, OverheadOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
