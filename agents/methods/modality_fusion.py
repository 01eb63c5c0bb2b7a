"""Rules that choose among the answers of several modalities (MoqaGPT, as described in semantic coherence filtering, section 3.3)."""

from collections.abc import Sequence
from itertools import combinations

from agents.english.knowledge_conflict import is_same_answer
from agents.turn import Candidate


def all_agree(answers: Sequence[str], question: str = "") -> bool:
    """Return whether all answers to a question say the same, compared in pairs. A single answer agrees, and so do none."""
    return all(is_same_answer(one, other, question) for one, other in combinations(answers, 2))


def select_most_trusted(candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the candidate of the highest confidence, the first of equal ones; None without candidates.

    A missing confidence counts lowest.
    """
    return max(candidates, key=lambda each: -1.0 if each.confidence is None else each.confidence, default=None)
