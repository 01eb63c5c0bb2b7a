"""What every stage is, and what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from agents.deadline import Deadline
from agents.model_set import ModelSet
from agents.prompts import PromptLibrary
from agents.search.gateway import SearchGateway
from agents.settings import Settings
from agents.texts.evidence_text import within_tokens
from agents.turn import Evidence, Turn


@dataclass(frozen=True)
class Context:
    """All that a stage may use besides the turns."""

    settings: Settings
    models: ModelSet
    search: SearchGateway
    prompts: PromptLibrary
    deadline: Deadline

    def evidence(self, turn: Turn, most: int) -> tuple[Evidence, ...]:
        """The best chunks of a turn that a prompt shows: at most ``most``, within the profile's budget of tokens."""
        return within_tokens(turn.best_evidence(most), self.settings.limits.evidence_tokens)


class Stage(Protocol):
    """One step of the way of a question.

    ``run`` gets all turns of the batch, picks those that concern it, makes one batched call to each model it needs and
    fills its own fields of the turns. What fails for one turn alone is noted on that turn; an exception means that the
    stage could not work at all, and the agent goes on without it.

    Attributes:
        name: The name used in presets and traces.
        least_seconds: The stage is skipped when less time than this is left for a batch; 0 for one that is never skipped.
        wanted_seconds: Below this it runs reduced. Both count until its own times are known (``agents.latency.estimates``).
    """

    name: ClassVar[str]
    least_seconds: ClassVar[float]
    wanted_seconds: ClassVar[float]

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Work on the turns of one batch."""
        ...
