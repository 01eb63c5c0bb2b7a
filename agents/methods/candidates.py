"""Possible answers of turns."""

from collections.abc import Sequence

from agents.methods.token_probabilities import summarise_probabilities
from agents.texts.refusals import refuses
from agents.turn import IDK, Candidate, Draft, Turn


def select_answered(turns: Sequence[Turn]) -> list[tuple[Turn, Candidate]]:
    """Return the turns whose candidate asserts something, each with its candidate."""
    pairs = ((turn, turn.candidate) for turn in turns)
    return [(turn, candidate) for turn, candidate in pairs if candidate is not None and not refuses(candidate.text)]


def convert_draft(draft: Draft) -> Candidate:
    """Convert a draft to a candidate answer."""
    statistics = summarise_probabilities(draft.logprobs)
    return Candidate(
        draft.answer or IDK,
        statistics.mean if statistics else None,
        draft.logprobs,
        reasoning=draft.reasoning,
        drafted=True,
    )


def trusts_draft(turn: Turn) -> bool:
    """Return whether the answer is a draft that is given unverified (QA-Dragon, table 1: the direct branch)."""
    return turn.route == "direct" and turn.candidate is not None and turn.candidate.drafted
