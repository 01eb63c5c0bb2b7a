"""Metrics of answers: each registered function is in scores, tables, report, LaTeX and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from agents.base.command_options import Flag, Options
from agents.base.named import ImportPath, import_object, look_up
from evaluation.records import JudgedTurn
from evaluation.scores import answer_words
from evaluation.scores.process import PROCESS_METRICS

Compute = Callable[[JudgedTurn, Sequence[str]], float]
"""Returns a metric of one turn, given the right answers: the ground truth first, then the accepted short ones if they are known."""


@dataclass(frozen=True)
class Metric:
    """Mean over turns of a number that needs no judge.

    Attributes:
        name: Name in files.
        heading: Heading in tables, without the unit.
        compute: Returns its value for one turn.
        unit: ``%`` for a share of 0 to 1, printed as a percentage; else the unit of the number, or "".
        higher_is_better: None if neither is.
        in_runs: Whether every run has it; False for those that only ``answer_metrics`` tabulates, with accepted answers.
    """

    name: str
    heading: str
    compute: Compute
    unit: str = "%"
    higher_is_better: bool | None = True
    in_runs: bool = True

    @property
    def full_heading(self) -> str:
        """Heading with the unit."""
        return f"{self.heading} ({self.unit})" if self.unit else self.heading

    @property
    def remark(self) -> str:
        """Remark for readers who expect that more is better; "" if it is."""
        words = {True: "", False: "lower is better", None: "neither high nor low is better"}
        return words[self.higher_is_better]

    def average(self, turns: Iterable[JudgedTurn]) -> float:
        """Return the mean over turns, against their ground truths; 0 for no turns."""
        values = [self.compute(judged, (judged.turn.ground_truth,)) for judged in turns]
        return fmean(values) if values else 0.0

    def format(self, value: float, style: Literal["terminal", "table"] = "table") -> str:
        """Format a value: on the terminal and in the report with one decimal and the sign, in tables of studies with two."""
        digits = 1 if style == "terminal" else 2
        if self.unit == "%":
            return f"{100 * value:.{digits}f}{'%' if style == 'terminal' else ''}"
        return f"{value:.{digits}f}"


_REGISTRY: dict[str, Metric] = {}
METRICS: Mapping[str, Metric] = MappingProxyType(_REGISTRY)
"""Registered metrics by name, in their order."""


def metric(
    heading: str, *, unit: str = "%", higher_is_better: bool | None = True, in_runs: bool = True
) -> Callable[[Compute], Compute]:
    """Register the decorated function as a metric of its name; see ``Metric``.

    Raises:
        ValueError: There is a metric or a part of the scores of this name.
    """

    def register(compute: Compute) -> Compute:
        name = compute.__name__
        if name in _REGISTRY or name in RESERVED:
            raise ValueError(f"{name} is a name of the scores already; give the metric another")
        _REGISTRY[name] = Metric(name, heading, compute, unit, higher_is_better, in_runs)
        return compute

    return register


RESERVED = frozenset(
    {"all", "ego", "errors", "unjudged", "intervals_95", "about", "turns", "single", "accuracy", "label"}
)
"""Names of other parts of the files that have metrics."""


def list_run_metrics() -> list[Metric]:
    """Return the metrics that every run has."""
    return [each for each in METRICS.values() if each.in_runs]


@metric("Overlap")
def overlap(judged: JudgedTurn, references: Sequence[str]) -> float:
    """Return QA-Dragon's overlap with the ground truth."""
    return answer_words.overlap(judged.turn.agent_response, references[0])


@metric("F1", in_runs=False)
def f1(judged: JudgedTurn, references: Sequence[str]) -> float:
    """Return SQuAD's F1."""
    return answer_words.word_f1(judged.turn.agent_response, references)


@metric("EM", in_runs=False)
def em(judged: JudgedTurn, references: Sequence[str]) -> float:
    """Return SQuAD's exact match."""
    return answer_words.exact_match(judged.turn.agent_response, references)


@metric("VQA", in_runs=False)
def vqa(judged: JudgedTurn, references: Sequence[str]) -> float:
    """Return VQA accuracy with relaxed numbers."""
    return answer_words.vqa(judged.turn.agent_response, references)


class MetricOptions(Options):
    """Metrics of one's own, in every command that computes scores."""

    metric: Annotated[tuple[str, ...], Flag(metavar="MODULE:FUNCTION", repeated=True)] = Field(
        (), description="add a metric of your own to tables and report (docs/extending.md); may be repeated"
    )

    @model_validator(mode="after")
    def _import_metrics(self) -> Self:
        """Import the modules, whose functions ``metric`` registers once."""
        for reference in self.metric:
            place = look_up(reference, "metric", ValueError, attribute="function")
            assert isinstance(place, ImportPath)
            function = import_object(place, reference, "metric", ValueError)
            if getattr(function, "__name__", None) not in (*METRICS, *PROCESS_METRICS):
                raise ValueError(
                    f"{reference} is no metric; register the function with evaluation.scores.metrics.metric"
                    " or evaluation.scores.process.process_metric"
                )
        return self
