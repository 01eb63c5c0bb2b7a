"""Sanitises retrieved text against prompt injection: removes special tokens, headers of our prompts and instructions to the model.

The threat is indirect prompt injection (Greshake et al., 2023, arXiv 2302.12173). A list of phrases does not find every order; it finds
the plain ones at next to no cost in ordinary text (``tests/injection`` holds both). What gets through stands between quotation marks in the
prompts, and ``agents/texts/orders.py`` looks at the answer; lab/notes/injection.md says what that brings.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

_SPECIAL_TOKEN = re.compile(
    r"<[|｜][^|｜<>]{0,40}[|｜]>"  # Llama, Qwen, DeepSeek: <|eot_id|>
    r"|</?(?:s|bos|eos|pad|unk|mask|image|img|video|start_of_turn|end_of_turn|start_of_image|think|tool_call|vision_start|vision_end)>"
    r"|\[/?(?:INST|IMG|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]|<</?SYS>>",
    re.IGNORECASE,
)
_MAX_ROUNDS = 8
_BARS = re.compile(r"<[|｜]|[|｜]>")
_FAKE_INFO = re.compile(
    r"\[\s*((?:info|doc|document|source|passage|evidence)\s*+(?:#\s*+)?\d{1,4})\s*\]", re.IGNORECASE
)
_FAKE_CITATION = re.compile(r"[\[【]\s*+(?:\^\s*+)?(\d{1,3})\s*[\]】]")
_ROLE_LINE = re.compile(
    r"(^|\n)([ \t]{0,8}(?:[=#-]{1,8}[ \t]{0,8})?)"
    r"(system|assistant|user|human|ai|information|evidence|question|answer|response|reason|instructions?|the conversation so far)"
    r"((?:[ \t]{1,4}(?:message|prompt))?[ \t]{0,4})(?::|(?=\n)|$)",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?\n]*(?:[.!?]+(?=\s|[\"'”’)\]]|$)[\"'”’)\]]*|\n|$)|[^.!?\n]*[.!?]+")

_EARLIER = (
    r"(?:(?:all|any|every|the|of|these|those|this|your|my|its|and|previous|preceding|prior|above|earlier|other|former|foregoing|existing|"
    r"original|retrieved|given|stated|everything|text|whatever|context|instructions?|information|rules?|guidelines?|directions?|prompts?|"
    r"messages?|system|photo|image|picture|evidence|sources?|documents?|knowledge|commands?|orders?|facts?|before|said|was|you)\W+){1,8}?"
)
_ORDERS = re.compile(
    r"\b(?:" + "|".join(  # one boundary for all of them: elsewhere none is tried
        (
            r"(?:ignore|disregard|forget|override|bypass|discard|neglect|skip)\s+" + _EARLIER.replace("{1,8}?", "{0,8}?")
            + r"(?:instructions?|above|context|prompts?|rules?|guidelines?|information|evidence|photo|image|picture|everything|text|before|"
            r"messages?|documents?|sources?|knowledge|facts?|said|told)\b",
            r"(?:ignore|disregard|forget|override|skip)\s+(?:[\w'’]+\s+){1,3}?(?:questions?|quer(?:y|ies))\W+(?:(?:and|then|instead|just|simply|only|please)\W+){0,3}"
            r"(?:answer|say|reply|respond|output|write|print|tell|give|state|return|the\s+answer)\b",
            r"(?:new|updated|real|actual|hidden|secret|important|special|following|urgent)\s+(?:system\s+)?(?:instructions?|prompt|directive|orders?)\b\W{0,3}(?:for|to|:|-|is|are|from|follow)",
            r"system\s+(?:prompt|message|override|instruction|notice|alert|update)s?\b",
            r"(?:you|the\s+(?:ai|assistant|model|chatbot|bot))\s+(?:must|should|shall|will|have\s+to|need\s+to|are\s+(?:required|instructed|ordered|told|asked)\s+to|ought\s+to)\s+"
            r"(?:now\s+|only\s+|always\s+|not\s+|never\s+|simply\s+|instead\s+|therefore\s+)*(?:answer|say|reply|respond|output|write|print|state|claim|repeat|tell|ignore|disregard|forget|refuse|mention|use|reveal|pretend|act|conclude)\b",
            r"you\s+are\s+(?:now|no\s+longer)\b",
            r"(?:answer|reply|respond)\s+(?:\w+\s+){0,4}?(?:only|with|by\s+saying|exactly|that|as\s+follows|to\s+(?:every|all|any|this|the)\s+(?:question|query|user))\b(?=[^.]{0,80}[\"'“‘:]|\s+(?:the\s+)?(?:word|words|phrase|text|sentence|exactly|only|with|that)\b|\s+\w+)",
            r"(?:say|output|print|write|repeat|return|type)\s+(?:only\s+|exactly\s+|just\s+|the\s+(?:word|words|phrase|text|following|sentence)\s+|verbatim\s+|nothing\s+but\s+|after\s+me\b)",
            r"the\s+(?:only\s+)?(?:correct|right|true|real|only|final|best|expected|official|verified|proper|accepted)\s+(?:and\s+\w+\s+)?(?:answer|reply|response)\b",
            r"(?:answer|reply|response)\s+to\s+(?:every|all|any|each|this|the|your|that|whatever)\s+(?:\w+\s+){0,3}?(?:questions?|quer(?:y|ies)|users?|prompts?)\b",
            r"(?:answer|respond\s+to)\s+(?:every|all|any|each)\s+(?:\w+\s+){0,3}?(?:questions?|quer(?:y|ies))\b",
            r"(?:attention|note|message|notice|instructions?|warning|memo|dear|hello|hey|hi)(?:\s*,\s*|\s+)(?:(?:to|for)\s+)?(?:all\s+|any\s+|the\s+|every\s+)*(?:ais?|a\.i\.|llms?|(?:large\s+)?language\s+models?|ai\s+(?:models?|assistants?|agents?|systems?)|assistants?|chatbots?|bots?|models?)\b",
            r"(?:ais?|llms?|language\s+models?|ai\s+(?:models?|assistants?|agents?|systems?)|chatbots?|assistants?)\s+(?:reading|processing|that\s+reads?|who\s+reads?|parsing|seeing|summari[sz]ing|must|should|shall)\b",
            r"as\s+an?\s+(?:ai|language\s+model|assistant)\b",
            r"(?:do\s+not|don'?t|never)\s+(?:answer|mention|use|reveal|trust|follow|cite|rely|say|tell|respond|reply|believe)\b[^.]{0,60}\b(?:question|user|instructions?|evidence|photo|image|picture|context|information|sources?|documents?|prompt|anything|don'?t\s+know|i\s+don)",
            r"(?:begin|start|end|finish|prefix|replace)\s+(?:your|the|every|each|any)\s+(?:answers?|reply|replies|responses?)\b",
            r"your\s+(?:answer|reply|response|output|task|new\s+task|only\s+task|job)\s+(?:must|should|is|has\s+to|shall|will)\b",
            r"(?:pretend|act|behave|role-?play)\s+(?:that\s+you|as\s+if\s+you|to\s+be|like\s+you|as\s+though\s+you)\b",
            r"(?:developer|debug|admin|maintenance|jailbreak|dan|god)\s+mode\b",
            r"end\s+of\s+(?:the\s+)?(?:information|evidence|context|documents?|instructions?|prompt|quoted\s+material|user\s+(?:input|message))\b",
            r"when\s+(?:you\s+are\s+|you're\s+)?asked\b[^.]{0,80}\b(?:answer|say|reply|respond|state)\b",
            r"if\s+(?:you\s+are|you're)\s+(?:an?\s+)?(?:ai|llm|(?:large\s+)?language\s+model|assistant|chatbot|bot|asked)\b",
        )
    ) + ")"
)  # fmt: skip
_KEY_WORDS = frozenset(  # each order has one of them
    "ignore disregard forget override bypass discard neglect skip instruction instructions prompt directive order orders system ai ais i "
    "assistant assistants model models chatbot chatbots bot bots llm llms you your output print write repeat return type say tell answer "
    "answers reply replies response responses respond mention use reveal trust follow cite rely believe pretend act behave role roleplay "
    "mode end asked".split()
)
_WORD = re.compile("[a-z]+")
_MAX_CHARACTERS = 200_000


def without_special_tokens(text: str) -> str:
    """Remove what chat templates take for their own marks.

    A second application changes nothing more.
    """
    if "<" not in text and "[" not in text:
        return text
    for _ in range(_MAX_ROUNDS):
        shorter = _SPECIAL_TOKEN.sub(" ", text)
        if shorter == text:
            return text
        text = shorter  # what is left may close up to a new one: <|<|x|>eot|>
    return _BARS.sub(" ", text)  # nested on purpose; further rounds, one for each depth, would take quadratic time


def gives_orders(sentence: str) -> bool:
    """Return whether a sentence speaks to the model instead of about a thing.

    Compatibility forms of letters (full-width, bold) count as letters.
    """
    return _orders_in(_fold(sentence))


def neutral(text: str, *, citations: bool = True) -> str:
    """Neutralise retrieved text, so that it cannot be taken for a part of the prompt.

    Special tokens and orders are removed, and headers become plain words. With ``citations`` bare ``[3]``, as encyclopedias
    have them, are removed too: the model is to cite our documents, not theirs.
    """
    text = without_special_tokens(text[:_MAX_CHARACTERS])
    if "[" in text or "【" in text:
        text = _FAKE_INFO.sub(r"(\1)", text)
        if citations:
            text = _FAKE_CITATION.sub("", text)
    if "\n" in text or _ROLE_LINE.match(text):
        text = _ROLE_LINE.sub(_plain_header, text)
    return _without_orders(text) if _orders_in(_one_line(_fold(text))) else text


def _orders_in(folded: str) -> bool:
    """Return whether a folded text contains an order. A cheap test comes first: most texts lack the words that every order needs."""
    return not _KEY_WORDS.isdisjoint(_WORD.findall(folded)) and _ORDERS.search(folded) is not None


def _plain_header(line: re.Match[str]) -> str:
    """Rewrite a header as plain words."""
    before, _, header, kind = line.groups()
    return f"{before}{header}{kind} -"


def _without_orders(text: str) -> str:
    """Remove the sentences that an order touches.

    An order may go over several sentences, because lines may be broken anywhere.
    """
    parts: list[str] = _SENTENCE.findall(text)
    for _ in range(_MAX_ROUNDS):
        touched = _find_orders(parts)
        if not touched:
            return text
        parts = [part for number, part in enumerate(parts) if number not in touched]
        text = "".join(parts).strip()
    return ""  # orders within orders: not written for readers


def _find_orders(parts: Sequence[str]) -> set[int]:
    """Return the indices of the parts that contain orders."""
    folded = [_one_line(_fold(part)) for part in parts]
    ends = list(accumulate(map(len, folded)))
    touched: set[int] = set()
    for order in _ORDERS.finditer("".join(folded)):
        first, last = bisect_right(ends, order.start()), bisect_left(ends, order.end())
        while last + 1 < len(parts) and parts[last + 1][:1].islower():  # the line was broken within the sentence
            last += 1
        while first > 0 and parts[first][:1].islower() and parts[first - 1].endswith("\n"):
            first -= 1
        touched.update(range(first, last + 1))
    return touched


def _one_line(text: str) -> str:
    """Join the words of a text with a blank after each, the last one too."""
    return " ".join([*text.split(), ""])


def _fold(text: str) -> str:
    """Letters in their plain form, small: capitals, full-width, bold and other compatibility forms are read alike by a model."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).lower()
