"""MAVIS: metrics of how informative and how well grounded long cited answers are (sections 4 and 5.6 of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Protocol

from PIL import Image

MODALITIES = ("text", "image")


@dataclass(frozen=True)
class Document:
    """A retrieved document; citations name it by its ``number``."""

    number: int
    modality: str
    title: str
    text: str


@dataclass(frozen=True)
class Sentence:
    """A sentence a_i without markers and its citations C_i; an unknown number supports nothing."""

    text: str
    citations: tuple[int, ...] = ()


@dataclass(frozen=True)
class LongAnswer:
    """An answer A (sentences a_1..a_n), its question Q, the ground truth G and all retrieved documents.

    ``photo`` opens the picture I of the question. It returns None if the picture is unknown or cannot be opened.
    """

    question: str
    truth: str
    sentences: tuple[Sentence, ...]
    documents: tuple[Document, ...]
    accept: tuple[str, ...] = ()
    photo: Callable[[], Image.Image | None] = lambda: None

    @property
    def text(self) -> str:
        """All sentences, without citations."""
        return " ".join(sentence.text for sentence in self.sentences)

    def cited_documents(self, sentence: Sentence) -> tuple[Document | None, ...]:
        """Return the documents that a sentence cites, None for each unknown number."""
        by_number = {document.number: document for document in self.documents}
        return tuple(by_number.get(number) for number in dict.fromkeys(sentence.citations))


class Grader(Protocol):
    """Judge model or rule that gives the grades 0, 0.5 or 1 which the metrics average."""

    name: str

    def facts(self, truth: str) -> tuple[str, ...]:
        """Split a ground truth into atomic facts."""

    def completeness(self, fact: str, answer: LongAnswer) -> float:
        """Grade how thoroughly the answer says a fact of the ground truth: c(g_j, A)."""

    def relevance(self, sentence: Sentence, answer: LongAnswer) -> float:
        """Grade how relevant a sentence is to the question: r(a_i, Q, I)."""

    def support(self, sentence: Sentence, documents: Sequence[Document], answer: LongAnswer) -> float:
        """Grade how well documents, taken together, support a sentence: s(a_i, C)."""


@dataclass(frozen=True)
class ModalityScores:
    """An answer's use of the documents of one modality (section 5.6).

    Attributes:
        retrieved: Documents that were retrieved.
        used: Those of them that are cited at least once.
        groundedness: Mean support over the citations; None without citations.
    """

    retrieved: int
    used: int
    groundedness: float | None

    @property
    def utilisation(self) -> float | None:
        """Share of the retrieved documents that is used."""
        return self.used / self.retrieved if self.retrieved else None


@dataclass(frozen=True)
class AnswerScores:
    """Metrics of one answer, each 0 to 1."""

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
    """Return the harmonic mean, 0 if both are 0."""
    return 2 * one * other / (one + other) if one + other > 0 else 0.0


def completeness(answer: LongAnswer, grader: Grader) -> float:
    """Average c(g_j, A) over the facts g_j (section 4.1).

    Returns:
        0 for an answer that says nothing, or a ground truth without facts.
    """
    if not answer.sentences:
        return 0.0
    return _mean(grader.completeness(fact, answer) for fact in grader.facts(answer.truth))


def relevance(answer: LongAnswer, grader: Grader) -> float:
    """Average r(a_i, Q, I) over the sentences a_i (section 4.1)."""
    return _mean(grader.relevance(sentence, answer) for sentence in answer.sentences)


def recall(answer: LongAnswer, grader: Grader) -> float:
    """Average s(a_i, C_i) over the sentences; one without citation counts 0 (section 4.2)."""
    return _mean(_support(sentence, answer.cited_documents(sentence), answer, grader) for sentence in answer.sentences)


def precision(answer: LongAnswer, grader: Grader) -> float:
    """Average s(a_i, c_ij) over the citations of each sentence, then over the sentences (section 4.2).

    The paper does not say what a sentence without citation counts (it divides by |C_i|); here 0, as in the recall.
    """
    return _mean(
        _mean(_support(sentence, (document,), answer, grader) for document in answer.cited_documents(sentence))
        for sentence in answer.sentences
    )


def score_modality(answer: LongAnswer, modality: str, grader: Grader) -> ModalityScores:
    """Score the use of one modality's documents (section 5.6).

    Groundedness is that of the single citations ("using precision rather than recall").
    """
    grades, used = [], set()
    for sentence in answer.sentences:
        for document in answer.cited_documents(sentence):
            if document is not None and document.modality == modality:
                grades.append(grader.support(sentence, [document], answer))
                used.add(document.number)
    retrieved = sum(document.modality == modality for document in answer.documents)
    return ModalityScores(retrieved, len(used), fmean(grades) if grades else None)


def score(answer: LongAnswer, grader: Grader) -> AnswerScores:
    """Compute all metrics of one answer."""
    return AnswerScores(
        completeness(answer, grader),
        relevance(answer, grader),
        recall(answer, grader),
        precision(answer, grader),
        {modality: score_modality(answer, modality, grader) for modality in MODALITIES},
    )


def average_scores(scores: Sequence[AnswerScores]) -> dict[str, Any]:
    """Average the scores of answers into the row of tables 4 and 5; None for an average over nothing.

    F1 is averaged over the answers. The F1-scores printed in table 4 are not those of the printed means (LLaVA-OneVision with
    Text-RAG: complete 26.0 and relevant 78.0 would give 39.0, printed is 31.9).
    """
    values: dict[str, list[float | None]] = {
        name: [getattr(item, name) for item in scores]
        for name in ("informativeness", "completeness", "relevance", "groundedness", "recall", "precision")
    }
    for modality in MODALITIES:
        for name in ("retrieved", "used", "utilisation", "groundedness"):
            values[f"{modality} {name}"] = [getattr(item.modalities[modality], name) for item in scores]
    numbers = {name: [value for value in column if value is not None] for name, column in values.items()}
    return {"answers": len(scores), **{name: fmean(column) if column else None for name, column in numbers.items()}}


def _support(sentence: Sentence, documents: Sequence[Document | None], answer: LongAnswer, grader: Grader) -> float:
    there = [document for document in documents if document is not None]
    return grader.support(sentence, there, answer) if there else 0.0


def _mean(grades: Iterable[float]) -> float:
    values = list(grades)
    return fmean(values) if values else 0.0
