"""Plans that the words of a question say by themselves, so that no model has to write them, and which questions take a plan at all.

Counts with a condition over all that the photo shows, a date and a duration, and what is computed from text in the photo.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agents.english.bridging import has_bridge
from agents.english.computation import SCALE
from agents.english.dates import DATE, MONTH
from agents.english.number_forms import replace_number_words
from agents.english.printed_text import find_calculation, parse_prices, read_number_column
from agents.english.question_kinds import classify_question, is_about_several, parse_named_number
from agents.english.shopping import plan_shopping
from agents.english.step_plans import (
    HOW_MANY_OF,
    AskStep,
    ComputeStep,
    Condition,
    Plan,
    list_references,
    parse_condition,
    remove_qualifier,
)
from agents.english.step_results import BOUNDED

MAX_COUNTED = 6  # things that a rule asks about

_OF_DATES = re.compile(
    rf"\b(?:{MONTH}\s+\d|\d{{1,2}}(?:st|nd|rd|th)?(?:\s+of)?\s+{MONTH}\b)[^?]{{0,300}}\b(?:when|(?:which|what) (?:date|day))\b"
    rf"|\b(?:when|(?:which|what) (?:date|day))\b[^?]{{0,300}}\b(?:{MONTH}\s+\d|\d{{1,2}}(?:st|nd|rd|th)?(?:\s+of)?\s+{MONTH}\b)"
    r"|\bhow old (?:was|were) [^?]{0,300}\b(?:when|at the time|in \d{4})\b"
    r"|\bhow (?:many (?:years|months|weeks|days)|long|much) (?:after|before|between|later|earlier|older|younger|apart|lie|lay|"
    r"passed|went by|are there between|were there between)\b|\bby how (?:much|many)\b",
    re.IGNORECASE,
)
_FROM_PRINT = re.compile(
    r"\b(?:with|from|by|using|at) (?:the|these|those) (?:numbers?|figures?|prices?)\b", re.IGNORECASE
)
_PRINTED = re.compile(
    r"\b(?:prices?|costs?|pay|paid|how much (?:is|are|for|does|do)|receipt|menu|labels?|signs?|tickets?|bill|tag|change|enough for|"
    r"numbers?|sum|come to|add up|altogether|total)\b",
    re.IGNORECASE,
)
_ARITHMETIC = r"(?:calculat|equation|sum|problem|expression|number|operation|(?:add|divid|multiply|subtract)ing|\d|(?:this|that|it)\W*$)"
_SOLVES = re.compile(
    r"\b(?:solve|calculate|solution|answer)\b|\bwork (?:this|it|that) out\b"
    rf"|\bresults?\b(?! of (?!(?:[\w'-]+ ){{0,3}}{_ARITHMETIC}))",  # nor that of a game
    re.IGNORECASE,
)
_COMES_TO = re.compile(
    r"\b(?:what|how much) (?:does|is|do|would) (?:this|that|it|these|the sum)\b(?!.*\b(?:cost|pay|price))"
    r"|\bcomes? to\b|\badd (?:up|these|those|them)\b",
    re.IGNORECASE,
)
_HOW_MANY = rf"{HOW_MANY_OF}(?: (?:two|three|four|five|six))?"
_USUAL_VERBS = "are|were|is|was|have|has|had|can|could|did|do|would|weigh|cost|measure|contain|lay|live|need|hold|carry|produce|use"
_COUNTS = (
    re.compile(rf"{_HOW_MANY}(?: [\w-]+){{0,3}}? (?P<verb>{_USUAL_VERBS})\b(?P<rest>(?:.*\w)?)\W*$", re.IGNORECASE),
    re.compile(rf"{_HOW_MANY} (?P<verb>[a-z]+)\b(?P<rest>(?:.*\w)?)\W*$", re.IGNORECASE),
)
_TEST_WORDS = (
    r"before|earlier than|prior to|after|later than|since|more than|over|above|less than|fewer than|under|below|at least|at most|up to|"
    r"no more than|no less than"
)
_TESTED = re.compile(rf"^(?P<before>.*?)(?<!\s)\s*\b(?P<condition>(?:{_TEST_WORDS})\s+\S.*)$", re.IGNORECASE)
_COMPARED = re.compile(
    r"^(?P<before>.*?)(?<!\s)\s*\b(?P<adjective>heavier|taller|longer|older|wider|higher|deeper|bigger|larger|faster|lighter|shorter|"
    r"smaller|younger|cheaper) than (?P<limit>\S.*)$",
    re.IGNORECASE,
)
_ADJECTIVES = {
    "heavier": ("heavy", "more than"),
    "lighter": ("heavy", "less than"),
    "taller": ("tall", "more than"),
    "shorter": ("tall", "less than"),
    "longer": ("long", "more than"),
    "wider": ("wide", "more than"),
    "higher": ("high", "more than"),
    "deeper": ("deep", "more than"),
    "bigger": ("big", "more than"),
    "larger": ("large", "more than"),
    "smaller": ("large", "less than"),
    "older": ("old", "more than"),
    "younger": ("old", "less than"),
    "faster": ("fast", "more than"),
    "cheaper": ("expensive", "less than"),
}
_LIMIT = re.compile(
    rf"(?P<limit>[$€£]?\d[\d.,]*(?:\s{SCALE})?(?:\s?%|\s(?P<unit>[A-Za-z]+))?)(?P<after>.*)$",
    re.IGNORECASE,
)
_ADJECTIVE = re.compile(r"\s*(?P<adjective>tall|high|long|wide|deep|old|heavy|big|large|fast)\b", re.IGNORECASE)
_MADE_IN_NUMBERS = re.compile(r"\b(?:sold|made|built|produced|manufactured|killed|left|alive|born)\b", re.IGNORECASE)
_STATE = re.compile(r"\s*(?:already |still )?(?P<place>on|in|at|part of|under|among)\b", re.IGNORECASE)

_DATED = re.compile(
    rf"^\W*+(?:(?:if|when|once|suppose|assuming|say|provided)\s+)?(?P<start>.{{1,200}}?)(?<!\s),?\s+(?:(?:on|from|by|since)\s*+)?(?:the\s+)?"
    rf"(?P<date>{DATE}),?\s+"
    r"(?:(?:and|then)\s+)?(?:(?:on|by|around)\s+)?(?:when|(?:which|what)\s+(?:date|day))\s+"
    r"(?P<verb>is|are|will|should|would|do|does|can|could|may|shall)\s+(?P<subject>it|they|she|he|i|we|you|(?:the|this|these|its|their)"
    r"(?:\s+[\w-]+)?)\s++(?P<outcome>[^?]{0,200}\w)\W*$",
    re.IGNORECASE,
)
_TERMS = {
    "incubation": re.compile(r"\bhatch", re.IGNORECASE),
    "gestation": re.compile(r"\b(?:born|birth|calve|foal)\b", re.IGNORECASE),
}
"""How long something takes has a name where it is known of many kinds; an attribute or a page gives it by that name."""


def needs_steps(question: str) -> bool:
    """Return whether the words of a question show that one fact about one thing cannot answer it."""
    patterns = (BOUNDED, _OF_DATES, _FROM_PRINT)
    return is_about_several(question) or has_bridge(question) or any(each.search(question) for each in patterns)


def mentions_printed_text(question: str) -> bool:
    """Return whether printed text of the photo may be part of the answer: prices, labels, numbers, a calculation."""
    kind = classify_question(question)
    return kind.text or kind.calculation or _PRINTED.search(question) is not None


def plan_by_rules(question: str, things: Sequence[str], lines: Sequence[str] = ()) -> Plan | None:
    """Derive a plan from the words of a question; None if no rule applies.

    Args:
        question: The question.
        things: Names of the things in the photo, the surest first.
        lines: Text in the photo, figures behind their labels.
    """
    return plan_printed(question, lines) or plan_count(question, things) or plan_date(question, things)


def plan_printed(question: str, lines: Sequence[str]) -> Plan | None:
    """Plan a computation from the photo's text alone: its calculation, the sum of its numbers, or the cost of things."""
    if not lines:
        return None
    prices = parse_prices(lines)
    solves = _SOLVES.search(question) is not None
    sum_ = find_calculation(lines, bare=solves)
    if sum_ is not None and (solves or (_COMES_TO.search(question) and not prices)):
        return Plan((ComputeStep("value", (sum_,)),))
    numbers = read_number_column(lines)
    if numbers and re.search(r"\b(?:sum|add|total)\b", question, re.IGNORECASE):
        return Plan((ComputeStep("sum", tuple(numbers)),))
    return plan_shopping(question, prices)


def plan_count(question: str, things: Sequence[str]) -> Plan | None:
    """Plan a count of the things shown that fulfil a condition: ask the same about each, then count."""
    match = next((each for pattern in _COUNTS if (each := pattern.match(question))), None)
    number = parse_named_number(question)
    if match is None or not 2 <= (number or len(things)) <= min(len(things), MAX_COUNTED):
        return None  # of a single kind ("how many of these live ...") or of things that were not found
    if number is None and _MADE_IN_NUMBERS.search(question):
        return None
    parts = _parse_count(match["verb"].lower(), match["rest"].strip())
    if parts is None:
        return None
    about, condition = parts
    names = [remove_qualifier(thing) for thing in things[: number or MAX_COUNTED]]
    if len(set(names)) < len(names):
        return None
    return Plan(
        (*(AskStep(about(thing)) for thing in names), ComputeStep("count", list_references(len(names)), condition))
    )


def _parse_count(verb: str, rest: str) -> tuple[Callable[[str], str], Condition] | None:
    """Return a function that asks about a thing by its name, and the condition for its answer."""
    compared = _COMPARED.match(rest)
    if compared is not None and verb in ("are", "were", "is", "was") and not compared["before"]:
        adjective, test = _ADJECTIVES[compared["adjective"].lower()]
        condition = parse_condition(replace_number_words(f"{test} {compared['limit']}"))
        return (lambda thing: f"How {adjective} is {thing}?", condition) if condition is not None else None
    tested = _TESTED.match(rest)
    if tested is None:
        return None
    before = tested["before"].strip()
    whole = parse_condition(replace_number_words(tested["condition"]))
    if whole is None:
        return None
    if whole.test in ("before", "after", "since", "until"):
        return (lambda thing: _ask_year(thing, verb, before)), whole
    limit = _LIMIT.search(whole.limit)
    if limit is None:
        return None
    condition = Condition(whole.test, limit["limit"].strip())
    question = _ask_quantity(verb, before, limit["unit"], limit["after"].strip(" ?."))
    return (lambda thing: question.format(thing=thing), condition) if question is not None else None


def _ask_year(thing: str, verb: str, rest: str) -> str:
    """Write a question for the year since which something is true of a thing."""
    singular = {"are": "is", "were": "was", "have": "has", "had": "had"}.get(verb, verb)
    state = _STATE.match(rest)
    if singular in ("is", "was") and state is not None:
        return f"Since which year has {thing} been {rest[state.start('place') :]}?"
    if singular in ("is", "was"):
        return f"In which year was {thing} {rest}?"
    if verb == "did":
        return f"In which year did {thing} {rest}?"
    return f"In which year was it that {thing} {f'{singular} {rest}'.strip()}?"


def _ask_quantity(verb: str, before: str, unit: str | None, after: str) -> str | None:
    """Write a question for a quantity, with ``{thing}`` in place of the name; None for words of another form."""
    if "{" in before + after or "}" in before + after:
        return None
    if verb in ("are", "were", "is", "was"):
        adjective = _ADJECTIVE.match(after)
        if adjective is not None and not before:
            return f"How {adjective['adjective'].lower()} is {{thing}}?"
        return "How much is {thing} worth?" if before == "worth" else None
    if verb in ("weigh", "cost", "measure") and not before:
        return f"How much does {{thing}} {verb}?"
    if verb in ("can", "could", "would") and unit is not None and before:
        return f"How many {unit} can {{thing}} {before}{f' {after}' if after else ''}?"
    if (
        verb in ("have", "has", "had", "contain", "lay", "live", "need", "hold", "carry", "produce", "use")
        and not before
        and unit
    ):
        base = "have" if verb in ("has", "had") else verb
        return f"How many {unit} does {{thing}} {base}{f' {after}' if after else ''}?"
    return None


def plan_date(question: str, things: Sequence[str]) -> Plan | None:
    """Plan the end of something that begins on a date: ask how long it takes, and add that to the date.

    It applies to photos of a single thing.
    """
    match = _DATED.match(question)
    if match is None or len(things) != 1:
        return None
    subject, verb, outcome = match["subject"], match["verb"].lower(), match["outcome"].strip()
    outcome = re.sub("^be ", "are " if subject.lower() == "they" else "is ", outcome)
    until = f"{subject} {verb} {outcome}" if verb in ("is", "are", "can", "could") else f"{subject} {outcome}"
    thing = remove_qualifier(things[0])
    term = next((term for term, words in _TERMS.items() if words.search(outcome)), None)
    step_question = f"{thing}: how long does it take from when {match['start'].strip()} until {until}?"
    step_question = step_question if term is None else f"How long is the {term} of {thing}?"
    return Plan((AskStep(step_question), ComputeStep("sum", (match["date"].rstrip("."), "[1]"))))
