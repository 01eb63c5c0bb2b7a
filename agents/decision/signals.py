"""The signals of a candidate that cost no call: what a gate looks at, and what the trace notes for fitting one."""

from agents.methods.gate import GateSignals
from agents.methods.token_probabilities import token_probabilities
from agents.turn import Turn


def signals_of(turn: Turn, provided: bool = False) -> GateSignals:
    """Return what the fields of a turn tell of its candidate.

    Args:
        turn: A turn whose stages have run.
        provided: Whether the evidence came with the call.
    """
    candidate, chunks = turn.candidate, turn.evidence[:1]
    statistics = token_probabilities(candidate.logprobs) if candidate is not None else None
    agrees = turn.consistent if turn.consistent is not None else turn.verification.draft
    return GateSignals(
        p_idk=candidate.idk if candidate is not None else None,
        p_yes=turn.verification.p_yes,
        min_probability=statistics.minimum if statistics is not None else None,
        mean_probability=statistics.mean if statistics is not None else None,
        agreement=None if agrees is None else float(agrees),
        chain_confidence=turn.chain.confidence if turn.chain is not None else None,
        evidence_score=max((chunk.score for chunk in turn.evidence if chunk.score is not None), default=None),
        no_evidence=float(not chunks),
        entity_score=turn.entity_score if turn.entity is not None and not provided else None,
        entity_margin=None if provided else _entity_margin(turn),
        no_entity=float(turn.needs_image and turn.entity is None),
        entity_named=None if provided else _entity_named(turn),
        provided_evidence=float(provided),
    )


def _entity_named(turn: Turn) -> float | None:
    """Return 1 where the entity's name stands in a query, else 0; None where nothing was asked of the web."""
    if not turn.queries:
        return None
    name = (turn.entity_name or "").lower()
    return float(bool(name) and any(name in query.lower() for query in turn.queries))


def _entity_margin(turn: Turn) -> float | None:
    """Return how much nearer the entity's picture is than that of another entity; None where no other was found."""
    if turn.entity is None:
        return None
    hits = [*turn.image_hits, *(hit for view in turn.views for hit in view.hits)]
    others = [hit.score for hit in hits if hit.entities and all(it.name != turn.entity.name for it in hit.entities)]
    return turn.entity_score - max(others) if others else None
