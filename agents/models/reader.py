"""Reads an answer out of passages, word for word: the reader of the embedded profile.

No free package carries the weights of an extractive question-answering model. This reader is built on a sentence
encoder instead: what a question asks for (answer type, relation, entity) is told by the tables in
``data/answer_types.toml``, candidate spans are found by their shape, a logistic regression over a few features picks
one, and another says how likely it is right (``data/reader_weights.toml``, fitted by ``python -m training.reader``). It
answers only with what stands in a passage.
"""

from __future__ import annotations

import math
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Protocol, runtime_checkable

from agents.models.base import ModelError, TextEncoder
from agents.models.reading.candidates import Candidate, CandidateFinder, Features, Sentence, Similarity
from agents.models.reading.lexicon import stems
from agents.models.reading.question import Question, parse_question
from agents.models.reading.sentences import split_sentences


@dataclass(frozen=True)
class Passage:
    """Something to read.

    Attributes:
        text: The text; for an attribute, the sentence it was made into.
        title: Name of the page or of the entity.
        key: Attribute key ("height"), for an attribute.
        value: Attribute value in plain text ("330 m (1,083 ft)"), for an attribute.
        score: How relevant a search or a reranker found it; only the order and the proportions within one request count.
    """

    text: str
    title: str
    key: str | None = None
    value: str | None = None
    score: float = 0.0


@dataclass(frozen=True)
class ReadRequest:
    """A question and the passages to read."""

    question: str
    passages: tuple[Passage, ...]


@dataclass(frozen=True)
class Extraction:
    """An answer found.

    Attributes:
        answer: A short span or an attribute value; empty where nothing could answer.
        sentence: The sentence that says so.
        passage: Index of its passage in the request; -1 where there is none.
        score: Estimated probability that the answer is right, 0 to 1.
    """

    answer: str
    sentence: str
    passage: int
    score: float


NOTHING = Extraction("", "", -1, 0.0)

Weights = Mapping[str, Mapping[str, float]]
"""Of both regressions: ``candidate`` (over ``Features``) and ``question`` (over ``log_odds`` and ``difficulties``), each with ``bias``."""

WEIGHTS = Path(str(files("agents.models") / "data" / "reader_weights.toml"))
"""Where the weights lie that the reader uses."""


@runtime_checkable
class Reader(Protocol):
    """Finds answers in passages."""

    name: str

    def read(self, items: Sequence[ReadRequest]) -> list[Extraction]:
        """The best answer of each request, in order; ``NOTHING`` where there is none."""
        ...


@dataclass(frozen=True)
class _Task:
    """A request with its sentences, made ready."""

    question: Question
    bare: str
    sentences: tuple[Sentence, ...]


@dataclass(frozen=True)
class Reading:
    """A question taken apart and what could answer it."""

    question: Question
    candidates: tuple[Candidate, ...]


class ExtractiveReader:
    """A ``Reader`` over a sentence encoder.

    Args:
        encoder: Embeds questions and sentences, all of a batch in one call.
        max_sentences: Sentences looked at for each question; those that share most words with it are kept.
    """

    def __init__(self, encoder: TextEncoder, max_sentences: int = 24) -> None:
        if max_sentences < 1:
            raise ValueError("max_sentences must be at least 1")
        self.name = f"extractive({encoder.name})"
        self._encoder = encoder
        self._max_sentences = max_sentences

    def read(self, items: Sequence[ReadRequest]) -> list[Extraction]:
        """The best answer of each request; see ``Reader.read``."""
        return [best_answer(reading) for reading in self.readings(items)]

    def readings(self, items: Sequence[ReadRequest]) -> list[Reading]:
        """Each request taken apart, with all its candidates: for those that fit the weights or explain an answer."""
        tasks = [self._task(item) for item in items]
        texts: dict[str, int] = {}
        for task in tasks:
            for text in (task.question.text, task.bare):
                texts.setdefault(text, len(texts))
            for sentence in task.sentences:
                texts.setdefault(_titled(sentence), len(texts))
                if sentence.key is not None:
                    texts.setdefault(sentence.key, len(texts))
        if not texts:
            return []
        vectors = self._encoder.encode(list(texts))

        def cosine(a: str, b: str) -> float:
            return float(vectors[texts[a]] @ vectors[texts[b]])

        readings: list[Reading] = []
        for task in tasks:
            finder = CandidateFinder(task.question, task.sentences)
            found: list[Candidate] = []
            for sentence in task.sentences:
                key = cosine(task.bare, sentence.key) if sentence.key is not None else 0.0
                similarity = Similarity(cosine(task.question.text, _titled(sentence)), key)
                found.extend(finder.find(sentence, similarity))
            readings.append(Reading(task.question, tuple(found)))
        return readings

    def _task(self, item: ReadRequest) -> _Task:
        question = parse_question(_plain(item.question), {passage.title for passage in item.passages})
        sentences = _sentences(item.passages)
        if len(sentences) > self._max_sentences:
            asked = question.content | question.entity
            phrases = {stem for relation in question.relations for phrase in relation.phrases for stem in phrase}
            ranked = sorted(sentences, key=lambda s: _overlap(s, asked, phrases), reverse=True)
            sentences = ranked[: self._max_sentences]
        return _Task(question, _without_entity(question), tuple(sentences))


def best_answer(reading: Reading, weights: Weights | None = None) -> Extraction:
    """The likeliest candidate; ``NOTHING`` where there is none. Without ``weights`` those of the reader are used."""
    if not reading.candidates:
        return NOTHING
    weights = load_weights() if weights is None else weights
    best = best_candidate(reading.candidates, weights)
    score = confidence(reading.question, best, weights)
    return Extraction(best.answer, best.sentence.text, best.sentence.passage, score)


def best_candidate(candidates: Sequence[Candidate], weights: Weights) -> Candidate:
    """The candidate with the highest log-odds, the first of equals."""
    return max(candidates, key=lambda candidate: log_odds(candidate, weights))


def log_odds(candidate: Candidate, weights: Weights) -> float:
    """How likely a candidate is right, beside the others of its question: a logistic regression over its features."""
    of = weights["candidate"]
    features: Mapping[str, float] = asdict(candidate.features)
    return of["bias"] + sum(of[name] * value for name, value in features.items())


def confidence(question: Question, best: Candidate, weights: Weights) -> float:
    """Probability that the best candidate answers the question, 0 to 1.

    A second logistic regression, over the log-odds and over what makes a question hard for a reader of single spans.
    """
    of = weights["question"]
    total = of["bias"] + of["log_odds"] * log_odds(best, weights)
    total += sum(of[name] * value for name, value in difficulties(question).items())
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, total))))


def difficulties(question: Question) -> dict[str, float]:
    """What makes a question hard, each 0 or 1."""
    return {
        "chained": float(question.chained),
        "joint": float(question.joint),
        "polar": float(question.type in ("yes_no", "choice")),
        "untyped": float(question.type == "text"),
        "unrelated": float(not question.relations),
        "nameless": float(not question.entity),
    }


def weight_names() -> Mapping[str, tuple[str, ...]]:
    """What each regression weighs, ``bias`` first, in the order of the file."""
    traits = difficulties(parse_question("", ()))
    return {
        "candidate": ("bias", *Features.__dataclass_fields__),
        "question": ("bias", "log_odds", *traits),
    }


@cache
def load_weights(path: Path = WEIGHTS) -> Weights:
    """The weights of both regressions.

    Raises:
        ModelError: The file is missing, no TOML, or was fitted on other features.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ModelError(f"reader weights {path} cannot be read: {error}") from error
    for part, names in weight_names().items():
        table = raw.get(part)
        if not isinstance(table, dict) or set(table) != set(names):
            raise ModelError(
                f"reader weights {path} are not of this reader's features: [{part}] must have {', '.join(names)}; "
                "python -m training.reader fits them anew"
            )
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in table.values()):
            raise ModelError(f"reader weights {path}: every weight of [{part}] must be a finite number")
    return {part: {name: float(raw[part][name]) for name in names} for part, names in weight_names().items()}


def _sentences(passages: Sequence[Passage]) -> list[Sentence]:
    low = min((passage.score for passage in passages), default=0.0)
    spread = max((passage.score for passage in passages), default=0.0) - low
    found: list[Sentence] = []
    for index, passage in enumerate(passages):
        relevance = (passage.score - low) / spread if spread > 0 else 0.5
        title = _plain(passage.title)
        if passage.key is not None:
            value = _plain(passage.value or "")
            text = _plain(passage.text)
            found.append(Sentence(text, title, index, 0, relevance, key=_plain(passage.key), value=value))
        else:
            parts = split_sentences(_plain(passage.text))
            about = frozenset(stems(f"{title} {parts[0] if parts else ''}"))
            found.extend(Sentence(text, title, index, at, relevance, about) for at, text in enumerate(parts))
    return found


def _overlap(sentence: Sentence, asked: frozenset[str], phrases: set[str]) -> float:
    known = set(stems(f"{sentence.title} {sentence.text}"))
    shared = len(asked & known) / max(1, len(asked))
    return shared + 0.5 * bool(phrases & known) + sentence.relevance + 0.2 * (sentence.key is not None)


def _titled(sentence: Sentence) -> str:
    """The sentence with the name of what it is about, which later sentences of a page leave out."""
    if sentence.title.lower() in sentence.text.lower():
        return sentence.text
    return f"{sentence.title}: {sentence.text}"


def _without_entity(question: Question) -> str:
    """The question without the entity's name, to be compared with attribute keys."""
    kept = [word for word in question.text.split() if not (set(stems(word)) & question.entity)]
    return " ".join(kept) or question.text


def _plain(text: str) -> str:
    """Compatibility forms and odd spaces made plain; line ends stay."""
    return unicodedata.normalize("NFKC", text).replace("\u2009", " ").replace("\u00a0", " ")
