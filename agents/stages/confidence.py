"""Stage 13 of the embedded profile: how likely an extracted answer is right, from more than the reader can see."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import asdict
from typing import ClassVar

from agents.methods.answer_confidence import ConfidenceHead, answer_features
from agents.settings import ROOT
from agents.stage import Context
from agents.turn import Turn


class Confidence:
    """Puts a fitted probability in the place of the reader's score; notes the features it rests on."""

    name: ClassVar[str] = "confidence"
    least_seconds: ClassVar[float] = 0.0
    wanted_seconds: ClassVar[float] = 0.0

    def __init__(self) -> None:
        self._head: ConfidenceHead | None = None

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Replace the ``confidence`` of extracted candidates."""
        path = context.settings.confidence.head
        if path is not None and self._head is None:
            self._head = ConfidenceHead.load(ROOT / path)
        for turn in turns:
            features = answer_features(turn)
            if features is None or turn.candidate is None:
                continue
            if self._head is not None:
                turn.candidate = dataclasses.replace(turn.candidate, confidence=self._head.probability(features))
            turn.note(
                answer_features={name: round(value, 4) for name, value in asdict(features).items()},
                confidence=turn.candidate.confidence,
            )
