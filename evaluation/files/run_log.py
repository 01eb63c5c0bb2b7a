"""Latency and cache hits of a run, from run_log.jsonl, compared with the challenge's limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from pydantic import TypeAdapter, ValidationError

from evaluation.files.responses import read_lines
from evaluation.records import AnsweredTurn, Key, RunLogLine

RUN_LOG = "run_log.jsonl"
"""Costs of the turns, beside the answers. A file of its own, so that response.jsonl is the same however often a run was cut."""

_LINE = TypeAdapter(RunLogLine)

TURN_LIMIT_SECONDS = 10.0
"""Longest time of a call, times its batch size (challenge rules)."""

DIALOG_LIMIT_SECONDS = 30.0
"""Longest time of a whole dialog (challenge rules)."""


def read_run_log(output_dir: Path) -> dict[Key, RunLogLine]:
    """Read the costs by turn; the latest line of a turn counts.

    Returns:
        The costs; empty if there is no log. Malformed lines are left out.
    """
    costs = {}
    for record in read_lines(output_dir / RUN_LOG):
        with suppress(ValidationError):
            line = _LINE.validate_python(record)
            costs[line.key] = line
    return costs


@dataclass(frozen=True)
class Latency:
    """Times of a run in seconds.

    Attributes:
        mean_turn: Mean over turns of the wall time of a call divided by the turns in it.
        max_turn: Longest of these.
        late_batches: Calls that took more than 10 s times their number of turns.
        late_dialogs: Dialogs whose turns took more than 30 s together.
        reply_hits: Replies that came from a reply cache; None if no call had one.
        reply_misses: Replies that the cache did not have.
        uncached_turns: Turns of calls that took no reply from a cache.
        uncached_mean_turn: Mean seconds of those turns; None if there are none.
    """

    turns: int
    mean_turn: float
    max_turn: float
    late_batches: int
    late_dialogs: int
    reply_hits: int | None
    reply_misses: int | None
    uncached_turns: int
    uncached_mean_turn: float | None


def summarise_latency(costs: Iterable[RunLogLine]) -> Latency | None:
    """Sum up the times of turns; None for no turns."""
    lines = list(costs)
    if not lines:
        return None
    calls = {(line.batch, line.batch_seconds): line for line in lines}.values()  # a resumed run counts its calls from 0
    cached = [line for line in calls if line.reply_hits is not None]
    uncached = [line.seconds for line in lines if not line.reply_hits]
    dialogs: dict[str, float] = defaultdict(float)
    for line in lines:
        dialogs[line.session_id] += line.seconds
    return Latency(
        turns=len(lines),
        mean_turn=fmean(line.seconds for line in lines),
        max_turn=max(line.seconds for line in lines),
        late_batches=sum(line.batch_seconds > TURN_LIMIT_SECONDS * line.batch_size for line in calls),
        late_dialogs=sum(seconds > DIALOG_LIMIT_SECONDS for seconds in dialogs.values()),
        reply_hits=sum(line.reply_hits or 0 for line in cached) if cached else None,
        reply_misses=sum(line.reply_misses or 0 for line in cached) if cached else None,
        uncached_turns=len(uncached),
        uncached_mean_turn=fmean(uncached) if uncached else None,
    )


@dataclass(frozen=True)
class MissingPictures:
    """Turns asked without their picture.

    Attributes:
        turns: Number of such turns.
        of: Number of answered turns.
        ego_turns: Those of ``turns`` with an egocentric picture.
        photos: Missing pictures: a dialog has one.
        such_as: Why the first of them was missing.
    """

    turns: int
    of: int
    ego_turns: int
    photos: int
    such_as: str

    def __str__(self) -> str:
        """Return all of it in a sentence."""
        photos = "1 photo" if self.photos == 1 else f"{self.photos} photos"
        return f"{self.turns} of {self.of} turns ({photos}) were asked without their picture; such as: {self.such_as}"


def count_missing_pictures(turns: Sequence[AnsweredTurn], costs: Mapping[Key, RunLogLine]) -> MissingPictures | None:
    """Count the turns whose picture was missing by the run log; None if there are none."""
    without = [
        (turn, note) for turn in turns if (line := costs.get(turn.key)) is not None and (note := line.image_note)
    ]
    if not without:
        return None
    return MissingPictures(
        turns=len(without),
        of=len(turns),
        ego_turns=sum(turn.is_ego for turn, _ in without),
        photos=len({turn.session_id for turn, _ in without}),
        such_as=without[0][1],
    )


def select_costs(turns: Sequence[AnsweredTurn], costs: Mapping[Key, RunLogLine]) -> list[RunLogLine]:
    """Return the costs of these turns, in their order; turns without any are left out."""
    lines = (costs.get(turn.key) for turn in turns)
    return [line for line in lines if line is not None]
