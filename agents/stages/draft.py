from collections.abc import Sequence
from typing import Any

from pydantic import Field

from agents.asking.ask import Ask
from agents.asking.readers.drafts import draft_of
from agents.methods.domains import load_domains
from agents.record import DRAFT
from agents.stage import Context, Stage, StageOptions
from agents.turn import Draft, Turn

_FALLBACK_DOMAIN = "other"
_STEPS_WHEN_SHORT = 2


class DraftStage(Stage):
    """A provisional answer by domain chain of thought with the domain's worked examples (QA-Dragon, section 3.1.2); one batched call."""

    class Options(StageOptions):
        examples: int = Field(2, ge=0, description="worked examples of the domain shown")
        max_steps: int = Field(5, ge=1, description="reasoning steps (appendix A: at most 5)")

    options: Options
    fills = ("draft",)
    doing = "drafting an answer"
    when_short = f"no examples, {_STEPS_WHEN_SHORT} steps"
    min_seconds, wanted_seconds = 2.0, 4.0

    def asks(self) -> tuple[Ask[Draft], ...]:
        """The chain of thought."""
        return (Ask("draft", draft_of(self.options.max_steps)),)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``draft``."""
        (ask,) = self.asks()
        domains = load_domains()
        shown = {
            "max_examples": 0 if context.short else self.options.examples,
            "max_steps": min(self.options.max_steps, _STEPS_WHEN_SHORT) if context.short else self.options.max_steps,
        }

        def values(turn: Turn) -> dict[str, Any]:
            return {**turn.values, **shown, "domain": domains.get(turn.domain or "", domains[_FALLBACK_DOMAIN])}

        for turn, answer in context.ask_each(ask, turns, values):
            if not answer.failed:
                turn.draft = answer.value
            draft = turn.draft or Draft((), None, "")
            turn.found(answers={DRAFT: draft.answer or None})
            turn.note(steps=list(draft.steps), object=draft.object_name)
