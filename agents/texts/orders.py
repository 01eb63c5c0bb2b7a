"""Detects answers that rest only on an instruction in the evidence: on a sentence that addresses its reader instead of stating a fact.

The sentences are looked for broadly, in several languages and through letters torn apart or replaced: they only count where the
answer is nowhere else. A false statement is none of them, and nothing here finds it.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import partial
from itertools import chain

_SENTENCE = re.compile(r"(?<=[.!?。！？])[\"'”’)\]]*\s+|(?<=[。！？])|\n+(?![a-z])")
_WORD = re.compile(r"\w+(?:[.,'’-]\w+)*")  # 3,117 and 4.5 are words
_JOINED = r"\u3040-\u30ff\u3400-\u9fff"  # letters of these scripts
_SCRIPT_CHANGES = re.compile(rf"(?<=[{_JOINED}])(?=[^\W{_JOINED}])|(?<=[^\W{_JOINED}])(?=[{_JOINED}])")
"""Chinese and Japanese put no blanks around names and numbers of other scripts."""
_TORN = re.compile(r"(?<!\w)\w(?:[\s.\-_*|]{1,3}\w(?!\w)){2,}")
_HYPHEN = re.compile(r"(?<=\w)[-\u00ad\u200b](?=\w)")
_BETWEEN_LETTERS = re.compile(r"[\s.\-_*|]+")
_MIXED = re.compile(r"\b(?=\w*[a-z])(?=\w*[0-9@$])[\w@$]{3,}|(?<!\w)[0-9@$]{1,20}[a-z]+\w*")
_LEET = tuple(str.maketrans("013457@$", letters) for letters in ("oieastas", "oleastas"))
# The letters of other alphabets that look like Latin ones (a part of Unicode's confusables, UTS 39)
_LOOK_ALIKES = str.maketrans("аеорсухіјѕһԁԛԝвнкмтгьαεορτυνικ", "aeopcyxijshdqwbhkmtrbaeoptuvik")

_SPEAK = (
    r"(?:answer|reply|respond|say|print|output|report|repeat|tell|ignore|disregard|forget|override|discard|mention|claim|pretend|conclude|"
    r"return|speak|choose|go\s+with|leave\s+(?:aside|out)|do\s+not|don't)"
)
_BEGIN = (
    rf"(?:{_SPEAK}|write|give|use(?!\s+of)|let|remember|change|pick|select|serve|act|stop|treat|confirm|insert|put|complete|trust|leave|skip|name|"
    r"state(?=\s+that|\s*:))"
)
_ORDERS = tuple(
    re.compile(pattern)
    for pattern in (
        # an imperative: the verb begins the sentence, or comes after a mark, "please", "must" ...
        rf"^[\W_]*{_BEGIN}\b",
        rf"(?:[:;,(\[>*#•|=/–—]\s*|\b(?:please|just|only|always|simply|kindly|now|then|and|must|should|shall|has\s+to|have\s+to|want\s+to|"
        rf"required\s+to|asked\s+to|told\s+to|asks?\s+\w+\s+to|kind\s+to|help\s+to|remember\s+to|always|you|is|are)\s+){_SPEAK}\b",
        r"\b(?:has\s+to|have\s+to|must|should|shall|please|just)\s+(?:give|see|state|write)\b|\b(?:want|like|love)\s+to\s+(?:see|read|hear)\b",
        # what is to be said, by its name
        r"\b(?:correct|right|final|your|the|expected|verified|proper|only|an|as)\s+(?:answers?|reply|replies|responses?)\b|"
        r"\b(?:correct|right|final|your|expected|as(?:\s+the)?)\s+(?:results?|outputs?)\b",
        r"\b(?:answers?|reply|replies|responses?|results?|outputs?|override|solution|final|correction|instructions?|directives?|prompt|note|notice|cached)\b"
        r"(?:\s+\w+){0,3}\s*(?:[:=]|->|=>|–|—|-\s)",
        r"\bq\s*[:.].{0,80}\ba\s*[:.]",
        r"\b(?:anyone|anybody|everyone|everybody|readers?|users?|whoever|someone|model|ai)\b.{0,40}\b(?:ask(?:s|ed)?|know|read(?:s|ing)?|say|see)\b",
        r"\b(?:your|new)\s+(?:task|job|goal|instructions?)\b|\bfrom\s+now\s+on\b|\bgrad(?:ing|er)\b|\bkey\s+is\b|\bmodels?\s+that\b|\bonly\s+the\s+word\b",
        r"\b(?:any|every|all|each|whatever|which)\s+(?:\w+\s+){0,3}(?:questions?|asked)\b|\bthis\s+question\b",
        # who is spoken to, and who speaks
        r"\b(?:user|assistant|system|human|ai|model|bot|chatbot|developer|admin)\s*+(?:(?:message|notice|note|prompt)\s*+)?:",
        r"\b(?:assistants?|chatbots?|language\s+models?|llms?|ai\s+(?:models?|assistants?|systems?|agents?)|system\s+prompt)\b",
        r"\bnote\s+(?:to|for)\b|\b(?:you|assistant|model)\s+(?:must|should|shall|will|have\s+to|are\s+to|need\s+to)\b",
        r"\[g?mask\]|<sop>|\[/?inst\]|###|<\|",
        # what is to be thought of other evidence
        r"\b(?:replaces?|supersedes?|overrides?|instead\s+of|not\s+with)\b.{0,40}\b(?:entr(?:y|ies)|sources?|evidence|information|figures?)\b",
        r"\bwithdrawn\b.{0,60}\binstead\b|\bend\s+of\s+(?:\w+\s+)?(?:information|evidence|context|documents?|quotes?)\b|\bnothing\s+(?:else|but)\b",
        r"\bmay\s+be\s+given\b|\bbe\s+given\s+as\b",
        # German, French, Spanish, Italian, Portuguese, Dutch, Russian, Chinese, Japanese
        r"\b(?:antworte\w*|sage?\s+(?:nur|einfach)|ignorier\w*|répon[ds]\w*|réponse|respon[dt]\w*\s+(?:s[oó]l[oa]|con|com|apenas)|contest[ae]|respuesta|"
        r"ignor[ae]z?|rispond\w+|risposta|responda|resposta|antwoord\w*|zeg|negeer|sagen?\s+sie)\b",
        r"ответ\w*|скажи|игнорируй|回答|答案|忽略|回复|输出|答え|無視",
    )
)
_PACKED = re.compile(r"answer|ignore|reply|respon|nothingbut|disregard|forget|instruct|say|output|print")
_LITTLE = frozenset(
    "a about according all also an and answer any are as at be been but by called can could did do does for from had has "
    "have he her his how i if image in information into is it its just may more most named no not of on one only or other "
    "photo picture she shown shows so some such than that the their them then there these they this those to up was were "
    "what when where which who will with would yes you your".split()
)
_MAX_CHARACTERS = 20_000  # characters of a text to look at; chunks are shorter


def orders_in(sentence: str) -> bool:
    """Return whether the words of a sentence tell its reader what to do or what to answer."""
    folded = " ".join(unicodedata.normalize("NFKC", sentence).lower().split())
    forms = {folded, folded.translate(_LOOK_ALIKES)}
    forms |= {_MIXED.sub(partial(_replace_leet, table), folded) for table in _LEET}
    forms |= {form.replace("_", " ") for form in forms} | {_HYPHEN.sub("", form) for form in forms}
    if any(order.search(form) for form in forms for order in _ORDERS):
        return True
    return any(_PACKED.search(_BETWEEN_LETTERS.sub("", torn[0])) for torn in _TORN.finditer(folded))


def rests_on_orders(answer: str, question: str, chunks: Iterable[tuple[str, str]], texts: Iterable[str] = ()) -> bool:
    """Return whether the evidence contains what an answer adds to its question only in sentences that give orders.

    Names and numbers of the answer count, or all its words if it has neither. If nothing contains the answer, it is the model's own.

    Args:
        answer: The answer.
        question: Its question.
        chunks: Title and text of the evidence.
        texts: Further texts that a model read, such as the conversation.
    """
    added = answer_keywords(answer, question)
    if not added:
        return False
    order_words: set[str] = set()
    plain_words = {word for text in texts for word in words_in(text)}
    for title, text in ((title[:_MAX_CHARACTERS], text[:_MAX_CHARACTERS]) for title, text in chunks):
        # A name that gives orders would make one of each sentence that contains it.
        about = text.replace(title, " ") if len(title) > 2 else text
        for sentence in chain(_SENTENCE.split(title), _SENTENCE.split(about)):
            (order_words if orders_in(sentence) else plain_words).update(words_in(sentence))
    return not added & plain_words and bool(added & order_words)


def _replace_leet(letters: dict[int, int], word: re.Match[str]) -> str:
    return word[0].translate(letters)


def words_in(text: str) -> set[str]:
    """Return the words and numbers of a text in lower case."""
    return set(_WORD.findall(_SCRIPT_CHANGES.sub(" ", unicodedata.normalize("NFKC", text).lower())))


def answer_keywords(answer: str, question: str) -> set[str]:
    """Return the words that carry an answer: its names and numbers that the question lacks, else its other words."""
    return list_added_names(answer, question) or {word.lower() for _, word in _find_added_words(answer, question)}


def list_added_names(answer: str, question: str) -> set[str]:
    """Return the names and numbers of an answer that its question lacks, in lower case."""
    return {
        word.lower()
        for place, word in _find_added_words(answer, question)
        if any(map(str.isdigit, word)) or (place > 0 and word[0].isupper())
    }


def _find_added_words(answer: str, question: str) -> list[tuple[int, str]]:
    """Return the words of an answer that its question lacks, each with its index; no function words."""
    question_words = words_in(question) | _LITTLE
    words = _WORD.findall(unicodedata.normalize("NFKC", answer))
    return [(place, word) for place, word in enumerate(words) if word.lower() not in question_words]
