"""Rules that make questions with one short answer of an encyclopaedia's summaries.

The rules are in ``question_rules.toml``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from agents.base.files import read_toml

RULES = Path(__file__).with_suffix(".toml")

_SENTENCE_END = re.compile(r"(?<=[a-z0-9)”\"])(?<!\b[A-Z])\.\s+(?=[A-Z])")
_BE = re.compile(r"\b(is|are|was|were)\b")
_PRONOUN = re.compile(r"\b(?:he|she|his|her)\b", re.IGNORECASE)
_ASIDE = re.compile(r" \([^()]*\)$")
_GLOSS = re.compile(r" ?\((?:(?!\d)[^()])*\)(?= )")
_PLACEHOLDER = re.compile(r"\{([A-Z]+)\}")
_IRREGULAR = {"written": "wrote", "built": "built", "found": "found"}
_MAX_ANSWER_WORDS = 14
_SUBJECT = "_SUBJECT_"
"""Placeholder of a sentence's subject, so that patterns are compiled once."""


class Rule(BaseModel):
    """One rule of the file, which explains the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    of: Literal["person", "thing", "any"]
    pattern: str
    question: str
    sentence: str
    singular: bool = False


@dataclass(frozen=True)
class Subject:
    """Subject of a page, as its first sentence names it.

    Attributes:
        name: Its name within a sentence ("the Great Lakes", "lettuce").
        spelled: Regular expression of how sentences of the page call it.
        be: is, are, was or were.
        person: Whether it is a person.
        noun: What a photo of it shows ("bird"); None if it is not one thing that can be photographed.
    """

    name: str
    spelled: str
    be: str
    person: bool
    noun: str | None

    @property
    def is_plural(self) -> bool:
        """Whether its verb is in the plural."""
        return self.be in ("are", "were")


@dataclass(frozen=True)
class MadeQuestion:
    """A question that a sentence of a page answers.

    Attributes:
        kind: Kind of the question.
        question: The question by the subject's name.
        pointing: The same question as about a photo ("this bird"); None if the subject cannot be photographed.
        answer: The words of the page.
        truth: The answer in one sentence.
        sentence: The sentence of the page that answers it.
    """

    kind: str
    question: str
    pointing: str | None
    answer: str
    truth: str
    sentence: str


class QuestionRules:
    """Rules of a file, and the common nouns of a corpus: words that it has in lower case."""

    def __init__(self, corpus: Iterable[str]) -> None:
        table = read_toml(RULES)
        rules = [Rule.model_validate(row) for row in table["rule"]]
        self._rules = [(rule, _compile(rule.pattern, table["parts"])) for rule in rules]
        self._nouns = frozenset(table["shown"]["nouns"])
        self._seen: Counter[str] = Counter()
        for text in corpus:
            self._seen.update(re.findall(r"(?<=[a-z,] )[^\W\d_]+", text))

    @cached_property
    def kinds(self) -> list[str]:
        """Kinds of questions, in the order of the file."""
        return list(dict.fromkeys(rule.kind for rule, _ in self._rules))

    def subject(self, title: str, text: str) -> Subject | None:
        """Find the subject of a page; None if its first sentence does not name it in the words of its title."""
        bare = _ASIDE.sub("", title)
        first = split_sentences(text)[0] if text else ""
        verb = _BE.search(first)
        if verb is None or bare.startswith(("List of", "History of", "Geography of")):
            return None
        start = re.match(rf"(?P<article>The |An? )?(?P<name>{re.escape(bare)}(?:e?s)?)\b", first, re.IGNORECASE)
        person = (
            "," not in bare
            and bool(_PRONOUN.search(text))
            and bool(re.search(r"^[^.]*\b(?:is|was) (?:an?|the)\b", first))
        )
        if start is None:
            if not person:
                return None
            name, spelled = (
                bare,
                rf"{re.escape(first[: verb.start()].split(',')[0].split(' (')[0].strip())}|{re.escape(bare)}",
            )
        else:
            name, article = start["name"], (start["article"] or "").lower()
            later = bare.split()[1:]
            common = all(word.islower() for word in later) and self._is_common(name.split()[0])
            name = name[0].lower() + name[1:] if common else name
            name = article + name
            person = person and not common and article == ""
            spelled = rf"(?:The |An? )?{re.escape(start['name'])}|(?:The |An? )?{re.escape(bare)}"
        head = re.match(r"(?:an?|the|one of the) ((?:[\w-]+ )*?[\w-]+)(?=[,.;]| (?:of|in|that|which|native|from|with|and|on|used|"
            r"made|located|for|by|found)\b)",
                        first[verb.end() :].strip())  # fmt: skip
        last = head[1].split()[-1] if head else ""
        noun = last if last in self._nouns and verb[1] in ("is", "was") and not person else None
        return Subject(name, spelled, verb[1], person, noun)

    def _is_common(self, word: str) -> bool:
        return self._seen[word.lower()] > self._seen[word[0].upper() + word[1:]] if word[1:].islower() else False

    def questions(self, title: str, text: str) -> Iterator[MadeQuestion]:
        """Yield the questions that a page answers, each wording once, in the order of its sentences."""
        subject = self.subject(title, text)
        if subject is None:
            return
        wordings: set[str] = set()
        for number, sentence in enumerate(split_sentences(text)):
            plain = re.sub(rf"^(?:{subject.spelled})(?![\w-])", _SUBJECT, sentence)
            if number == 0:
                plain = _GLOSS.sub("", plain)
            elif not _is_about(subject, plain):
                continue
            for rule, pattern in self._rules:
                made_question = self._make(rule, pattern, subject, sentence, plain)
                if made_question is not None and made_question.question not in wordings:
                    wordings.add(made_question.question)
                    yield made_question

    def _make(
        self, rule: Rule, pattern: re.Pattern[str], subject: Subject, sentence: str, plain: str
    ) -> MadeQuestion | None:
        if (rule.of != "any" and (rule.of == "person") != subject.person) or (rule.singular and subject.is_plural):
            return None
        match = pattern.search(plain)
        if match is None:
            return None
        groups = {name: value for name, value in match.groupdict().items() if value is not None}
        answer = (groups.get("answer") or groups.get("answer2") or "").strip(" ,")
        if not answer or answer.count("(") != answer.count(")") or len(answer.split()) > _MAX_ANSWER_WORDS:
            return None
        if _bare_words(answer) <= _bare_words(subject.name):
            return None  # "What is another name for polar bears?" - "polar bear"
        words = {**groups, **_conjugate(subject, groups, plain), "answer": answer, "answer_cap": capitalise(answer)}
        name = subject.name
        truth = rule.sentence.format(**words, name=name, Name=capitalise(name))
        if groups.get("made") and re.match(r"\d{1,2} [A-Z]|[A-Z]\w+ \d{1,2},", answer):
            truth = truth.replace(f" in {answer}", f" on {answer}")
        return MadeQuestion(
            rule.kind,
            capitalise(rule.question.format(**words, name=name)),
            capitalise(rule.question.format(**words, name=f"this {subject.noun}")) if subject.noun else None,
            answer,
            truth,
            sentence,
        )


def _compile(pattern: str, parts: Mapping[str, str]) -> re.Pattern[str]:
    text = pattern.replace("{SUBJECT}", _SUBJECT)
    while _PLACEHOLDER.search(text):
        text = _PLACEHOLDER.sub(lambda match: parts[match[1]], text)
    return re.compile(text)


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences, each with its end; an abbreviation of one letter ends none."""
    parts = _SENTENCE_END.split(text.strip())
    return [part if part.endswith((".", "!", "?")) else f"{part}." for part in parts]


def _is_about(subject: Subject, sentence: str) -> bool:
    """Return whether a later sentence is still about the subject.

    It begins with the subject or a word for it, or with when or where something was.
    """
    words = "city|country|capital|currency|official|largest|highest|town|species|family"
    starts = rf"(?:{_SUBJECT}|It|Its|He|His|She|Her|They|Their|The (?:{subject.noun or 'name'}|{words})|"
    return bool(re.match(rf"{starts}Born|As of|With an?|In {{0,1}}\d{{4}})\b", sentence))


def _conjugate(subject: Subject, groups: dict[str, str], sentence: str) -> dict[str, str]:
    be, many = subject.be, subject.is_plural
    past = be in ("was", "were")
    participle = groups.get("made", "")
    verb = re.search(
        r"\b(described|proposed|isolated|identified|observed|synthesized|used|produced|discovered|formulated|published|coined)\b",
        sentence,
    )
    return {
        "be": be,
        "do": "did" if past else "do" if many else "does",
        "belong": "belonged" if past else "belong" if many else "belongs",
        "eat": "ate" if past else "eat" if many else "eats",
        "made_active": _IRREGULAR.get(participle, participle),
        "verb_past": f"first {verb[1]}" if verb and "first" in sentence else verb[1] if verb else "",
    }


def _bare_words(text: str) -> set[str]:
    return {word.lower().rstrip("s") for word in re.findall(r"\w+", text)} - {"the", "a", "an", "of"}


def capitalise(text: str) -> str:
    """Return a text with its first letter in upper case, and the others as they are."""
    return text[:1].upper() + text[1:]
