"""Training data of a gate: the signals of each candidate answer of judged runs, and whether the candidate is right."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from agents.record import Decision as Told
from agents.record import Signal
from evaluation.files.manifest import list_models
from evaluation.files.outputs import ALL_TURNS, read_own_table, read_turn_table
from evaluation.files.responses import find_run_files, refuse_repeated
from evaluation.files.run_dataset import SelectAccept
from evaluation.files.traces import TRACE, read_traces
from evaluation.judge.judging import Judge, judge_turns
from evaluation.records import EvaluationError
from evaluation.run.launching import MODELS, gate_models
from evaluation.scores.scoring import is_miss, truthfulness_points

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

FITTED_SPLIT = "validation"
"""The only split that anything is fitted on. public_test is for figures."""

_MAY_DIFFER = ("finalise.", "limits.")
"""Tables that ``--set`` may change in some runs of a fit: what becomes of their candidates, and how long these may take."""

_TIME_UP = (
    "the time was up before all stages had run; on a slow or busy machine run with --set limits.seconds_per_turn=60"
)
_UNDECIDED = f"{TRACE} has no decision on them; errors are asked again with --resume"
_UNJUDGED = "the judge gave no usable reply; judge them again"
"""Why turns of a run are left out."""

_BETWEEN_SETTINGS = re.compile(r", (?=[\w.]+\s*=)")  # a value may be a list

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Decision:
    """Candidate of one turn with its signals.

    Attributes:
        session: Session of the turn; turns of one session are not independent.
        points: Points for answering: 1 for a right candidate, -1 for a wrong one, 0 if it is no answer. If the truth is
            "I don't know" any answer is wrong.
        gate_decides: Whether the gate decides. It does not if there is no candidate or a rule forbids it.
        signals: Signals of the candidate by name, those of all stages.
        direct: Whether it was answered without evidence, so that the white-box line does not apply.
        egocentric: Whether it is about a photo of smart glasses, as the agent recognises them.
        photo: Name of its photo, "" if unknown; sessions about one photo are not independent either.
        run: Run that it is of, as it was named.
    """

    session: str
    points: float
    gate_decides: bool
    signals: Mapping[str, Signal]
    direct: bool
    egocentric: bool = False
    photo: str = ""
    run: str = ""


@dataclass(frozen=True)
class Turns:
    """Decisions as columns of one length.

    Attributes:
        session: Number of the session, in whichever run.
        photo: Number of the photo that the session is about; of one that is unknown a number that no other session has.
        signals: Values by name, NaN if unknown.
        negative_signals: Signals that are higher for wrong answers, as their stages declare them.
    """

    session: IntArray
    photo: IntArray
    points: FloatArray
    gate_decides: BoolArray
    direct: BoolArray
    egocentric: BoolArray
    run: npt.NDArray[np.str_]
    signals: dict[str, FloatArray]
    negative_signals: frozenset[str]

    @classmethod
    def from_decisions(cls, decisions: Sequence[Decision]) -> Turns:
        """Convert decisions to columns; the signals of stages of one's own, with a dot in their name, come last."""
        photos = {turn.session: turn.photo for turn in decisions if turn.photo}  # one of several runs may not know it
        first = {photos[session]: session for session in sorted(photos, reverse=True)}
        rows = pd.DataFrame([vars(turn) for turn in decisions])
        signals = pd.DataFrame([{name: signal.value for name, signal in turn.signals.items()} for turn in decisions])
        names = sorted(map(str, signals), key=lambda name: ("." in name, name if "." in name else ""))
        return cls(
            session=np.unique(rows.session, return_inverse=True)[1],
            photo=np.unique(
                [first.get(photos.get(session, ""), session) for session in rows.session], return_inverse=True
            )[1],
            points=rows.points.to_numpy(np.float64),
            gate_decides=rows.gate_decides.to_numpy(np.bool_),
            direct=rows.direct.to_numpy(np.bool_),
            egocentric=rows.egocentric.to_numpy(np.bool_),
            run=rows.run.to_numpy(np.str_),
            signals={name: signals[name].to_numpy(np.float64) for name in names},
            negative_signals=frozenset(
                name for turn in decisions for name, signal in turn.signals.items() if signal.negative
            ),
        )

    @property
    def right(self) -> BoolArray:
        """Whether each candidate is right, shape (candidates,)."""
        return self.points[self.gate_decides] > 0

    @property
    def is_egocentric_candidate(self) -> BoolArray:
        """Whether each candidate is about a photo of smart glasses."""
        return self.egocentric[self.gate_decides]

    @property
    def groups(self) -> IntArray:
        """Photo of each candidate: candidates about one photo, in whichever session, stay on one side of a cross-validation."""
        return self.photo[self.gate_decides]

    def signal(self, name: str) -> FloatArray:
        """Return the values of a signal over all turns, NaN if unknown; a signal that no turn has is unknown everywhere."""
        return self.signals.get(name, np.full(len(self.points), np.nan))

    def matrix(self, names: Sequence[str]) -> FloatArray:
        """Return the named signals of the candidates, shape (candidates, signals)."""
        return np.column_stack([self.signal(name)[self.gate_decides] for name in names])

    def score(self, is_given: BoolArray | None = None) -> FloatArray:
        """Return the points of every turn if these candidates are given; their mean is the truthfulness.

        Args:
            is_given: Which candidates are given, shape (candidates,); None: all.
        """
        points = np.zeros(len(self.points))
        points[self.gate_decides] = self.points[self.gate_decides] * (1.0 if is_given is None else is_given)
        return points


@dataclass(frozen=True)
class JudgedRun:
    """A judged run, or a part of one, whose candidates are read.

    Attributes:
        name: Run that it is a part of, as it was named.
        about: Settings and versions that it was made with (run.json).
        judge: Judges the candidates that were held back.
        accept: Selects the accept forms of the questions.
        photos: Names of the photos by session, beside those that the run recorded.
    """

    folder: Path
    name: str
    about: Mapping[str, Any]
    judge: Judge
    accept: SelectAccept = lambda _: {}
    photos: Mapping[str, str] = field(default_factory=dict)

    @property
    def profile(self) -> str:
        """Profile that answered."""
        return str(self.about.get("profile"))

    @property
    def chat_model(self) -> str | None:
        """Chat model that replaced the profile's."""
        return self.about.get("model_name") or None

    @property
    def split(self) -> str:
        """Split of the data set, which is noted as NAME@REVISION/SPLIT."""
        return str(self.about.get("dataset", "")).rpartition("/")[2]

    @property
    def chat(self) -> str:
        """Chat model as the run notes it, with its engine and arithmetic, such as ``NAME (int8)``; "" if unknown."""
        return list_models(self.about).get("chat", "").partition(" + ")[0]

    @property
    def settings(self) -> list[str]:
        """Settings that replaced those of the preset."""
        return [each.strip() for each in _BETWEEN_SETTINGS.split(str(self.about.get("set") or "")) if each.strip()]

    @property
    def changes(self) -> str:
        """Options that its candidates were made with."""
        without = [f"--without {self.about['without']}"] if self.about.get("without") else []
        settings = sorted({f"--set {each}" for each in self.settings if not each.startswith(_MAY_DIFFER)})
        return " ".join([*without, *settings]) or "the whole preset"


@dataclass(frozen=True)
class FitData:
    """Judged candidates of one preset and the same weights.

    Attributes:
        models: Chat model and model of image search, for which a fit holds.
        about: Origin of the candidates, for the files that are written.
    """

    runs: tuple[JudgedRun, ...]
    turns: Turns
    models: tuple[str, ...]
    about: dict[str, Any]


def read_fit_data(runs: Sequence[JudgedRun]) -> FitData:
    """Read the candidates of runs that the same weights answered with the same stages and settings (but ``_MAY_DIFFER``).

    Raises:
        EvaluationError: The runs differ, or no candidate is left.
    """
    models = [gate_models(run.profile, run.chat_model) for run in runs]
    noted = next((run.chat for run in runs if run.chat), "").partition(" (")[0]
    made_by = [
        f"{MODELS.join(filter(None, (*names, run.chat.partition(' (')[0] or noted)))} with {run.changes}"
        for names, run in zip(models, runs, strict=True)
    ]
    for run, each in zip(runs, made_by, strict=True):
        if each != made_by[0]:
            raise EvaluationError(
                f"{runs[0].folder} was made by {made_by[0]}, and {run.folder} by {each}: one preset and the same weights at a time, under "
                "whatever profiles"
            )
    decisions = [
        replace(turn, run=run.name, photo=run.photos.get(turn.session, turn.photo))
        for run in runs
        for turn in read_decisions(run.folder, run.judge, run.accept)
    ]
    turns = Turns.from_decisions(decisions)
    if not turns.gate_decides.any():
        raise EvaluationError(
            "all candidate answers are missing or forbidden by a rule; take runs with more answers (crag test says why questions of a "
            "collection are not answered)"
        )
    about = {
        "runs": [str(run.folder) for run in runs],
        "split": ", ".join(sorted({run.split for run in runs})),
        "profile": ", ".join(dict.fromkeys(run.profile for run in runs)),
        "chat": list(dict.fromkeys(run.chat for run in runs if run.chat)),
        "models": list(models[0]),
        "without": str(runs[0].about.get("without") or ""),
        "set": ", ".join(dict.fromkeys(each for run in runs for each in run.settings)),
        "judge": ", ".join(sorted({run.judge.name for run in runs})),
        "turns": len(turns.points),
        "left_out": sum(len(read_own_table(run.folder)) for run in runs) - len(decisions),
        "sessions": len(np.unique(turns.session)),
        "candidates": len(turns.right),
        "right": int(turns.right.sum()),
    }
    return FitData(tuple(runs), turns, models[0], about)


def find_judged_folders(place: Path) -> list[Path]:
    """Find the folders of a judged run: its own, or its sub-folders for the data sets (``single-turn``, ``multi-turn``).

    A place may also be the table of one run, in a folder that holds two.

    Raises:
        EvaluationError: The place holds no judged run, or several over the same turns, or one beside a run over both data sets.
    """
    tables = [place] if place.name == ALL_TURNS else find_run_files(place, ALL_TURNS)
    folders = [table.parent for table in tables]
    if not folders:
        raise EvaluationError(f"{place} contains no judged run ({ALL_TURNS}); judge it with local_evaluation.py")
    if len(folders) > 1:
        refuse_repeated({folder: [judged.turn for judged in read_turn_table(folder)] for folder in folders})
    return folders


def read_decisions(run: Path, judge: Judge, accept: SelectAccept = lambda _: {}) -> list[Decision]:
    """Read the decisions of the run in a folder.

    A given candidate has been judged already. One that the gate held back is judged now, by the judge of the run with its
    accept forms. Left out, and counted in the log, are turns that the deadline cut short, turns without a decision in their record, and
    candidates that the judge failed on: they tell nothing about the method.

    Raises:
        EvaluationError: The folder holds no judged run, or a table of other answers; or its traces are of another version or hold no
            candidates.
        JudgeError: The judge is not available.
    """
    records = read_traces(run / TRACE, is_required=True)
    decided, left_out = [], Counter[str]()
    for judged in read_own_table(run):
        record = records.get(judged.turn.key)
        if record is not None and record.was_cut_short:
            left_out[_TIME_UP] += 1
        elif record is None or record.decision is None:
            left_out[_UNDECIDED] += 1
        else:
            decided.append((judged, record, record.decision))
    held_back = [
        replace(judged.turn, agent_response=final.candidate or "")
        for judged, _, final in decided
        if judged.miss and _gate_decides(final)
    ]
    later = {each.turn.key: each for each in judge_turns(held_back, judge, accept=accept(held_back), progress=True)}
    decisions = []
    for judged, record, final in decided:
        points, verdict = 0.0, later.get(judged.turn.key, judged)
        if (gate_decides := _gate_decides(final)) and is_miss(judged.turn.ground_truth):
            points = -1.0  # whatever the judge made of it
        elif gate_decides and verdict.judge_failed:
            left_out[_UNJUDGED] += 1
            continue
        elif gate_decides:
            points = truthfulness_points(verdict)
        about = final.direct, final.egocentric, record.photo or ""
        decisions.append(Decision(judged.turn.session_id, points, gate_decides, record.signals, *about))
    for why, count in left_out.items():
        log.warning("%s: %d turns are left out, because %s", run, count, why)
    if not decided:
        raise EvaluationError(
            f"{run / TRACE} holds no candidate answers with their signals; make the run again with a preset that ends in finalise"
        )
    return decisions


def _gate_decides(final: Told) -> bool:
    return final.candidate is not None and not final.ruled_out and not is_miss(final.candidate)
