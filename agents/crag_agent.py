"""The CRAG-MM agent: every turn of a batch goes through the stages of a preset, together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from agents.base_agent import BaseAgent, Message
from agents.deadline import NO_DEADLINE, Clock, Deadline
from agents.guard import DialogTimes
from agents.model_set import ModelSet
from agents.opening import add_given, open_turn, open_turns, opened
from agents.pipeline import Pipeline
from agents.prompts import PromptLibrary
from agents.search.gateway import SearchGateway
from agents.settings import PROMPTS, Settings
from agents.texts.retrieved import safe_full_text, safe_page, safe_picture
from agents.trace import Listener, TraceWriter
from agents.worker import HungError

_WARM_UP_QUESTION = "What is shown here, and who made it?"
_WARM_UP_TOKENS = 2
_OPENING_SHARE = 0.5  # of a call: for pictures to be decoded
_WARM_UP_SIZE = (960, 1280)  # the evaluator's: engines keep what they plan for a size of picture


class CragAgent(BaseAgent):
    """Answers questions about photos from an image knowledge graph and web pages, or says "I don't know".

    Args:
        search_pipeline: The organiser's pipeline; None for an agent that cannot search.
        settings: The preset as it runs.
        models: The models of the profile, by role.
        trace_path: Where to append a JSON line a turn; None for no trace.
        clock: A monotonic clock in seconds; tests pass a faster one.
    """

    def __init__(
        self,
        search_pipeline: Any,
        *,
        settings: Settings,
        models: ModelSet,
        trace_path: Path | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        super().__init__(search_pipeline)
        self.settings = settings
        self.models = models
        self.prompts = PromptLibrary(PROMPTS, settings.limits.reply_tokens)
        guarded = settings.guard.injection
        search = SearchGateway(
            search_pipeline,
            each_picture=safe_picture if guarded else None,
            each_page=safe_page if guarded else None,
            each_text=safe_full_text if guarded else None,
        )
        self.pipeline = Pipeline(settings, models, search, self.prompts, clock)
        self._clock = clock
        self._dialogs = DialogTimes(settings.limits, clock)
        self._warm = False
        self.trace_to(trace_path)

    def trace_to(self, path: Path | None, listen: Listener | None = None) -> None:
        """Write traces to another file from now on (None: to none) and tell a listener, calls counted from 0 again."""
        wanted = path is not None or listen is not None
        of_the_picture = frozenset().union(*(stage.picture_notes for stage in self.pipeline.stages))
        self._trace = TraceWriter(path, self.settings.trace, listen, of_the_picture) if wanted else None

    def warm_up(self) -> list[tuple[str, float]]:
        """Load the models of the preset: a blank turn goes through all stages, each reply cut short, without a trace.

        What fails here fails again, and is noted, where a turn is really asked. Further calls do nothing.

        Returns:
            The stages and the seconds that each took.
        """
        if self._warm:
            return []
        self._warm = True
        turns = [open_turn(_WARM_UP_QUESTION, Image.new("RGB", _WARM_UP_SIZE, "gray"), ())]
        turns = self.pipeline.run(turns, NO_DEADLINE, shorten=lambda _: _WARM_UP_TOKENS)
        return [(entry["stage"], entry["seconds"]) for entry in turns[0].trace]

    def get_batch_size(self) -> int:
        """How many turns the evaluator passes in one call, 1 to 16."""
        return self.settings.limits.batch_size

    def batch_generate_response(
        self,
        queries: Sequence[str],
        images: Sequence[Image.Image | None],
        message_histories: Sequence[Sequence[Message]] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Answer each query in time; a turn that cannot be answered gets "I don't know", whatever went wrong with it.

        Args:
            queries: See ``BaseAgent``, as for the other arguments.
            images: See there.
            message_histories: See there.
            kwargs: ``rag_context_list``, the evidence of the research release, is read where there is no pipeline to search with;
                ``domains`` takes the place of the stage ``domain``.
        """
        call = Deadline(self.settings.limits.seconds_per_turn * len(queries), self._clock)
        turns = open_turns(queries, images, message_histories, lambda image: self._opened(image, call))
        if not turns:
            return []
        add_given(turns, kwargs.get("rag_context_list"), kwargs.get("domains"))
        turns = self.pipeline.run(turns, self._dialogs.deadline(call, turns))
        self._dialogs.charge(turns, call.elapsed())
        if self._trace is not None:
            self._trace.write(turns, call.elapsed())
        return [turn.answer for turn in turns]

    def _opened(self, image: Any, call: Deadline) -> Image.Image:
        """A picture decoded; all pictures of a call may take half of its time.

        Raises:
            TimeoutError: It did not end in time, or there was none left.
            ValueError: See ``opened``.
        """
        until = _OPENING_SHARE * (call.elapsed() + call.left())
        if call.elapsed() >= until:
            raise TimeoutError("no time left")
        try:
            return self.pipeline.worker.run(lambda: opened(image), lambda: call.elapsed() >= until)
        except HungError:
            raise TimeoutError(f"no end after {call.elapsed():.2f} s") from None
