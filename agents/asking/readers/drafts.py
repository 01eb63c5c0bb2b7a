"""Drafts: numbered steps of reasoning and a provisional answer (QA-Dragon, section 3.1.2)."""

import re

import sentencex

from agents.asking.ask import ReplyForm
from agents.models.base import ChatReply
from agents.texts.refusals import refuses
from agents.texts.replies import json_object, read_label, was_cut, whole_sentences
from agents.texts.text import one_line
from agents.turn import IDK, Draft

_MAX_NAME = 80
_STEP = re.compile(r"^[^\S\n]*(?:\(?\d+[.)]|[-*])\s*(.+)$", re.MULTILINE)
_OBJECT = re.compile(
    r"exact name of the object(?: that (?:the|this) question is about)?+[^.\n]{0,200}? is (?:an? |the )?"
    r"(?P<quote>[\"“<])?(?P<name>(?(quote)[^\"”\n<>]{1,80}|[^\n<>]{1,200}))",
    re.IGNORECASE,
)
_NAME_END = re.compile(r"[,;(]| which | that | a type of | and it ")
_NOTHING = frozenset(("unknown", "unidentified", "unclear", "not", "none"))
_GENERAL = frozenset(("brand", "make", "model", "name", "species", "title"))


def parse_draft(reply: ChatReply, max_steps: int) -> Draft:
    """Parse numbered steps and an answer: a line ``Answer: ...`` or a JSON object with ``answer``.

    A reply without either is taken as an answer without reasoning, and an empty one as "I don't know". If the deadline or
    the limit of tokens stopped the reply, only whole sentences count as its answer.
    """
    text = reply.text
    fields = json_object(text) or {}
    answer = fields.get("answer") if isinstance(fields.get("answer"), str) else read_label(text, "answer")
    steps = tuple(one_line(step) for step in _STEP.findall(text))[:max_steps]
    if answer is None:
        answer = text.strip().split("\n")[-1] if text.strip() and not steps else IDK
    if was_cut(reply):
        answer = whole_sentences(str(answer))
    return Draft(steps, _object_name(text), one_line(str(answer)) or IDK, reply.logprobs)


def _object_name(text: str) -> str | None:
    """Return the object that the first step names, or None if the step says that it cannot."""
    named = _OBJECT.search(text.replace("*", ""))
    sentence = "" if named is None else _first_sentence(named.group("name"))
    return None if _names_nothing(sentence) else _cut_name(sentence) or None


def extract_name(text: str) -> str | None:
    """Extract the name from a field for a name alone, without the words that follow it.

    Returns:
        None if the field says that no name is known; a name may hold such words.
    """
    sentence = _first_sentence(text)
    name = _cut_name(sentence)
    return None if refuses(sentence) or _names_nothing(name) else name


def _names_nothing(name: str) -> bool:
    """Return whether a name says that no name is known.

    What follows in lower case, or says what a name is of, continues no title ("The Unknown Soldier", "Not Without My Daughter").
    """
    if refuses(name) or refuses(f"It is {name}"):
        return True
    words = name.rstrip(".").split()
    verb = max((place for place, word in enumerate(words) if word in ("is", "are", "was")), default=-1)
    first, *rest = [word for word in words[verb + 1 :] if word.lower() not in ("a", "an")] or [""]
    if first.lower() in _NOTHING:
        return all(map(str.islower, rest)) or rest[0].lower() in _GENERAL
    return 1 < len(words) <= 3 and words[-1] in _NOTHING


def _first_sentence(text: str) -> str:
    return next(iter(sentencex.segment("en", text)), "")  # "Dr. Pepper" ends no sentence


def _cut_name(sentence: str) -> str:
    return one_line(_NAME_END.split(sentence)[0]).rstrip(".")[:_MAX_NAME]


def _is_whole(draft: Draft, _: ChatReply) -> bool:
    return bool(draft.steps and draft.answer) or refuses(draft.answer)


def draft_form(max_steps: int) -> ReplyForm[Draft]:
    """Define the form of a reply with a draft of at most ``max_steps`` steps."""
    return ReplyForm("draft", lambda reply: parse_draft(reply, max_steps), _is_whole)
