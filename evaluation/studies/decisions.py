"""Training data of a gate: the signals of each candidate answer of a run, and whether the candidate is right."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from agents.record import Decision as Told
from agents.record import Signal
from evaluation.files.outputs import ALL_TURNS, read_own_table, read_turn_table
from evaluation.files.responses import find_run_files, refuse_repeated
from evaluation.files.run_dataset import SelectAccept
from evaluation.files.traces import TRACE, read_traces
from evaluation.judge.judging import Judge, judge_turns
from evaluation.records import EvaluationError
from evaluation.scores.scoring import is_miss, truthfulness_points

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

FITTED_SPLIT = "validation"
"""The only split that anything is fitted on. public_test is for figures."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Decision:
    """Candidate of one turn with its signals.

    Attributes:
        session: Session of the turn; turns of one session are not independent.
        photo: Name of its photo, "" if unknown; sessions about one photo are not independent either.
        points: Points for answering: 1 for a right candidate, -1 for a wrong one, 0 if it is no answer. If the truth is
            "I don't know" any answer is wrong.
        gate_decides: Whether the gate decides. It does not if there is no candidate or a rule forbids it.
        signals: Signals of the candidate by name, those of all stages.
        direct: Whether it was answered without evidence, so that the white-box line does not apply.
        egocentric: Whether it is about a photo of smart glasses, as the agent recognises them.
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
        session: Number of the session.
        photo: Number of the photo that the session is about; of one that is unknown a number that no other session has.
        signals: Values by name, NaN if unknown.
        negative_signals: Signals that are higher for wrong answers, as their stages declare them.
        run: Name of the run.
    """

    session: npt.NDArray[np.int64]
    photo: npt.NDArray[np.int64]
    points: FloatArray
    gate_decides: BoolArray
    direct: BoolArray
    egocentric: BoolArray
    signals: dict[str, FloatArray]
    negative_signals: frozenset[str]
    run: npt.NDArray[np.str_]

    @classmethod
    def from_decisions(cls, decisions: Sequence[Decision]) -> Turns:
        """Convert decisions to columns."""
        _, session = np.unique([turn.session for turn in decisions], return_inverse=True)
        photos = {turn.session: turn.photo for turn in decisions if turn.photo}  # one of several runs may not know it
        first_sessions = {photos[name]: name for name in sorted(photos, reverse=True)}
        representatives = [
            first_sessions[photos[turn.session]] if turn.session in photos else turn.session for turn in decisions
        ]
        _, photo = np.unique(representatives, return_inverse=True)
        gate_decides, direct, egocentric = (
            np.array([getattr(turn, name) for turn in decisions], dtype=np.bool_)
            for name in ("gate_decides", "direct", "egocentric")
        )
        points = np.array([turn.points for turn in decisions], dtype=np.float64)
        signal_maps = [turn.signals for turn in decisions]
        # As recorded, but those with a dot in their name last and by name
        recorded = dict.fromkeys(name for signals in signal_maps for name in signals)
        names = sorted(recorded, key=lambda name: ("." in name, name if "." in name else ""))
        values = ([each[name].value if name in each else np.nan for each in signal_maps] for name in names)
        columns = {name: np.array(row, np.float64) for name, row in zip(names, values, strict=True)}
        negative_signals = frozenset(name for each in signal_maps for name, signal in each.items() if signal.negative)
        return cls(
            session.astype(np.int64),
            photo.astype(np.int64),
            points,
            gate_decides,
            direct,
            egocentric,
            columns,
            negative_signals,
            np.array([turn.run for turn in decisions], dtype=np.str_),
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
    def groups(self) -> npt.NDArray[np.int64]:
        """Photo of each candidate: candidates about one photo, in whichever session, stay on one side of a cross-validation."""
        return self.photo[self.gate_decides]

    def signal(self, name: str) -> FloatArray:
        """Return the values of a signal over all turns, NaN if unknown; a signal that no turn has is unknown everywhere."""
        return self.signals.get(name, np.full(len(self.points), np.nan))

    def matrix(self, names: Sequence[str]) -> FloatArray:
        """Return the named signals of the candidates, shape (candidates, signals)."""
        return np.column_stack([self.signal(name)[self.gate_decides] for name in names])

    def score(self, is_given: BoolArray) -> FloatArray:
        """Return the points of every turn if these candidates are given; their mean is the truthfulness.

        Args:
            is_given: Which candidates are given, shape (candidates,).
        """
        points = np.zeros(len(self.points))
        points[self.gate_decides] = np.where(is_given, self.points[self.gate_decides], 0.0)
        return points


def run_folders(places: Sequence[Path]) -> list[Path]:
    """Find the folders of judged runs: those given, or their sub-folders.

    Sub-folders are those of the data sets (``single-turn``, ``multi-turn``). A place may also be the table of one run, in a folder that
    holds two.

    Raises:
        EvaluationError: A place holds no judged run, or several over the same turns, or one beside a run over both data sets.
    """
    folders: list[Path] = []
    for place in places:
        tables = [place] if place.name == ALL_TURNS else find_run_files(place, ALL_TURNS)
        inside = [table.parent for table in tables]
        if not inside:
            raise EvaluationError(f"{place} contains no judged run ({ALL_TURNS}); judge it with local_evaluation.py")
        if len(inside) > 1:
            refuse_repeated({run: [judged.turn for judged in read_turn_table(run)] for run in inside})
        folders += inside
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
    turns = read_own_table(run)
    records = read_traces(run / TRACE, is_required=True)
    traced = [(judged, record) for judged in turns if (record := records.get(judged.turn.key)) is not None]
    decided_turns = [
        (judged, record, final) for judged, record in traced if (final := record.decision) and not record.was_cut_short
    ]
    cut_short = sum(record.was_cut_short for _, record in traced)
    _warn_left_out(
        run,
        cut_short,
        "the time was up before all stages had run; on a slow or busy machine run with --set limits.seconds_per_turn=60",
    )
    if not decided_turns:
        raise EvaluationError(
            f"{run / TRACE} holds no candidate answers with their signals; make the run again with a preset that ends in finalise"
        )
    _warn_left_out(
        run,
        len(turns) - len(decided_turns) - cut_short,
        f"{TRACE} has no decision on them; errors are asked again with --resume",
    )
    held_back = [
        replace(judged.turn, agent_response=final.candidate or "")
        for judged, _, final in decided_turns
        if judged.miss and _gate_decides(final)
    ]
    later = {
        judged.turn.key: judged for judged in judge_turns(held_back, judge, accept=accept(held_back), progress=True)
    }
    decisions, unjudged = [], 0
    for judged, record, final in decided_turns:
        points, gate_decides = 0.0, _gate_decides(final)
        if gate_decides and is_miss(judged.turn.ground_truth):
            points = -1.0  # whatever the judge made of it
        elif gate_decides:
            verdict = later.get(judged.turn.key, judged)
            if verdict.judge_failed:
                unjudged += 1
                continue
            points = truthfulness_points(verdict)
        about = final.direct, final.egocentric, record.photo or ""
        decisions.append(Decision(judged.turn.session_id, points, gate_decides, record.signals, *about))
    _warn_left_out(run, unjudged, "the judge gave no usable reply; judge them again")
    return decisions


def _warn_left_out(run: Path, count: int, why: str) -> None:
    if count:
        log.warning("%s: %d turns are left out, because %s", run, count, why)


def count_left_out(runs: Iterable[Path], decisions: Sequence[Decision]) -> int:
    """Count the judged turns of runs that ``read_decisions`` left out.

    Raises:
        EvaluationError: See ``read_own_table``.
    """
    return sum(len(read_own_table(run)) for run in runs) - len(decisions)


def _gate_decides(final: Told) -> bool:
    return final.candidate is not None and not final.ruled_out and not is_miss(final.candidate)
