"""What a question asks for, from its words: text or sums that stand in the picture, a name, facts of the world, the present.

Also tells whether it asks about several objects of the picture at once.
"""

import re
from dataclasses import dataclass

_SURFACES = (
    "sign|label|tag|menu|ticket|receipt|poster|page|notice|timetable|board|cover|letter|note|package|pack|screen|plate|card|spine|"
    "bill|text|programme|program"
)
_TEXT = re.compile(
    r"\bwhat(?: \w+){0,2}(?:'s| is| are| was) (?:\w+ ){0,2}(?:written|printed|spelled)\b(?! (?:by|about|for|of|during|on this subject)\b)"
    r"|\bwhat (?:does|do) (?:it|this|that|they|these|those) (?:say|read)\b"
    r"|\bwhat (?:does|do) (?:the|this|that|these|those|my) (?:\w+ ){0,3}(?:mean|say|read) in english\b"
    rf"|\bwhat (?:does|do) (?:the|this|that|these|those|my) (?:[\w-]+ ){{0,2}}(?:{_SURFACES}|words?|writing|inscription|"
    rf"letters)s? (?:[\w-]+ ){{0,4}}(?:say|read|mean)\b"
    r"|\btranslate\b|\btranslation of (?:this|these|that|the text|it)\b|\bhow (?:is|do you|are) [^?.]{1,40}\bspel(?:l|led|t)\b"
    rf"|\b(?:according to|printed on|written on|as stated on) (?:the|this|that|my) (?:[\w-]+ ){{0,2}}(?:{_SURFACES})\b"
    rf"|\bwhat does (?:the|this|that|my) (?:[\w-]+ ){{0,2}}(?:{_SURFACES})\b"
    rf"|\bwhat is the (?:price|heading|title|word|text|number) on (?:the|this|that|my) (?:[\w-]+ ){{0,2}}(?:{_SURFACES})\b",
    re.IGNORECASE,
)
_CALCULATION = re.compile(
    r"\b(?:calculate|compute|add up (?:the|these|those)|sum of (?:these|those|the (?:\w+ )?(?:numbers|prices|digits|angles|"
    r"values))|sum up|solve|"
    r"(?:this|these|the) equations?|how much change|square root|(?:this|the|definite|indefinite) integral(?= of|\W*$)|"
    r"derivative of (?:this|the|f)|perimeter)\b"
    r"|\b(?:how much|what) (?:is|are|do|does|would|should|will)\b[^?.]{0,300}\b(?:altogether|all together|in total|come to|"
    r"the total(?=\W*$| on (?:this|the|my) ))\b"
    r"|\bwhat is the (?:area|volume|perimeter|circumference|hypotenuse) of (?:this|the) (?:[\w-]+ ){0,2}(?:triangle|circle|"
    r"square|rectangle|shape|figure|cube|cylinder|cone|sphere|polygon|trapezoid|parallelogram|pyramid shown|prism)\b"
    r"|\bwhat is the (?:total|sum|result|product|difference) of (?:this|these|those|the (?:\w+ )?(?:numbers|prices|digits|"
    r"values|bill|receipt))\b",
    re.IGNORECASE,
)
_VISIBLE = re.compile(
    r"(?<!\bin )\b(?:what|which) colou?rs? (?:is|are) (?:this|that|these|those|the|his|her|my|it|they)(?: [\w-]+){0,2}"
    r"(?: (?:on|in|at|next|to|of|with|behind|beside|near|shown)\b (?!(?:this|that|these|those) (?!picture|photo|"
    r"image))(?!(?:autumn|winter|spring|summer|nature|japan)\b)[^?.]*)?\W*$"
    r"|\bcolou?rs? of (?:this|the|that|these|those|my|his|her) [\w-]+(?: [\w-]+)?\W*$|\bwhat is (?:he|she|it|the (?:man|woman|"
    r"person|child)) (?:wearing|holding|doing)\b"
    r"|\bhow many\b[^?.]*\b(?:(?:in|on) (?:the|this) (?:picture|photo|image|table|shelf|wall|plate|desk|floor|ground)"
    r"|(?:can|do) (?:you|i|we) see|(?:are|is) (?:lying|standing|sitting|parked|shown|pictured|visible|laid out|here))\b",
    re.IGNORECASE,
)
_RECOGNITION = re.compile(
    r"\b(?:what|which)(?! else\b)(?: [\w-]+){0,3} (?:is|are) (?:this|that|these|those)\b(?! [\w-]+ (?:\w+ ){0,3}(?:made|used|for))"
    r"|\bwhat(?:'s| is| are) (?:this|that|these|those)\b|\bwhat(?:'s| is) the name of (?:this|that|these|the)\b"
    r"|\bwhat(?:'s| is| are) (?:the|this|that|these) [^?.]{0,300}\bcalled\b"
    r"|\bdo you call (?:this|that|these|those|the (?:[\w-]+ ){0,2}(?:thing|one|tool|object|plant|animal|bird))\b"
    r"|\bam i looking at\b|\bidentify\b"
    r"|\b(?:what|which) (?:kind|type|sort|breed|species|brand|make|model|variety) (?:of (?:[\w-]+ ){1,3})?(?:is|are|do|am)\b"
    r"|\b(?:what|which)(?: [\w-]+){1,3} (?:is|are) (?:shown )?(?:on|in|at) the (?:[\w-]+ ){0,2}(?:left|right|middle|top|bottom|"
    r"background|foreground|card|postcard|stamp|poster|picture|photo|flag)\b",
    re.IGNORECASE,
)
_BE = r"(?: is| are| was| were|'s)"
_NOUN = r"(?: (?!(?:of|for|to|by|from|with|about|after|as|that|which|who|made|used|built|called|[a-z]+ed|[a-z]+est|most|best)\b)[\w-]+)"
_PICTURE = (
    r"(?:picture|photo(?:graph)?|image|pic|screenshot|video|background|foreground|middle|cent(?:er|re)|distance|corner)"
)
_HOLDER = r"(?:hands?|bowl|glass|cup|can|bottle|box|bag|basket|vase|pot|pan|cage|tank|sky|water)"
_PLACE = (
    rf"(?:(?: (?:over |up |down |right )?(?:here|there(?! to\b))| in front of \w+| (?:next|close) to \w+"
    rf"| in (?:the|this|that|my) {_PICTURE}| in (?:the|my|his|her) {_HOLDER}| (?:on|at|behind|under|beside|near|by|above|below|over)"
    r"(?! the (?:front|back|reverse|obverse|inside|outside|other side) of\b)"
    r" (?:the|this|that|these|those|my|his|her|a|an)(?! \w+est\b) \w+)\b)"
)
_PLACED = "(?:attached|displayed|hung|laid|mounted|parked|perched|placed|planted|seated|stuck)"
_ENDS = r"(?=\W*$|[,;.?!]| and\b)"
_SOMEBODY = r"(?:he|she|they|(?:the|this|that) (?:[\w-]+ )?(?:man|woman|person|boy|girl|child|kid|guy|lady|player|people|men|women))"
_NAMES_OF_SHOWN = (
    # What is it? What animal is it in the cage?
    rf"(?:what|which|who)(?: [\w-]+){{0,3}}?{_BE} (?:it|he|she|they){_PLACE}?{_ENDS}",
    # Who is this person? Who is this statue of?
    rf"who{_BE} (?:this|that|these|those){_NOUN}{{0,2}}(?: of)?{_PLACE}?{_ENDS}",
    # What is the tower behind the bridge? Who is the man on the left?
    rf"(?:what|which|who){_BE} the{_NOUN}{{1,4}}?{_PLACE}"
    rf"(?: (?!(?!build|paint|draw)\w+ing\b)[\w-]+){{0,2}}?(?: of [^?.!,;]*)?{_PLACE}?{_ENDS}",
    # What building is in front of me? Which insect is sitting on the leaf? What car is parked next to the tree?
    rf"(?:what|which|who){_NOUN}{{0,3}}?{_BE}(?: (?:shown|pictured|depicted|portrayed|visible|seen|{_PLACED}|being \w+|\w+ing))?{_PLACE}",
    # Which painting is shown?
    rf"(?:what|which|who){_NOUN}{{0,3}}?{_BE} (?:shown|pictured|depicted|portrayed|being \w+){_ENDS}",
    # What bird can be seen? Which tower do we see?
    rf"(?:what|which|who){_NOUN}{{0,3}}? (?:can be seen|(?:can|do) (?:i|you|we) see)\b(?! from\b)",
    # What instrument is she playing?
    rf"(?:what|which){_NOUN}{{0,3}}? (?:am i|(?:is|are) {_SOMEBODY}) \w+ing{_PLACE}?{_ENDS}",
    # What is the make and model of this car?
    rf"what{_BE} the (?:(?:common|full|exact|english) )?(?:name|breed|species|brand|make|model|title|make and model)"
    rf" of (?:this|that|these|those|the|my){_NOUN}{{0,3}}{_PLACE}?{_ENDS}",
    # Which species does this bird belong to?
    rf"(?:what|which) (?:breed|species) do(?:es)? (?:this|that|these|those|the|it){_NOUN}{{0,3}}{_PLACE}? belong to\b",
    # Who does this statue represent?
    rf"who do(?:es)? (?:this|that|these|those|the|it){_NOUN}{{0,3}}{_PLACE}? (?:represent|depict|show|portray)\b",
    # What does this picture show?
    rf"what do(?:es)? (?:this|that|the) {_PICTURE} (?:depict|show)\b",
    # Where is this? Where am I? Where was this photo taken?
    rf"where{_BE} this(?: place)?{_ENDS}",
    r"where am i\b",
    r"where was this(?: (?:photo|picture|image))? taken\b",
)
_NAME_OF_SHOWN = re.compile(rf"^\W*(?:{'|'.join(_NAMES_OF_SHOWN)})", re.IGNORECASE)
_DAYTIME = "minute|instant|hour|morning|afternoon|evening|day|season|spring|summer|autumn|fall|winter"
_AFTER_A_TIME = (  # else it is part of a name: "this morning glory", "this season ticket"
    "in|on|at|by|for|from|of|to|with|near|around|over|during|after|before|until|than|and|or|but|if|when|so|as|is|are|was|were|be|will|"
    "would|can|could|do|does|did|has|have|had|should|may|might|here|there|already|yet|again|too|compared"
)
_NAMED_NOW = re.compile(  # "Now, how tall is it?", "USA Today"
    r"^\W*(?:(?i:ok|okay|and|so|but|alright|well),? )?[Nn]ow\b|(?<=\w )(?:Now|Today|Tonight|Tomorrow|Yesterday)\b"
)
_NOW = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|nowadays|now|right now|currently|presently|latest|newest|most recent(?:ly)?|recently|"
    r"these days|so far|up[- ]to[- ]date|at (?:the|this) (?:very )?moment|at present|this (?:very )?(?:week|month|year)|"
    rf"this very (?:{_DAYTIME})|this (?:{_DAYTIME})(?=\W*$|[^\w\s]|\s+(?:{_AFTER_A_TIME})\b)|"
    r"(?:last|next) (?:night|week|month|season|game|match|"
    r"launch|election))\b|\bcurrent(?= (?:price|cost|score|weather|temperature|population|value|president|ceo|owner|champion|record|"
    r"exchange|rate|ranking|status|version|model|number|world|head|king|queen|mayor|coach|stock|market|\w+ (?:price|rate|champion))\b)"
    r"|\bis (?:it|this|that|he|she) (?:still )?(?:open|closed|alive|available|in stock)\b",
    re.IGNORECASE,
)

_ASKS_WHETHER = re.compile(r"\band (?:is|are|do|does|did|can|could|has|have|will|would)\b", re.IGNORECASE)
_MOMENT = re.compile(
    r",? \b(?:right now|now|today|nowadays|these days|currently|presently|still|at (?:the|this) (?:very )?moment|at present)\b",
    re.IGNORECASE,
)
_SHOWN = r"(?:this|that|these|those)"
_VARIETY = r"(?:kind|type|sort|breed|species|brand|make|model|make and model|variety)"
_TIME_INDEPENDENT = re.compile(  # without its moment
    r"\W*(?:"
    # What am I looking at? Which bird are we looking at?
    rf"(?:what|which){_NOUN}{{0,3}} (?:am i|are we) looking at{_PLACE}?"
    # What is this? Who is that on the left?
    rf"|(?:what|who){_BE} {_SHOWN}{_PLACE}?"
    # What is the name of this bird? What is the make of the car in front of me?
    rf"|what{_BE} the (?:(?:name|title|{_VARIETY}) of {_SHOWN}{_NOUN}{{0,3}}{_PLACE}?|{_VARIETY} of (?:the|my){_NOUN}{{1,3}}{_PLACE})"
    # What kind of bird is that? Which model is the car on the left?
    rf"|(?:what|which) {_VARIETY}(?: of{_NOUN}{{1,3}})?{_BE} (?:{_SHOWN}{_NOUN}{{0,3}}{_PLACE}?|(?:the|my){_NOUN}{{1,3}}{_PLACE})"
    # What is this building used as?
    rf"|what{_BE} (?:it|(?:the|{_SHOWN}){_NOUN}{{0,3}}) used (?:as|for)"
    # Is this species alive?
    rf"|(?:is|are|does|do) {_SHOWN} (?:species|breeds?) (?:alive|living|around|exist|extinct|extant)"
    r")\W*",
    re.IGNORECASE,
)

_CLAUSE = re.compile(
    r"(?:\band|[;?])\s+(?:(?:also|then|please|can you|could you|tell me|explain)\s+)*"
    r"(?P<clause>(?:who|whose|where|when|why|how|what|which)\b[^;.?!]*)",
    re.IGNORECASE,
)
_ABOUT_AN_ANSWER = re.compile(r"\b(?:they|them|their|he|him|his|she|her)\b", re.IGNORECASE)
_ACCORDING = re.compile(r"\b(?:according to|as stated on)\b", re.IGNORECASE)
_MEANS = re.compile(r"\b(?:mean|say|read)s?\b", re.IGNORECASE)
_COMPARED = re.compile(
    r"\bcompared? (?:to|with) (?!(?:this|that|these|those|the other)\b)"
    r"|\bthan the (?:national|usual|average|typical|official|recommended)\b",
    re.IGNORECASE,
)

_NUMBERS = {"both": 2, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_NUMBERED = re.compile(
    r"\b(?:these|those|(?:of|are|compare) the|all) (?P<number>two|three|four|five|six)\b|\b(?P<both>both)\b",
    re.IGNORECASE,
)
_SEVERAL = re.compile(
    r"\b(?:which|any|all|each|none|either|neither) (?:one )?of (?:these|those|them)\b"
    r"|\bthan (?:the|this|that|its|your|my) (?:other|one|(?:[\w-]+ ){1,2}(?:on|in|at|next to|beside|behind) )"
    r"|\b(?:left|right|middle|top|bottom)(?: one)?,? (?:or|and) the (?:left|right|middle|top|bottom|other)\b"
    r"|(?<!put )\b(?:together|in total|combined|in common|each other|difference between)\b"
    r"|\b(?:(?:add|sum|added|summed) (?:them|these|those|it all) up)\b",
    re.IGNORECASE,
)

_AUXILIARY = re.compile(
    r"\W*(?:is|are|was|were|do|does|did|can|could|would|will|has|have|had|should|may)\b", re.IGNORECASE
)
_PACKAGED = re.compile(
    r"\b(?:packag(?:e|es|ed|ing)|packets?|cartons?|wrappers?|jars?|canned|(?:can|tin|tube|bottle|box|bag|pack|bar) of"
    r"|brand of|logo|labell?ed)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class QuestionKind:
    """What a question asks for; several kinds may apply."""

    text: bool  # words that stand in the picture, or their translation
    calculation: bool  # a sum over what the picture shows
    visible: bool  # a colour, a count or a pose that is visible in the picture
    recognition: bool  # the name of what is shown
    open_world: bool  # a fact of the world that no picture shows, alone or beside one of these
    now: bool  # the present: prices, weather, results, who holds an office

    @property
    def self_contained(self) -> bool:
        """Whether the picture alone can answer (table 1 of QA-Dragon: arithmetic, OCR)."""
        return (self.text or self.calculation or self.visible) and not (self.now or self.open_world)


def classify_question(question: str) -> QuestionKind:
    """Classify a standalone question."""
    plain = question.replace("\u2019", "'")
    text, calculation, visible, recognition = (
        bool(pattern.search(plain)) for pattern in (_TEXT, _CALCULATION, _VISIBLE, _RECOGNITION)
    )
    return QuestionKind(
        text=text,
        calculation=calculation,
        visible=visible,
        recognition=recognition,
        open_world=not (text or calculation or visible or recognition) or _asks_more(plain),
        now=bool(_NOW.search(_NAMED_NOW.sub("", plain))),
    )


def asks_name_of_shown(question: str) -> bool:
    """Return whether a question asks what or who is shown, so that a name alone answers it.

    Wider than ``QuestionKind.recognition``, which routes and plans are made from.
    """
    plain = question.replace("\u2019", "'")
    return _RECOGNITION.search(plain) is not None or _NAME_OF_SHOWN.match(plain) is not None


def is_time_independent(question: str) -> bool:
    """Return whether a question names a moment but asks only for what changes slowly, if at all.

    That is what the photo shows, the name of it, the use of a thing, or whether a species survives.
    """
    kind = classify_question(question)
    if (kind.text or kind.visible) and not (kind.open_world or _ASKS_WHETHER.search(question)):
        return True
    return _TIME_INDEPENDENT.fullmatch(_MOMENT.sub("", question.replace("\u2019", "'"))) is not None


def _asks_more(question: str) -> bool:
    """Return whether a further clause asks for something that no picture shows.

    An example is "who makes this, and where are they from?". After "according to the label" the label may answer the other clauses too, so
    only a clause about the answer of the first one counts.
    """
    if _COMPARED.search(question):
        return _is_visible(question)
    on_label = _ACCORDING.search(question) is not None
    for match in _CLAUSE.finditer(question):
        clause, before = match["clause"], question[: match.start()]
        after = _is_visible(before) and not (_is_visible(clause) or _MEANS.search(clause))
        if after and (not on_label or _ABOUT_AN_ANSWER.search(clause)):
            return True
    return False


def _is_visible(text: str) -> bool:
    return any(pattern.search(text) for pattern in (_TEXT, _CALCULATION, _VISIBLE))


def parse_named_number(question: str) -> int | None:
    """Return how many objects a question names ("these two", "both", "of the three"); None if it gives no number."""
    match = _NUMBERED.search(question)
    return None if match is None else _NUMBERS[(match["number"] or match["both"]).lower()]


def is_about_several(question: str) -> bool:
    """Return whether a question compares, counts or adds up several objects of the picture.

    Facts about one of them cannot answer it.
    """
    return parse_named_number(question) is not None or _SEVERAL.search(question) is not None


def asks_yes_or_no(question: str) -> bool:
    """Return whether a question begins with an auxiliary verb, so that yes or no answers it."""
    return _AUXILIARY.match(question) is not None


def is_about_packaged(question: str) -> bool:
    """Return whether a question is about packaged goods.

    Image search finds the package and seldom the product (QA-Dragon, appendix A, rule 4).
    """
    return _PACKAGED.search(question) is not None
