"""A text taken apart for the rules: its words, names, figures, and its clauses, each affirmed or denied."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rapidfuzz.distance import DamerauLevenshtein

from evaluation.judge.plain_text import content, names, plain, tokens
from evaluation.judge.quantities import Quantity, find

FUZZY_LENGTH = 8
"""Words of at least this many letters may differ by one edit (spelling); shorter ones name too many different things."""

_APART = (
    r"(?:rather than|instead of|unlike|as opposed to|compared (?:to|with)|than|similar to|inspired by|based on|replica of|copy of"
    r"|confused with|except|other than)\b"
)
_BREAK = re.compile(
    rf"[.;:!?](?=\s|$)|,(?=\s\D|\s?$)|[()]|\s-\s|\b(?=(?:but|however|while|whereas|although|though|not)\b|{_APART}"
    r"|and (?:it|they|he|she|this|that|is|was|were|has|had)\b)"
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|neither|nor|none|without|nothing|hardly|false|wrong|incorrect|isnt|denied)\b"
)
_ANSWER_NO = re.compile(r"\s*(?:no|nope|not really|not exactly)\s*$")
_NEW_STATEMENT = re.compile(r"\b(?:it|this|that|they|he|she|is|are|was|were|has|have|but|instead|rather|actually)\b")
_NAME_RUN = re.compile(r"(?<!^)(?<![.!?]\s)\b[A-Z][\w'’-]*(?:\s+(?:(?:of|the|de|la|du|and)\s+)*[A-Z0-9][\w'’-]*)*")
_INHERITED_WORDS = 4


@dataclass(frozen=True)
class Clause:
    """A stretch of a text; ``denied``: it says what is not so, or sets something apart; ``compared``: it begins with "than"."""

    text: str
    denied: bool
    compared: bool

    @cached_property
    def quantities(self) -> list[Quantity]:
        """Its figures."""
        return find(self.text)


class AnswerText:
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
    def full_names(self) -> list[list[str]]:
        """Runs of capitalised words within a sentence, as content words."""
        return [words for run in _NAME_RUN.findall(self.original) if (words := content(plain(run)))]

    @cached_property
    def quantities(self) -> list[Quantity]:
        """Figures with their units."""
        return find(self.plain)

    @cached_property
    def figure_words(self) -> set[str]:
        """The tokens of which the figures consist."""
        return {token for q in self.quantities for token in tokens(self.plain[q.start : q.end])}

    @cached_property
    def bare(self) -> tuple[tuple[str, ...], tuple[tuple[float, str | None], ...]]:
        """Its words without articles, and its figures: equal for texts that say the same in the same words."""
        words = tuple(word for word in tokens(self.plain) if word not in {"a", "an", "the"})
        return words, tuple((quantity.value, quantity.unit) for quantity in self.quantities)

    @cached_property
    def clauses(self) -> list[Clause]:
        """The clauses in order; a short one that continues a list after a denied one is denied as well."""
        found: list[Clause] = []
        ended = True
        for piece in re.split(rf"({_BREAK.pattern})", self.plain):
            text = piece.strip(" ,.;:!?()-") if piece else ""
            if text:
                denied = bool(re.match(_APART, text) or (_NEGATION.search(text) and not _ANSWER_NO.match(text)))
                short = len(text.split()) <= _INHERITED_WORDS and not _NEW_STATEMENT.search(text)
                inherited = not ended and short and found[-1].denied and not found[-1].compared
                found.append(Clause(text, denied or inherited, text.startswith(("than", "compared"))))
            ended = piece.strip() in set(".;!?") if piece.strip() else ended
        return found

    @property
    def negated(self) -> bool:
        """Whether a clause of it is denied, comparisons aside."""
        return any(clause.denied and not clause.compared for clause in self.clauses)

    @property
    def denies_first(self) -> bool:
        """Whether its first clause that says anything is denied."""
        return next((clause.denied for clause in self.clauses if content(clause.text)), False)

    def says(self, key: Sequence[str], denied: bool = False) -> bool:
        """Whether it affirms the key words, in a row (four or more: in any order).

        Args:
            denied: The key is itself a denial: look in denied clauses too, of which there must be one.
        """
        if denied and not self.negated:
            return False
        said = " ".join(clause.text for clause in self.clauses if denied or not clause.denied)
        words = content(said) if any(content(word) for word in key) else tokens(said)
        return all(contains(words, [word]) for word in key) if len(key) >= 4 else contains(words, key)


def contains(words: Sequence[str], key: Sequence[str]) -> bool:
    """Whether ``key`` stands in ``words`` in a row, but for misspellings; False for an empty key."""
    runs = (words[start : start + len(key)] for start in range(len(words) - len(key) + 1))
    return bool(key) and any(all(map(_alike, run, key)) for run in runs)


def _alike(one: str, other: str) -> bool:
    long = min(len(one), len(other)) >= FUZZY_LENGTH and one[0] == other[0] and one.isalpha() and other.isalpha()
    return one == other or (long and DamerauLevenshtein.distance(one, other, score_cutoff=1) <= 1)
