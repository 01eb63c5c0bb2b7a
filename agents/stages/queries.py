"""Stage 7: what is asked of the web."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.stage import Context
from agents.turn import Turn


class Queries:
    """One query a turn: the standalone question, with the name of the entity that the picture shows."""

    name: ClassVar[str] = "queries"
    least_seconds: ClassVar[float] = 0.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``queries``."""
        for turn in turns:
            query = turn.grounded_question if context.settings.queries.fuse_entity else turn.question
            turn.queries = (query,) if query else ()
            turn.note(queries=list(turn.queries))
