"""A judge by rule, for runs without a key: strict, deterministic, and open to reading.

1. An empty answer or a miss is wrong, and so is any answer where the ground truth is "I don't know". An answer equal to the ground
   truth or to an accept form (but for case, accents, articles, number words and plurals) is right.
2. Yes/no questions go by polarity: the yes or no that the answer begins with, else whether its first clause is denied.
3. With accept forms, one of them must stand in a part of the answer that is not denied ("not X", "rather than X", "than X"). Figures
   agree by value across units (see ``quantities``); a form that is a list needs all of its items, in any order.
4. Without accept forms, the words of the ground truth beyond those of the question are the key: a question for a number needs every
   figure, others need ``KEY_SHARE`` of the key words (``LIST_KEY_SHARE`` where the ground truth is a list), of its names if it has any.
5. A right part does not save an answer that contradicts it: another figure of the same kind, another candidate beside the right one
   ("a lion or a tiger", "a lion and a wolf"), the opposite of the question's comparative ("younger" where "older" was asked for).

It knows no facts and no synonyms beyond the accept forms, so it errs on the strict side.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from evaluation.judge.answer_text import AnswerText
from evaluation.judge.plain_text import content, tokens
from evaluation.judge.quantities import EQUIVALENT_TOLERANCE, Quantity, agrees_with_any, same
from evaluation.records import JudgeItem, Verdict
from evaluation.scores.scoring import is_miss

KEY_SHARE = 0.6
LIST_KEY_SHARE = 0.85
LONGEST_CANDIDATE = 3
"""Content words of a candidate beside the right one; anything longer says something else."""

_YES = re.compile(r"(?:yes|yeah|yep|correct|indeed|true|right|that is (?:right|correct|true))\b")
_NO = re.compile(r"(?:no|nope|not really|incorrect|false|not at all|that is (?:wrong|incorrect|false|not true))\b")
_YES_OR_NO_QUESTION = re.compile(
    r"(?:(?:and|so|but|also|then|ok|well|hey|please) )*"
    r"(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|should|may|might|am)\b(?!.* or )"
)
_NUMERIC_QUESTION = re.compile(
    r"\bhow (?:many|much|tall|high|old|long|far|fast|heavy|big|large|wide|deep|hot|cold|often|early|late|soon)\b|^(?:and )?when\b"
    r"|\b(?:what|which) (?:(?:is|was|were|did|are) )?(?:the |its |their )?(?:\w+ )?(?:year|date|day|price|height|length|weight|speed"
    r"|number|population|area|age|temperature|time|width|depth|capacity|elevation|mass|lifespan)\b"
)
_IDENTITY_QUESTION = re.compile(
    r"^(?:what|who) (?:is|are|was|were) (?:this|that|these|those|it|the name|he|she|they)\b|^(?:which|who)\b|\bidentify\b|\bname of\b"
    r"|\bwhat (?:kind|type|breed|species|sort|animal|bird|building|plant|car|make|model|brand|dish|instrument|monument)\b"
)
_WHICH_QUESTION = re.compile(r"(?:and )?(?:which|identify|who is|what (?:is|are) th(?:is|at|ese|ose))\b")
_POINTING = re.compile(r"\b(?:this|that|it|its|these|those|he|she|they|his|her|their)\b")
_SUBJECT = re.compile(r"(?:the )?.+? (?:was|were|is|are|has|have|had|can) (.+)$")
_LIST = re.compile(r"\s*(?:,|;|&|\band\b)\s*(?:and\b)?\s*")
_HARMLESS_OR = re.compile(
    r"\bor (?:so|more|less|later|earlier|about|around|simply|fewer|higher|over)\b|\bwhether or not\b"
)
_OPPOSITES = (
    "older younger, older newer, taller shorter, longer shorter, heavier lighter, bigger smaller, larger smaller, faster slower, "
    "higher lower, more less, more fewer, hotter colder, warmer cooler, earlier later, before after, wider narrower"
)
_PAIRS = [pair for text in _OPPOSITES.split(", ") for pair in (text.split(), text.split()[::-1])]


class RuleJudge:
    """See the module's text for the rule."""

    name = "rule"
    parallel = False

    def judge(self, item: JudgeItem) -> Verdict:
        """Whether the response is right by the rule; the reason names what decided."""
        if not item.response.strip() or is_miss(item.response):
            return Verdict(False, "miss" if item.response.strip() else "empty answer")
        if is_miss(item.ground_truth):
            return Verdict(False, "an answer to what nothing answers")
        case = _Case(item)
        if case.response.bare[0] and case.response.bare in {text.bare for text in (case.truth, *case.accept)}:
            return Verdict(True, "the same words")
        if _YES_OR_NO_QUESTION.match(case.query.plain) and (verdict := _yes_or_no(case)):
            return verdict
        right, reason, key = _by_accept(case) if case.accept else _by_truth(case)
        against = (_other_figure(case) or _other_candidate(case, key) or _opposite(case)) if right else ""
        return Verdict(False, against) if against else Verdict(right, reason)


class _Case:
    """What is decided on; ``allowed`` and ``known`` are the figures and words of the ground truth, the forms and the question."""

    def __init__(self, item: JudgeItem) -> None:
        self.query, self.truth, self.response = map(AnswerText, (item.query, item.ground_truth, item.response))
        self.accept = [AnswerText(form) for form in item.accept if form.strip()]
        self.right = (self.truth, *self.accept)
        self.allowed = [quantity for text in (*self.right, self.query) for quantity in text.quantities]
        self.known = self.query.words.union(*(text.words for text in self.right))
        self.is_list = len(_LIST.split(self.truth.plain)) >= 3
        self.asks_for_identity = bool(_IDENTITY_QUESTION.search(self.query.plain))

    def has_figures(self, wanted: Sequence[Quantity]) -> bool:
        """Whether the answer affirms all figures; of a value and its conversion, "330 m (1,083 ft)", one is enough."""
        said = [quantity for clause in self.response.clauses if not clause.denied for quantity in clause.quantities]
        return all(
            any(
                self._stands_for(given, two) for two in wanted if same(one, two, EQUIVALENT_TOLERANCE) for given in said
            )
            for one in wanted
        )

    def _stands_for(self, said: Quantity, wanted: Quantity) -> bool:
        """Whether two figures agree, or one of them leaves out a unit that goes without saying."""
        if same(wanted, said) or said.value != wanted.value:
            return same(wanted, said)
        if wanted.unit is None:
            return agrees_with_any(said, self.truth.quantities)
        return said.unit is None and (wanted.unit in {"year", "percentage"} or wanted.unit in self.query.words)

    def has_form(self, form: AnswerText) -> bool:
        """Whether the answer affirms an accept form: its figures by value, a list's items in any order, else its words."""
        if form.quantities:
            rest = [word for word in form.content if word not in form.figure_words | self.query.words]
            return self.has_figures(form.quantities) and all(self.response.says([word]) for word in rest)
        items = [part for part in _LIST.split(form.plain) if part.strip()]
        if len(items) > 1:
            return all(self.response.says(content(part) or tokens(part)) for part in items)
        return self.response.says(form.content or tokens(form.plain), denied=form.negated)


def _yes_or_no(case: _Case) -> Verdict | None:
    """By polarity; None where the forms say more than a guess from the ground truth's grammar."""
    stated = next((said for text in case.right if (said := _polarity(text)) is not None), None)
    if stated is None and case.accept:
        return None
    expected = not case.truth.denies_first if stated is None else stated
    said = _polarity(case.response)
    if said is None:
        asked, taken_up = len(set(case.query.content)), len(set(case.query.content) & set(case.response.content))
        if any(_polarity(form) is None and case.has_form(form) for form in case.accept):
            said = expected
        elif not taken_up or (2 * taken_up <= asked and not _POINTING.match(case.response.plain)):
            return Verdict(False, "neither yes nor no")
        else:
            said = not (case.response.denies_first or _opposite(case))
    if said != expected:
        return Verdict(False, "the wrong one of yes and no")
    named, right = case.response.names - case.query.words, case.truth.names - case.query.words
    against = _other_figure(case) if case.truth.quantities else ""
    against = against or ("names another" if named and right and not named & case.known else "")
    return Verdict(not against, against or "yes or no as in the ground truth")


def _polarity(text: AnswerText) -> bool | None:
    return True if _YES.match(text.plain) else False if _NO.match(text.plain) else None


def _by_accept(case: _Case) -> tuple[bool, str, list[str]]:
    form = next(filter(case.has_form, case.accept), None)
    return (False, "no accept form", []) if form is None else (True, f"accept form {form.original!r}", form.content)


def _by_truth(case: _Case) -> tuple[bool, str, list[str]]:
    figures = [quantity for quantity in case.truth.quantities if not agrees_with_any(quantity, case.query.quantities)]
    if figures and _NUMERIC_QUESTION.search(case.query.plain):
        years = [quantity for quantity in figures if quantity.dimension == "year"]
        asks_year = re.search(r"\b(?:what|which) year\b", case.query.plain)
        right = case.has_figures(years if asks_year and years else figures)
        return right, "the figures of the ground truth" if right else "a figure is missing", []
    text = " ".join(clause.text for clause in case.truth.clauses if not clause.compared)
    about_it = _POINTING.search(case.query.plain) and not _WHICH_QUESTION.match(case.query.plain)
    if about_it and (sentence := _SUBJECT.match(text)) and set(content(sentence[1])) - case.query.words:
        text = sentence[1]  # "Who designed this?" - "The Eiffel Tower was designed by Stephen Sauvestre."
    key = [word for word in content(text) if word not in case.query.words] or content(text)
    head = next((name for name in case.truth.full_names if set(name) & set(key)), None)
    if head and case.asks_for_identity and case.response.says(head, denied=case.truth.negated):
        return True, "the name in the ground truth", key
    needed = set(key) & case.truth.names or set(key)
    share = sum(case.response.says([word], denied=case.truth.negated) for word in needed) / max(len(needed), 1)
    return share >= (LIST_KEY_SHARE if case.is_list else KEY_SHARE), f"{share:.0%} of the key words", key


def _other_figure(case: _Case) -> str:
    """A figure of the same kind as the right one that disagrees with it, unless its clause states another fact."""
    kinds = {quantity.dimension for text in case.right for quantity in text.quantities}
    nouns = {quantity.noun for quantity in case.allowed} | set(case.query.content)
    beside = [
        clause for clause in case.response.clauses if any(agrees_with_any(q, case.allowed) for q in clause.quantities)
    ]
    known = set(case.query.content).union(case.response.figure_words, *(content(clause.text) for clause in beside))
    for clause in case.response.clauses:
        other_fact = beside and clause not in beside and len(set(content(clause.text)) - known) >= 2
        for said in () if clause.denied or other_fact else clause.quantities:
            other_thing = (
                said.dimension == "number" and said.noun and said.noun not in nouns
            )  # four towers and two gates
            if said.dimension in kinds and not other_thing and not agrees_with_any(said, case.allowed):
                return f"contradicting figure {clause.text[said.start : said.end]}"
    return ""


def _other_candidate(case: _Case, key: Sequence[str]) -> str:
    """A candidate beside the right one, joined by "or", by "and" where it is a name or names are asked for, or in a list."""
    accepted = case.query.words.union(*(text.words for text in case.accept or [case.truth]))
    texts = [clause.text for clause in case.response.clauses if not clause.denied]
    texts += re.split(r"[.;:!?](?:\s|$)", case.response.plain) if case.is_list else []
    for text in texts:
        parts = re.split(
            r"(\bor\b|\band\b|&|,)" if case.is_list else r"(\bor\b|\band\b|&)", _HARMLESS_OR.sub(" ", text)
        )
        for left, joint, right in zip(parts[::2], parts[1::2], parts[2::2], strict=False):
            for item, rest in ((_item(left, -1), right), (_item(right, 1), left)):
                strange = set(item) - (accepted if joint == "or" else case.known)
                candidate = joint == "or" or case.asks_for_identity or case.is_list or strange & case.response.names
                if strange and candidate and (joint == "," or set(content(rest)) & set(key)):
                    return f"another candidate: {' '.join(item)}"
    return ""


def _item(text: str, side: int) -> list[str]:
    """The words at the end (side -1) of a text, or all of it (side 1), without an article; [] where they are too many or a clause."""
    words = re.sub(r"^\s*(?:(?:an?|the|also) )?", "", text).split()[::side]
    count = next((place for place, word in enumerate(words) if not content(word)), len(words))
    fits = 0 < count <= LONGEST_CANDIDATE and (side < 0 or count == len(words))
    return content(" ".join(words[:count][::side])) if fits else []


def _opposite(case: _Case) -> str:
    """The opposite of the question's comparative ("younger" where "older" was asked for); "" where there is none."""
    asked, said, right = case.query.words, case.response.words, case.truth.words.union(*(f.words for f in case.accept))
    return next((b for a, b in _PAIRS if a in asked - said and b in said - asked - right), "")
