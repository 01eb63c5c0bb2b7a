"""A soak test: thousands of mixed turns through one agent; nothing may pile up.

Run: ``python -m benchmarks.soak [--turns 2000] [--preset best] [--profile embedded]``. The search of the profile is the real one, over
the indices of the mini set; the models are scripted (``tests.support.scripted_parts``), so that hours become minutes. Batches of 1 to 16,
first questions and dialogs, a tenth of the turns broken. Exit status 1 where memory grows by more than 5% after the warm-up, or
threads, open files or temporary files pile up.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agents.launch import DEFAULT_CACHE, Launch
from agents.search.hits import SearchError
from agents.settings import ROOT, Profile, SettingsError
from evaluation.records import EvaluationError
from tests.support.scripted_parts import ready
from tests.support.soaking import Question, Sample, after_warm_up, growth, own_temporary_folder, soak

MOST_GROWTH = 0.05
_WARM_UP = 0.25  # of the turns: caches fill, pools of threads and memory are made
_SESSIONS = 60  # of each data set
_UNHURRIED = (
    "limits.seconds_per_turn=600",
    "limits.seconds_per_dialog=6000",
)  # a busy machine must not make it skip work
_FIGURE = ROOT / "docs" / "figures" / "soak.png"


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak, print and draw; 1 where something piles up or is missing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--preset", default="best")
    parser.add_argument("--profile", default="embedded")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dataset", type=Path, default=DEFAULT_CACHE / "datasets")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    parser.add_argument("--figure", type=Path, default=_FIGURE)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="crag-soak-", ignore_cleanup_errors=True) as folder:
        own = Path(folder) / "tmp"
        own.mkdir()
        own_temporary_folder(own)
        try:
            launch = Launch.read(options.preset, options.profile, overrides=_UNHURRIED, cache=options.cache)
            launch.prepare()
            samples = run(options, launch, Path(folder) / "trace.jsonl")
        except (SearchError, EvaluationError, SettingsError, RuntimeError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    steady = after_warm_up(samples, _WARM_UP)
    show(samples, steady)
    draw(samples, options.figure)
    return 1 if piles_up(steady) else 0


def run(options: argparse.Namespace, launch: Launch, trace: Path) -> list[Sample]:
    """The samples of one soak."""
    from agents.crag_agent import CragAgent
    from agents.model_set import ModelSet
    from evaluation.data import (
        crag_dataset,  # it imports huggingface_hub, which has to be told first where its cache is
    )

    questions = []
    for kind in ("single-turn", "multi-turn"):
        data = crag_dataset.load(kind, "validation", path=options.dataset, cache=options.cache)
        for session in islice(data, _SESSIONS):
            image = data.image(session).image
            if image is not None:
                questions.append(Question(image.copy, [turn.query for turn in session.turns]))
    agent = CragAgent(
        launch.pipeline(split="validation"),
        settings=launch.settings,
        models=ModelSet(Profile(name="scripted", models={}), options.cache, ready=ready()),
        trace_path=trace,
    )
    samples = []
    for sample in soak(agent, questions, options.turns, seed=options.seed):
        samples.append(sample)
        print(f"{sample.turns} turns, {sample.rss:.0f} MiB, {sample.seconds:.0f} s", file=sys.stderr)
    return samples


def piles_up(steady: Sequence[Sample]) -> list[str]:
    """What there is more of at the end than after the warm-up."""
    said = [] if growth(steady) <= MOST_GROWTH else ["memory"]
    first, last = steady[0], steady[-1]
    return said + [name for name in ("threads", "files", "temporary") if getattr(last, name) > getattr(first, name)]


def show(samples: Sequence[Sample], steady: Sequence[Sample]) -> None:
    """Print the first sample, the first after the warm-up, the middle and the last one."""
    table = Table(title=f"{samples[-1].turns} turns")
    for name in (field.name for field in fields(Sample)):
        table.add_column(
            {"rss": "rss, MiB", "files": "open files", "temporary": "temporary files"}.get(name, name), justify="right"
        )
    for one in (samples[0], steady[0], steady[len(steady) // 2], steady[-1]):
        table.add_row(*(f"{value:.0f}" for value in (getattr(one, field.name) for field in fields(Sample))))
    console = Console(width=110)
    console.print(table)
    most, least = (choose(one.rss for one in steady) for choose in (max, min))
    console.print(
        f"memory after the warm-up: {least:.0f} to {most:.0f} MiB; last quarter against first: {100 * growth(steady):+.1f}%"
    )
    console.print(f"piles up: {', '.join(piles_up(steady)) or 'nothing'}")


def draw(samples: Sequence[Sample], path: Path) -> None:
    """Memory, threads and open files over the turns, as a PNG."""
    import matplotlib

    matplotlib.use("Agg")  # no display is needed
    from matplotlib import pyplot

    turns = [one.turns for one in samples]
    figure, axes = pyplot.subplots(2, 1, figsize=(8, 5), sharex=True)
    upper: Any = axes[0]
    lower: Any = axes[1]
    upper.plot(turns, [one.rss for one in samples], label="resident memory, MiB")
    upper.axvline(_WARM_UP * turns[-1], color="gray", linestyle=":", label="end of the warm-up")
    upper.set_ylim(bottom=0)
    lower.plot(turns, [one.threads for one in samples], label="threads")
    lower.plot(turns, [one.files for one in samples], label="open files")
    lower.plot(turns, [one.temporary for one in samples], label="temporary files")
    lower.set_ylim(bottom=0)
    lower.set_xlabel("turns")
    for one in (upper, lower):
        one.legend(loc="lower right")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
