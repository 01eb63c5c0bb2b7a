"""Answers that refuse, in whatever words: "I cannot determine ...", "The image does not provide ...", "Unknown".

A miss is free, a wrong answer costs a point, and the evaluators know a miss by "I don't know" alone; so what refuses in other words, or in
another language (``refusals.toml``), has to be found before an answer is given. Sentences that merely speak of something unknown ("The
species is unknown to science") are answers.
"""

import re
import tomllib
import unicodedata
from functools import cache
from pathlib import Path

_MAX_CHARACTERS = 2_000  # a refusal says so at once
_APOSTROPHES = str.maketrans("\u2018\u2019\u02bc\u0060\u00b4\u2032\uff07", "'''''''")
_MARKS = re.compile(r"[*_\"“”«»]|\[[\d, ]{1,20}\]")
_SENTENCES = re.compile(r"(?<=[.!?;])\s+")
_KNOW = re.compile(r"\bi (?:\w+ )?(?:do not|don ?t) (?:\w+ )?know\b")
_TOLD_WORDS = (
    "provided specified mentioned stated given shown visible included indicated clear listed named found".split()
)
_BARE = frozenset(  # with nothing else, each is a refusal
    (
        *"unknown unsure uncertain unclear unidentified unanswerable n/a na none null".split(),
        *("n / a", "no answer", "insufficient information", "information insufficient"),
        *(f"not {word}" for word in (*_TOLD_WORDS, "sure", "certain", "known", "available", "answerable")),
    )
)
_TOLD = f"(?:{'|'.join(_TOLD_WORDS)})"
_BE = "(?:is|are|was|were)"
_SURE = "(?:sure|certain)"
_UNSURE = "(?:unsure|uncertain)"
_BY = "(?:based on|from|given|according to|with|without|in|by|using|on|within)"
_CAN_NOT = "(?:can ?not|could not|not able to|unable to|impossible to)"
_DO_NOT = "do(?:es)? not"
_FOUND_OUT = "(?:determined|identified|answered|known|verified|confirmed|established)"
_OPENING = re.compile(  # what may stand before a refusal: "Based on the image, I cannot ...", "Sorry, but ..."
    r"(?:\W*(?:(?:i am |so )?sorry(?:,? but)?|unfortunately|well|however|as an? (?:ai|language model|assistant)[^,.]{0,40}"
    rf"|{_BY} [^,.]{{0,60}})(?:[,.:;!]\s+|\s+(?=i\b)))?\W*"
)
_ABLE = (
    r"(?:know|determine|identify|tell|say|answer|provide|see|find|recogni[sz]e|confirm|verify|help|assist|read|access|locate|give"
    r"|be (?:sure|determined|identified|found|answered))"
)
_WRITTEN = r"(?:evidence|information|context|texts?|documents?|search results?|sources?|entr(?:y|ies)|question)"
_PICTURE = r"(?:image|photo(?:graph)?|picture)"
_SOURCE = rf"(?:{_WRITTEN}|{_PICTURE})"
_GIVEN = r"(?:(?:the|this|that|provided|available|given|your) )*"
_FACTS = r"(?:information|details?|evidence|indication|mention|context|data)"
_REFUSES = re.compile(
    # I cannot determine this. I'm not able to tell. Unable to identify the car. Cannot be determined.
    rf"(?:i(?: am| was)? )?{_CAN_NOT} (?:\w+ )??{_ABLE}\b"
    # I am not entirely sure.
    rf"|(?:i am )?(?:not (?:\w+ )?{_SURE}|{_UNSURE})\b"
    # I do not have enough information. I do not recognise this. I would need more context.
    rf"|i (?:do not (?:have|see|find)|would need|have (?:no|not enough)|lack) (?:\w+ )?(?:{_FACTS}|access|idea|way)\b"
    r"|i do not recogni[sz]e\b"
    # It is not possible to tell. It is unclear from the evidence which of them it is.
    r"|it is (?:not possible|impossible|difficult|hard) to (?:determine|identify|tell|say|know)\b"
    r"|it is (?:unclear|not clear|unknown|uncertain),? (?:from|what|which|who|where|when|how|whether|if)\b(?! .*\bscien)"
    # The provided evidence does not say. The image does not show enough details.
    rf"|{_GIVEN}{_WRITTEN} (?:provided )?(?:{_DO_NOT}|{_BE} (?:not |in)sufficient)\b"
    rf"|{_GIVEN}{_PICTURE} {_DO_NOT} (?:\w+ )?(?:provide|specify|state|indicate|mention|tell|say|(?:show|contain) (?:\w+ )?{_FACTS})\b"
    # There is no mention of it. Not enough information is available.
    rf"|(?:there is )?(?:no|not enough|not any|insufficient) (?:\w+ )?{_FACTS} (?:about|for|on|in|to|is|available|provided|given)\b"
    # The answer is not stated in the evidence. That information is not available.
    rf"|{_GIVEN}(?:information|answer|details?) {_BE} not (?:(?:available|{_TOLD})(?=$|[.,;!])"
    rf"|in {_GIVEN}{_SOURCE}\b)"
    # The age of the bridge cannot be determined from the image. The price is not shown in the photo.
    rf"|[^.,;]{{1,80}} {_CAN_NOT} be (?:\w+ )?{_FOUND_OUT}(?:$|[.,;!]| {_BY}\b)"
    rf"|[^.,;]{{1,80}} {_BE} (?:not (?:\w+ )?{_TOLD}|unknown|unclear) {_BY} {_GIVEN}{_SOURCE}\b"
    r"|please provide\b"
)
_ENDS = " .,;:!?…-)'。"
_FIRST_WITHOUT_BLANKS = "\u3000"
_TURNS = re.compile(
    r"[,;.!]\s*(?:but|however|although|though)\b,?\s+(?!i\b|you\b|please\b|(?:it|this) (?:may|might|could|appears?|seems?|looks?)\b)"
)


def refuses(answer: str) -> bool:
    """Return whether an answer refuses, in full or in its first sentence with nothing asserted after it.

    An answer that contains "I don't know" refuses whatever else it says: the evaluators count it as a miss.
    """
    original = " ".join(
        _MARKS.sub(" ", unicodedata.normalize("NFKC", answer[:_MAX_CHARACTERS]).translate(_APOSTROPHES))
        .casefold()
        .split()
    )
    text = original.replace("can't", "cannot").replace("n't", " not").replace("'m ", " am ").replace("it's ", "it is ")
    if not any(ch.isalnum() for ch in text) or _KNOW.search(text) or _is_bare(text) or _refuses_abroad(original):
        return True
    opening = _OPENING.match(text)
    refusals = (_REFUSES.match(text, start) for start in {0, opening.end() if opening else 0})
    return any(refusal and not _TURNS.search(text, refusal.start()) for refusal in refusals)


def _is_bare(text: str) -> bool:
    rest = text.rstrip(_ENDS)
    for opening in ("it is ", "that is ", "the answer is "):
        rest = rest.removeprefix(opening)
    return rest in _BARE


@cache
def _load_abroad() -> tuple[re.Pattern[str], frozenset[str]]:
    """Compile the table of other languages: beginnings of answers or ends of their first sentences, and whole answers."""
    languages = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).values()

    def fold(key: str) -> frozenset[str]:
        return frozenset(
            unicodedata.normalize("NFKC", one).casefold() for each in languages for one in each.get(key, ())
        )

    def join(key: str) -> str:
        # Chinese, Japanese and Korean go on without a blank.
        return "|".join(
            re.escape(phrase) + ("" if phrase[-1] >= _FIRST_WITHOUT_BLANKS else r"(?!\w)")
            for phrase in sorted(fold(key))
        )

    last_words = rf"[^.!?。]*(?:{join('ends')})\W*(?:$|[.!?。])"
    says = re.compile(rf"\W*(?:(?:{join('before')})\W*){{0,2}}(?:(?:{join('says')})|{last_words})")
    return says, fold("bare")


def _refuses_abroad(text: str) -> bool:
    says, bare = _load_abroad()
    return text.strip(_ENDS) in bare or says.match(text) is not None


def admits_ignorance(text: str) -> bool:
    """Return whether a sentence of a text refuses."""
    return any(refuses(sentence) for sentence in _SENTENCES.split(text[:_MAX_CHARACTERS]) if sentence.strip(" .!?"))
