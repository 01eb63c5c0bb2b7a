"""MAVIS: how informative and how well grounded long answers with citations are (sections 4 and 5.6 of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Protocol

from PIL import Image

GRADES = (0.0, 0.5, 1.0)
"""Not, partially and fully relevant (sections 4.1 and 4.2)."""

MODALITIES = ("text", "image")


@dataclass(frozen=True)
class Document:
    """A retrieved document; ``number`` is what a citation names it by."""

    number: int
    modality: str
    title: str
    text: str


@dataclass(frozen=True)
class Sentence:
    """A sentence a_i without markers and the numbers C_i that it cites; a number that no document has supports nothing."""

    text: str
    citations: tuple[int, ...] = ()


@dataclass(frozen=True)
class LongAnswer:
    """An answer A (sentences a_1..a_n) with the question Q, the ground-truth answer G and all documents that were retrieved.

    ``photo`` opens the picture I that was asked about; None where it is not known, or cannot be opened.
    """

    question: str
    truth: str
    sentences: tuple[Sentence, ...]
    documents: tuple[Document, ...]
    accept: tuple[str, ...] = ()
    photo: Callable[[], Image.Image | None] = lambda: None

    @property
    def text(self) -> str:
        """All of its sentences, without citations."""
        return " ".join(sentence.text for sentence in self.sentences)

    def cited(self, sentence: Sentence) -> tuple[Document | None, ...]:
        """The documents that a sentence cites; None for a number that no document has."""
        by_number = {document.number: document for document in self.documents}
        return tuple(by_number.get(number) for number in dict.fromkeys(sentence.citations))


class Grader(Protocol):
    """Gives the grades 0, 0.5 or 1 that the metrics average: a judge model or a rule."""

    name: str

    def facts(self, truth: str) -> tuple[str, ...]:
        """The atomic facts of a ground truth."""

    def completeness(self, fact: str, answer: LongAnswer) -> float:
        """c(g_j, A): how thoroughly the answer says a fact of the ground truth."""

    def relevance(self, sentence: Sentence, answer: LongAnswer) -> float:
        """r(a_i, Q, I): how far a sentence speaks to the question."""

    def support(self, sentence: Sentence, documents: Sequence[Document], answer: LongAnswer) -> float:
        """s(a_i, C): how far documents, taken together, support a sentence."""


@dataclass(frozen=True)
class ModalityScores:
    """What an answer makes of the documents of one modality (section 5.6); None where there is nothing to average.

    ``used`` are those of the retrieved that are cited at least once; ``groundedness`` is the mean support over the citations.
    """

    retrieved: int
    used: int
    groundedness: float | None

    @property
    def utilisation(self) -> float | None:
        """The share of the retrieved documents that is used."""
        return self.used / self.retrieved if self.retrieved else None


@dataclass(frozen=True)
class AnswerScores:
    """The metrics of one answer, each 0 to 1."""

    completeness: float
    relevance: float
    recall: float
    precision: float
    modalities: dict[str, ModalityScores]

    @property
    def informativeness(self) -> float:
        """F1 of completeness and relevance."""
        return f1(self.completeness, self.relevance)

    @property
    def groundedness(self) -> float:
        """F1 of recall and precision."""
        return f1(self.recall, self.precision)


def f1(one: float, other: float) -> float:
    """The harmonic mean; 0 where both are 0."""
    return 2 * one * other / (one + other) if one + other > 0 else 0.0


def completeness(answer: LongAnswer, grader: Grader) -> float:
    """Section 4.1: the mean over the facts g_j of c(g_j, A); 0 for an answer that says nothing or a truth without facts."""
    if not answer.sentences:
        return 0.0
    return _mean(grader.completeness(fact, answer) for fact in grader.facts(answer.truth))


def relevance(answer: LongAnswer, grader: Grader) -> float:
    """Section 4.1: the mean over the sentences a_i of r(a_i, Q, I)."""
    return _mean(grader.relevance(sentence, answer) for sentence in answer.sentences)


def recall(answer: LongAnswer, grader: Grader) -> float:
    """Section 4.2: the mean over the sentences of s(a_i, C_i); a sentence without citation counts 0."""
    return _mean(_support(sentence, answer.cited(sentence), answer, grader) for sentence in answer.sentences)


def precision(answer: LongAnswer, grader: Grader) -> float:
    """Section 4.2: the mean over the sentences of the mean over their citations of s(a_i, c_ij).

    The paper does not say what a sentence without citation counts (it divides by |C_i|); here 0, as in the recall.
    """
    return _mean(
        _mean(_support(sentence, (document,), answer, grader) for document in answer.cited(sentence))
        for sentence in answer.sentences
    )


def of_modality(answer: LongAnswer, modality: str, grader: Grader) -> ModalityScores:
    """Section 5.6: groundedness is that of the single citations ("using precision rather than recall")."""
    grades, used = [], set()
    for sentence in answer.sentences:
        for document in answer.cited(sentence):
            if document is not None and document.modality == modality:
                grades.append(grader.support(sentence, [document], answer))
                used.add(document.number)
    retrieved = sum(document.modality == modality for document in answer.documents)
    return ModalityScores(retrieved, len(used), fmean(grades) if grades else None)


def score(answer: LongAnswer, grader: Grader) -> AnswerScores:
    """All metrics of one answer."""
    return AnswerScores(
        completeness(answer, grader),
        relevance(answer, grader),
        recall(answer, grader),
        precision(answer, grader),
        {modality: of_modality(answer, modality, grader) for modality in MODALITIES},
    )


def summary(scores: Sequence[AnswerScores]) -> dict[str, Any]:
    """The row of tables 4 and 5: means over the answers; None where no answer has what is averaged.

    F1 is that of each answer, averaged: the F1-scores printed in table 4 are not those of the printed means (LLaVA-OneVision with
    Text-RAG: complete 26.0 and relevant 78.0 would give 39.0, printed is 31.9).
    """
    values: dict[str, list[float | None]] = {
        name: [getattr(item, name) for item in scores]
        for name in ("informativeness", "completeness", "relevance", "groundedness", "recall", "precision")
    }
    for modality in MODALITIES:
        for name in ("retrieved", "used", "utilisation", "groundedness"):
            values[f"{modality} {name}"] = [getattr(item.modalities[modality], name) for item in scores]
    known = {name: [value for value in found if value is not None] for name, found in values.items()}
    return {"answers": len(scores), **{name: fmean(found) if found else None for name, found in known.items()}}


def _support(sentence: Sentence, documents: Sequence[Document | None], answer: LongAnswer, grader: Grader) -> float:
    there = [document for document in documents if document is not None]
    return grader.support(sentence, there, answer) if there else 0.0


def _mean(grades: Iterable[float]) -> float:
    known = list(grades)
    return fmean(known) if known else 0.0
