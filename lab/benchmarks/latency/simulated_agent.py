"""The agent on a simulated clock, with its real stages and guard.

Each call of a model or the search takes the seconds of the cost model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar, cast

from agents.models.base import ChatReply, ChatRequest, ModelError
from agents.profiles.model_set import ModelSet
from agents.record import StageRecord
from agents.runner.guard import DialogTimes
from agents.runner.pipeline import Pipeline
from agents.search.gateway import SearchGateway
from agents.settings.run_config import RunConfig
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from agents.time_limits.worker import Worker
from lab.benchmarks.common import make_turn
from lab.benchmarks.latency.prefix_cache import PrefixCache
from lab.benchmarks.latency.stand_ins import CHAT_ROLES, STAND_INS, PicturedSearch, RememberedModel, StandInChat
from mini_crag_mm.loader import AskedTurn
from tests.support.meter import SIZES, CallLog, Metered, ModelCall, ModelsBy

T = TypeVar("T")


class SimulatedTime(CallLog):
    """Clock on which nothing but calls takes time."""

    def __init__(self, seconds: Callable[[ModelCall], float]) -> None:
        super().__init__()
        self._seconds, self._now = seconds, 0.0

    def __call__(self) -> float:
        """Return the seconds, which never decrease."""
        return self._now

    def pass_by(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds

    def add(self, call: ModelCall) -> None:
        """Record a call that nothing ends before it is done."""
        self.add_until(call, NO_DEADLINE)

    def add_until(self, call: ModelCall, deadline: Deadline) -> float:
        """Record a call that ends at a deadline, done or not; return the share of it that was done."""
        super().add(call)
        seconds = self._seconds(call)
        duration = min(seconds, max(0.0, deadline.left()))
        self._now += duration
        return duration / seconds if seconds > 0 else 1.0


class TimedChat:
    """Stand-in that takes the time of its role's model.

    At the deadline replies are cut, as by vLLM's adapter.
    """

    name = StandInChat.name

    def __init__(self, role: str, time: SimulatedTime, prefixes: PrefixCache | None = None) -> None:
        self._role, self._time, self._prefixes, self.cut = role, time, prefixes, 0

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """Reply to each request."""
        if not requests:
            return []
        call = ModelCall(self._time.running(), self._role, "chat", len(requests), **SIZES["chat"](requests, ()))
        if self._prefixes is not None:
            overlaps = [self._prefixes.read(request) for request in requests]
            call = dataclasses.replace(
                call,
                known_characters=sum(each.characters for each in overlaps),
                known_pictures=sum(each.pictures for each in overlaps),
                encoded_pictures=sum(each.encoded for each in overlaps),
            )
        share = self._time.add_until(call, deadline)
        replies = StandInChat().chat(requests)
        if share == 1.0:
            return replies
        self.cut += len(replies)
        return [
            dataclasses.replace(reply, text=reply.text[: int(share * len(reply.text))], finish_reason="abort")
            for reply in replies
        ]


@dataclass(frozen=True)
class AgentCall:
    """Time of one call of the agent, and what its guard did.

    ``stages`` are the records of one of its turns, in which all are alike.
    """

    sessions: tuple[str, ...]
    seconds: float
    limit: float
    stages: tuple[StageRecord, ...]

    @property
    def seconds_per_turn(self) -> float:
        """Time of the call divided by its turns, as the challenge counts."""
        return self.seconds / len(self.sessions)

    @property
    def late(self) -> bool:
        """Whether it took more than the limit of its turns together."""
        return self.seconds > self.limit

    @property
    def whole(self) -> bool:
        """Whether the guard reduced or skipped nothing."""
        return all(record.status == "ran" for record in self.stages)


class SimulatedAgent:
    """Stages of a preset with their guard, which learns its estimates from simulated times; nothing hangs."""

    def __init__(
        self,
        config: RunConfig,
        pipeline: Any,
        models: ModelSet,
        time: SimulatedTime,
        seconds_of_turn: float = 0.0,  # outside of all calls
        known_answers: dict[Hashable, Any] | None = None,  # what models and search said of items, kept for other agents
        prefixes: Mapping[str, PrefixCache] = MappingProxyType({}),  # of the engines that keep them, by role
    ) -> None:
        answers = {} if known_answers is None else known_answers
        self._chats = {role: TimedChat(role, time, prefixes.get(role)) for role in CHAT_ROLES}

        def model(role: str) -> Any:
            if role in self._chats:
                return self._chats[role]
            return Metered(STAND_INS.get(role) or RememberedModel(models.get(role), role, answers), role, time)

        search = cast(SearchGateway, Metered(PicturedSearch(pipeline, answers), "search", time))
        settings = config.settings
        self._stages = Pipeline(
            settings,
            ModelsBy(model, sees=config.profile.sees, boxes=config.profile.boxes),
            search,
            config.prompts,
            time,
        )
        self._stages.worker = _AtOnce()
        self._limits, self._time, self._own = settings.limits, time, seconds_of_turn
        self._dialogs = DialogTimes(settings.limits, time)

    @property
    def cut_replies(self) -> int:
        """Number of replies that a deadline cut."""
        return sum(chat.cut for chat in self._chats.values())

    def call(self, batch: Sequence[AskedTurn]) -> AgentCall:
        """Answer a batch.

        Raises:
            ModelError: A stage failed; times without it would be too good.
        """
        limit = self._limits.seconds_per_turn * len(batch)
        call = Deadline(limit, self._time)
        self._time.pass_by(self._own * len(batch))
        turns = [make_turn(each) for each in batch]
        for turn in turns:
            turn.question = turn.query
        turns = self._stages.run(turns, self._dialogs.deadline(call, turns))
        self._dialogs.charge(turns, call.elapsed())
        records = (record for turn in turns for record in turn.records)
        failed = next((record for record in records if record.status == "failed"), None)
        if failed is not None:
            raise ModelError(f"stage {failed.stage}: {failed.reason}")
        sessions = tuple(each.session.session_id for each in batch)
        return AgentCall(sessions, call.elapsed(), limit, tuple(turns[0].records))


class _AtOnce(Worker):
    """Worker that does the work in the caller's thread.

    On the simulated clock no thread could be seen to hang.
    """

    def run(self, work: Callable[[], T], over: Callable[[], bool]) -> T:  # noqa: ARG002
        """Do the work and raise what it raises."""
        return work()
