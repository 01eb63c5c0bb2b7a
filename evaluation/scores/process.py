"""*Process*: which searches a turn made, beside those that its answer needs, after MC-Search (arXiv 2603.00873).

A set has to state the needed searches (``TurnFacts.steps``), as the mini CRAG-MM does. Unanswerable turns are left out: nobody can say how
many searches show that there is no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType

from agents.record import EvidenceFound, SearchKind, TurnRecord
from evaluation.records import GoldStep, JudgedTurn

KINDS: tuple[SearchKind, ...] = ("image", "web")

SOURCES: Mapping[str, str] = {"kg": "graph", "web": "pages", "both": "graph and pages", "image": "photo alone"}
"""Sources of answers in words, in the order of the table."""


@dataclass(frozen=True)
class TurnProcess:
    """Searches of a judged turn.

    Attributes:
        source: Source of its answer, a key of ``SOURCES``.
        steps: Needed searches; ``hits``: those whose thing or page was found and shown.
        made: Searches that were made, by kind.
        calls: Requests to chat models.
    """

    judged: JudgedTurn
    source: str
    steps: Sequence[GoldStep]
    hits: int
    made: Mapping[SearchKind, int]
    calls: int

    @property
    def needed(self) -> Mapping[SearchKind, int]:
        """Needed searches by kind; one image search takes all things in the photo, because its parts are searched in one batch."""
        count = {kind: sum(step.search == kind for step in self.steps) for kind in KINDS}
        return {"image": min(1, count["image"]), "web": count["web"]}


Compute = Callable[[TurnProcess], float | None]
"""Returns a metric of one turn; None: the turn does not count."""


@dataclass(frozen=True)
class ProcessMetric:
    """Mean over turns of a number about their searches; a share of 0 to 1 has the unit ``%``.

    ``meaning`` explains it to those who read the table.
    """

    heading: str
    meaning: str
    compute: Compute
    unit: str

    def average(self, turns: Iterable[TurnProcess]) -> float | None:
        """Return the mean over the turns that count; None if there are none."""
        values = [value for turn in turns if (value := self.compute(turn)) is not None]
        return fmean(values) if values else None

    def format(self, value: float | None) -> str:
        """Format a mean: a percentage or two decimals, "-" for None."""
        if value is None:
            return "-"
        return f"{100 * value:.1f}%" if self.unit == "%" else f"{value:.2f}"


_REGISTRY: dict[str, ProcessMetric] = {}
PROCESS_METRICS: Mapping[str, ProcessMetric] = MappingProxyType(_REGISTRY)
"""Registered metrics by name, in the order of the table."""


def process_metric(heading: str, meaning: str, *, unit: str = "") -> Callable[[Compute], Compute]:
    """Register the decorated function as a metric of its name; see ``ProcessMetric``.

    Raises:
        ValueError: There is a metric of this name.
    """

    def register(compute: Compute) -> Compute:
        name = compute.__name__
        if name in _REGISTRY:
            raise ValueError(f"{name} is a process metric already; give the function another name")
        _REGISTRY[name] = ProcessMetric(heading, meaning, compute, unit)
        return compute

    return register


@process_metric("hit per step", "needed things and pages that were found and shown", unit="%")
def hit_per_step(turn: TurnProcess) -> float | None:
    """Return the share of the needed steps that were hit."""
    return turn.hits / len(turn.steps) if turn.steps else None


@process_metric("image searches", "per turn; the parts of a photo are searched together")
def image_searches(turn: TurnProcess) -> float:
    """Return the number of image searches."""
    return turn.made["image"]


@process_metric("web searches", "per turn; the queries of a round are searched together")
def web_searches(turn: TurnProcess) -> float:
    """Return the number of web searches."""
    return turn.made["web"]


@process_metric("over-retrieval", "searches per turn beyond those that the answer needs")
def over_retrieval(turn: TurnProcess) -> float:
    """Return the number of searches beyond the needed ones of their kind."""
    return sum(max(0, turn.made[kind] - turn.needed[kind]) for kind in KINDS)


@process_metric("under-retrieval", "needed searches per turn that were not made")
def under_retrieval(turn: TurnProcess) -> float:
    """Return the number of needed searches that were not made, by kind."""
    return sum(max(0, turn.needed[kind] - turn.made[kind]) for kind in KINDS)


@process_metric("deviation", "absolute difference of the numbers of made and needed searches")
def deviation(turn: TurnProcess) -> float:
    """Return MC-Search's rollout deviation."""
    return abs(sum(turn.made.values()) - sum(turn.needed.values()))


@process_metric("right without a hit", "right answers of which no needed step was hit", unit="%")
def right_without_hit(turn: TurnProcess) -> float | None:
    """Return 1 for a right answer without any hit, 0 for one with a hit."""
    return float(turn.hits == 0) if turn.steps and turn.judged.correct else None


@process_metric("hit and wrong", "turns with all steps hit whose answer is wrong", unit="%")
def hit_and_wrong(turn: TurnProcess) -> float | None:
    """Return 1 for a wrong answer though all steps were hit, 0 for another answer."""
    return float(turn.judged.hallucination) if turn.steps and turn.hits == len(turn.steps) else None


@process_metric("model calls", "requests to chat models per turn")
def model_calls(turn: TurnProcess) -> float:
    """Return the number of requests to chat models."""
    return turn.calls


def read_process(judged: JudgedTurn, record: TurnRecord | None) -> TurnProcess | None:
    """Read the searches of a turn from its record.

    Returns:
        None without a record or without stated steps, and for an unanswerable turn.
    """
    facts = judged.facts
    source = facts.source or ""
    if record is None or not record.stages or facts.steps is None or source not in SOURCES:
        return None
    made = {kind: record.searches.count(kind) for kind in KINDS}
    hits = sum(is_hit(step, record) for step in facts.steps)
    return TurnProcess(judged, source, facts.steps, hits, made, len(record.exchanges))


def is_hit(step: GoldStep, record: TurnRecord) -> bool:
    """Return whether the thing of a step was recognised or its facts became evidence, or a part of its page became evidence."""
    evidence = [chunk for stage in record.stages for chunk in stage.evidence]
    if step.search == "web":
        return any(chunk.source == "web" and chunk.url == step.target for chunk in evidence)
    name = step.target.casefold()
    recognised = any((stage.entity or "").casefold() == name for stage in record.stages)
    return recognised or any(_is_about(chunk, name) for chunk in evidence)


def _is_about(chunk: EvidenceFound, name: str) -> bool:
    return chunk.source == "kg" and chunk.title.casefold() == name


@dataclass(frozen=True)
class ProcessGroup:
    """Turns whose answers have one source, or all of them, with the mean of each metric by name."""

    name: str
    turns: int
    means: Mapping[str, float | None]

    def format(self, metric: str) -> str:
        """Format a mean as text."""
        return PROCESS_METRICS[metric].format(self.means[metric])


def summarise_process(turns: Iterable[TurnProcess | None]) -> list[ProcessGroup]:
    """Summarise turns by the source of their answers, then those that need several steps, then all; empty if nothing is known."""
    known = [turn for turn in turns if turn is not None]
    groups = {words: [turn for turn in known if turn.source == source] for source, words in SOURCES.items()}
    groups |= {"several steps": [turn for turn in known if len(turn.steps) > 1], "all": known}
    return [
        ProcessGroup(name, len(some), {key: metric.average(some) for key, metric in PROCESS_METRICS.items()})
        for name, some in groups.items()
        if some
    ]
