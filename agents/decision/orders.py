"""Orders in the evidence: an answer that does what a retrieved text told the model to is withheld (``agents/texts/orders.py``)."""

from agents.decision.rule import Rule, RuleContext
from agents.evidence.shown import select_documents
from agents.methods.candidates import trusts_draft
from agents.record import FOLLOWS_ORDERS
from agents.texts.orders import rests_on_orders
from agents.turn import Turn


class Orders(Rule):
    """An answer may not rest on an order alone if ``guard.injection`` is on. A draft is exempt: it precedes all retrieval."""

    def reason(self, turn: Turn, context: RuleContext) -> str | None:
        """Withhold an answer whose names and numbers stand in orders alone."""
        if not context.guarded or trusts_draft(turn):
            return None
        evidence, user_messages = _read_by_the_model(turn)
        return (
            FOLLOWS_ORDERS if rests_on_orders(context.candidate.text, turn.question, evidence, user_messages) else None
        )


def _read_by_the_model(turn: Turn) -> tuple[list[tuple[str, str]], list[str]]:
    """Return title and text of the retrieved evidence that the answering model read, and what the user said before."""
    chunks = turn.shown or select_documents(turn.evidence)
    evidence = [(chunk.title, chunk.text) for chunk in chunks if chunk.source != "step"]
    entries = [(entry.title, entry.text) for entry in turn.entries]
    return [*evidence, *entries, (turn.entity_name or "", "")], [
        each["content"] for each in turn.history if each["role"] == "user"
    ]
