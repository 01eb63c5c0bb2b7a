"""A judge by rule, for runs without a key: strict, deterministic, and open to reading.

1. An empty answer or a miss is wrong, and so is any answer where the ground truth is "I don't know". An answer equal to the ground
   truth or to an accept form (but for case, accents, articles, number words and plurals) is right. Another refusal, in whatever words
   or language the agent would know it by, is wrong.
2. Yes/no questions go by polarity: the yes or no that the answer begins with, else whether its first clause is denied.
3. With accept forms, one of them must stand in a part of the answer that is not denied ("not X", "rather than X", "than X"). Figures
   agree by value across units (see ``quantities``); a form that is a list needs all of its items, in any order.
4. Without accept forms, the words of the ground truth beyond those of the question are the key: a question for a number needs every
   figure, others need ``KEY_SHARE`` of the key words (``LIST_KEY_SHARE`` where the ground truth is a list), of its names if it has any.
5. A right part does not save an answer that contradicts it: another figure of the same kind (where a figure is asked for, or none
   agrees; but not one from which the right figure follows, as in "12 + 13 = 25", nor one of another thing beside the right one, as in
   "10.7 hours against about 16" and "the 5 yen coin"), the opposite ("younger" for "older"), the other
   side ("on the left"), two figures or names that have changed places, another name after yes or no, another candidate before the
   right one where one is chosen, or beside it ("a lion, a tiger or a bear", "a lion and a wolf"), another name in a list.

It knows no facts and no synonyms beyond the accept forms, so it errs on the strict side.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from itertools import combinations, product
from math import isclose

from agents.english.answer_text import LIST, AnswerText, Clause, Policy
from agents.english.plain_text import tokenise, tokenise_content
from agents.english.quantities import (
    RELATIVE_TOLERANCE,
    Quantity,
    agrees_with_any,
)
from agents.texts.refusals import refuses
from evaluation.records import JudgeItem, Verdict
from evaluation.scores.scoring import is_miss

KEY_SHARE = 0.6
LIST_KEY_SHARE = 0.85
MAX_CANDIDATE = 3
"""Most content words of a candidate beside the right one; anything longer says something else."""

_YES = re.compile(r"(?:yes|yeah|yep|correct|indeed|true|right|that is (?:right|correct|true))\b")
_NO = re.compile(r"(?:no|nope|not really|incorrect|false|not at all|that is (?:wrong|incorrect|false|not true))\b")
_YES_OR_NO_QUESTION = re.compile(
    r"(?:and |so |but )?(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|shall|should|may|might|must)\b(?!.* or )"
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
_SIDE = re.compile(r"([a-z]+),? (?:on|at|to) the (left|right)\b|\bthe (left|right)(?:-hand)? (?!thing\b)([a-z]+)")
_ONE_SIDE = re.compile(r"\bthe (left|right)\b")
_POINTING = re.compile(r"\b(?:this|that|it|its|these|those|he|she|they|his|her|their)\b")
_SUBJECT = re.compile(r"(?:the )?.+? (?:was|were|is|are|has|have|had|can) (.+)$")
_HARMLESS_OR = re.compile(r"\bor (?:so|more|less|later|earlier|about|around|fewer|higher|over)\b")
_JOINT = re.compile(r"(,? ?\b(?:or|and)\b|, (?=\D))")
_OPPOSITES = (
    "older younger, older newer, taller shorter, longer shorter, heavier lighter, bigger smaller, larger smaller, faster slower, "
    "higher lower, more less, more fewer, hotter colder, warmer cooler, earlier later, before after, wider narrower, male female, "
    "above below, inside outside, north south, east west, northern southern, eastern western"
)
_SUPERLATIVES = (
    "oldest youngest, oldest newest, tallest shortest, longest shortest, heaviest lightest, biggest smallest, largest smallest, "
    "fastest slowest, highest lowest, most least, most fewest, hottest coldest, earliest latest, widest narrowest, first last"
)
_PAIRS = [pair for text in f"{_OPPOSITES}, {_SUPERLATIVES}".split(", ") for pair in (text.split(), text.split()[::-1])]
_NO_PLACE = frozenset({"a", "an", "the", "and", "or", "is", "are", "was", "were"})
_AGAINST = re.compile(r"\b(?:against|versus|vs\.?)(?: [a-z]+)? ?$")
_ARTICLE = re.compile(r"\b(?:the|an?|this|that|each|every|another|other) $")
_NOUN = re.compile(r" ([a-z]+)")
_FACTORS = {"half": 0.5, "twice": 2, "double": 2, "thrice": 3, "triple": 3, "third": 1 / 3, "quarter": 0.25}


_SAME_WORDS, _NOTHING_ANSWERS, _ITS_FIGURES = (
    "the same words",
    "an answer to what nothing answers",
    "the figures of the ground truth",
)
_EMPTY, _MISS, _REFUSAL = "empty answer", "miss", "a refusal in other words"
SURE = frozenset({_EMPTY, _MISS, _REFUSAL, _NOTHING_ANSWERS, _SAME_WORDS, _ITS_FIGURES})
"""Reasons of verdicts that hold without accept forms too. The others depend on how many words of the ground truth an answer repeats."""


class RuleJudge:
    """Judge by the rule in the module's docstring."""

    name = "rule"
    parallel = False

    def judge(self, item: JudgeItem) -> Verdict:
        """Judge by the rule whether the response is right; the reason names what decided."""
        if not item.response.strip() or is_miss(item.response):
            return Verdict(False, _MISS if item.response.strip() else _EMPTY)
        if is_miss(item.ground_truth):
            return Verdict(False, _NOTHING_ANSWERS)
        case = _Case(item)
        if case.response.bare[0] and case.response.bare in [text.bare for text in case.right]:
            return Verdict(True, _SAME_WORDS)
        if refuses(item.response):
            return Verdict(False, _REFUSAL)
        if case.asks_yes_or_no and (verdict := case.decide_yes_or_no()):
            return verdict
        right, reason, key = case.match_accept_forms() if case.accept else case.match_truth()
        against = (
            (case.find_contradiction(case.known_words) or case.find_other_candidate(key) or case.find_other_choice())
            if right
            else ""
        )
        return Verdict(False, against) if against else Verdict(right, reason)


class _Case:
    """A question with its answer and references, ready for the rule.

    Attributes:
        allowed: Figures of the ground truth, the forms and the question.
        known: Words of the same.
    """

    def __init__(self, item: JudgeItem) -> None:
        self.query, self.truth = AnswerText(item.query), AnswerText(item.ground_truth)
        self.response = AnswerText(item.response, asked={*self.query.content, *self.truth.content})
        self.accept = [AnswerText(form) for form in item.accept if form.strip()]
        for form in self.accept:  # "29" of "29 euros" is no number of dollars
            form.quantities = [
                next((one for one in self.truth.quantities if not bare.unit and one.value == bare.value), bare)
                for bare in form.quantities
            ]
        self.right = (self.truth, *self.accept)
        self.policy = Policy(ends=True)
        self.allowed = [quantity for text in (*self.right, self.query) for quantity in text.quantities]
        self.known_words = self.query.words.union(*(text.words for text in self.right))
        self.is_list = len(LIST.split(self.truth.plain)) >= 3
        self.asks_yes_or_no = bool(_YES_OR_NO_QUESTION.match(self.query.plain.rpartition(". ")[2]))
        has_figures = any(text.quantities for text in self.accept or [self.truth])
        self.asks_for_figure = bool(_NUMERIC_QUESTION.search(self.query.plain)) or (
            has_figures and not self.asks_yes_or_no
        )
        self.asks_for_identity = bool(_IDENTITY_QUESTION.search(self.query.plain))

    def decide_yes_or_no(self) -> Verdict | None:
        """Decide by polarity.

        Returns:
            None if there are accept forms, but neither they nor the ground truth says yes or no. The forms then tell more than a guess
            from the ground truth's grammar.
        """
        stated = next((polarity for text in self.right if (polarity := _polarity(text)) is not None), None)
        if stated is None and self.accept:
            return None
        expected = not self.truth.denies_first if stated is None else stated
        polarity = _polarity(self.response)
        if polarity is None and any(_polarity(form) is None and self.has_form(form) for form in self.accept):
            polarity = expected
        elif polarity is None:
            asked, truth, said = (set(text.content) for text in (self.query, self.truth, self.response))
            repeats = any(2 * len(words & said) > len(words) for words in (asked, truth))
            if not asked & said or not (repeats or _POINTING.match(self.response.plain)):
                return Verdict(False, "neither yes nor no")
            polarity = not (self.response.denies_first or self.find_opposite(self.query.words))
        if polarity != expected:
            return Verdict(False, "the wrong one of yes and no")
        named, right = (_names(text) & text.words - self.query.words for text in (self.response, self.truth))
        against = self.find_contradiction(self.query.words if expected else frozenset()) or (
            "names another" if named and right and not named & right else ""
        )
        return Verdict(not against, against or "yes or no as in the ground truth")

    def match_accept_forms(self) -> tuple[bool, str, list[str]]:
        """Return whether an accept form is affirmed, which one, and its words."""
        form = next(filter(self.has_form, self.accept), None)
        return (False, "no accept form", []) if form is None else (True, f"accept form {form.original!r}", form.content)

    def match_truth(self) -> tuple[bool, str, list[str]]:
        """Return whether the answer affirms enough of the ground truth, how much, and the key words."""
        figures = [one for one in self.truth.quantities if not agrees_with_any(one, self.query.quantities)]
        if figures and _NUMERIC_QUESTION.search(self.query.plain):
            years = [one for one in figures if one.dimension == "year"]
            wanted = years if years and "year" in self.query.words else figures
            right = self.response.has_figures(wanted, self.policy)
            return right, _ITS_FIGURES if right else "a figure is missing", []
        text = " ".join(clause.text for clause in self.truth.clauses if not clause.compared)
        about_it = _POINTING.search(self.query.plain) and not _WHICH_QUESTION.match(self.query.plain)
        if about_it and (sentence := _SUBJECT.match(text)) and set(tokenise_content(sentence[1])) - self.query.words:
            text = sentence[1]  # "Who designed this?" - "The Eiffel Tower was designed by Stephen Sauvestre."
        key = [word for word in tokenise_content(text) if word not in self.query.words] or tokenise_content(text)
        head = next((name for name in self.truth.names if set(name) & set(key)), None)
        if head and self.asks_for_identity and self.response.affirms(head, denied=self.truth.negated):
            return True, "the name in the ground truth", key
        words = set(key) & _names(self.truth) or set(key)
        share = sum(self.response.affirms([word], denied=self.truth.negated) for word in words) / max(len(words), 1)
        return share >= (LIST_KEY_SHARE if self.is_list else KEY_SHARE), f"{share:.0%} of the key words", key

    def has_form(self, form: AnswerText) -> bool:
        """Return whether the answer affirms an accept form."""
        return self.response.states(form, self.policy, self.query.words)

    def find_contradiction(self, known_words: frozenset[str]) -> str:
        """Return why the answer contradicts the ground truth or, by an opposite comparative, words that are known; "" if it does not."""
        return (
            self.find_other_figure()
            or self.find_other_side()
            or self.find_exchange()
            or self.find_opposite(known_words)
        )

    def find_other_figure(self) -> str:
        """Return the reason if a figure of the right one's kind disagrees with it, else "".

        A clause that states another fact is no contradiction. Nor is a further figure of a kind of which one agrees, unless the question
        asks for a figure.
        """
        references = [quantity for text in self.right for quantity in text.quantities]
        agreeing = {one.dimension for one in self.response.quantities if agrees_with_any(one, references)}
        kinds = {quantity.dimension for quantity in references} - (set() if self.asks_for_figure else agreeing)
        nouns = {"", *(quantity.noun for quantity in self.allowed), *self.query.content}
        bounds = {"", *(quantity.bound for quantity in self.allowed)}
        beside = [c for c in self.response.clauses if any(agrees_with_any(q, self.allowed) for q in c.quantities)]
        known_words = self.response.figure_words.union(
            self.known_words, *(tokenise_content(clause.text) for clause in beside)
        )
        for clause in self.response.affirmed:
            if beside and clause not in beside and len(set(tokenise_content(clause.text)) - known_words) >= 2:
                continue
            for figure in clause.quantities:
                other_thing = figure.dimension == "number" and figure.noun not in nouns  # four towers and two gates
                bound = beside and figure.bound not in bounds  # "330 m, more than 300 m"
                if (
                    figure.dimension in kinds
                    and not other_thing
                    and not bound
                    and not agrees_with_any(figure, self.allowed)
                    and not any(
                        one.value == figure.value and (not one.unit) ^ (not figure.unit) for one in self.allowed
                    )
                    and not self.is_operand(figure, clause)
                    and not self.is_remainder(figure, clause)
                    and not (figure.dimension in agreeing and self.is_beside(figure, clause))
                ):
                    return f"contradicting figure {figure.text}"
        return ""

    def is_remainder(self, figure: Quantity, clause: Clause) -> bool:
        """Return whether a figure follows the right one in a larger unit ("4 years and 11 months" for "4 years")."""
        return any(
            one.unit != figure.unit
            and one.dimension == figure.dimension
            and agrees_with_any(one, self.allowed)
            and re.search(rf"{re.escape(one.text)},? (?:and )?{re.escape(figure.text)}", clause.text)
            for one in clause.quantities
        )

    def is_beside(self, figure: Quantity, clause: Clause) -> bool:
        """Return whether a figure belongs to another thing that the answer sets beside the right one.

        It follows "against" and the right figure, is a part of a name ("the 5 yen coin"), or measures a thing with such a name.
        """
        if _names_a_thing(figure, clause):
            return True
        before = [one for one in clause.quantities if one.end <= figure.start]
        if _AGAINST.search(clause.text[: figure.start]):
            earlier = self.response.affirmed[: self.response.affirmed.index(clause)]
            before += [one for previous in earlier for one in previous.quantities]
            return any(agrees_with_any(one, self.allowed) for one in before)
        return any(_names_a_thing(one, clause) and not agrees_with_any(one, self.allowed) for one in before)

    def is_operand(self, figure: Quantity, clause: Clause) -> bool:
        """Return whether the right figure follows from a figure of the answer.

        One operation on it and another figure, or a word such as "half", makes the right one. All others of the answer add up to it. Or
        it is the end of a range: three of "4 to 6 kg" are 18 kg.
        """
        references = [quantity for text in self.right for quantity in text.quantities]
        right = [one.value for one in self.response.quantities if agrees_with_any(one, references)]
        numbers = [one.value for one in self.response.quantities if one.value not in (*right, figure.value)]
        others = [one.value for one in self.response.quantities if one.value not in right]
        if len(others) > 1 and any(isclose(sum(others), value) for value in right):
            return True
        if figure.range_end and any(self.follows_from_range(figure, clause, value) for value in right):
            return True
        numbers += [factor for word, factor in _FACTORS.items() if word in self.response.words]
        for number in numbers:
            large, small = max(figure.value, number), min(figure.value, number)
            exact, rounded = (large + small, large - small, large * small), small and large / small
            if any(isclose(value, result) for value in right for result in exact):
                return True
            if any(isclose(value, rounded, rel_tol=RELATIVE_TOLERANCE) for value in right):
                return True
        return False

    def follows_from_range(self, end: Quantity, clause: Clause, right: float) -> bool:
        """Return whether a count of the answer times a range gives a value; ``end`` is one end of the range in its clause."""
        place = clause.quantities.index(end)
        low, high = (
            clause.quantities[place : place + 2] if end.range_end == "low" else clause.quantities[place - 1 : place + 1]
        )
        counts = [one.value for one in self.response.quantities if one.dimension == "number" and one.value > 1]
        return any(low.value * count <= right <= high.value * count for count in counts)

    def find_other_candidate(self, key: Sequence[str]) -> str:
        """Return the reason if another candidate stands beside the right one, else "".

        Candidates are joined by "or", or stand in a list. "and" joins them if one is a name, or if the question asks for names.
        """
        agreeing = (q for q in self.response.quantities if agrees_with_any(q, self.allowed))
        figures = {token for quantity in agreeing for token in tokenise(quantity.text)}
        accepted = figures | self.query.words.union(*(text.words for text in self.accept or [self.truth]))
        accepted |= self.truth.words if "or" in self.truth.words else set()
        names = _names(self.response)
        for text in self.response.stated:
            parts, after = _JOINT.split(_HARMLESS_OR.sub(" ", text)), ""
            for left, joint, right in reversed(list(zip(parts[::2], parts[1::2], parts[2::2], strict=False))):
                joint = joint.strip(", ") or (
                    after if after == "or" and _candidate_words(right, 1) else ""
                )  # "red, blue or green"
                after = joint
                for item, rest in ((_candidate_words(left, -1), right), (_candidate_words(right, 1), left)):
                    strange = set(item) - (accepted if joint == "or" else self.known_words)
                    is_name = not figures & set(key) and (self.asks_for_identity or strange & names)
                    candidate = joint == "or" or self.is_list or is_name
                    if joint and strange and candidate and set(tokenise_content(rest)) & set(key):
                        return f"another candidate: {' '.join(item)}"
            items = [set(tokenise_content(item)) for item in LIST.split(text)] if self.is_list else []
            if len([item for item in items if item and item <= self.known_words]) >= 2:
                strangers = [item for item in items if item and item <= names - self.known_words]
                if strangers:
                    return f"another item: {' '.join(sorted(strangers[0]))}"
        return ""

    def find_other_choice(self) -> str:
        """Return the reason if the answer to a choice names another candidate of the ground truth before the right one, else ""."""
        if not self.asks_for_identity:
            return ""
        names = _names(self.truth) - self.query.words
        others = names.difference(*(text.words for text in self.accept or self.right))
        affirmed = tokenise_content(" ".join(clause.text for clause in self.response.affirmed))
        first, stated = (
            next((word for word in words if word in names), "") for words in (self.truth.content, affirmed)
        )
        return f"names another first: {stated}" if first not in others and stated in others else ""

    def find_other_side(self) -> str:
        """Return the reason if a thing is on the left in the answer and on the right in question and ground truth, or vice versa.

        The answer's clause that has the ground truth's words may speak of no other side than question and ground truth.
        """
        sides = self.truth.words.union(*(form.words for form in self.accept)) & {"left", "right"}
        if not sides or "or" not in self.query.words:
            sides |= self.query.words & {"left", "right"}
        for text in self.response.stated:
            others = set(_ONE_SIDE.findall(text))
            if sides and others and not sides & others and set(tokenise_content(text)) & set(self.truth.content):
                return f"the other side: {', '.join(others)}"
        known, stated = _find_sides(f"{self.query.plain} {self.truth.plain}"), _find_sides(self.response.plain)
        affirmed = _find_sides(". ".join(clause.text for clause in self.response.affirmed))
        moved = (
            word
            for word in affirmed
            if len(known.get(word, ())) == len(stated.get(word, ())) == 1 and stated[word] != known[word]
        )
        return next((f"the other side: {word}" for word in moved), "")

    def find_exchange(self) -> str:
        """Return the reason if two figures or two names of the ground truth have changed places in the answer, else "".

        They have where each follows the word that the other one follows in the ground truth. Stopwords count in an answer of known words
        alone ("than" may follow an opposite otherwise), and a passive sentence says the same as its active one.
        """
        texts, shared = (self.truth, self.response), self.truth.words & self.response.words
        if "by" in self.truth.words ^ self.response.words:
            return ""
        frames = [[text.content for text in texts]]
        new_words = set(self.response.content) - self.known_words
        if not new_words and self.truth.negated == self.response.negated and not self.find_opposite(self.truth.words):
            frames.append([[word for word in tokenise(text.plain) if word not in _NO_PLACE] for text in texts])
        for values, words in product((self.truth.figure_words, _names(self.truth)), frames):
            truth, stated = (_words_before(values & shared, each, shared) for each in words)
            for one, two in combinations(sorted(truth.keys() & stated.keys()), 2):
                if truth[one] != truth[two] and (truth[one], truth[two]) == (stated[two], stated[one]):
                    return f"exchanged: {one} and {two}"
        return ""

    def find_opposite(self, known_words: frozenset[str]) -> str:
        """Return the reason if the answer has the opposite of a known comparative in its place, else ""."""
        words = self.response.words
        return next(
            (f"the opposite: {b}" for a, b in _PAIRS if a in known_words - words and b in words - known_words), ""
        )


def _names_a_thing(figure: Quantity, clause: Clause) -> bool:
    """Return whether a figure is a part of a thing's name: "the 5 yen coin", "two-dollar and one-dollar coins"."""
    if figure.unit is None:
        return False
    noun = _NOUN.match(clause.text, figure.end)
    named = _ARTICLE.search(clause.text[: figure.start]) and noun and tokenise_content(noun[1])
    return bool(named) or "-" in figure.text.strip("-")


def _polarity(text: AnswerText) -> bool | None:
    return True if _YES.match(text.plain) else False if _NO.match(text.plain) else None


def _names(text: AnswerText) -> set[str]:
    return {word for name in text.names for word in name} - {"de", "la", "du"}


def _words_before(values: Set[str], words: Sequence[str], shared: Set[str]) -> dict[str, str]:
    """Return, for each value in ``words``, the last shared word before it that is no value."""
    before, last = {}, ""
    for word in words:
        if word in values:
            before[word] = last
        elif word in shared:
            last = word
    return before


def _find_sides(text: str) -> dict[str, set[str]]:
    """Return the sides, left and right, of each thing in a text ("the left coin", "the bird on the right")."""
    sides: dict[str, set[str]] = {}
    for before, side, side_before, after in _SIDE.findall(text):
        for word in tokenise_content(before or after):
            sides.setdefault(word, set()).add(side or side_before)
    return sides


def _candidate_words(text: str, side: int) -> list[str]:
    """Return the content words at the end of a text (side -1), or of the whole text (side 1).

    An article is left out.

    Returns:
        [] for too many words, or for a clause.
    """
    words = re.sub(r"^\s*(?:(?:an?|the|also) )?", "", text).split()[::side]
    count = next((place for place, word in enumerate(words) if not tokenise_content(word)), len(words))
    fits = 0 < count <= MAX_CANDIDATE and (side < 0 or count == len(words))
    return tokenise_content(" ".join(words[:count][::side])) if fits else []
