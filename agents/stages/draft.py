from collections.abc import Sequence
from typing import Any

from agents.asking.ask import Ask
from agents.asking.readers.drafts import draft_form
from agents.methods.domains import load_domains
from agents.record import DRAFT
from agents.stage import Context, Stage
from agents.turn import Draft, Turn

_FALLBACK_DOMAIN = "other"
_EXAMPLES = 2  # worked examples of the domain shown: "a small number" (QA-Dragon, section 3.1.2)
_MAX_STEPS = 5  # reasoning steps (appendix A: at most 5)
_STEPS_WHEN_SHORT = 2

ASK = Ask("draft", draft_form(_MAX_STEPS))


class DraftStage(Stage):
    """Drafts a provisional answer by chain of thought with worked examples of the domain (QA-Dragon, section 3.1.2); one batched call."""

    fills = ("draft",)
    doing = "drafting an answer"
    when_short = f"no examples, {_STEPS_WHEN_SHORT} steps"
    asks = (ASK,)
    min_seconds, wanted_seconds = 2.0, 4.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``draft``."""
        domains = load_domains()
        limits = {
            "max_examples": 0 if context.short else _EXAMPLES,
            "max_steps": _STEPS_WHEN_SHORT if context.short else _MAX_STEPS,
        }

        def values(turn: Turn) -> dict[str, Any]:
            return {**turn.values, **limits, "domain": domains.get(turn.domain or "", domains[_FALLBACK_DOMAIN])}

        for turn, answer in context.ask_each(ASK, turns, values):
            if not answer.failed:
                turn.draft = answer.value
            draft = turn.draft or Draft((), None, "")
            turn.record(answers={DRAFT: draft.answer or None})
            turn.note(steps=list(draft.steps), object=draft.object_name)
