"""Traces: one JSON line a turn, with what each stage saw, chose and took in time."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

from agents.turn import Turn

_log = logging.getLogger(__name__)


class TraceWriter:
    """Appends traces to a file; a disk that is full costs the trace, not the answer."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._batch = 0

    def write(self, turns: Sequence[Turn], seconds: float) -> None:
        """Append the turns of one batch; ``seconds`` is the wall time of the whole batch."""
        lines = [
            json.dumps(
                {
                    "batch": self._batch,
                    "turn": index,
                    "query": turn.query,
                    "question": turn.question,
                    "answer": turn.answer,
                    "stages": turn.trace,
                    "error": turn.error,
                    "seconds": round(seconds, 4),
                },
                ensure_ascii=False,
                default=str,
            )
            for index, turn in enumerate(turns)
        ]
        self._batch += 1
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write("".join(line + "\n" for line in lines))
        except OSError as error:
            _log.warning("the trace of a batch could not be written to %s: %s", self._path, error)
