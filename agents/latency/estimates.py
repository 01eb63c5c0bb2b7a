"""How long a stage takes, learnt from how long it took.

Mean and mean deviation are exponentially weighted with the gains of TCP's round-trip estimator (RFC 6298, section 2: 1/8 for the
mean, 1/4 for the deviation; its 4 deviations are 2 here, because a stage cut short costs an answer's quality, not the link).
"""

from __future__ import annotations

from dataclasses import dataclass

_MEAN_GAIN = 1 / 8
_DEVIATION_GAIN = 1 / 4
_DEVIATIONS = 2.0
_RELAX = 0.8  # an estimate that kept a stage from running is never renewed by a run: it shrinks, so that the stage is tried again


@dataclass
class _Record:
    mean: float
    deviation: float

    @property
    def seconds(self) -> float:
        return self.mean + _DEVIATIONS * self.deviation


class Estimates:
    """Seconds by stage, number of turns, and whether the stage ran reduced; one for an agent, hence for one backend."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, bool], dict[int, _Record]] = {}

    def observe(self, stage: str, turns: int, seconds: float, *, reduced: bool = False) -> None:
        """Learn that a stage took so long for so many turns."""
        sizes = self._records.setdefault((stage, reduced), {})
        known = sizes.get(turns)
        if known is None:
            sizes[turns] = _Record(seconds, seconds / 4)
            return
        known.deviation += _DEVIATION_GAIN * (abs(seconds - known.mean) - known.deviation)
        known.mean += _MEAN_GAIN * (seconds - known.mean)

    def at_least(self, stage: str, turns: int, seconds: float, *, reduced: bool = False) -> None:
        """Learn that a stage had not ended after so long; where it is known to take longer nothing is learnt."""
        sizes = self._records.setdefault((stage, reduced), {})
        known = sizes.get(turns)
        if known is None or known.seconds < seconds:
            sizes[turns] = _Record(seconds, 0.0)

    def seconds(self, stage: str, turns: int, *, reduced: bool = False) -> float | None:
        """The seconds a stage is likely to need for so many turns; None where it has never run so.

        For a size not seen yet the nearest one seen counts: as it is for fewer turns, in proportion for more.
        """
        sizes = self._records.get((stage, reduced))
        if not sizes:
            return None
        nearest = min(sizes, key=lambda size: (abs(size - turns), size))
        return sizes[nearest].seconds * max(1.0, turns / max(1, nearest))

    def relax(self, stage: str) -> None:
        """Doubt the estimates of a stage that was not run whole because of them."""
        for reduced in (False, True):
            for record in self._records.get((stage, reduced), {}).values():
                record.mean *= _RELAX
                record.deviation *= _RELAX
