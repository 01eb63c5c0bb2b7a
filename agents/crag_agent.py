"""The CRAG-MM agent: every turn of a batch goes through the stages of a preset, together.

The evaluator imports this module in each of its processes: slow imports wait until an agent is built.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from agents.base.secrets import keep_out_of_logs
from agents.base_agent import BaseAgent, Message
from agents.profiles.profile import PROMPTS
from agents.settings.agent_config import AgentConfig
from agents.settings.presets import Settings
from agents.time_limits.deadline import NO_DEADLINE, Clock, Deadline

if TYPE_CHECKING:
    from PIL import Image

    from agents.asking.prompts import PromptLibrary
    from agents.evidence.lookup import Found, LookupQuery
    from agents.models.reply_cache import ReplyStore
    from agents.profiles.model_set import ModelSet
    from agents.runner.pipeline import Watch
    from agents.runner.start_up import StartUp
    from agents.runner.trace import Listener
    from agents.turn import Turn

_log = logging.getLogger(__name__)

T = TypeVar("T")

_WARM_UP_QUESTION = "What is shown here, and who made it?"
_WARM_UP_TOKENS = 2  # of each reply
_OPENING_SHARE = 0.5  # of what turn and dialog have left: for its picture to be decoded
_WARM_UP_SIZE = (960, 1280)  # the evaluator's: engines keep what they plan for a size of picture


class CragAgent(BaseAgent):
    """Answers questions about photos from an image knowledge graph and web pages, or says "I don't know".

    ``CragAgent(search_pipeline=...)`` is the submitted agent. Preset and profile come from the environment. The models are loaded at once:
    the evaluator allows 10 minutes here, and 10 s a turn in the first call. ``from_config`` creates any other agent.

    Raises:
        SettingsError: Preset or profile of the environment do not exist or are malformed.
        ModelError: A chat model cannot be loaded.
    """

    def __init__(
        self,
        search_pipeline: Any = None,
        *,
        settings: Settings | None = None,  # None: what the environment names
        models: ModelSet | None = None,  # needed where settings are given
        prompts: PromptLibrary | None = None,  # those of ``prompts/`` if None
        trace_path: Path | None = None,  # where to append a JSON line a turn
        clock: Clock = time.monotonic,
        name_source: Callable[[str], str] | None = None,  # names sources in records for people; None: by their URLs
        has_changed: Callable[[str], bool] = lambda _: False,  # tells whether the file of a source was edited
        **evaluator: Any,  # noqa: ARG002 - ``model_name``, ``is_multi_turn`` of later evaluators; the preset decides both
    ) -> None:
        from agents.asking.prompts import PromptLibrary
        from agents.runner.guard import DialogTimes
        from agents.runner.pipeline import Pipeline
        from agents.search.gateway import SearchGateway
        from agents.search.pages.page_reader import PageReader
        from agents.search.retrieved import cleaned_page, safe_page, safe_picture
        from agents.time_limits.subprocess_worker import SubprocessWorker

        super().__init__(search_pipeline)
        keep_out_of_logs()
        if (settings is None) != (models is None):
            raise TypeError("settings and models belong together: pass both, or neither to build from the environment")
        submitted = settings is None
        if settings is None or models is None:
            config = AgentConfig.from_environment()
            _tell(config)
            settings, models, prompts = config.settings, config.models(), config.prompts
        self.settings, self.models = settings, models
        self.prompts = prompts or PromptLibrary(PROMPTS, settings.limits.reply_tokens, sees=models.sees)
        self._subprocess = SubprocessWorker()
        safe = settings.guard.injection
        search = SearchGateway(
            search_pipeline,
            each_picture=safe_picture if safe else lambda hit: hit,
            each_page=safe_page if safe else cleaned_page,
            read_pages=PageReader(self._subprocess, safe=safe),
            worker=self._subprocess,
        )
        self.pipeline = Pipeline(settings, models, search, self.prompts, clock)
        self._search = search
        self._clock = clock
        self._dialogs = DialogTimes(settings.limits, clock)
        self._started: StartUp | None = None
        self._watch: Watch | None = None
        self._call: Deadline | None = None  # of the call under way
        self._name_source, self._has_changed = name_source, has_changed
        self.trace_to(trace_path)
        if submitted:
            from agents.settings.stage_needs import list_chat_roles

            self.warm_up().require(list_chat_roles(self.settings, self.prompts))

    @classmethod
    def from_config(
        cls,
        config: AgentConfig,
        search_pipeline: Any = None,
        *,
        models: ModelSet | None = None,
        replies: ReplyStore | None = None,
        **options: Any,
    ) -> Self:
        """Create an agent that runs a preset under a profile.

        Args:
            config: The preset and the profile.
            search_pipeline: The pipeline that the agent searches with; None: the evaluator passes results with each call.
            models: Models to use in place of those of the profile.
            replies: Kept replies, as for ``AgentConfig.models``.
            **options: Further arguments of the class.

        Raises:
            SettingsError: As for ``AgentConfig.models``.
        """
        _tell(config)
        options.setdefault("name_source", config.name_source)
        options.setdefault("has_changed", config.has_changed)
        return cls(
            search_pipeline,
            settings=config.settings,
            models=models or config.models(replies=replies),
            prompts=config.prompts,
            **options,
        )

    def trace_to(
        self,
        path: Path | None,
        listen: Listener | None = None,
        pictures: Path | None = None,
        listen_whole: Listener | None = None,
    ) -> None:
        """Write traces to another file from now on, with calls counted from 0 again.

        Args:
            path: The file; None: no traces.
            listen: Called with each batch before it is answered, with the fields that ``trace.*`` allows.
            pictures: Folder for the pictures of requests if ``trace.requests`` is set; None: beside the file.
            listen_whole: Called as ``listen`` with the default fields of a trace, for those who asked: a reply is no trace.
        """
        from agents.runner.trace import TraceWriter

        of_the_picture = frozenset().union(*(stage.picture_notes for stage in self.pipeline.stages))
        settings = self.settings.trace
        self._trace = (
            TraceWriter(
                path,
                settings,
                listen,
                of_the_picture,
                pictures,
                listen_whole,
                self._name_source,
                lambda url: self._has_changed(url),
            )
            if any(each is not None for each in (path, listen, listen_whole))
            else None
        )

    def search_in(self, pipeline: Any, has_changed: Callable[[str], bool] = lambda _: False) -> None:
        """Search with another pipeline from now on, such as one over a newer index; callable beside a call.

        Args:
            pipeline: The pipeline; it has the searches of the one before.
            has_changed: As for the class.
        """
        self._search.use(pipeline)
        self._has_changed = has_changed

    def watch(self, watch: Watch | None) -> None:
        """Have each call announce its next action in plain words; in the thread of the call."""
        self._watch = watch

    def cancel(self) -> None:
        """Make the current call, if any, raise CallCancelledError when its stage has ended. Any thread may call this.

        Chat models stop as at their deadline. Work that checks no deadline runs to its end.
        """
        if (call := self._call) is not None:
            call.cancel()

    def warm_up(self, *, blank_turn: bool = True) -> StartUp:
        """Load the models of the preset, so that the first call pays for answering alone. Later calls do nothing.

        A failure is logged, not raised: the stage that needs the model reports it again when it is asked.

        Args:
            blank_turn: Also run a blank turn through the stages, with short replies and no trace. On a CPU that costs more than it saves.
        """
        from agents.runner.start_up import start_up
        from agents.settings.stage_needs import list_roles

        if self._started is None:
            self._subprocess.start()
            roles = list_roles(self.settings, self.prompts)
            self._started = start_up(self.models, roles, self._blank_turn if blank_turn else None)
        return self._started

    def _blank_turn(self) -> list[tuple[str, float]]:
        """Run a blank turn and return its stages with the seconds that each took."""
        from PIL import Image

        from agents.runner.intake import open_turn

        turns = [open_turn(_WARM_UP_QUESTION, Image.new("RGB", _WARM_UP_SIZE, "gray"), ())]
        turns = self.pipeline.run(turns, NO_DEADLINE, shorten=lambda _: _WARM_UP_TOKENS)
        return [(record.stage, record.seconds) for record in turns[0].records]

    def get_batch_size(self) -> int:
        """Return how many turns the evaluator passes in one call, 1 to 16."""
        return self.settings.limits.batch_size

    def batch_generate_response(
        self,
        queries: Sequence[str],
        images: Sequence[Image.Image | None],
        message_histories: Sequence[Sequence[Message]] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Answer each query in time (see ``BaseAgent``). A turn that fails for whatever reason gets "I don't know".

        Two further arguments are read: ``rag_context_list``, the evidence of the research release, if the agent has no pipeline to search
        with; and ``domains``, which replaces the stage ``domain``.
        """
        from agents.runner.intake import add_provided, as_list, open_turns

        queries = as_list(queries)
        call = Deadline(self.settings.limits.seconds_per_turn * len(queries), self._clock)
        self._call = call
        turns = open_turns(queries, images, message_histories, lambda image, turn: self._decode(image, turn, call))
        if not turns:
            return []
        add_provided(turns, kwargs.get("rag_context_list"), kwargs.get("domains"))
        turns = self.pipeline.run(turns, self._dialogs.deadline(call, turns), watch=self._watch)
        self._dialogs.charge(turns, call.elapsed())
        if self._trace is not None:
            self._trace.write(turns, call.elapsed())
        return [turn.answer for turn in turns]

    def look_up(self, queries: Sequence[LookupQuery], seconds: float) -> list[Found]:
        """Search photos and texts in the indices without answering, cleaned as the stages get them; callable beside a call.

        Args:
            queries: What to search for; all are searched in one batch.
            seconds: Time limit of searches in other processes and of reading whole pages.
        """
        from agents.evidence.lookup import Lookup

        name_source = self._name_source or (lambda url: url)
        return Lookup(self._search, name_source, self._has_changed).search(queries, Deadline(seconds, self._clock))

    def _decode(self, image: Any, turn: Turn, call: Deadline) -> Image.Image:
        """Decode a turn's picture.

        Raises:
            TimeoutError: It takes more than half of the time left to turn and dialog.
            Exception: As for ``intake.decode_image``, or an EscapedError.
        """
        from agents.runner.intake import decode_image

        limit = _OPENING_SHARE * self._dialogs.allowance(turn)
        return self._run_within(limit, call, lambda: decode_image(image))

    def _run_within(self, seconds: float, call: Deadline, work: Callable[[], T]) -> T:
        """Return the result of the work.

        Raises:
            TimeoutError: The work takes longer than ``seconds``.
        """
        from agents.time_limits.worker import HungError

        until = call.elapsed() + seconds
        try:
            return self.pipeline.worker.run(work, lambda: call.elapsed() >= until)
        except HungError:
            raise TimeoutError(f"no end after {seconds:.2f} s") from None


def _tell(config: AgentConfig) -> None:
    """Warn if the agent runs without parts fitted for other models."""
    if config.gate_note is not None:
        _log.warning("%s", config.gate_note)
