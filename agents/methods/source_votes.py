"""Isolate-then-aggregate (RobustRAG, Xiang et al., arXiv 2405.15556): do the sources of an answer, each asked alone, agree with it?

A text that a stranger planted changes the answers of its own source alone, so one source cannot outvote the others. RobustRAG counts the
keywords of isolated responses; here the names and numbers of an answer are its keywords.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agents.english.knowledge_conflict import get_given_words, is_same_answer, says_something
from agents.texts.orders import answer_keywords, words_in
from agents.turn import SourceVotes

GRAPH_VOTES = 2
"""Votes of the image knowledge graph: strangers write pages and signs, not the graph. One page cannot overrule it, two that agree can."""


@dataclass(frozen=True)
class Vote:
    """Answer of the model from one source alone."""

    answer: str
    votes: int = 1


def is_supported_by(answer: str, question: str, texts: Iterable[str]) -> bool:
    """Return whether texts contain every name and number that an answer adds to its question.

    A made-up answer is not the vote of its source.
    """
    added = answer_keywords(answer, question)
    return bool(added) and added <= {word for text in texts for word in words_in(text)}


def is_same_claim(first: str, second: str, question: str) -> bool:
    """Return whether two answers agree in words, or in the names and numbers that they add to the question."""
    if is_same_answer(first, second, question):
        return True
    one, other = (answer_keywords(answer, get_given_words(question)) for answer in (first, second))
    return bool(one and other) and (one <= other or other <= one)


def count_votes(answer: str, question: str, votes: Sequence[Vote]) -> SourceVotes:
    """Count the votes for an answer, and those of the largest group that agrees on another one.

    Refusals do not vote.
    """
    claims = [vote for vote in votes if says_something(vote.answer)]
    supporting = sum(vote.votes for vote in claims if is_same_claim(vote.answer, answer, question))
    others = [vote for vote in claims if not is_same_claim(vote.answer, answer, question)]
    groups = [
        (sum(vote.votes for vote in others if is_same_claim(vote.answer, each.answer, question)), each.answer)
        for each in others
    ]
    opposing, rival = max(groups, key=lambda group: group[0], default=(0, None))
    return SourceVotes(supporting, opposing, rival)
