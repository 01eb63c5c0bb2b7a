"""A question, its ground truth and an answer, taken apart for the rule judge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from rapidfuzz.distance import DamerauLevenshtein

from evaluation.judge.clauses import Clause, clauses
from evaluation.judge.judging import JudgeItem
from evaluation.judge.plain_text import content, names, plain, stem, tokens
from evaluation.judge.quantities import EQUIVALENT_TOLERANCE, Quantity, agrees_with_any, find, same

FUZZY_LENGTH = 8
"""Words of at least this many letters may differ by one edit (spelling); shorter ones name too many different things."""

LIST_BREAK = re.compile(r"\s*(?:,|;|&|\band\b)\s*(?:and\b)?\s*")
_ARTICLES = frozenset({"a", "an", "the"})


class TextView:
    """A text with what the rules ask of it, each worked out once."""

    def __init__(self, original: str) -> None:
        self.original = original
        self.plain = plain(original)
        self.content = content(self.plain)
        self.words = frozenset(tokens(self.plain))

    @cached_property
    def names(self) -> set[str]:
        """Words capitalised within a sentence."""
        return names(self.original)

    @cached_property
    def quantities(self) -> list[Quantity]:
        """Figures with their units."""
        return find(self.plain)

    @cached_property
    def clauses(self) -> list[Clause]:
        """Clauses, each affirmed or denied."""
        return clauses(self.plain)

    @cached_property
    def negated(self) -> bool:
        """Whether a clause of it is denied, comparisons aside."""
        return any(clause.denied and not clause.compared for clause in self.clauses)

    @cached_property
    def bare(self) -> tuple[tuple[str, ...], tuple[tuple[float, str | None], ...]]:
        """Its words without articles, and its figures: equal for texts that say the same in the same words."""
        words = tuple(word for word in tokens(self.plain) if word not in _ARTICLES)
        return words, tuple((quantity.value, quantity.unit) for quantity in self.quantities)

    def words_of(self, quantities: Sequence[Quantity]) -> set[str]:
        """The tokens of which figures of this text consist."""
        return {token for q in quantities for token in tokens(self.plain[q.start : q.end])}

    def affirmed(self) -> str:
        """The clauses that are not denied."""
        return " ".join(clause.text for clause in self.clauses if not clause.denied)

    def clause_of(self, quantity: Quantity) -> Clause | None:
        """The clause in which a figure of this text stands."""
        return next((clause for clause in self.clauses if clause.start <= quantity.start < clause.end), None)


class AnswerCase:
    """What the rule judge decides on.

    Attributes:
        allowed: Every figure of the ground truth, the accept forms and the question.
        known: Every word of these.
    """

    def __init__(self, item: JudgeItem) -> None:
        self.query = TextView(item.query)
        self.truth = TextView(item.ground_truth)
        self.response = TextView(item.response)
        self.accept = [TextView(form) for form in item.accept if form.strip()]
        given = (self.truth, self.query, *self.accept)
        self.allowed = [quantity for text in given for quantity in text.quantities]
        self.known = frozenset().union(*(text.words for text in given))

    def says(self, key: Sequence[str], everywhere: bool = False) -> bool:
        """Whether the answer affirms the key words, in a row (four or more: in any order).

        Args:
            everywhere: The key is itself a denial: look in denied clauses too, of which there must be one.
        """
        if everywhere and not self.response.negated:
            return False
        text = self.response.plain if everywhere else self.response.affirmed()
        words = content(text) if any(content(word) for word in key) else tokens(text)
        if len(key) >= 4:
            return all(contains(words, [word]) for word in key)
        return contains(words, key)

    def share(self, key: Sequence[str], everywhere: bool = False) -> float:
        """Share of the key words that the answer affirms (or, ``everywhere``, holds)."""
        unique = list(dict.fromkeys(key))
        words = content(self.response.plain if everywhere else self.response.affirmed())
        return sum(contains(words, [word]) for word in unique) / len(unique) if unique else 0.0

    def has_figure(self, wanted: Quantity) -> bool:
        """Whether the answer affirms a figure.

        A bare number stands for a quantity whose unit goes without saying: "330" answers "how tall in metres?", and
        "20" answers "how old can it get?".
        """
        for quantity in self.response.quantities:
            clause = self.response.clause_of(quantity)
            if clause is not None and clause.denied:
                continue
            if same(wanted, quantity):
                return True
            if (
                wanted.unit is None
                and quantity.value == wanted.value
                and agrees_with_any(quantity, self.truth.quantities)
            ):
                return True  # the accept form leaves out the unit that the ground truth has
            implied = wanted.unit is not None and quantity.unit is None and quantity.value == wanted.value
            if implied and (wanted.unit in {"year", "%"} or stem(str(wanted.unit)) in self.query.words):
                return True
        return False

    def has_form(self, form: TextView) -> bool:
        """Whether the answer affirms an accept form: its figures by value, a list's items in any order, else its words."""
        if not all(self.has_figure(quantity) for quantity in distinct(form.quantities)):
            return False
        if form.quantities:
            rest = [word for word in form.content if word not in form.words_of(form.quantities)]
            return all(word in self.query.words or self.says([word]) for word in rest)
        items = [part for part in LIST_BREAK.split(form.plain) if part.strip()]
        if len(items) > 1:
            return all(self.says(content(part) or tokens(part)) for part in items)
        return self.says(form.content or tokens(form.plain), everywhere=form.negated)


def contains(words: Sequence[str], key: Sequence[str]) -> bool:
    """Whether ``key`` stands in ``words`` in a row; False for an empty key."""
    size = len(key)
    return size > 0 and any(
        all(_alike(word, wanted) for word, wanted in zip(words[start : start + size], key, strict=True))
        for start in range(len(words) - size + 1)
    )


def _alike(one: str, other: str) -> bool:
    if one == other:
        return True
    long = min(len(one), len(other)) >= FUZZY_LENGTH and one[0] == other[0] and one.isalpha() and other.isalpha()
    return long and DamerauLevenshtein.distance(one, other, score_cutoff=1) <= 1


def distinct(quantities: Sequence[Quantity]) -> list[Quantity]:
    """One of each group of conversions: 330 m (1,083 ft) is one."""
    kept: list[Quantity] = []
    for quantity in quantities:
        if not any(quantity.unit != other.unit and same(other, quantity, EQUIVALENT_TOLERANCE) for other in kept):
            kept.append(quantity)
    return kept
