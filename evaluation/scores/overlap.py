"""Overlap: how much of the ground truth's wording an answer holds (the second score of QA-Dragon's tables 2 to 4)."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from evaluation.judge.plain_text import content, plain, tokens
from evaluation.records import AnsweredTurn


def overlap(answer: str, ground_truth: str) -> float:
    """Share of the ground truth's content words that stand in the answer, 0 to 1.

    QA-Dragon (section 4.1) calls it "rule-based Overlap matching" of entities and gives no formula; this is its plain
    reading as a recall of words: both texts are normalised (case, accents, number words, plurals), stopwords are left
    out, each word counts once. It says nothing of the answer's other words, so a long answer has it easier. A ground
    truth of stopwords alone ("It is.") is compared by all of its words.
    """
    wanted = set(content(plain(ground_truth)))
    said = plain(answer)
    if not wanted:
        wanted = set(tokens(plain(ground_truth)))
        return len(wanted & set(tokens(said))) / len(wanted) if wanted else 0.0
    return len(wanted & set(content(said))) / len(wanted)


def mean_overlap(turns: Iterable[AnsweredTurn]) -> float:
    """Mean overlap of the turns' answers; 0 where there is none."""
    shares = [overlap(turn.agent_response, turn.ground_truth) for turn in turns]
    return fmean(shares) if shares else 0.0
