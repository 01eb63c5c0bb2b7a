"""One self-contained HTML file on a run: scores at the top, then every turn with photo, evidence, answer and verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from agents.base.files import write_whole
from agents.record import StageRecord, TurnRecord
from evaluation.data.dataset_images import ImageSource
from evaluation.files.run_log import Latency, MissingPictures, costs_of, latency, missing_pictures
from evaluation.records import JudgedTurn, Key, RunLogLine, Session
from evaluation.report.console_tables import percent
from evaluation.report.record_texts import notes_of, told
from evaluation.report.run_card import beside_card, card
from evaluation.report.run_plots import RiskCurve, StageTime, risk_curves, stage_times
from evaluation.report.thumbnails import COLOURS, crops, data_url, thumbnail
from evaluation.rules import OURS, Rules
from evaluation.scores.scoring import Scores, Slice, by_session, counted, grouped, score, scores_dictionary
from evaluation.scores.slices import SLICES, Group, group_of

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


@dataclass(frozen=True)
class ReportPart:
    """The judged turns of one data set (the single-turn set, the multi-turn set), under its name.

    Attributes:
        photos: By session_id how to get the photo; sessions without one show none.
        traces: The records of turns, as ``traces.read_traces`` gives them.
        costs: Run log by turn.
        about: What the answers were made and judged with.
    """

    name: str
    turns: Sequence[JudgedTurn]
    photos: Mapping[str, Photo]
    traces: Mapping[Key, TurnRecord] = field(default_factory=dict)
    costs: Mapping[Key, RunLogLine] = field(default_factory=dict)
    rules: Rules = OURS
    about: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def scores(self) -> dict[str, Any]:
        """Scores of this part."""
        return scores_dictionary(self.turns, rules=self.rules)

    @cached_property
    def matched(self) -> dict[Key, TurnRecord]:
        """The record of each turn of this part that has one."""
        keys = [judged.turn.key for judged in self.turns]
        return {key: self.traces[key] for key in keys if key in self.traces}

    @cached_property
    def conflicts(self) -> dict[str, Scores]:
        """Scores of the turns whose sources of knowledge disagreed, and of those whose did not, as far as the traces tell."""
        traced = [(turn, trace) for turn in self.turns if (trace := self.matched.get(turn.turn.key)) is not None]
        found = {
            label: [turn for turn, trace in traced if trace.noted(name) is value]
            for (name, value), label in _CONFLICT_LABELS.items()
        }
        return {label: score(turns) for label, turns in found.items() if turns}

    @cached_property
    def slices(self) -> dict[str, dict[str, tuple[Group, Scores]]]:
        """The groups, as the rules count their turns, of each slice that tells turns apart."""
        turns = counted(self.turns, self.rules)
        slices = {name: sorted(grouped(turns, key).items()) for name, key in SLICES.items()}
        return {
            name: {group: (group_of(found), score(found)) for group, found in groups}
            for name, groups in slices.items()
            if len(groups) > 1
        }

    @cached_property
    def risk(self) -> list[RiskCurve]:
        """Risk against coverage, by signal."""
        return risk_curves(self.turns, self.matched)

    @cached_property
    def times(self) -> list[StageTime]:
        """Time by stage; empty without traces."""
        return stage_times(self.matched, self.costs)

    @cached_property
    def missing(self) -> MissingPictures | None:
        """The turns of this part that were asked without their picture, or None."""
        return missing_pictures([judged.turn for judged in self.turns], self.costs)

    @cached_property
    def latency(self) -> Latency | None:
        """Times of this part, or None."""
        return latency(costs_of([judged.turn for judged in self.turns], self.costs))


@dataclass(frozen=True)
class Span:
    """A stage on the timeline of its turn: where it begins and how wide it is, in percent of the time of all stages."""

    stage: StageRecord
    start: float
    width: float


@dataclass(frozen=True)
class TurnView:
    """What the template shows of a turn; ``note`` says why it was asked without its picture."""

    judged: JudgedTurn
    seconds: float | None
    error: str | None
    note: str | None
    trace: TurnRecord | None

    @property
    def timeline(self) -> list[Span]:
        """The stages one after the other."""
        stages = self.trace.stages if self.trace is not None else ()
        total = sum(stage.seconds for stage in stages) or 1.0
        starts = accumulate((stage.seconds for stage in stages), initial=0.0)
        return [
            Span(stage, round(100 * start / total, 2), round(100 * stage.seconds / total, 2))
            for stage, start in zip(stages, starts, strict=False)
        ]

    @property
    def checks(self) -> dict[str, bool | float | str]:
        """What verifiers said, and the decision."""
        if self.trace is None:
            return {}
        return self.trace.checks | ({"decision": str(self.trace.decision)} if self.trace.decision else {})

    @property
    def other_answers(self) -> dict[str, str]:
        """The answers that stages had beside the one that was given, each once."""
        if self.trace is None:
            return {}
        seen, found = {_plain(self.trace.answer)}, {}
        for basis, said in self.trace.answers.items():
            if _plain(said) not in seen:
                seen.add(_plain(said))
                found[basis] = said
        return found


@dataclass(frozen=True)
class SessionView:
    """A dialog with its photo and the regions cut out of it, as data URLs; a region comes with the colour of its box."""

    session_id: str
    photo: str | None
    crops: list[tuple[str, str]]
    turns: list[TurnView]


def photos_of(sessions: Sequence[Session], images: ImageSource) -> dict[str, Photo]:
    """For each session how to get its photo, loaded only when the report comes to it."""

    def photo(session: Session) -> Photo:
        return lambda: images.image(session).image

    return {session.session_id: photo(session) for session in sessions}


def write_report(path: Path, parts: Sequence[ReportPart], about: Mapping[str, Any]) -> Path:
    """Write the report, with the card of the run under the title, and what else ``about`` says of it. Returns ``path``."""
    made = [{"dataset": part.name, **(part.about or about)} for part in parts]
    return write_html(
        path,
        "report.html.j2",
        title="CRAG-MM run",
        made=card(made, sum(len(part.turns) for part in parts)),
        about=beside_card(about),
        parts=[
            (part, [_session(part, dialog) for dialog in by_session(part.turns).values()])
            for part in parts
            if part.turns
        ],
        filters=_filters(parts),
        filter_values=_filter_values,
        filter_of=_FILTER_OF,
        total=sum(len(part.turns) for part in parts),
    )


def write_html(path: Path, template: str, **values: Any) -> Path:
    """Fill in a template of ``templates/``, in a folder that is made where it is missing; returns ``path``."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "bar": _bar, "told": told, "notes": notes_of}
    write_whole(path, environment.get_template(template).render(**values))
    return path


_FILTER_OF = {
    "query category": "category",
    "domain": "domain",
    "dynamism": "dynamism",
    "image quality": "quality",
    "picture": "picture",
}
"""Slices that turns are filtered by, and the names of the filters in the page."""

_FILTERS: Mapping[str, Slice] = {
    "verdict": lambda judged: judged.verdict,
    **{name: SLICES[of] for of, name in _FILTER_OF.items()},
}
"""By the name of the filter: a turn's value, None for none; the verdict's comes on top of those of slices."""


_WITH, _WITHOUT = "with its picture", "without its picture"


def _filters(parts: Sequence[ReportPart]) -> dict[str, list[str]]:
    """The values to choose from by filter; those in which all turns are alike are left out, but for the verdict and missing pictures."""
    turns = [judged for part in parts for judged in part.turns]
    values = {name: sorted({value for turn in turns if (value := of(turn))}) for name, of in _FILTERS.items()}
    kept = {name: found for name, found in values.items() if len(found) > 1 or name == "verdict"}
    return kept | ({"question": [_WITH, _WITHOUT]} if any(part.missing for part in parts) else {})


def _filter_values(view: TurnView) -> dict[str, str]:
    """A turn's value by filter, "" for none."""
    return {name: of(view.judged) or "" for name, of in _FILTERS.items()} | {
        "question": _WITHOUT if view.note else _WITH
    }


def _session(part: ReportPart, dialog: Sequence[JudgedTurn]) -> SessionView:
    session_id = dialog[0].turn.session_id
    turns = []
    for judged in dialog:
        cost, trace = part.costs.get(judged.turn.key), part.matched.get(judged.turn.key)
        seconds, error, note = (getattr(cost, name, None) for name in ("seconds", "error", "image_note"))
        turns.append(TurnView(judged, seconds, error or getattr(trace, "error", None), note, trace))
    boxes = next((turn.trace.boxes for turn in turns if turn.trace is not None and turn.trace.boxes), ())
    image = part.photos[session_id]() if session_id in part.photos else None
    if image is None:
        return SessionView(session_id, None, [], turns)
    shown = [(data_url(crop), COLOURS[number % len(COLOURS)]) for number, crop in crops(image, boxes)]
    return SessionView(session_id, data_url(thumbnail(image, boxes)), shown, turns)


def _plain(text: str) -> str:
    return text.strip().rstrip(".").casefold()


def _bar(scores: Scores) -> list[tuple[str, float, float]]:
    """Segments of a stacked bar: verdict, start and width in percent."""
    rates = {"correct": scores.accuracy, "miss": scores.missing, "hallucination": scores.hallucination_rate}
    segments = []
    start = 0.0
    for verdict, share in rates.items():
        width = 100 * share
        segments.append((verdict, round(start, 2), round(width, 2)))
        start += width
    return segments
