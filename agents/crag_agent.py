"""The CRAG-MM agent: every turn of a batch goes through the stages of a preset, together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from PIL import Image

from agents.base_agent import BaseAgent, Message
from agents.brief_models import BriefModels
from agents.deadline import NO_DEADLINE, Deadline
from agents.model_set import ModelSet
from agents.models.pixels import to_rgb
from agents.pipeline import STAGES, run_stage
from agents.prompts import PromptLibrary
from agents.search.gateway import SearchGateway
from agents.settings import PROMPTS, Settings
from agents.stage import Context
from agents.trace import TraceWriter
from agents.turn import Turn

_log = logging.getLogger(__name__)

_WARM_UP_QUESTION = "What is shown here, and who made it?"
_WARM_UP_SIZE = (960, 1280)  # the evaluator's: engines keep what they plan for a size of picture


class CragAgent(BaseAgent):
    """Answers questions about photos from an image knowledge graph and web pages, or says "I don't know".

    Args:
        search_pipeline: The organiser's pipeline; None for an agent that cannot search.
        settings: The preset as it runs.
        models: The models of the profile, by role.
        trace_path: Where to append a JSON line a turn; None for no trace.
    """

    def __init__(
        self, search_pipeline: Any, *, settings: Settings, models: ModelSet, trace_path: Path | None = None
    ) -> None:
        super().__init__(search_pipeline)
        self.settings = settings
        self.models = models
        self.prompts = PromptLibrary(PROMPTS)
        self._search = SearchGateway(search_pipeline)
        self._stages = [STAGES[name]() for name in settings.stages]
        self._warm = False
        self.trace_to(trace_path)

    def trace_to(self, path: Path | None) -> None:
        """Write traces to another file from now on (None: to none), calls counted from 0 again."""
        self._trace = TraceWriter(path) if path is not None else None

    def warm_up(self) -> list[tuple[str, float]]:
        """Load the models of the preset: a blank turn goes through all stages, each reply cut short, without a trace.

        What fails here fails again, and is noted, where a turn is really asked. Further calls do nothing.

        Returns:
            The stages and the seconds that each took.
        """
        if self._warm:
            return []
        self._warm = True
        turns = [_open_turn(_WARM_UP_QUESTION, Image.new("RGB", _WARM_UP_SIZE, "gray"), ())]
        context = Context(self.settings, BriefModels(self.models), self._search, self.prompts, NO_DEADLINE)
        for stage in self._stages:
            run_stage(stage, turns, context)
        return [(entry["stage"], entry["seconds"]) for entry in turns[0].trace]

    def get_batch_size(self) -> int:
        """How many turns the evaluator passes in one call, 1 to 16."""
        return self.settings.limits.batch_size

    def batch_generate_response(
        self,
        queries: Sequence[str],
        images: Sequence[Image.Image | None],
        message_histories: Sequence[Sequence[Message]] | None = None,
        **kwargs: Any,  # noqa: ARG002 - later evaluators pass rag_context_list and domains, which this agent finds for itself
    ) -> list[str]:
        """Answer each query; a turn that cannot be answered gets "I don't know", whatever went wrong with it."""
        limits = self.settings.limits
        deadline = Deadline(limits.seconds_per_turn * len(queries) - limits.margin_seconds)
        turns = [
            _open_turn(query, image, history or ())
            for query, image, history in zip_longest(
                queries, images[: len(queries)], (message_histories or ())[: len(queries)]
            )
        ]
        if not turns:
            return []
        context = Context(self.settings, self.models, self._search, self.prompts, deadline)
        for stage in self._stages:
            run_stage(stage, turns, context)
        if self._trace is not None:
            self._trace.write(turns, deadline.elapsed())
        return [turn.answer for turn in turns]


def _open_turn(query: Any, image: Any, history: Sequence[Any]) -> Turn:
    """A turn from what the evaluator passed; a broken image or history is noted and left out."""
    turn = Turn(
        query=query if isinstance(query, str) else "",
        image=None,
        history=tuple(
            message for message in history if isinstance(message, dict) and isinstance(message.get("content"), str)
        ),
    )
    turn.question = turn.query
    if isinstance(image, Image.Image):
        try:
            turn.image = to_rgb(image)
        except (OSError, ValueError, SyntaxError, MemoryError, Image.DecompressionBombError) as error:
            turn.error = f"image: {type(error).__name__}: {error}"
            _log.warning("an image could not be read: %s", error)
    return turn
