"""A text analysed for the rules: its words, names, figures, and its clauses, each affirmed or denied."""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise

from rapidfuzz.distance import DamerauLevenshtein

from agents.english.dates import spell_dates
from agents.english.plain_text import AUXILIARIES, normalise_text, tokenise, tokenise_content
from agents.english.quantities import (
    EQUIVALENT_TOLERANCE,
    Quantity,
    find_quantities,
    is_same_quantity,
    normalise_quantities,
)

LIST = re.compile(r" ?(?:,|;|&|\band\b) ?(?:and\b)? ?")
"""Separators of the items of a list."""
FUZZY_LENGTH = 8
"""Words of at least this many letters may differ by one edit (spelling); shorter ones name too many different things."""

_APART = (
    r"(?:rather than|instead of|unlike|as opposed to|compared (?:to|with)|than|similar to|inspired by|based on|replica of|copy of"
    r"|confused with|except|other than)\b"
)
_COMMA = re.compile(r",(?=\s\D|\s?$)")
_BREAK = re.compile(
    rf"(?<!\bvs)[.;:!?](?=\s|$)|[()]|\s-\s|\b(?=(?:but|however|while|whereas|although|though|not)\b|{_APART}"
    r"|and (?:it|they|he|she|this|that|is|was|were|has|had)\b)"
)
_DENIED_BRACKET = re.compile(r"(\bnot\b[^.;:!?()]*) \((?!(?:it|this|that|he|she|they)\b)([^()]*)\)")
_DENIED = re.compile(rf"^{_APART}|\b(?:not|no|never|neither|nor|none|without|nothing|hardly|false|wrong|incorrect)\b")
_ANSWERS_NO = ("no", "nope", "not really", "not exactly")
_OTHER_NUMBERS = frozenset(("bc", "bce", *map(str.lower, calendar.month_name[1:])))
"""Nouns with which a number is another one: "1889 BC", and the day of a date."""
_NAME = re.compile(r"(?<!^)(?<![.!?]\s)\b[A-Z][\w'’-]*(?:\s+(?:(?:of|the|de|la|du|and)\s+)*[A-Z0-9][\w'’-]*)*")


@dataclass(frozen=True)
class Policy:
    """Differences allowed between two texts of the same meaning.

    Attributes:
        ends: Whether one end of a range says the range. For a judge it does: "From 2012 to 2018 they had grown by 785" answers "By how
            many had they grown since 2012?". Two sources differ if one says "2", the other "2 to 3".
    """

    ends: bool = False


@dataclass(frozen=True)
class Clause:
    """A stretch of a text.

    Attributes:
        quantities: Its figures.
        denied: Whether it is negated, or sets something apart.
        compared: Whether it begins with "than" or "compared".
    """

    text: str
    quantities: tuple[Quantity, ...]
    denied: bool
    compared: bool


class AnswerText:
    """A text with the features that the rules use.

    Attributes:
        plain: The text in lower case with figures in one spelling. ``words`` are its stems, ``content`` those other than stopwords.
        clauses: Its clauses. "The left one is not older" is two, and the first is denied as well if it is asked what is older.
        names: Runs of words capitalised within a sentence, as content words.
        stated: Affirmed clauses; those that commas separate are joined.
        bare: Its words without articles, and its figures. They are equal for texts that say the same in the same words.
    """

    def __init__(self, original: str, asked: Set[str] = frozenset()) -> None:
        """Analyse a text.

        Args:
            original: The text.
            asked: Words of the question that it answers.
        """
        self.original = original
        self.plain = normalise_quantities(normalise_text(spell_dates(original)))
        self.content, self.words = tokenise_content(self.plain), frozenset(tokenise(self.plain))
        self.names = [words for run in _NAME.findall(original) if (words := tokenise_content(normalise_text(run)))]
        self.quantities = find_quantities(self.plain)
        self.figure_words = frozenset(token for quantity in self.quantities for token in tokenise(quantity.text))
        self.bare = (
            [word for word in tokenise(self.plain) if word not in {"a", "an", "the"}],
            [(quantity.value, quantity.unit) for quantity in self.quantities],
        )
        text = _DENIED_BRACKET.sub(r"\1 \2", self.plain)  # "not 65 metres (213 ft)" denies both
        runs = [list(map(_parse_clause, filter(None, map(_trim, _COMMA.split(run))))) for run in _BREAK.split(text)]
        clauses = [clause for run in runs for clause in run]
        predicates = {
            one: set(tokenise_content(two.text))
            for one, two in pairwise(clauses)
            if not AUXILIARIES.isdisjoint(one.text.split()[-1:]) and two.text.startswith("not")
        }
        runs = [
            [replace(one, denied=True) if predicates.get(one, set()) & asked else one for one in run] for run in runs
        ]
        self.clauses = [clause for run in runs for clause in run]
        self.affirmed = [clause for clause in self.clauses if not clause.denied]
        self.stated = [", ".join(clause.text for clause in run if not clause.denied) for run in runs]
        self.negated = any(clause.denied and not clause.compared for clause in self.clauses)
        self.denies_first = next((c.denied or c in predicates for c in clauses if tokenise_content(c.text)), False)

    def states(self, form: AnswerText, policy: Policy, given: Set[str] = frozenset()) -> bool:
        """Return whether the text affirms a short answer.

        Figures are compared by value, the items of a list in any order, others by their words.

        Args:
            form: The short answer.
            policy: Allowed differences.
            given: Words that need not be said again, such as those of the question.
        """
        if form.quantities:
            rest = [word for word in form.content if word not in form.figure_words | given]
            return self.has_figures(form.quantities, policy) and all(self.affirms([word]) for word in rest)
        items = [part for part in LIST.split(form.plain) if part.strip()]
        keys = [tokenise_content(part) or tokenise(part) for part in items]
        return bool(keys) and all(self.affirms(key, denied=form.negated and len(keys) == 1) for key in keys)

    def has_figures(self, figures: Sequence[Quantity], policy: Policy) -> bool:
        """Return whether the text affirms all figures.

        "330" stands for "330 m", and of "330 m (1,083 ft)" one is enough.
        """
        quantities = [quantity for clause in self.affirmed for quantity in clause.quantities]
        matches = [one for one in figures if any(_is_same_figure(one, two, policy) for two in quantities)]
        return all(any(is_same_quantity(one, two, EQUIVALENT_TOLERANCE) for two in matches) for one in figures)

    def affirms(self, key: Sequence[str], denied: bool = False) -> bool:
        """Return whether the text affirms the key words in a row, or from four words on in their order, with others between.

        Args:
            key: Key words, stemmed.
            denied: Whether the key is itself a denial. Denied clauses are searched too, and there must be one.
        """
        if denied and not self.negated:
            return False
        text = " ".join(clause.text for clause in (self.clauses if denied else self.affirmed))
        words = tokenise_content(text) if any(map(tokenise_content, key)) else tokenise(text)
        if len(key) >= 4:
            following = iter(words)
            return all(any(_is_alike(word, key_word) for word in following) for key_word in key)
        runs = zip(*(words[start:] for start in range(len(key))), strict=False)
        return any(all(map(_is_alike, run, key)) for run in runs)


def _is_same_figure(one: Quantity, other: Quantity, policy: Policy) -> bool:
    """Return whether two figures are the same one by a policy."""
    if not policy.ends and one.range_end != other.range_end:
        return False
    nouns, units = {one.noun, other.noun}, {one.unit, other.unit}
    if len(nouns) > 1 and nouns & _OTHER_NUMBERS:
        return False
    is_bare = len(units) > 1 and None in units and "percentage" not in units
    return (is_bare and one.value == other.value) or is_same_quantity(one, other)


def _trim(text: str) -> str:
    return text.strip(" ,.;:!?()").removeprefix("- ").removesuffix(" -")


def _parse_clause(text: str) -> Clause:
    denied = bool(_DENIED.search(text)) and text not in _ANSWERS_NO
    return Clause(text, tuple(find_quantities(text)), denied, text.startswith(("than", "compared")))


def _is_alike(one: str, other: str) -> bool:
    long = min(len(one), len(other)) >= FUZZY_LENGTH and one[0] == other[0] and one.isalpha() and other.isalpha()
    return one == other or (long and DamerauLevenshtein.distance(one, other, score_cutoff=1) <= 1)
