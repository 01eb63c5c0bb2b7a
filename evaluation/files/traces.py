"""The agent's traces, read tolerantly and matched to the turns they belong to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluation.files.responses import json_object
from evaluation.records import AnsweredTurn, Key, RunLogLine

TRACE = "trace.jsonl"
"""Where the agent of a run writes its traces, in the output folder."""

_NO_TIME = re.compile(r"^[\d.]+ s left, needs ")
"""How the agent says that it skipped a stage for lack of time (agents/pipeline.py)."""


@dataclass(frozen=True)
class EvidenceView:
    """A piece of evidence as the report shows it."""

    text: str
    source: str = ""
    title: str = ""
    url: str = ""
    score: float | None = None


@dataclass(frozen=True)
class BoxView:
    """A region of the image in pixels: left, top, right, bottom, with what it was taken for."""

    left: float
    top: float
    right: float
    bottom: float
    label: str = ""


@dataclass(frozen=True)
class StageView:
    """A stage of the agent: how long it took and what it noted, as short text by field."""

    name: str
    seconds: float | None
    skipped: str | None
    notes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FinalView:
    """What the last stage decided on, for calibration.

    Attributes:
        candidate: The answer that was given, or would have been; None where there was none.
        signals: What was known of it, by the names of ``agents.methods.gate.GateSignals``.
        direct: Whether the question was answered without looking at evidence.
        ruled_out: Whether a rule that has nothing to fit forbids the answer.
        egocentric: Whether the agent took the photo for one of smart glasses; False in runs that do not say it.
        probability: Of being right, by the gate; None without one.
    """

    candidate: str | None
    signals: dict[str, float]
    direct: bool
    ruled_out: bool
    egocentric: bool = False
    probability: float | None = None


@dataclass(frozen=True)
class TraceView:
    """What a trace line holds, as far as it could be read.

    Attributes:
        answers: Answers that stages had, by what they rest on; see ``_ANSWERS``.
        checks: What the verifiers and the last stage said, in words.
        record: The line as it is.
    """

    query: str
    question: str
    answer: str
    batch: int | None
    turn: int | None
    error: str | None
    stages: tuple[StageView, ...]
    entity: str | None
    queries: tuple[str, ...]
    evidence: tuple[EvidenceView, ...]
    boxes: tuple[BoxView, ...]
    final: FinalView | None = None
    conflicts: dict[str, bool] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    checks: dict[str, str] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def other_answers(self) -> dict[str, str]:
        """The answers that are not the one that was given, each once."""
        seen, found = {_plain(self.answer)}, {}
        for name, said in self.answers.items():
            if _plain(said) not in seen:
                seen.add(_plain(said))
                found[name] = said
        return found

    @property
    def cut_short(self) -> bool:
        """Whether a stage was skipped because the time was up: on a slow or busy machine that is no fault of the method."""
        return any(stage.skipped is not None and _NO_TIME.match(stage.skipped) for stage in self.stages)


_ANSWERS = {
    "draft": "draft",
    "parametric": "own answer",
    "without_evidence": "own answer",
    "retrieved": "from evidence",
    "from_evidence": "from evidence",
    "reconciled": "reconciled",
    "candidate": "candidate",
}
"""Notes of stages that hold an answer, and what it rests on."""

_CHECKS = {
    ("consistency", "consistent"): "own answer agrees",
    ("chain_of_verification", "cov_confidence"): "chain of verification",
    ("verify", "white_box"): "token probabilities",
    ("verify", "model"): "verifier",
    ("verify", "p_yes"): "verifier's P(yes)",
    ("finalise", "probability"): "gate",
    ("finalise", "decision"): "decision",
}
"""Notes of stages that say whether an answer holds."""

_OWN_FIELDS = frozenset({"stage", "seconds", "skipped", "evidence", "boxes"})
_LONGEST_NOTE = 400
_MAX_NUMBER = 1e300
_MAX_PIXELS = 1e6

CONFLICTS = ("prki", "vtki")
"""Disagreements that stages note as true or false: of own and retrieved knowledge, of picture and text (CoRe-MMRAG, section 3.1)."""


def read_traces(path: Path) -> list[TraceView]:
    """The traces of a file, in its order; broken lines are left out, a missing file holds none."""
    found = []
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        with suppress(ValueError):  # the last line of a killed run
            found.append(to_view(json_object(line)))
    return found


def stages_of(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the stages noted, as a trace line holds it."""
    return [stage for stage in _list(record.get("stages")) if isinstance(stage, dict)]


def to_view(record: Mapping[str, Any]) -> TraceView:
    """A trace line, whatever of it is there."""
    stages = stages_of(record)
    entity: str | None = None
    queries: tuple[str, ...] = ()
    evidence: tuple[EvidenceView, ...] = ()
    boxes: tuple[BoxView, ...] = ()
    for stage in stages:  # a later stage knows better
        entity = _text(stage.get("entity")) or entity
        queries = tuple(query for query in _list(stage.get("queries")) if isinstance(query, str)) or queries
        evidence = tuple(_evidence(stage.get("evidence"))) or evidence
        boxes = tuple(_boxes(stage.get("boxes"))) or boxes
    return TraceView(
        query=_text(record.get("query")) or "",
        question=_text(record.get("question")) or "",
        answer=_text(record.get("answer")) or "",
        batch=_int(record.get("batch")),
        turn=_int(record.get("turn")),
        error=_text(record.get("error")),
        stages=tuple(_stage(stage) for stage in stages),
        entity=entity,
        queries=queries,
        evidence=evidence,
        boxes=boxes,
        conflicts={name: stage[name] for stage in stages for name in CONFLICTS if isinstance(stage.get(name), bool)},
        answers={said: text for stage in stages for name, said in _ANSWERS.items() if (text := _text(stage.get(name)))},
        checks={
            said: _check(value)
            for (name, note), said in _CHECKS.items()
            for stage in stages
            if stage.get("stage") == name and (value := stage.get(note)) is not None
        },
        final=next((_final(stage) for stage in reversed(stages) if stage.get("stage") == "finalise"), None),
        record=record,
    )


def _final(stage: Mapping[str, Any]) -> FinalView | None:
    signals = stage.get("signals")
    if "candidate" not in stage or not isinstance(signals, dict):  # a trace of before signals were noted
        return None
    return FinalView(
        candidate=_text(stage.get("candidate")),
        signals={str(name): known for name, value in signals.items() if (known := _float(value)) is not None},
        direct=stage.get("direct") is True,
        ruled_out=stage.get("ruled_out") is not None,
        egocentric=stage.get("egocentric") is True,
        probability=_float(stage.get("probability")),
    )


def _check(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _plain(text: str) -> str:
    return text.strip().rstrip(".").casefold()


def _stage(stage: Mapping[str, Any]) -> StageView:
    notes = {
        str(name): _short(value)
        for name, value in stage.items()
        if name not in _OWN_FIELDS and value not in (None, [], "", {})
    }
    return StageView(_text(stage.get("stage")) or "?", _float(stage.get("seconds")), _text(stage.get("skipped")), notes)


def _short(value: Any) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, float):
        text = f"{value:.3g}"
    elif isinstance(value, dict) and all(isinstance(item, str | int | float) for item in value.values()):
        text = "; ".join(f"{name} {_short(item)}" for name, item in value.items() if item != 0)  # zeros say little
    elif isinstance(value, list) and all(isinstance(item, dict) and "name" in item for item in value):
        text = ", ".join(
            f"{item['name']} {score:.2f}" if (score := _float(item.get("score"))) is not None else str(item["name"])
            for item in value
        )
    elif isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        text = "; ".join(str(item) for item in value)
    else:
        text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_NOTE else text[: _LONGEST_NOTE - 1] + "…"


def _evidence(value: Any) -> Iterable[EvidenceView]:
    for item in _list(value):
        if isinstance(item, str):
            yield EvidenceView(item)
        elif isinstance(item, dict) and _text(item.get("text")):
            texts = {name: _text(item.get(name)) or "" for name in ("text", "source", "title", "url")}
            yield EvidenceView(**texts, score=_float(item.get("score")))


def _boxes(value: Any) -> Iterable[BoxView]:
    for item in _list(value):
        sides = [side for side in map(_float, _list(item)[:4]) if side is not None]
        if len(sides) == 4 and sides[2] > sides[0] and sides[3] > sides[1] and max(map(abs, sides)) < _MAX_PIXELS:
            left, top, right, bottom = sides
            yield BoxView(left, top, right, bottom, next(filter(_text, item[4:5]), ""))


def match_traces(
    turns: Sequence[AnsweredTurn], traces: Sequence[TraceView], costs: Mapping[Key, RunLogLine]
) -> dict[Key, TraceView]:
    """The trace of each turn, by session_id and interaction_id.

    A trace belongs to a turn with the same query. Where several do (the same question about other photos, a turn asked
    again after a killed run), the one with the same place in the order of asking and the same answer is taken, and the
    later one of equals.
    """
    by_query: dict[str, list[TraceView]] = {}
    for trace in traces:
        by_query.setdefault(trace.query, []).append(trace)
    found: dict[Key, TraceView] = {}
    for turn in turns:
        candidates, cost = by_query.get(turn.query), costs.get(turn.key)
        if candidates:
            place = (cost.batch, cost.turn) if cost is not None else None
            fits = [
                ((trace.batch, trace.turn) == place, trace.answer.startswith(turn.agent_response), index)
                for index, trace in enumerate(candidates)
            ]
            found[turn.key] = candidates.pop(max(fits)[2])
    return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _float(value: Any) -> float | None:
    """A finite number; JSON may hold others, and whole ones that no float holds."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < _MAX_NUMBER:
        return None
    return float(value)
