"""The rules of one condition each: citations, orders in the evidence, the lead over other sources, the present, P(idk)."""

from pydantic import Field

from agents.decision.answer_form import adds_only_name
from agents.decision.rule import Rule, RuleContext, RuleOptions
from agents.english.references import points_at_picture
from agents.evidence.shown import select_documents
from agents.methods.candidates import trusts_draft
from agents.record import FOLLOWS_ORDERS, UNSURE_NAME
from agents.texts.orders import rests_on_orders
from agents.turn import IDK, Turn


class Citations(Rule):
    """An answer whose citations were checked needs a sentence that is left (MAVIS)."""

    class Options(RuleOptions):
        cite: bool = Field(
            False, description="answers carry [n]; the stage cite runs before this one, whatever the preset"
        )

    options: Options

    def needs(self) -> tuple[str, ...]:
        """Return the stage that checks markers if answers carry them."""
        return ("cite",) if self.options.cite else ()

    def reason(self, turn: Turn, context: RuleContext) -> str | None:  # noqa: ARG002 - a rule is given both
        """Withhold an answer all of whose sentences were dropped."""
        return "no sentence of the answer is supported" if turn.cited is not None and not turn.cited else None


class Orders(Rule):
    """An answer may not rest on an order alone if ``guard.injection`` is on. A draft is exempt: it precedes all retrieval."""

    def reason(self, turn: Turn, context: RuleContext) -> str | None:
        """Withhold an answer whose names and numbers are in orders alone."""
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


class MinLead(Rule):
    """An answer has to lead by so many votes every other that sources give, each asked alone (``agents/methods/source_votes.py``)."""

    class Options(RuleOptions):
        min_lead: int | None = Field(
            None,
            description="minimum lead in votes over every other answer, when each source is asked alone; it adds the stage "
            "isolated_answers to the preset; None: sources are not asked alone",
        )
        lead_decides: bool = Field(
            True, description="withhold an answer with a smaller lead; false: the lead is a signal for the gate alone"
        )

    options: Options

    def needs(self) -> tuple[str, ...]:
        """Return the stage that asks each source alone if a lead is required."""
        return ("isolated_answers",) if self.options.min_lead is not None else ()

    def reason(self, turn: Turn, context: RuleContext) -> str | None:  # noqa: ARG002 - a rule is given both
        """Withhold an answer whose lead is too small. With a single source no votes are counted."""
        minimum = self.options.min_lead if self.options.lead_decides else None
        if minimum is None or turn.votes is None or turn.votes.lead >= minimum:
            return None
        return "a source gives a different answer" if turn.votes.rival else "no source alone gives the answer"


class RealTime(Rule):
    """Questions about the present, by the first look or by ``route``, are answered only from a source that the answer names."""

    class Options(RuleOptions):
        abstain_real_time: bool = Field(False, description="abstain on questions about the present moment")

    options: Options

    def reason(self, turn: Turn, context: RuleContext) -> str | None:
        """Withhold an answer to such a question that names neither the photo nor a retrieved source."""
        is_present = self.options.abstain_real_time and turn.real_time
        is_unsourced = context.candidate.origin in (None, "own")
        return "the question is about the present moment" if is_present and is_unsourced else None


class Unrecognised(Rule):
    """Questions that point at a photo are not answered from pages if nothing says which thing it shows."""

    class Options(RuleOptions):
        abstain_unrecognised: bool = Field(
            False,
            description="abstain on questions that point at a photo in which neither a thing nor a text is recognised",
        )

    options: Options

    def reason(self, turn: Turn, context: RuleContext) -> str | None:
        """Withhold an answer for which no evidence is of the photo; a model that sees may answer from the photo alone."""
        if not self.options.abstain_unrecognised or context.sees or turn.image is None:
            return None
        was_read = any(exchange.read for record in turn.records for exchange in record.exchanges)
        is_known = was_read or bool(turn.shown_entities())
        return None if is_known or not points_at_picture(turn.question) else "nothing in the photo is recognised"


class UnsureName(Rule):
    """The name of what was recognised is an answer only if that is sure: photos of what the graph lacks resemble something in it."""

    class Options(RuleOptions):
        abstain_unsure_name: bool = Field(
            False,
            description="withhold the name of what was recognised as an answer, unless `select_entity` is sure of it",
        )

    options: Options

    def reason(self, turn: Turn, context: RuleContext) -> str | None:
        """Withhold an answer that adds to the question nothing but an unsure name.

        A model that sees knows names itself, and of results that came with the call no cosine is known.
        """
        entity = turn.entity if "entity_score" in context.signals else None
        if not self.options.abstain_unsure_name or context.sees or entity is None or entity in turn.sure_entities:
            return None
        is_name = not turn.entities and adds_only_name(turn.question, context.candidate.text, entity.name)
        return UNSURE_NAME if is_name else None


class MaxIdk(Rule):
    """An answer whose model nearly said that it does not know is withheld; a gate, which reads the same signal, takes its place.

    The signal is that of task 2's winner (github.com/rbiswasfc/crag-mm).
    """

    class Options(RuleOptions):
        max_idk: float | None = Field(
            None,
            ge=0,
            le=1,
            description="without a gate: abstain where P(\"I don't know\") of the reply's beginning is above this; None: never",
        )

    options: Options
    fitted = True

    def reason(self, turn: Turn, context: RuleContext) -> str | None:  # noqa: ARG002 - a rule is given both
        """Withhold an answer above the cut; an unknown probability passes."""
        most, idk = self.options.max_idk, context.candidate.idk
        if context.gated or most is None or idk is None or not idk > most:
            return None
        return f"the reply would have been {IDK!r} with {idk:.3f}, above {most}"
