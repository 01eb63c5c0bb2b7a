"""A judge by rule, for runs without a key: strict, deterministic, and open to reading.

The rule, in order:

1. An empty answer or a miss is wrong. An answer equal to the ground truth or to an accept form (after normalising
   case, accents, quotes, number words and plurals) is right. Where the ground truth is "I don't know", any answer is wrong.
2. Hedges that name several candidates ("a lion or a tiger") are wrong unless the ground truth or an accept form names both.
3. Yes/no questions are decided by polarity: the yes or no the answer begins with, else whether its first clause is
   denied. Figures or names that contradict the ground truth make it wrong all the same.
4. A comparison the other way round ("B is younger than A" where the older was asked for) is right where it names the right
   one after "than".
5. With accept forms, one of them must stand in a part of the answer that is not denied ("not X", "rather than X", "than X").
   Numbers agree by value: across units, with 1% tolerance for measures, exactly for counts and years. A form that is a
   list needs all of its items, in any order.
6. Without accept forms, the words and figures of the ground truth beyond those of the question are the key: a question
   for a number needs every figure, others need 60% of the key words (85% where the ground truth is a list); names count
   alone where the key holds any.
7. A right part does not save an answer that also says something contradictory: another figure of the same kind, another
   candidate beside the right one, another name where the question asks what or who something is, an item too many.

It knows no facts and no synonyms beyond the accept forms, so it errs on the strict side.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from evaluation.judge.answer_case import LIST_BREAK, AnswerCase, distinct
from evaluation.judge.contradictions import (
    IDENTITY_QUESTION,
    compares_the_other_way,
    extra_item,
    hedge,
    other_figure,
    other_name,
    right_by_opposite,
)
from evaluation.judge.judging import JudgeItem, Verdict
from evaluation.judge.plain_text import content, plain
from evaluation.judge.quantities import EQUIVALENT_TOLERANCE, Quantity, agrees_with_any, same
from evaluation.scores.scoring import is_miss

KEY_SHARE = 0.6
"""Share of the key words an answer needs where there are no accept forms."""

LIST_KEY_SHARE = 0.85
"""The same where the ground truth is a list."""

_YES = re.compile(r"^(?:yes|yeah|yep|correct|indeed|that is (?:right|correct|true)|true|right)\b")
_NO = re.compile(r"^(?:no|nope|not really|incorrect|false|not at all|that is (?:wrong|incorrect|false|not true))\b")
_AUXILIARY = re.compile(
    r"^(?:(?:and|so|but|also|then|ok|well|hey|please) )*"
    r"(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|should|may|might|am)\b"
)
_NUMERIC_QUESTION = re.compile(
    r"\bhow (?:many|much|tall|high|old|long|far|fast|heavy|big|large|wide|deep|hot|cold|often|early|late|soon)\b"
    r"|^(?:and )?when\b"
    r"|\b(?:what|which) (?:(?:is|was|were|did|are) )?(?:the |its |their )?(?:\w+ )?(?:year|date|day|price|height|length|weight|"
    r"speed|number|population|area|age|temperature|time|width|depth|capacity|elevation|mass|lifespan)\b"
)
_YEAR_QUESTION = re.compile(r"\b(?:what|which) year\b")
_WHICH_QUESTION = re.compile(r"^(?:and )?(?:which|what is th(?:is|at)|what are th(?:ese|ose)|identify|who is)\b")
_POINTING = re.compile(r"\b(?:this|that|it|its|these|those|he|she|they|his|her|their)\b")
_POINTING_BACK = re.compile(r"^(?:it|this|that|they|these|those|he|she)\b")
_SUBJECT = re.compile(r"^(?:the )?(?P<subject>.+?) (?:was|were|is|are|has|have|had|can) (?P<predicate>.+)$")
_NAME_RUN = re.compile(
    r"(?<!^)(?<![.!?]\s)\b[A-Z][\w'’-]*(?:\s+(?:(?:of|the|de|la|du|and)\s+)*[A-Z0-9][\w'’-]*)*",
)


class RuleJudge:
    """See the module's text for the rule."""

    name = "rule"
    parallel = False

    def judge(self, item: JudgeItem) -> Verdict:
        """Whether the response is right by the rule; the reason names the step that decided."""
        if not item.response.strip():
            return Verdict(False, "empty answer")
        if is_miss(item.response):
            return Verdict(False, "miss")
        if is_miss(item.ground_truth):
            return Verdict(False, "an answer to what nothing answers")
        case = AnswerCase(item)
        if case.response.bare in {text.bare for text in (case.truth, *case.accept)} and case.response.bare[0]:
            return Verdict(True, "the same words")
        if reason := hedge(case):
            return Verdict(False, reason)
        if _AUXILIARY.match(case.query.plain) and " or " not in case.query.plain:
            decided = _yes_or_no(case)
            if decided is not None:
                return decided
        if compares_the_other_way(case):
            return Verdict(right_by_opposite(case), "the opposite comparison")
        return _by_accept(case) if case.accept else _by_truth(case)


def _yes_or_no(case: AnswerCase) -> Verdict | None:
    """By polarity; None where the ground truth has none."""
    stated = [polarity for text in (case.truth, *case.accept) if (polarity := _polarity(text.plain)) is not None]
    said = _polarity(case.response.plain)
    if not stated and case.accept:
        return None  # the forms say more than a guess from the ground truth's grammar
    expected = stated[0] if stated else not (case.truth.clauses and case.truth.clauses[0].denied)
    if said is None:
        first = next((clause for clause in case.response.clauses if content(clause.text)), None)
        in_words = [form for form in case.accept if _polarity(form.plain) is None]
        if any(case.has_form(form) for form in in_words):
            said = expected
        elif first is None or not _answers_it(case):
            return Verdict(False, "neither yes nor no")
        else:
            said = not (first.denied or compares_the_other_way(case))
    if said != expected:
        return Verdict(False, "the wrong one of yes and no")
    if case.truth.quantities and (reason := other_figure(case)):
        return Verdict(False, reason)
    named, right = case.response.names - case.query.words, case.truth.names - case.query.words
    if named and right and not named & case.known:
        return Verdict(False, "right by yes or no, but names another")
    return Verdict(True, "yes or no as in the ground truth")


def _answers_it(case: AnswerCase) -> bool:
    """Whether a statement without yes or no is about what was asked: it takes up most of the question's words, or points
    back ("it is ...") and takes up one."""
    asked = set(case.query.content)
    taken_up = len(asked & set(case.response.content))
    return taken_up > 0 and (2 * taken_up > len(asked) or bool(_POINTING_BACK.match(case.response.plain)))


def _polarity(plain_text: str) -> bool | None:
    """True where a text begins with yes, False where it begins with no, None where it begins with neither."""
    if _YES.match(plain_text):
        return True
    return False if _NO.match(plain_text) else None


def _by_accept(case: AnswerCase) -> Verdict:
    form = next((form for form in case.accept if case.has_form(form)), None)
    if form is None:
        return Verdict(False, "no accept form")
    return _unless_contradicted(case, form.content, f"accept form {form.original!r}")


def _unless_contradicted(case: AnswerCase, key: Sequence[str], reason: str) -> Verdict:
    against = other_figure(case) or other_name(case, key) or extra_item(case, key)
    return Verdict(False, against) if against else Verdict(True, reason)


def _by_truth(case: AnswerCase) -> Verdict:
    figures = [quantity for quantity in case.truth.quantities if not agrees_with_any(quantity, case.query.quantities)]
    if figures and _NUMERIC_QUESTION.search(case.query.plain):
        return _by_figures(case, figures)
    key = _key(case)
    if not key:
        return Verdict(False, "the ground truth says nothing")
    negated = case.truth.negated
    if negated and not case.response.negated:
        return Verdict(False, "affirms what the ground truth denies")
    key_names = [word for word in key if word in case.truth.names]
    head = _head_name(case)
    if IDENTITY_QUESTION.search(case.query.plain) and head and case.says(head, negated):
        return _unless_contradicted(case, key, "the name in the ground truth")
    needed = LIST_KEY_SHARE if len(LIST_BREAK.split(case.truth.plain)) >= 3 else KEY_SHARE
    share = case.share(key_names or key, negated)
    if share < needed:
        return Verdict(False, f"{share:.0%} of the key words")
    return _unless_contradicted(case, key, f"{share:.0%} of the key words")


def _key(case: AnswerCase) -> list[str]:
    """The words of the ground truth that answer the question.

    Those of the question are left out, and what something is compared with, and the subject where the question only
    points at it ("Who designed this?" - "The Eiffel Tower was designed by Stephen Sauvestre.").
    """
    text = " ".join(clause.text for clause in case.truth.clauses if not clause.compared)
    if _POINTING.search(case.query.plain) and not _WHICH_QUESTION.search(case.query.plain):
        sentence = _SUBJECT.match(text)
        if sentence and any(word not in case.query.words for word in content(sentence["predicate"])):
            text = sentence["predicate"]
    words = content(text)
    return [word for word in words if word not in case.query.words] or words


def _by_figures(case: AnswerCase, figures: Sequence[Quantity]) -> Verdict:
    if _YEAR_QUESTION.search(case.query.plain):
        figures = [quantity for quantity in figures if quantity.dimension == "year"] or figures
    for quantity in distinct(figures):
        conversions = [other for other in figures if same(quantity, other, EQUIVALENT_TOLERANCE)]
        if not any(case.has_figure(other) for other in conversions):
            return Verdict(False, f"figure {case.truth.plain[quantity.start : quantity.end]} is missing")
    return _unless_contradicted(case, [], "the figures of the ground truth")


def _head_name(case: AnswerCase) -> list[str]:
    """The first run of capitalised words within the ground truth that is part of the key."""
    key = set(_key(case))
    for match in _NAME_RUN.finditer(case.truth.original):
        run = content(plain(match.group()))
        if run and set(run) & key:
            return run
    return []
