"""What makes an answer wrong although the right words stand in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from evaluation.judge.answer_case import LIST_BREAK, AnswerCase, contains
from evaluation.judge.plain_text import content, stem
from evaluation.judge.quantities import EQUIVALENT_TOLERANCE, agrees_with_any, find, same

IDENTITY_QUESTION = re.compile(
    r"^(?:what|who) (?:is|are|was|were) (?:this|that|these|those|it|the name|he|she|they)\b"
    r"|\bwhat (?:kind|type|breed|species|sort|animal|bird|building|plant|car|make|model|brand|dish|instrument|monument)\b"
    r"|^(?:which|who)\b|\bidentify\b|\bname of\b"
)
_OPENING = re.compile(
    r"^(?:it|this|that|these|those|they|he|she)(?: \w+){0,2}? (?:is|are|was|were)(?: (?:a|an|the))? (?P<rest>.+)"
)
_HARMLESS_OR = re.compile(
    r"\b(?:or (?:so|more|less|later|earlier|about|around|approximately|roughly|simply|fewer|higher|over)"
    r"|more or less|whether or not)\b"
)
_UNSURE = re.compile(
    r"\b(?:could|might|may|possibly|perhaps|maybe|probably|likely|seem|seems|either|appears|unless|unclear|unsure)\b"
)
_ANTONYMS = (
    ("old", "young"), ("older", "younger"), ("oldest", "youngest"), ("older", "newer"), ("tall", "short"), ("taller", "shorter"),
    ("heavier", "lighter"), ("bigger", "smaller"), ("larger", "smaller"), ("longer", "shorter"), ("faster", "slower"),
    ("higher", "lower"), ("more", "less"), ("more", "fewer"), ("hotter", "colder"), ("warmer", "cooler"), ("earlier", "later"),
    ("before", "after"), ("wider", "narrower"), ("deeper", "shallower"), ("stronger", "weaker"), ("biggest", "smallest"),
    ("largest", "smallest"), ("tallest", "shortest"), ("above", "below"),
)  # fmt: skip
_PAIRS = [(stem(a), stem(b)) for a, b in _ANTONYMS] + [(stem(b), stem(a)) for a, b in _ANTONYMS]
_WORD = re.compile(r"[a-z0-9]+(?:\.\d+)?")
_LONGEST_ITEM = 3


def hedge(case: AnswerCase) -> str | None:
    """Several candidates named with "or", or listed after "could be"; None where there is no such hedge."""
    text = _HARMLESS_OR.sub(" ", case.response.plain)
    excused = any(" or " in known.plain for known in (case.truth, *case.accept))
    if not excused:
        for clause in re.split(r"[.;,!?]\s", text):
            left, found, right = clause.partition(" or ")
            if (found or clause.startswith("or ")) and _other_candidate(case, left, right or left.removeprefix("or ")):
                return "hedge: several candidates"
    if _UNSURE.search(text):
        items = [content(part) for part in re.split(r",| and ", text)]
        short = [part for part in items[1:] if 0 < len(part) <= _LONGEST_ITEM and not set(part) <= case.known]
        if len(items) >= 3 and len(short) >= 2:
            return "hedge: several candidates"
    return None


def _other_candidate(case: AnswerCase, left: str, right: str) -> bool:
    left_figures, right_figures = find(left)[-1:], find(right)[:1]
    if right_figures:
        if left_figures:
            return not same(left_figures[0], right_figures[0], EQUIVALENT_TOLERANCE)
        return not agrees_with_any(right_figures[0], case.allowed)
    words = set(content(right))
    if not words:
        return False
    accepted = frozenset().union(*(form.words for form in case.accept)) if case.accept else case.truth.words
    return not words <= (accepted if " or " in case.query.plain else accepted | case.query.words)


def other_figure(case: AnswerCase) -> str | None:
    """A figure of the same kind as the right one that disagrees with it, unless its clause states another fact."""
    response = case.response
    right = [*case.truth.quantities, *(quantity for form in case.accept for quantity in form.quantities)]
    kinds = {quantity.dimension for quantity in right}
    nouns = {quantity.noun for quantity in case.allowed if quantity.noun} | set(case.query.content)
    figures = response.words_of(response.quantities)
    right_clauses = {response.clause_of(q) for q in response.quantities if agrees_with_any(q, case.allowed)}
    right_words = {word for clause in right_clauses if clause is not None for word in content(clause.text)}
    for quantity in response.quantities:
        clause = response.clause_of(quantity)
        if (
            quantity.dimension not in kinds
            or agrees_with_any(quantity, case.allowed)
            or clause is None
            or clause.denied
        ):
            continue
        if quantity.dimension == "number" and quantity.noun and quantity.noun not in nouns:
            continue  # four towers and two gates
        own = set(content(clause.text)) - set(case.query.content) - right_words - figures
        if len(own) < 2 or not right_clauses or clause in right_clauses:
            return f"contradicting figure {response.plain[quantity.start : quantity.end]}"
    return None


def other_name(case: AnswerCase, key: Sequence[str]) -> str | None:
    """Another candidate beside the right one, or in the place where the right one belongs.

    Args:
        key: Words of the right answer.
    """
    wanted = set(key) | case.known
    identity = bool(IDENTITY_QUESTION.search(case.query.plain))
    for clause in case.response.clauses:
        if clause.denied:
            continue
        for left, right in pairwise(re.split(r"\band\b|&", clause.text)):
            for item, rest in ((_last_item(left), right), (_first_item(right), left)):
                strange = set(item) - wanted
                if strange and (identity or strange & case.response.names) and set(content(rest)) & set(key):
                    return f"another candidate: {' '.join(item)}"
    return _stated_instead(case, wanted) if identity else None


def _stated_instead(case: AnswerCase, wanted: set[str]) -> str | None:
    """It is the Tokyo Tower, which people mistake for the Eiffel Tower."""
    for clause in case.response.clauses:
        opening = _OPENING.match(clause.text)
        if opening is None:
            continue
        if clause.denied:
            return None
        words = set(content(opening["rest"]))
        asked = words & case.query.words
        strange = words - case.query.words
        named = bool(strange & case.response.names) or not asked
        if strange and named and not strange & (wanted - case.query.words):
            return f"says that it is {opening['rest']}"
        return None
    return None


def extra_item(case: AnswerCase, key: Sequence[str]) -> str | None:
    """An item too many in a list, where the ground truth is a list."""
    if len(LIST_BREAK.split(case.truth.plain)) < 3:
        return None
    for sentence in re.split(r"[.;:!?]\s", case.response.plain):
        items = LIST_BREAK.split(sentence)
        if sum(bool(set(content(item)) & set(key)) for item in items) < 2:
            continue
        for item in items[1:]:
            words = set(content(item))
            if words and len(item.split()) <= _LONGEST_ITEM and not words & case.known:
                return f"one too many: {item}"
    return None


def compares_the_other_way(case: AnswerCase) -> bool:
    """Whether the answer has the opposite of the question's comparative ("younger" where "older" was asked for)."""
    given = (case.truth, *case.accept)
    return any(
        asked in case.query.words
        and opposite not in case.query.words
        and opposite in case.response.words
        and asked not in case.response.words
        and not any(opposite in text.words for text in given)
        for asked, opposite in _PAIRS
    )


def right_by_opposite(case: AnswerCase) -> bool:
    """B is younger than A: answers "which is older?" with A, the one after "than"."""
    after = content(" ".join(clause.text for clause in case.response.clauses if clause.compared))
    if case.accept:
        return any(contains(after, form.content) for form in case.accept)
    head = [clause.text for clause in case.truth.clauses if not clause.compared]
    key = [word for word in content(" ".join(head)) if word not in case.query.words]
    return bool(key) and all(contains(after, [word]) for word in key)


def _last_item(text: str) -> list[str]:
    """Content words in a row at the end of a text, at most 3; empty for anything longer."""
    run: list[str] = []
    for word in reversed(_WORD.findall(text)):
        if not content(word):
            return run
        run.insert(0, stem(word))
        if len(run) > _LONGEST_ITEM:
            return []
    return run


def _first_item(text: str) -> list[str]:
    """The words of a text of at most 3 content words, an article before them aside; empty for a clause of its own."""
    words = _WORD.findall(text)
    if words and words[0] in {"a", "an", "the", "also"}:
        words = words[1:]
    if not words or len(words) > _LONGEST_ITEM or any(not content(word) for word in words):
        return []
    return [stem(word) for word in words]
