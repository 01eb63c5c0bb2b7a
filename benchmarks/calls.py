"""Counts the model calls of a batch: whatever the batch size, a stage asks each kind of model at most once.

Run: ``python -m benchmarks.calls --preset qa_dragon [--profile embedded] [--batch 16]``. A real batch, half of it first questions
and half second turns of dialogs, goes through the stages of the preset with the real models of the profile. Every model that the
profile's registry loads is wrapped, those inside others too: "by the stage" are the calls that a stage makes, "within" those that
a model makes of the models it is composed of. Exit status 1 where a stage asks a kind of model more than once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from agents.launch import Launch
from agents.models.base import ModelError
from agents.models.chat.composed_vision import Describe
from agents.models.registry import ModelRegistry, Spec
from agents.search.gateway import SearchGateway
from agents.search.hits import SearchError
from agents.settings import SettingsError
from evaluation.records import EvaluationError
from evaluation.run.options import build_parser


@dataclass(frozen=True)
class Call:
    """A call of a model: in which stage, of which kind and method, of how many items, and by which model (None: by the stage)."""

    stage: str
    kind: str
    method: str
    items: int
    within: str | None


@dataclass
class CallLog:
    """The calls made so far; ``stage`` is set from outside as stages are run."""

    stage: str = ""
    calls: list[Call] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def counted(self, kind: str, method: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The method, noting each call before it is made."""

        def count(items: Sized, *more: Any, **named: Any) -> Any:
            self.calls.append(Call(self.stage, kind, method, len(items), self.open[-1] if self.open else None))
            self.open.append(kind)
            try:
                return call(items, *more, **named)
            finally:
                self.open.pop()

        return count


class Counted:
    """A model, or the search, that notes its calls; all else is that of the one behind it."""

    METHODS = frozenset({
        "chat", "encode", "encode_tokens", "recognise", "read", "detect", "score", "score_multimodal", "classify", "find",
        "search_images", "search_web",
    })  # fmt: skip

    def __init__(self, behind: Any, kind: str, log: CallLog) -> None:
        self._behind, self._kind, self._log = behind, kind, log

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._behind, name)
        return self._log.counted(self._kind, name, value) if name in self.METHODS else value


class CountingRegistry(ModelRegistry):
    """Loads models as usual, each behind a counter of its kind."""

    def __init__(
        self, log: CallLog, cache: Path, describe: Describe | None = None, domains: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(cache, describe, domains)
        self._log = log

    def load(self, spec: Spec) -> Any:
        """The counted model of a specification (see ``ModelRegistry.load``)."""
        model = super().load(spec)
        return model if isinstance(model, Counted) else Counted(model, str(spec.get("kind")), self._log)


@dataclass(frozen=True)
class Question:
    """What the evaluator passes of a turn."""

    query: str
    image: Any
    history: tuple[dict[str, str], ...] = ()


def count_calls(questions: Sequence[Question], launch: Launch, search_pipeline: Any) -> list[Call]:
    """Run a batch through the stages of a preset and return the calls it took, without a time limit.

    Raises:
        agents.settings.SettingsError: There is no such preset or profile.
        ModelError: A stage could not be run; a table without it would be too good.
    """
    from agents.models.pixels import to_rgb
    from agents.pipeline import Pipeline
    from agents.turn import Turn

    log = CallLog()
    models = launch.models(partial(CountingRegistry, log))
    search = cast(SearchGateway, Counted(SearchGateway(search_pipeline), "search", log))
    pipeline = Pipeline(launch.settings, models, search, launch.prompts)
    turns = [
        Turn(question.query, to_rgb(question.image) if question.image is not None else None, question.history)
        for question in questions
    ]
    for turn in turns:
        turn.question = turn.query
    for stage in pipeline.stages:
        log.stage = stage.name
        turns = pipeline.run_stage(stage, turns, pipeline.context)
        failed = turns[0].trace[-1]["skipped"]
        if failed:
            raise ModelError(f"stage {stage.name}: {failed}")
    return log.calls


def real_questions(options: argparse.Namespace) -> list[Question]:
    """First questions and, as the other half, second turns of dialogs whose first answers were right.

    Raises:
        EvaluationError: The data sets are not to be had, or have too few sessions.
    """
    from evaluation.data import crag_dataset

    single, multi = (
        crag_dataset.load(kind, options.split, options.revision, options.dataset, options.cache)
        for kind in ("single-turn", "multi-turn")
    )
    half = options.batch - options.batch // 2
    found = [Question(session.turns[0].query, single.image(session).image) for session in single.sessions[:half]]
    for session in [dialog for dialog in multi.sessions if len(dialog.turns) > 1][: options.batch - half]:
        first, second = session.turns[:2]
        said = ({"role": "user", "content": first.query}, {"role": "assistant", "content": first.ground_truth})
        found.append(Question(second.query, multi.image(session).image, said))
    if len(found) < options.batch:
        raise EvaluationError(f"the data sets hold {len(found)} questions of the {options.batch} wanted")
    return found


def repeated(calls: Sequence[Call]) -> list[tuple[str, str]]:
    """Stage and kind wherever a stage asked a kind of model more than once."""
    made = [(call.stage, f"{call.kind}.{call.method}") for call in calls if call.within is None]
    return [pair for pair in dict.fromkeys(made) if made.count(pair) > 1]


def table_of(calls: Sequence[Call], title: str) -> Table:
    """Stage by stage the models asked: calls and items by the stage itself, and calls within composed models."""
    table = Table(title=title, title_justify="left")
    for column in ("stage", "model", "by the stage", "items", "within"):
        table.add_column(column, justify="left" if column in ("stage", "model") else "right")
    rows: dict[tuple[str, str], list[Call]] = {}
    for call in calls:
        rows.setdefault((call.stage, f"{call.kind}.{call.method}"), []).append(call)
    last = ""
    for (stage, model), made in rows.items():
        direct = [call for call in made if call.within is None]
        table.add_row(
            stage if stage != last else "",
            model,
            str(len(direct) or ""),
            str(sum(call.items for call in made)),
            str(len(made) - len(direct) or ""),
        )
        last = stage
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 where a stage asks a kind of model twice, 2 where the batch cannot be run."""
    options = _parser().parse_args(arguments)
    console = Console()
    try:
        launch = Launch.read(options.preset, options.profile, cache=options.cache)
        launch.prepare()
        questions = real_questions(options)
        calls = count_calls(questions, launch, launch.pipeline(split=options.split))
    except (EvaluationError, ModelError, SearchError, SettingsError) as error:
        console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        return 2
    console.print(table_of(calls, f"{options.preset}, {options.profile}: a batch of {len(questions)}"))
    again = repeated(calls)
    for stage, model in again:
        console.print(f"{stage} asks {model} more than once", style="red", markup=False)
    direct = sum(call.within is None for call in calls)
    console.print(f"{direct} calls by the stages for {len(questions)} questions", highlight=False)
    return 1 if again else 0


def _parser() -> argparse.ArgumentParser:
    run = build_parser()  # the defaults of local_evaluation.py
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calls", description="Model calls of a batch, by stage.")
    parser.add_argument("--preset", default="best", help="preset (default: best)")
    parser.add_argument("--profile", default="embedded", help="profile (default: embedded)")
    parser.add_argument("--batch", type=int, default=16, help="questions in the batch (default: 16)")
    parser.add_argument("--dataset", type=Path, default=Path(".cache/datasets"), help="local folder with the data sets")
    parser.add_argument("--split", default="validation", help="split of the data sets (default: validation)")
    parser.add_argument("--revision", default=run.get_default("revision"), help="revision of the data sets")
    parser.add_argument("--cache", type=Path, default=run.get_default("cache"), help="folder of indices and models")
    return parser


if __name__ == "__main__":
    sys.exit(main())
