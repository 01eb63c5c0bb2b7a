"""What the things that a question names cost, by the prices that are printed in the photo."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agents.english.computation import ComputationError, compute
from agents.english.number_forms import parse_number_words
from agents.english.printed_text import Price, list_words, mentions
from agents.english.step_plans import ComputeStep, Plan

_PAYS = re.compile(
    r"\b(?:prices?|costs?|pay|how much (?:is|are|for|do|does|would)|total|altogether|come to)\b", re.IGNORECASE
)
_FURTHER = re.compile(
    r"\b(?:enough|change|how many|more|less|cheaper|than|discount|per|each|every|if|when|with|without|left|save|percent|now|today|or)\b",
    re.IGNORECASE,
)
_MAX_WORDS = 14  # of a question that asks for prices and nothing else
_TOKEN = re.compile(r"\w+(?:\.\d+)?|[,&]")
_SEPARATORS = frozenset({",", "&", "and", "plus"})
_WORDS_BEFORE = 3  # "two kilos of the green apples": a number stands at most so many words before what it counts
_MASS = re.compile(r"(?:kilo(?:gram)?s?|kgs?|grams?|g|pounds?|lbs?|ounces?|oz|litres?|liters?|l)$", re.IGNORECASE)
_PARTS = frozenset({"half", "third", "quarter", "dozen", "couple", "pair", "few"})  # counts that no figure says
_SAYS_NOTHING = frozenset(
    "how much many what which is are was were be do does did will would can could should may the a an this that these those my your of "
    "for to in on at by from and plus it its me us i we you they he she them there here so as not just only have has".split()
)
_NO_THINGS = frozenset(
    "cost costs price prices priced pay paid paying buy get want take order total altogether together come comes please hi hey hello "
    "tell sign menu label tag board list receipt bill shop store market stall cafe restaurant photo picture image".split()
)
_PREPOSITIONS = frozenset("according in at on by from based judging looking going".split())


def plan_shopping(question: str, prices: Sequence[Price]) -> Plan | None:
    """Plan the cost of the things that a question names.

    Returns:
        None if the question asks for more than prices, or if one of the things has no price or several.
    """
    tokens = _TOKEN.findall(question)
    if not prices or len(tokens) > _MAX_WORDS or not _PAYS.search(question) or _FURTHER.search(question):
        return None
    bought: list[tuple[str, Price]] = []
    for item in _split_items(tokens, prices):
        item_prices = _find_prices(item, prices)
        if not item_prices and not _names_thing(item):
            continue
        count = _count_item(item, item_prices[0]) if len(item_prices) == 1 else None
        if count is None or any(price is item_prices[0] for _, price in bought):
            return None
        bought.append((count, item_prices[0]))
    return _add_up(bought) if bought else None


def _add_up(bought: Sequence[tuple[str, Price]]) -> Plan:
    """Plan the sum of prices, each times its count."""
    steps: list[ComputeStep] = []
    terms: list[str] = []
    for count, price in bought:
        if count == "1" and len(bought) > 1:
            terms.append(price.amount)
            continue
        steps.append(ComputeStep("product", (count, price.amount)))
        terms.append(f"[{len(steps)}]")
    return Plan((*steps, ComputeStep("sum", tuple(terms)))) if len(bought) > 1 else Plan(tuple(steps))


def _split_items(tokens: Sequence[str], prices: Sequence[Price]) -> list[list[str]]:
    """Split the words of a question at commas and "and", but not within a label: "fish and chips"."""
    items: list[list[str]] = [[]]
    for place, token in enumerate(tokens):
        around = [*tokens[place - 1 : place], *tokens[place + 1 : place + 2]]
        if token.lower() not in _SEPARATORS or any(_joins(price.label, around) for price in prices):
            items[-1].append(token)
        else:
            items.append([])
    return [item for item in items if item]


def _joins(label: str, around: Sequence[str]) -> bool:
    """Return whether a label joins two words by "and"."""
    return re.search(r"\band\b|&", label, re.IGNORECASE) is not None and all(mentions(label, word) for word in around)


def _find_prices(item: Sequence[str], prices: Sequence[Price]) -> list[Price]:
    """Return the prices whose labels share the most words with an item.

    Of several that share the same words, it is the one whose label has no other word: for "latte" not "Iced Latte".
    """
    shared = [frozenset(word.lower() for word in _list_shared(item, price.label)) for price in prices]
    most = max(map(len, shared))
    best = [(price, words) for price, words in zip(prices, shared, strict=True) if words and len(words) == most]
    if len({words for _, words in best}) == 1:
        whole = [
            price
            for price, words in best
            if all(any(mentions(each, word) for word in words) for each in list_words(price.label))
        ]
        return whole if len(whole) == 1 else [price for price, _ in best]
    return [price for price, _ in best]


def _list_shared(item: Sequence[str], label: str) -> list[str]:
    """Return the words of an item that a label has."""
    words = [
        word
        for word in item
        if word.lower() not in _SAYS_NOTHING and _read_count(word) is None and mentions(label, word)
    ]
    return words + [word for place, word in enumerate(item) if words and _is_in_label(item, place, label)]


def _is_in_label(item: Sequence[str], place: int, label: str) -> bool:
    """Return whether a figure of an item counts what it counts in a label: "the 12 inch pizza"."""
    words = r"\W*".join(map(re.escape, item[place : place + 2]))
    return item[place][0].isdigit() and re.search(rf"\b{words}", label, re.IGNORECASE) is not None


def _names_thing(item: Sequence[str]) -> bool:
    """Return whether an item may be a thing to pay for, neither a phrase of place nor words of the question alone."""
    words = [word.lower() for word in item if len(word) > 1 and not _MASS.match(word) and _read_count(word) is None]
    return item[0].lower() not in _PREPOSITIONS and not set(words) <= _SAYS_NOTHING | _NO_THINGS


def _count_item(item: Sequence[str], price: Price) -> str | None:
    """Return how many of its unit an item asks for; None if it does not say so in figures, or if the price is for another unit."""
    shared = set(_list_shared(item, price.label))
    first = next(place for place, word in enumerate(item) if word in shared)
    later = [_read_count(word) for word in item[first:] if word not in shared]
    if _PARTS & {word.lower() for word in item[:first]} or any(count not in (None, "1") for count in later):
        return None
    return _count_before(item[:first], price.unit)


def _count_before(words: Sequence[str], price_unit: str | None) -> str | None:
    """Return the number of things that the words before a name ask for; None if the price is for another unit."""
    count, unit = "1", None
    for word in reversed(words[-_WORDS_BEFORE:]):
        if _MASS.match(word):
            unit = word
            continue
        number = _read_count(word)
        if number is not None:
            count = number
            break
    if unit is None:
        return count if price_unit is None or count == "1" else None
    if price_unit is None or not _MASS.match(price_unit):
        return None
    try:
        return count if compute("difference", [f"1 {unit.lower()}", f"1 {price_unit.lower()}"]).value == 0 else None
    except ComputationError:
        return None


def _read_count(word: str) -> str | None:
    if re.fullmatch(r"\d+(?:\.\d+)?", word):
        return word
    return "1" if word.lower() in ("a", "an") else parse_number_words(word)
