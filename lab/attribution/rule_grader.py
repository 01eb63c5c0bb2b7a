"""A grader by rule, for runs without a judge model: it counts words and figures, knows no synonyms, and errs on the strict side.

The rule:

- **Facts** of a ground truth are its sentences (those of CRAG-MM are mostly one).
- **Completeness** of an answer that the rule judge calls right is 1. Otherwise it goes by the share of the fact's content words, those
  of the question aside, that the answer has: 1 from ``FULL`` on, 0.5 from ``PARTIAL`` on; a figure of the fact that the answer lacks
  makes it 0.5 at most.
- **Relevance** goes by the share of a sentence's content words that occur in the question, the ground truth or the accept forms: 1 from
  ``PARTIAL`` on, 0.5 where there is one at all.
- **Support** goes by the share of a sentence's content words that occur in the documents, titles included: 1 from ``FULL`` on, 0.5 from
  ``PARTIAL`` on; a figure that occurs in none of them makes it 0 (figures are
  compared by value, see ``quantities``).

An image document is read as what the knowledge graph says of it: the rule sees no pictures.
"""

from __future__ import annotations

from collections.abc import Sequence

import sentencex

from evaluation.judge.answer_text import AnswerText
from evaluation.judge.quantities import agrees_with_any
from evaluation.judge.rule_judge import RuleJudge
from evaluation.records import JudgeItem
from lab.attribution.mavis import Document, LongAnswer, Sentence

FULL = 0.8
"""Least share of the words for a grade of 1."""

PARTIAL = 0.5
"""Least share of the words for a grade of 0.5."""


class RuleGrader:
    """Grader by the rule in the module's docstring."""

    name = "rule"

    def __init__(self) -> None:
        self._judge = RuleJudge()

    def facts(self, truth: str) -> tuple[str, ...]:
        """Split the ground truth into sentences."""
        return tuple(sentence.strip() for sentence in sentencex.segment("en", truth) if sentence.strip())

    def completeness(self, fact: str, answer: LongAnswer) -> float:
        """See ``Grader.completeness``."""
        if self._judge.judge(JudgeItem(answer.question, answer.truth, answer.text, answer.accept)).correct:
            return 1.0
        fact_text, reply_text, question_words = (
            AnswerText(fact),
            AnswerText(answer.text),
            set(AnswerText(answer.question).content),
        )
        words = [word for word in fact_text.content if word not in question_words] or fact_text.content
        grade = _grade(_share(words, reply_text.words))
        figures = all(agrees_with_any(quantity, reply_text.quantities) for quantity in fact_text.quantities)
        return grade if figures else min(grade, 0.5)

    def relevance(self, sentence: Sentence, answer: LongAnswer) -> float:
        """See ``Grader.relevance``."""
        words = AnswerText(sentence.text).content
        reference_words = frozenset().union(
            *(AnswerText(text).words for text in (answer.question, answer.truth, *answer.accept))
        )
        share = _share(words, reference_words)
        return 1.0 if share >= PARTIAL else 0.5 if share > 0 else 0.0

    def support(self, sentence: Sentence, documents: Sequence[Document], answer: LongAnswer) -> float:
        """See ``Grader.support``; the question's own words need no document."""
        claim = AnswerText(sentence.text)
        document_texts = [AnswerText(f"{document.title}: {document.text}") for document in documents]
        figures = [quantity for text in document_texts for quantity in text.quantities]
        answered_question = AnswerText(answer.question)
        if not all(
            agrees_with_any(quantity, [*figures, *answered_question.quantities]) for quantity in claim.quantities
        ):
            return 0.0
        own = claim.figure_words
        words = [word for word in claim.content if word not in answered_question.words and word not in own]
        if not words:
            words = [] if claim.quantities else claim.content
        return _grade(
            _share(words, frozenset().union(*(text.words for text in document_texts)), empty=bool(claim.quantities))
        )


def _share(words: Sequence[str], vocabulary: frozenset[str], *, empty: bool = False) -> float:
    """Return the share of the words that are known; ``empty`` for no words."""
    unique = set(words)
    return len(unique & vocabulary) / len(unique) if unique else float(empty)


def _grade(share: float) -> float:
    return 1.0 if share >= FULL else 0.5 if share >= PARTIAL else 0.0
