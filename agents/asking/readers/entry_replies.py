"""The reply to the one prompt of CoRe-MMRAG (section 3.2, appendix A.1): four steps, of which a cut reply holds the first ones."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from agents.asking.ask import ReplyForm
from agents.models.base import ChatReply
from agents.texts.replies import read_label, was_cut
from agents.texts.text import one_line
from agents.turn import KnowledgeEntry

LETTERS = "ABCDEFGHIJKLMNOP"  # names of the entries in prompts, as in the paper (Reference A, B, ...)
MAX_ENTRIES = len(LETTERS)
LABELS = ("own answer", "reference", "reference answer", "final answer")  # what the four lines of a reply begin with

_NAMED = re.compile(r"\b(?i:reference|context|entry)\W{1,3}([A-P])\b")
_FIRST = re.compile(  # neither "A lighthouse" nor "A-frame" nor "e.g."
    r"\W{0,4}([A-P])(?=\W*$|[\])\"*:,;]|\.(?!\w)|\s*[-–—]\s|\s*\n| \(| (?:is|shows|matches|fits|because|and|or)\b)",
    re.IGNORECASE,
)
_ANYWHERE = re.compile(r"\b([B-P])\b(?!')")
_BRACKETED = re.compile(r"\[([^\[\]]+)\]")
_STEP = re.compile(r"^\W{0,4}step[ \t]*(\d)[ \t]*[:.)-]*[ \t]*", re.IGNORECASE | re.MULTILINE)


def label_pictures(entries: Sequence[KnowledgeEntry]) -> list[tuple[str, Image.Image]]:
    """Pair each entry's picture with the entry's letter, and skip entries without a picture."""
    return [(letter, entry.image) for letter, entry in zip(LETTERS, entries, strict=False) if entry.image is not None]


@dataclass(frozen=True)
class FourSteps:
    """What each step says; None for a step that says nothing."""

    parametric: str | None = None  # step 1, the answer from the model's own knowledge (eq. 3)
    entry: int | None = None  # step 2, the place of the most relevant entry, from 0 (eq. 5)
    external: str | None = None  # step 3, the answer from that entry (eq. 6)
    final: str | None = None  # step 4, the answer that is given (eq. 7)


def entry_letter(text: str, entries: int) -> int | None:
    """Return the index from 0 of the entry that a text names, or None.

    The text names it as "Reference C", by a letter of either case alone at its head, or by a single capital that is no article.
    """
    for pattern in (_NAMED, _FIRST, _ANYWHERE):
        for match in (pattern.match(text[:400]),) if pattern is _FIRST else pattern.finditer(text[:400]):
            index = LETTERS.index(match.group(1).upper()) if match else entries
            if index < entries:
                return index
    return None


def parse_four_steps(reply: str, entries: int) -> FourSteps:
    """Parse the four steps of a reply to ``prompts/four_steps.j2``, by label or else by "Step N".

    A reply with neither is the final answer; in square brackets it is the parametric one, as the paper marks it (figure 5).
    """
    reply = reply.replace("*", "")
    text = _STEP.sub("", reply)
    steps = _by_number(reply)
    parts = [read_label(text, label) for label in LABELS]
    if not steps and not any(parts):
        bare = one_line(reply)
        bracketed = _BRACKETED.fullmatch(bare)
        answer = _answer(bare)
        return FourSteps(parametric=answer if bracketed else None, final=answer)
    parametric, reference, external, final = (
        value if value is not None else steps.get(number) for number, value in enumerate(parts, 1)
    )
    return FourSteps(
        _answer(parametric), entry_letter(reference, entries) if reference else None, _answer(external), _answer(final)
    )


def whole_lines(reply: str) -> str:
    """Remove the incomplete last line of a reply that was cut off."""
    return reply[: reply.rfind("\n") + 1]


def _by_number(reply: str) -> dict[int, str]:
    pieces = _STEP.split(reply)
    return {int(number): text for number, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def _answer(text: str | None) -> str | None:
    if text is None:
        return None
    bracketed = _BRACKETED.search(text)
    answer = one_line(bracketed.group(1) if bracketed else text).strip(" \"'")
    return answer or None


def entry_choice(entries: int) -> ReplyForm[int | None]:
    """Define a form of reply that chooses one of ``entries`` lettered entries, by its index from 0."""

    def place(reply: ChatReply) -> int | None:
        return entry_letter(reply.text, entries) if reply.finish_reason != "error" else None

    return ReplyForm("entry", place)


def four_steps(entries: int) -> ReplyForm[FourSteps]:
    """Define a form of reply that holds the four steps over ``entries`` entries.

    Only the whole lines of a reply that was cut off are read.
    """

    def steps(reply: ChatReply) -> FourSteps:
        return parse_four_steps(whole_lines(reply.text) if was_cut(reply) else reply.text, entries)

    return ReplyForm("four steps", steps, lambda value, _: value.final is not None)
