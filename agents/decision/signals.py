"""Signals of a candidate that cost no call. ``finalise`` declares and records these; other stages declare and record their own."""

import math
from collections.abc import Mapping

from agents.methods.token_probabilities import summarise_probabilities
from agents.record import Signal, SignalKind
from agents.turn import Turn

SIGNALS = (
    SignalKind("p_idk", 'probability that the reply would have begun with "I don\'t know", 0 to 1', negative=True),
    SignalKind("p_yes", "probability of the verdict's yes against its no, 0 to 1"),
    SignalKind("min_probability", "lowest probability of the answer's tokens, 0 to 1"),
    SignalKind("mean_probability", "mean probability of the answer's tokens, 0 to 1"),
    SignalKind("agreement", "1 if answers with and without evidence agree (`consistency`, or a draft), else 0"),
    SignalKind("chain_confidence", "confidence of the chain of verification, 0 to 1"),
    SignalKind("evidence_score", "best score of a chunk after reranking"),
    SignalKind("no_evidence", "1 if there is no chunk to answer from, else 0", negative=True),
    SignalKind("entity_score", "cosine of the picture that named the entity"),
    SignalKind(
        "no_entity",
        "1 if the question is about the picture and no entity was recognised, else 0; missing if no image search was made",
        negative=True,
    ),
    SignalKind("entity_named", "1 if the entity was sure enough to be named in a web query, else 0"),
    SignalKind("provided_evidence", "1 if the evidence came with the call, else 0", negative=True),
)


def read_signals(turn: Turn, provided: bool = False) -> dict[str, float]:
    """Return the values of ``SIGNALS`` known of a turn's candidate, by name.

    Args:
        turn: A turn whose stages have run.
        provided: Whether the evidence came with the call. It was found with the whole picture and the bare question and tells no cosines,
            so that ``entity_score`` and ``entity_named`` are not known then.
    """
    candidate = turn.candidate
    statistics = summarise_probabilities(candidate.logprobs) if candidate is not None else None
    agrees = turn.consistent if turn.consistent is not None else turn.verification.draft
    values = {
        "p_idk": candidate.idk if candidate is not None else None,
        "p_yes": turn.verification.p_yes,
        "min_probability": statistics.minimum if statistics is not None else None,
        "mean_probability": statistics.mean if statistics is not None else None,
        "agreement": None if agrees is None else float(agrees),
        "chain_confidence": turn.chain.confidence if turn.chain is not None else None,
        "evidence_score": max((chunk.score for chunk in turn.evidence if chunk.score is not None), default=None),
        "no_evidence": float(not turn.evidence),
        "entity_score": turn.entity_score if turn.entity is not None and not provided else None,
        "no_entity": _no_entity(turn),
        "entity_named": None if provided else _entity_named(turn),
        "provided_evidence": float(provided),
    }
    return {name: value for name, value in values.items() if value is not None and math.isfinite(value)}


def convert_to_signals(values: Mapping[str, float]) -> dict[str, Signal]:
    """Return values of ``SIGNALS`` as the record of a turn has them: rounded, each with its direction."""
    return {kind.name: Signal(round(values[kind.name], 6), kind.negative) for kind in SIGNALS if kind.name in values}


def _no_entity(turn: Turn) -> float | None:
    """Return 1 if the picture was searched with and nothing was recognised, else 0; None if it was not searched with."""
    if turn.needs_image and turn.entity is None:
        return 1.0 if turn.tools.image else None
    return 0.0


def _entity_named(turn: Turn) -> float | None:
    """Return 1 if a query contains the entity's name, else 0; None if nothing was searched on the web, or without a picture."""
    if not turn.queries or turn.image is None:
        return None
    name = (turn.entity_name or "").lower()
    return float(bool(name) and any(name in query.lower() for query in turn.queries))
