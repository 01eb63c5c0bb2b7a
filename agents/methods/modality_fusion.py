"""Which of the answers from several modalities to give, as far as rules can say (MoqaGPT, in semantic coherence filtering, section 3.3)."""

from collections.abc import Sequence
from itertools import combinations

from agents.methods.knowledge_conflict import same_answer
from agents.turn import Candidate


def agree(answers: Sequence[str]) -> bool:
    """Whether all say the same, each with each other; one alone and none do."""
    return all(same_answer(one, other) for one, other in combinations(answers, 2))


def most_trusted(candidates: Sequence[Candidate]) -> Candidate | None:
    """The one with the highest confidence, the first of equals; without a confidence it counts lowest. None where there is none."""
    return max(candidates, key=lambda each: -1.0 if each.confidence is None else each.confidence, default=None)
