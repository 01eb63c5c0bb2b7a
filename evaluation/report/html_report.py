"""One self-contained HTML file about a run: scores at the top, then every turn with photo, evidence, answer and verdict."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from agents.base.files import quote_path, write_whole
from agents.record import StageRecord, TurnRecord
from agents.texts.text import describe_attribute
from agents.unanswered import explain_error, name_cause
from evaluation.data.dataset_images import ImageSource
from evaluation.files.run_log import Latency, MissingPictures, count_missing_pictures, select_costs, summarise_latency
from evaluation.files.traces import find_failing_stages
from evaluation.records import JudgedTurn, Key, RunLogLine, Session
from evaluation.report.console_tables import format_percent
from evaluation.report.record_texts import collect_notes, format_value
from evaluation.report.run_card import make_card, omit_card_fields
from evaluation.report.run_plots import RiskCurve, StageTime, average_stage_times, compute_risk_curves
from evaluation.report.thumbnails import COLOURS, cut_crops, make_thumbnail, to_data_url
from evaluation.rules import OURS, Rules
from evaluation.scores.answer_shown import ShownSummary, find_shown_answer, summarise_shown
from evaluation.scores.losses import LOSSES, Loss, explain_loss
from evaluation.scores.metrics import list_run_metrics
from evaluation.scores.process import PROCESS_METRICS, ProcessGroup, read_process, summarise_process
from evaluation.scores.scoring import (
    Scores,
    Slice,
    group_by_session,
    group_turns,
    is_miss,
    score,
    scores_dictionary,
    select_counted,
)
from evaluation.scores.slices import SLICES, Group, summarise_group

REPORT = "report.html"
_TEMPLATES = Path(__file__).parent / "templates"

_CONFLICT_LABELS = {
    ("prki", True): "PRKI: own and retrieved answer differ",
    ("prki", False): "own and retrieved answer agree",
    ("vtki", True): "VTKI: picture and text point to different entries",
    ("vtki", False): "picture and text point to one entry",
}
"""The two kinds of inconsistency of CoRe-MMRAG (section 3.1), as their stages note them."""

Photo = Callable[[], Image.Image | None]
FindSource = Callable[[str], tuple[Path, str] | None]
"""Returns the file of a source of a collection and the place in it, such as ``#page=3``; None for another one."""


@dataclass(frozen=True)
class ReportPart:
    """Judged turns of one data set (single-turn or multi-turn), under its name.

    Attributes:
        photos: Functions that load the photo, by session_id; sessions without one show none.
        traces: Records of turns, as ``traces.read_traces`` returns them.
        costs: Run log by turn.
        about: Settings, versions and judge of the answers.
        accept: Accepted short answers by interaction_id, of the turns that have some.
    """

    name: str
    turns: Sequence[JudgedTurn]
    photos: Mapping[str, Photo]
    traces: Mapping[Key, TurnRecord] = field(default_factory=dict)
    costs: Mapping[Key, RunLogLine] = field(default_factory=dict)
    rules: Rules = OURS
    about: Mapping[str, Any] = field(default_factory=dict)
    accept: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @cached_property
    def scores(self) -> dict[str, Any]:
        """Scores of this part."""
        return scores_dictionary(self.turns, rules=self.rules)

    @cached_property
    def counted(self) -> list[JudgedTurn]:
        """Turns that the totals of the rules count."""
        return select_counted(self.turns, self.rules)

    @cached_property
    def matched(self) -> dict[Key, TurnRecord]:
        """Records of the turns of this part; turns without one are left out."""
        keys = [judged.turn.key for judged in self.turns]
        return {key: self.traces[key] for key in keys if key in self.traces}

    @cached_property
    def conflicts(self) -> dict[str, Scores]:
        """Scores of turns whose knowledge sources disagreed, and of those whose did not, if traced."""
        traced = [(turn, trace) for turn in self.counted if (trace := self.matched.get(turn.turn.key)) is not None]
        groups = {
            label: [turn for turn, trace in traced if trace.get_note(name) is value]
            for (name, value), label in _CONFLICT_LABELS.items()
        }
        return {label: score(turns) for label, turns in groups.items() if turns}

    @cached_property
    def slices(self) -> dict[str, dict[str, tuple[Group, Scores]]]:
        """Groups of each slice with more than one group, over the counted turns."""
        keys = {**SLICES, "answer from": self.find_origin}
        slices = {name: sorted(group_turns(self.counted, key).items()) for name, key in keys.items()}
        return {
            name: {group: (summarise_group(members), score(members)) for group, members in groups}
            for name, groups in slices.items()
            if len(groups) > 1
        }

    def find_origin(self, judged: JudgedTurn) -> str | None:
        """Return the origin of a turn's given answer in words; None for a miss, or without a record."""
        return _name_origin(judged, self.matched.get(judged.turn.key))

    @cached_property
    def losses(self) -> dict[Key, Loss]:
        """Reason of each lost turn, by the evidence where the accepted answers are known."""
        losses = {}
        for judged in self.turns:
            answers = self.accept.get(judged.turn.interaction_id, ())
            found = explain_loss(judged, self.matched.get(judged.turn.key), answers, answerable=_is_answerable(judged))
            if found is not None:
                losses[judged.turn.key] = found.loss
        return losses

    @cached_property
    def answer_shown(self) -> ShownSummary | None:
        """How many accepted answers of answerable turns the answer's prompt shows; None if no record tells it."""
        return summarise_shown(
            find_shown_answer(
                self.matched.get(judged.turn.key),
                self.accept.get(judged.turn.interaction_id, ()) if _is_answerable(judged) else (),
            )
            for judged in self.turns
        )

    @cached_property
    def process(self) -> list[ProcessGroup]:
        """Searches of the turns beside those that their answers need; empty if the set or the records do not state them."""
        return summarise_process(read_process(judged, self.matched.get(judged.turn.key)) for judged in self.turns)

    @cached_property
    def risk(self) -> list[RiskCurve]:
        """Risk against coverage, by signal."""
        return compute_risk_curves(self.counted, self.matched)

    @cached_property
    def times(self) -> list[StageTime]:
        """Time by stage; empty without traces."""
        return average_stage_times(self.matched, self.costs)

    @cached_property
    def failing(self) -> dict[str, str]:
        """Stages that failed on every turn, with their messages."""
        return find_failing_stages(self.matched.values())

    @cached_property
    def missing(self) -> MissingPictures | None:
        """Turns of this part without their picture, or None."""
        return count_missing_pictures([judged.turn for judged in self.turns], self.costs)

    @cached_property
    def latency(self) -> Latency | None:
        """Times of this part, or None."""
        return summarise_latency(select_costs([judged.turn for judged in self.turns], self.costs))


def _is_answerable(judged: JudgedTurn) -> bool:
    return judged.facts.answerable is not False and not is_miss(judged.turn.ground_truth)


def _name_origin(judged: JudgedTurn, trace: TurnRecord | None) -> str | None:
    """Return the origin of a given answer in words; None for a miss, or without a record."""
    return None if trace is None or judged.miss else trace.origin


@dataclass(frozen=True)
class Span:
    """A stage on the timeline of its turn: start and width, in percent of the time of all stages."""

    stage: StageRecord
    start: float
    width: float


class TracedView:
    """View of a turn's record for the template, whoever asked."""

    trace: TurnRecord | None

    @property
    def timeline(self) -> list[Span]:
        """Stages one after the other."""
        stages = self.trace.stages if self.trace is not None else ()
        total = sum(stage.seconds for stage in stages) or 1.0
        starts = accumulate((stage.seconds for stage in stages), initial=0.0)
        return [
            Span(stage, round(100 * start / total, 2), round(100 * stage.seconds / total, 2))
            for stage, start in zip(stages, starts, strict=False)
        ]

    @property
    def checks(self) -> dict[str, bool | float | str]:
        """Results of the verifiers, the decision, and the origin of a given answer."""
        if self.trace is None:
            return {}
        decision = {"decision": str(self.trace.decision)} if self.trace.decision else {}
        return self.trace.checks | decision | ({"answer from": self.trace.origin} if self.trace.origin else {})

    @property
    def other_answers(self) -> dict[str, str]:
        """Answers of stages that differ from the final one, each once."""
        if self.trace is None:
            return {}
        seen, answers = {_normalise(self.trace.answer)}, {}
        for basis, answer in self.trace.answers.items():
            if _normalise(answer) not in seen:
                seen.add(_normalise(answer))
                answers[basis] = answer
        return answers


@dataclass(frozen=True)
class TurnView(TracedView):
    """A judged turn as the template shows it.

    Attributes:
        note: Why it was asked without its picture.
        loss: Why it was lost (``evaluation.scores.losses.Loss``); "" if it was not.
    """

    judged: JudgedTurn
    seconds: float | None
    error: str | None
    note: str | None
    trace: TurnRecord | None
    loss: str = ""

    @property
    def verdict(self) -> str:
        """Verdict, by which turns are coloured."""
        return self.judged.verdict

    @property
    def query(self) -> str:
        """Question as it was asked."""
        return self.judged.turn.query

    @property
    def answer(self) -> str:
        """Answer as it was judged."""
        return self.judged.turn.agent_response

    @property
    def truth(self) -> str | None:
        """True answer."""
        return self.judged.turn.ground_truth

    @property
    def judge(self) -> str:
        """Words of the judge; "" if it was not asked."""
        return "" if self.judged.reason in ("miss", "exact") else self.judged.reason

    @property
    def origin(self) -> str:
        """Origin of a given answer in words; "" if unknown."""
        return _name_origin(self.judged, self.trace) or ""

    @property
    def labels(self) -> list[str]:
        """Labels of the data set."""
        turn = self.judged.turn
        why = f"lost: {self.loss}" if self.loss else ""
        return [label for label in (why, turn.query_category, turn.domain, turn.dynamism, turn.image_quality) if label]


@dataclass(frozen=True)
class SessionView:
    """A dialog with its photo and the regions cut out of it, as data URLs.

    A region comes with the colour of its box.
    """

    session_id: str
    photo: str | None
    crops: list[tuple[str, str]]
    turns: Sequence[TracedView]
    is_ego: bool = False


def make_photo_loaders(sessions: Sequence[Session], images: ImageSource) -> dict[str, Photo]:
    """Return a function for each session that loads its photo when the report comes to it."""

    def photo(session: Session) -> Photo:
        return lambda: images.image(session).image

    return {session.session_id: photo(session) for session in sessions}


def write_report(
    path: Path, parts: Sequence[ReportPart], about: Mapping[str, Any], find_source: FindSource | None = None
) -> Path:
    """Write the report, with the run's card under the title and the rest of ``about``; return ``path``.

    Evidence links to the files of a collection that ``find_source`` finds.
    """
    abouts = [{"dataset": part.name, **(part.about or about)} for part in parts]
    return write_html(
        path,
        "report.html.j2",
        title="CRAG-MM run",
        made=make_card(abouts, sum(len(part.turns) for part in parts)),
        about=omit_card_fields(about),
        parts=[
            (part, [_view_session(part, dialog) for dialog in group_by_session(part.turns).values()])
            for part in parts
            if part.turns
        ],
        filters=_list_filters(parts),
        filter_values=_filter_values,
        filter_of=_SLICE_FILTERS,
        main_filter="verdict",
        chosen=_VERDICT_CHOICES,
        words={"miss": "missing", "unjudged": "not judged"},
        loss_words=LOSSES,
        process_metrics=PROCESS_METRICS,
        no_photo="no photo",
        link=_link_files(path.parent, find_source),
        total=sum(len(part.turns) for part in parts),
        metrics=list_run_metrics(),
    )


def write_html(path: Path, template: str, **values: Any) -> Path:
    """Render a template of ``templates/`` into a file, making its folder if missing; return ``path``."""
    write_whole(path, _load_templates().get_template(template).render({"link": _link_web, **values}))
    return path


def _link_web(url: str) -> str | None:
    """Return the address of a web source; None for any other source."""
    return url if url.startswith(("http://", "https://")) else None


def _link_files(beside: Path, find_source: FindSource | None) -> Callable[[str], str | None]:
    """Return a function that links a source to the web or to its file in a collection, by a path relative to the folder ``beside``."""
    if find_source is None:
        return _link_web

    def link(url: str) -> str | None:
        if (found := find_source(url)) is None:
            return _link_web(url)
        path = Path(os.path.relpath(found[0].resolve(), beside.resolve())).as_posix()
        return quote_path(path, found[1])

    return link


@cache
def _load_templates() -> Environment:
    """Load the environment of the templates, which compiles each of them once."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": format_percent,
        "bar": _bar_segments,
        "format_value": format_value,
        "notes": collect_notes,
        "describe_attribute": describe_attribute,
    }
    return environment


_SLICE_FILTERS = {
    "query category": "category",
    "domain": "domain",
    "dynamism": "dynamism",
    "image quality": "quality",
    "picture": "picture",
    "answer from": "origin",
}
"""Slices that turns are filtered by, and the names of the filters in the page."""

_FILTERS: Mapping[str, Slice] = {
    "verdict": lambda judged: judged.verdict,
    **{name: SLICES[slice_name] for slice_name, name in _SLICE_FILTERS.items() if slice_name in SLICES},
}
"""Functions that return a turn's value (None for none), by the name of the filter: the verdict and the slices."""


_VERDICT_CHOICES = {
    "correct": "correct",
    "miss": "missing",
    "hallucination": "hallucinations",
    "error": "errors",
    "unjudged": "not judged",
}
"""Verdicts that keys choose, in their order, and their names."""

_WITH, _WITHOUT = "with its picture", "without its picture"


def _list_filters(parts: Sequence[ReportPart]) -> dict[str, list[str]]:
    """Return the values to choose from by filter.

    A filter with one value is left out, except for missing pictures and the verdict. That has all verdicts that keys choose: a field
    cannot be set to a value that it lacks, and would show every turn instead of none.
    """
    turns = [judged for part in parts for judged in part.turns]
    values = {name: sorted({value for turn in turns if (value := getter(turn))}) for name, getter in _FILTERS.items()}
    values["origin"] = sorted({origin for part in parts for turn in part.turns if (origin := part.find_origin(turn))})
    losses = {loss for part in parts for loss in part.losses.values()}
    values["lost"] = [loss.value for loss in Loss if loss in losses]
    filters = {name: choices for name, choices in values.items() if len(choices) > 1 or name == "verdict"} | {
        "verdict": [*_VERDICT_CHOICES]
    }
    return filters | ({"question": [_WITH, _WITHOUT]} if any(part.missing for part in parts) else {})


def _filter_values(view: TurnView) -> dict[str, str]:
    """Return a turn's value by filter, "" for none."""
    return {name: getter(view.judged) or "" for name, getter in _FILTERS.items()} | {
        "question": _WITHOUT if view.note else _WITH,
        "origin": view.origin,
        "lost": view.loss,
    }


def _view_session(part: ReportPart, dialog: Sequence[JudgedTurn]) -> SessionView:
    session_id = dialog[0].turn.session_id
    turns = []
    for judged in dialog:
        cost, trace = part.costs.get(judged.turn.key), part.matched.get(judged.turn.key)
        seconds, error, note = (getattr(cost, name, None) for name in ("seconds", "error", "image_note"))
        failed = error or _explain_error(judged, trace)
        turns.append(TurnView(judged, seconds, failed, note, trace, part.losses.get(judged.turn.key, "")))
    load = part.photos.get(session_id, lambda: None)
    return show_session(session_id, load(), turns, is_ego=dialog[0].turn.is_ego)


def show_session(
    session_id: str, image: Image.Image | None, turns: Sequence[TracedView], *, is_ego: bool = False
) -> SessionView:
    """Return a dialog with its photo, if there is one, and the regions that its first turn with any looked at."""
    if image is None:
        return SessionView(session_id, None, [], turns, is_ego)
    boxes = next((turn.trace.boxes for turn in turns if turn.trace is not None and turn.trace.boxes), ())
    crops = [(to_data_url(crop), COLOURS[number % len(COLOURS)]) for number, crop in cut_crops(image, boxes)]
    return SessionView(session_id, to_data_url(make_thumbnail(image, boxes)), crops, turns, is_ego)


def _explain_error(judged: JudgedTurn, trace: TurnRecord | None) -> str | None:
    """Name the failure of a turn: the cause of an error, or a fault in spite of which the agent answered."""
    cause = judged.turn.error_cause
    if cause is None:
        return None if trace is None else trace.error
    return (explain_error(trace) if trace is not None else None) or name_cause(cause)


def _normalise(text: str) -> str:
    return text.strip().rstrip(".").casefold()


def _bar_segments(scores: Scores) -> list[tuple[str, float, float]]:
    """Return the segments of a stacked bar: verdict, start and width in percent."""
    rates = {"correct": scores.accuracy, "miss": scores.missing, "hallucination": scores.hallucination_rate}
    segments = []
    start = 0.0
    for verdict, share in rates.items():
        width = 100 * share
        segments.append((verdict, round(start, 2), round(width, 2)))
        start += width
    return segments
