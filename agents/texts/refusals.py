"""Answers that refuse, in whatever words: "I cannot determine ...", "The image does not provide ...", "Unknown".

A miss is free, a wrong answer costs a point, and the evaluators know a miss by "I don't know" alone; so what refuses in other words has
to be found before an answer is given. Sentences that merely speak of something unknown ("The species is unknown to science") are answers.
"""

import re
import unicodedata

_MAX_CHARACTERS = 2_000  # a refusal says so at once
_APOSTROPHES = str.maketrans("\u2018\u2019\u02bc\u0060\u00b4\u2032\uff07", "'''''''")
_MARKS = re.compile(r"[*_\"“”«»]|\[[\d, ]{1,20}\]")
_KNOW = re.compile(r"\bi (?:really |honestly |simply |just )?(?:do not|don ?t) (?:really |actually )?know\b")
_BARE_WORDS = (  # with nothing else, each is a refusal
    "unknown|unsure|uncertain|unclear|undetermined|unidentifiable|unidentified|unanswerable",
    "n ?/ ?a|none|null|no answer|no idea|no information",
    "not (?:sure|certain|known|given|available|applicable|specified|stated|provided|mentioned|visible|clear|found|answerable|"
    "enough information)",
    "insufficient (?:information|evidence|context|data)",
    "information (?:not (?:available|provided|found)|insufficient)",
)
_BARE = re.compile(rf"(?:it(?:'s| is) |that(?:'s| is) |the answer is )?(?:{'|'.join(_BARE_WORDS)})\W*")
_OPENINGS = (  # what may stand before a refusal
    r"(?:i(?:'m| am) )?(?:very |so )?sorry(?:,? but)?|i apologi[sz]e(?:,? but)?|apologies(?:,? but)?",
    "unfortunately|regrettably|no|well|however|hmm",
    "as an? (?:ai|language model|assistant)[^,.]{0,40}",
    # Based on the image, ... Without further details, ...
    "(?:based (?:up)?on|from|given|according to|with|without|in|by|judging (?:from|by)) (?:just |only |solely )?"
    "(?:(?:the|this|these|that|what|any|more|further|your) )?[^,.]{0,60}",
)
_OPENING = re.compile(rf"(?:\W*(?:{'|'.join(_OPENINGS)})(?:[,.:;!]\s+|\s+(?=i\b)))?\W*")
_NO = re.compile(r"\W*no\b")
_ABLE = (
    r"(?:know|determine|identify|tell|say|answer|provide|see|find|recogni[sz]e|confirm|verify|establish|ascertain|give|make out|"
    r"be (?:sure|certain)|assist|help|read|access|discern|specify|name|state|infer|deduce|conclude|pinpoint|locate|estimate|view)"
)
_SOURCE = (
    r"(?:evidence|information|context|texts?|documents?|search results?|results?|sources?|snippets?|references?|passages?|articles?|"
    r"web ?pages?|data|details?|infos?|entries|entry|question|description)"
)
_PICTURE = r"(?:image|photo(?:graph)?|picture)"
_GIVEN = r"(?:(?:the|this|that|these|provided|available|given|retrieved|current|any|your|above|supplied) )*"
_ASIDE = (
    r"(?:(?:itself|alone|provided|available|given|above|i have|here|you sent|you provided|and|or|nor|the|image|photo|"
    r"evidence|information) )*"
)
_FACT = (  # what a text gives, and no thing that may be "not listed" or "not provided" itself
    r"(?:prices?|costs?|height|length|width|depth|weight|mass|size|age|area|speed|capacity|population|dates?|year|day|month|number|"
    r"amount|figures?|value|names?|title|location|address|designer|architect|author|artist|maker|manufacturer|builder|inventor|founder)"
)
_TOLD = r"(?:given|listed|mentioned|specified|stated|provided|indicated|named)"
_TELLS = r"(?:answers?|mentions?|says?|tells?|gives?|contains?|provides?|states?|specif(?:y|ies)|indicates?|includes?|lists?|names?)"
_NOT = r"(?:do(?:es)? not|did not|can ?not)"
_SEES = r"(?:find(?! out)|see|read|access|view|locate)\b"  # what holds for the thing too: "It is difficult to find in the wild"
_NO_THING = (
    rf"(?: (?:it|this|that|them))?(?:\W*$|[.,;!]| (?:what|which|who|where|when|how|whether|if)\b"
    rf"|[^.,;]* (?:{_SOURCE}|{_PICTURE}|answer)\b)"
)
_REFUSALS = (
    # I cannot determine this. I was not able to quite make out the name. I'm not able to tell.
    rf"i (?:(?:can ?not|could not|am (?:not able|unable) to|was (?:not able|unable) to) (?:\w+ )??{_ABLE})\b",
    rf"i'm (?:not able|unable) to (?:\w+ )?{_ABLE}\b",
    # I am not entirely sure. I'm unsure.
    r"i(?:'m| am) (?:not (?:\w+ )?(?:sure|certain|aware|familiar|confident)|unsure|uncertain)\b",
    # I do not have enough information. I do not recognise this.
    r"i do not (?:\w+ )?(?:have|see|find|recogni[sz]e) (?:\w+ )?(?:enough|sufficient|any|access|"
    r"information|details|evidence|the (?:\w+ )?(?:information|answer|evidence|details?))\b",
    r"i do not (?:\w+ )?recogni[sz]e\b",
    # I would need more context. I have no way to tell.
    r"i (?:would|will|'d) need (?:more|further|additional)\b",
    r"i (?:have (?:no|not enough)|lack) (?:\w+ )?(?:information|idea|way|knowledge|evidence|access)\b",
    # Unable to determine the year. Not sure at all. Unknown from the image.
    rf"(?:can ?not|could not|unable to|not able to|impossible to) (?:\w+ )??{_ABLE}\b",
    r"(?:not (?:sure|certain)|unsure|uncertain|no idea)\b",
    r"unknown(?:,| (?:from|based on|given|in|to me))\b",
    # It is not possible to tell. It is unclear from the evidence which of them it is.
    rf"it(?:'s| is| would be) (?:currently |therefore )?(?:not possible|impossible|unclear|uncertain|difficult|hard|"
    rf"not clear|unknown)(?: for me)?"
    rf"(?: to (?:\w+ )??(?:(?!{_SEES})|(?={_SEES}{_NO_THING})){_ABLE}\b"
    r"|,? (?:from|based on|given|in|what|which|who|where|when|how|whether|if)\b(?! .*\bscien))",
    # The provided evidence does not say. The search results contain no date.
    rf"{_GIVEN}{_SOURCE} {_ASIDE}(?:{_NOT} |(?:is|are) (?:not |in)sufficient|is not enough|fails? to |contains? no |"
    rf"gives? no |provides? no |(?:mention|list|state|name|include)s? no (?:\w+ )?(?:{_FACT}|{_SOURCE}|answer)\b|says? nothing|lacks? )",
    # Neither the photo nor the evidence says this. None of the sources mention the price.
    rf"(?:neither {_GIVEN}(?:{_SOURCE}|{_PICTURE}) nor {_GIVEN}(?:{_SOURCE}|{_PICTURE})|none of {_GIVEN}{_SOURCE}) {_TELLS}\b",
    # The image does not show enough details. The photo gives no indication of its age.
    rf"{_GIVEN}{_PICTURE} {_ASIDE}{_NOT} (?:\w+ )?(?:provide|specify|state|indicate|reveal|give|mention|answer|allow|"
    rf"tell|say|identify|"
    r"(?:contain|show|have|include|offer|display) (?:(?:any|enough|sufficient|the|clear|visible|specific|further|this|that|such|"
    r"necessary|relevant|direct) )*(?:information|details?|evidence|clues?|indications?|data|context|answer|name|date|year|price|"
    r"number))\b",
    rf"{_GIVEN}{_PICTURE} {_ASIDE}(?:contains?|gives?|provides?|shows?|offers?) no (?:\w+ )?(?:information|details?|"
    rf"evidence|clues?|indication)",
    # There is no mention of it. Not enough information is available.
    r"there(?: is| was| are| were|'s) (?:no|not (?:enough|sufficient|any)|insufficient) (?:\w+ )?(?:information|"
    r"evidence|mention|indication|way|details?|data|context|answer|clues?|reference)\b",
    r"(?:no|not enough|insufficient) (?:\w+ )?(?:information|evidence|details?|data|context)(?: \w+){0,4} "
    r"(?:is|are|was|were|available|provided|given|found|to)\b",
    # The answer is not stated in the evidence. More context is needed.
    rf"{_GIVEN}(?:information|answer|details?|data) (?:is|are|was|were) not in {_GIVEN}{_SOURCE}\b",
    rf"{_GIVEN}(?:information|answer|details?|data) (?:is|are|was|were) (?:not (?:\w+ )?(?:provided|specified|mentioned|"
    rf"stated|given|shown|available|included|found|known)|unavailable|missing)(?:$|[.,;!]|"
    rf" (?:in|from|within) {_GIVEN}(?:{_SOURCE}|{_PICTURE})\b)",
    r"(?:more|further|additional) (?:information|details?|data|context) (?:is|are|would be) (?:needed|required|necessary)\b",
    # The age of the bridge cannot be determined from the image.
    r"(?:[^.,;]{1,80} )?(?:can ?not|could not) be (?:\w+ )?(?:(?:determined|identified|answered|known|verified|"
    r"confirmed|established|ascertained|inferred|discerned|told)(?:$|[.,;!]| (?:from|based on|with|using|in|by|"
    rf"without|given|on|because|as|since|solely)\b)|found(?:$|[.,;!]|[^.,;]* {_GIVEN}(?:{_SOURCE}|{_PICTURE})\b))",
    # The price is not shown in the photo. Its height is unknown from the evidence.
    rf"[^.,;]{{1,80}} (?:is|are|was|were) not (?:\w+ )?(?:provided|specified|mentioned|stated|given|shown|"
    rf"visible|available|included|indicated|identifiable|clear|known|discussed|addressed|present|listed|named)(?: \w+)?"
    rf" (?:in|from|by|on|within|based on) {_GIVEN}(?:{_SOURCE}|{_PICTURE})\b",
    rf"[^.,;]{{1,80}} (?:is|are) (?:unknown|unclear|uncertain|undetermined) (?:from|based on|in|"
    rf"given) {_GIVEN}(?:{_SOURCE}|{_PICTURE})\b",
    # The year it was built is not mentioned. No price is listed.
    rf"(?:(?:the|its|their|his|her) (?:\w+ )?{_FACT}(?: (?:of|for|that|when|it|he|she|they|this) [^.,;]{{1,60}})? (?:is|are|was|were) not|"
    rf"no (?:\w+ )?{_FACT} (?:is|are|was|were)) (?:\w+ )?{_TOLD}(?:\W*$| in {_GIVEN}{_SOURCE}\b)",
    # Please provide the name.
    r"please (?:provide|share|upload|give)\b",
)
_REFUSES = re.compile("|".join(_REFUSALS))
_DENIES = re.compile(
    r"there(?: is| was| are| were|'s) (?:no|not any) (?:\w+ )?(?:evidence|mention|indication|way|clues?|reference)\b"
    rf"(?![^.;]* (?:in|from|within) {_GIVEN}(?:{_SOURCE}|{_PICTURE})\b)"
)
_TURNS = re.compile(
    r"[,;.!]\s*(?:but|however|although|though|yet)\b,?\s+(?!i (?:can|could|would|am|'m|recommend|suggest|do not)\b|you\b|please\b|"
    r"if\b|it (?:may|might|could|appears?|seems?|looks?)\b|this (?:may|might|could|appears?|seems?|looks?)\b|feel free|further|more|"
    r"there (?:is|are) no|none|not\b)"
)


def refuses(answer: str) -> bool:
    """Return whether an answer refuses, in full or in its first sentence with nothing asserted after it.

    An answer that contains "I don't know" refuses whatever else it says: the evaluators count it as a miss.
    """
    text = " ".join(
        _MARKS.sub(" ", unicodedata.normalize("NFKC", answer[:_MAX_CHARACTERS]).translate(_APOSTROPHES))
        .casefold()
        .split()
    )
    text = text.replace("can't", "cannot").replace("n't", " not")
    if not any(ch.isalnum() for ch in text) or _KNOW.search(text) or _BARE.fullmatch(text):
        return True
    opening = _OPENING.match(text)
    starts = {0, opening.end() if opening else 0}
    for start in starts:
        refusal = _REFUSES.match(text, start)
        if start and _NO.match(text) and _DENIES.match(text, start):
            continue  # "No, there is no mention of it in the Bible" answers
        if refusal and not _TURNS.search(text, refusal.start()):
            return True
    return False
