"""Candidate answers of one question: spans of sentences and attribute values, each with its features."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agents.models.reading.lexicon import WORD, load_lexicon, stem_all, stems, words
from agents.models.reading.question import Question, asked_noun
from agents.models.reading.spans import NUMERIC, Span, captured, person_spans, typed_spans

LONGEST_VALUE = 120  # characters; of a longer attribute value only the span that answers is given
MATCHED = 0.5  # from here on an attribute's key counts as the one asked for
NEAR = 5.0  # words; at this distance from a word that asks, a span counts half
NOUN_WINDOW = 5  # words in which the counted noun follows its number
DIGIT = re.compile(r"\d")
PLACE_BEFORE = re.compile(r"\b(?:in|on|at|near|from|of|into|to|through|across|along|river)(?: the)? ?$", re.IGNORECASE)
PERSON_BEFORE = re.compile(
    r"\b(?:by|after|for|emperor|king|queen|architect|engineer|commander|husband|wife|sculptor|artist|author|professor)"
    r"(?: [a-z]+)? ?,?$",
    re.IGNORECASE,
)
BESIDE = 20  # characters
NEGATION = re.compile(r"\b(?:not|no|never|neither|nor|without|cannot)\b|n't\b", re.IGNORECASE)


@dataclass(frozen=True)
class Sentence:
    """A sentence of a passage, or an attribute of an entity.

    Attributes:
        text: The sentence.
        title: Title of its passage.
        passage: Index of its passage.
        position: Its place in the passage, from 0.
        relevance: Score of its passage, scaled to 0..1 among the passages at hand.
        about: Stems of the passage's title and first sentence: they say what kind of thing it is about.
        key: Attribute key, where it is an attribute.
        value: Attribute value, where it is an attribute.
    """

    text: str
    title: str
    passage: int
    position: int
    relevance: float
    about: frozenset[str] = frozenset()
    key: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class Similarity:
    """Cosines of the question to a sentence (with its title) and to its attribute key (0 where it has none)."""

    sentence: float
    key: float


@dataclass(frozen=True)
class Features:
    """What speaks for a candidate; 0 to 1 unless said otherwise.

    Attributes:
        similarity: Cosine of question and sentence.
        relation: How well the sentence's words or the attribute's key express the relation asked for.
        shape: Whether the answer has the type asked for.
        coverage: Share of the question's other words met, the rare ones weighing more.
        entity: Share of the entity's name met in title and sentence; 1 where the question names none.
        relevance: The passage's own score.
        attribute: Whether it is an attribute.
        key: Cosine of question and attribute key.
        captured: Whether a pattern of the relation captured the answer.
        named: Whether the question asks what something is and has been given this very name for it.
        nearness: How near the answer stands to words of the question or the relation.
        noun: Whether the number belongs to what is counted: 1 or -1; 0 where nothing is counted.
        agent: Whether the words before a name make it the doer ("by"): 1 or -1; 0 where no person is asked for.
        place: Whether the words before a name make it a place ("in"): 1 or -1; 0 where no place is asked for.
        lead: Whether it stands in the passage's first sentence.
        related: Whether the question asks for a known relation at all.
        pointed: Whether the noun pointed at ("this tower") stands in the passage's title or first sentence; 1 where
            none is pointed at, and for attributes.
        keyed: Whether it is the value of an attribute whose key is the one asked for.
        agreement: relation x shape x entity: all three are needed, and none makes up for another.
        met: coverage x entity.
        said: As coverage, by the sentence alone, without its title.
    """

    similarity: float
    relation: float
    shape: float
    coverage: float
    entity: float
    relevance: float
    attribute: float
    key: float
    captured: float
    named: float
    nearness: float
    noun: float
    agent: float
    place: float
    lead: float
    related: float
    pointed: float
    keyed: float
    agreement: float
    met: float
    said: float


@dataclass(frozen=True)
class Candidate:
    """A possible answer, the sentence that says so and its features."""

    answer: str
    sentence: Sentence
    features: Features


_Found = tuple[str, Span | None, float, bool]
# An answer, its span in the sentence (None for the whole of it), how well its type fits, whether a pattern captured it.


class CandidateFinder:
    """Finds the candidates of one question among sentences.

    Args:
        question: The question, taken apart.
        sentences: All sentences at hand: how rare a word is, is counted over them.
    """

    def __init__(self, question: Question, sentences: Sequence[Sentence]) -> None:
        self._question = question
        self._related_stems = {
            stem for relation in question.relations for phrase in relation.phrases for stem in phrase
        }
        self._asked = question.content - self._related_stems
        self._weights = _rarity(self._asked, sentences)

    def find(self, sentence: Sentence, similarity: Similarity) -> list[Candidate]:
        """The candidates of one sentence; none where nothing in it has the type asked for."""
        found = self._of_attribute(sentence) if sentence.key is not None else self._of_sentence(sentence)
        known = frozenset(stems(f"{sentence.title} {sentence.text}"))
        relation = self._relation(sentence)
        entity = _share(self._question.entity, known)
        coverage = self._coverage(known)
        identity = self._question.type == "identity"
        candidates: list[Candidate] = []
        for answer, span, shape, pattern in found:
            features = Features(
                similarity=max(0.0, similarity.sentence),
                relation=relation,
                shape=shape,
                coverage=coverage,
                entity=entity,
                relevance=sentence.relevance,
                attribute=float(sentence.key is not None),
                key=max(0.0, similarity.key),
                captured=float(pattern and not identity),
                named=float(pattern and identity),
                nearness=self._nearness(sentence, span),
                noun=self._noun(sentence, span),
                agent=self._agent(sentence, span),
                place=self._place(sentence, span),
                lead=float(sentence.position == 0),
                related=float(bool(self._question.relations)),
                pointed=1.0 if sentence.key is not None else _share(self._question.pointed, sentence.about),
                keyed=float(sentence.key is not None and relation >= MATCHED),
                agreement=relation * shape * entity,
                met=coverage * entity,
                said=self._coverage(frozenset(stems(sentence.text))),
            )
            candidates.append(Candidate(answer, sentence, features))
        return candidates

    def _of_attribute(self, sentence: Sentence) -> list[_Found]:
        value = (sentence.value or "").strip()
        if not value:
            return []
        if self._question.type in ("yes_no", "choice"):
            return self._of_polar(sentence)
        if self._question.type == "identity":
            return self._of_identity(sentence)
        spans = self._typed(value)
        answer = value if len(value) <= LONGEST_VALUE or not spans else value[spans[0][0] : spans[0][1]]
        if spans:
            shape = 1.0
        elif self._question.type in NUMERIC:
            # Infoboxes often leave the unit out; a bare number may still be the weight in grams.
            shape = 0.5 if DIGIT.search(value) else 0.0
        else:
            shape = 0.9 if self._question.type == "text" else 0.6
            if _numeric(value):
                shape = 0.3 if self._relation(sentence) >= MATCHED else 0.0
            elif self._question.type == "person" and value[0].isdigit():
                shape = 0.2  # "1816, Paris"
        return [(answer, None, shape, False)] if shape else []

    def _of_sentence(self, sentence: Sentence) -> list[_Found]:
        if self._question.type in ("yes_no", "choice"):
            return self._of_polar(sentence)
        if self._question.type == "identity":
            return self._of_identity(sentence)
        typed = self._typed(sentence.text)
        matched = captured(sentence.text, tuple(p for relation in self._question.relations for p in relation.patterns))
        if self._question.type in NUMERIC:
            matched = [span for span in matched if any(_overlap(span, other) for other in typed)]
        elif self._question.type == "person":
            # A phrase with a name in it ("the French sculptor X") stands for its first name.
            typed = person_spans(sentence.text, (0, len(sentence.text)))
            matched = [span for phrase in matched for span in person_spans(sentence.text, phrase)[:1]]
        spans = [(span, True) for span in matched]
        spans += [(span, False) for span in typed if not any(_overlap(span, other) for other in matched)]
        found: list[_Found] = []
        for span, pattern in spans:
            answer = sentence.text[span[0] : span[1]]
            if self._question.type in NUMERIC or not self._repeats(answer, sentence):
                found.append((answer, span, 1.0, pattern))
        if not found and self._question.type == "text":
            found.append((sentence.text, None, 0.5, False))
        return found

    def _of_identity(self, sentence: Sentence) -> list[_Found]:
        """The name of what the passage is about, best where the question itself has been given that name."""
        if not sentence.title or sentence.position:
            return []
        known = sentence.title.lower() == self._question.named.lower()
        return [(sentence.title, None, 0.5, known)]

    def _of_polar(self, sentence: Sentence) -> list[_Found]:
        """Yes or no by the sentence's polarity; of alternatives the one that the sentence names."""
        if self._question.type == "yes_no":
            denied = bool(NEGATION.search(sentence.text)) != bool(NEGATION.search(self._question.text))
            return [("No" if denied else "Yes", None, 0.5, False)]
        said = frozenset(stems(sentence.text))
        for alternative in _alternatives(self._question.text):
            wanted = frozenset(stems(alternative)) - load_lexicon().frame_stems
            if wanted and wanted <= said:
                return [(alternative, None, 1.0, False)]
        return []

    def _typed(self, text: str) -> list[Span]:
        kinds = [self._question.type]
        names = {relation.name for relation in self._question.relations}
        if self._question.type == "length" and "area" in names:
            kinds.insert(0, "area")
        if self._question.type == "age":
            kinds += ["date", "duration"]
        spans = [span for kind in kinds for span in typed_spans(text, kind)]
        return list(dict.fromkeys(spans))

    def _repeats(self, answer: str, sentence: Sentence) -> bool:
        """Whether the answer only says again what the question or the title names."""
        said = frozenset(words(answer))
        asked = frozenset(words(f"{self._question.text} {sentence.title}"))
        return not frozenset(stems(answer)) - load_lexicon().frame_stems or said <= asked

    def _relation(self, sentence: Sentence) -> float:
        """1 where a phrase of the relation stands in the sentence; an attribute's key is judged more finely."""
        relations = self._question.relations
        if sentence.key is None:
            text = stems(sentence.text)
            return float(any(_contains(text, phrase) for relation in relations for phrase in relation.phrases))
        key = stems(sentence.key)
        asked = self._question.content | self._question.entity
        best = 0.0
        for relation in relations:
            for rank, phrase in enumerate(relation.phrases):
                if _contains(key, phrase):
                    # The first phrases are the plainest; words of the key that nobody asked for speak against it.
                    foreign = sum(stem not in phrase and stem not in asked for stem in key)
                    fit = 1.0 - 0.02 * min(rank, 10) - 0.2 * min(foreign, 3)
                    best = max(best, fit)
        overlap = _share(frozenset(key) - load_lexicon().frame_stems, self._question.content)
        return max(best, overlap * (0.5 if relations else 0.9))

    def _coverage(self, known: frozenset[str]) -> float:
        total = sum(self._weights.values())
        return sum(weight for stem, weight in self._weights.items() if stem in known) / total if total else 1.0

    def _nearness(self, sentence: Sentence, span: Span | None) -> float:
        if span is None:
            return 1.0 if sentence.key is not None else 0.5
        wanted = self._question.content | self._related_stems
        inside_from, inside_to, places = None, None, []
        tokens = list(WORD.finditer(sentence.text))
        stemmed = stem_all(token.group().lower() for token in tokens)
        for i, token in enumerate(tokens):
            if token.end() > span[0] and token.start() < span[1]:
                inside_from = i if inside_from is None else inside_from
                inside_to = i
            elif stemmed[i] in wanted:
                places.append(i)
        if inside_from is None or inside_to is None or not places:
            return 0.0
        distance = min(inside_from - p if p < inside_from else p - inside_to for p in places)
        return 1.0 / (1.0 + (distance - 1) / NEAR)

    def _noun(self, sentence: Sentence, span: Span | None) -> float:
        counted = self._question.counted
        if not counted or self._question.type != "count":
            return 0.0
        if sentence.key is not None:
            return 1.0 if self._relation(sentence) >= MATCHED or counted & set(stems(sentence.text)) else -1.0
        if span is None:
            return -1.0
        rest = sentence.text[span[1] :]
        following = typed_spans(rest, "count")  # what comes behind the next number belongs to that one
        after = stems(rest[: following[0][0]] if following else rest)[:NOUN_WINDOW]
        return 1.0 if counted & set(after) else -1.0

    def _agent(self, sentence: Sentence, span: Span | None) -> float:
        if span is None or self._question.type != "person":
            return 0.0
        return 1.0 if PERSON_BEFORE.search(sentence.text[: span[0]]) or self._beside(sentence, span) else -1.0

    def _place(self, sentence: Sentence, span: Span | None) -> float:
        if span is None or self._question.type != "place":
            return 0.0
        return 1.0 if PLACE_BEFORE.search(sentence.text[: span[0]]) or self._beside(sentence, span) else -1.0

    def _beside(self, sentence: Sentence, span: Span) -> bool:
        """Whether the class asked for ("which river") is named right beside the span."""
        around = sentence.text[max(0, span[0] - BESIDE) : span[1] + BESIDE]
        return bool(asked_noun(self._question) & set(stems(around)))


def _rarity(wanted: Iterable[str], sentences: Sequence[Sentence]) -> dict[str, float]:
    """Inverse document frequency of each stem over the sentences."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(set(stems(f"{sentence.title} {sentence.text}")))
    return {stem: math.log(1.0 + (len(sentences) + 1) / (counts[stem] + 0.5)) for stem in wanted}


def _share(wanted: frozenset[str], known: frozenset[str]) -> float:
    return len(wanted & known) / len(wanted) if wanted else 1.0


def _contains(text: Sequence[str], phrase: Sequence[str]) -> bool:
    n = len(phrase)
    return any(tuple(text[i : i + n]) == tuple(phrase) for i in range(len(text) - n + 1))


def _overlap(a: Span, b: Span) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def _numeric(value: str) -> bool:
    return sum(c.isdigit() for c in value) > sum(c.isalpha() for c in value)


def _alternatives(question: str) -> list[str]:
    """The two sides of an "or": "Is it a mammal or a reptile?" gives a mammal, a reptile."""
    match = re.search(r"((?:\b(?:a|an|the) )?[\w'-]+)(?:,)? or ((?:(?:a|an|the) )?[\w'-]+(?: [\w'-]+)?)\??", question)
    return [match.group(1).strip(), match.group(2).strip()] if match else []
