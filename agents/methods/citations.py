"""Citations in answers: reading them, checking them, writing them (MAVIS, section 3.1: sentence-level, in square brackets)."""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence

import sentencex

from agents.texts.text import CHARACTERS_A_TOKEN, FIGURE, cut_words, without_controls
from agents.turn import CitedSentence, DroppedCitation

_MAX_CHARACTERS = 6_000  # characters read; an endless reply must not cost endless time, and sentencex takes quadratic time on some quotes
_WIDEST = 50  # most documents in one [1-50]
_MARKER = re.compile(r"[\[【]([^\[\]【】\n]{1,60})[\]】]")
_LABEL = re.compile(
    r"\b(?:citations?|cite|documents?|docs?|info|passages?|sources?|references?|refs?|images?|and)\b|[\^#.:]"
)
_NUMBERS = re.compile(r"\s*\d{1,4}(?:\s*[-–]\s*\d{1,4})?(?:[\s,;&]+\d{1,4}(?:\s*[-–]\s*\d{1,4})?)*\s*")
_RANGE = re.compile(r"(\d{1,4})(?:\s*[-–]\s*(\d{1,4}))?")
_SPACED_STOP = re.compile(r"(?<!\s)\s+([.,;:!?])")
_WORD = re.compile(r"\w")
_WAITING = re.compile(r"\b(?:is|was|are|were|by|the|an?)$", re.IGNORECASE)  # something has to follow
_LONGEST_WAITING = 4
_END = re.compile(r"[^\S\n]{0,40}(?:[.!?]|\n|$)")
_MARKER_CHARACTERS = 3 * CHARACTERS_A_TOKEN  # "[", "1" and "]" are a token each


def parse_cited(answer: str) -> tuple[CitedSentence, ...]:
    """Split an answer into sentences with their citations, in linear time.

    ``[1]``, ``[1, 2]``, ``[1][2]``, ``[1-3]``, ``[Doc 2]``, ``[Info 2]``, ``[^1]`` and ``【1】`` are markers. Other brackets are text.
    A marker belongs to the sentence that contains or precedes it. If the answer begins with a marker, each belongs to the next sentence.
    A sentence with a marker in place of the requested fact ("It was made by [1].") says nothing and is left out.
    """
    text, markers = _remove_markers(without_controls(answer[:_MAX_CHARACTERS]))  # sentencex raises on lone surrogates
    spans = list(_find_sentences(text))
    if not spans:
        return ()
    leading = bool(markers) and not text[: markers[0][0]].strip()
    cited: list[list[int]] = [[] for _ in spans]
    empty: set[int] = set()
    place = 0
    for position, numbers in markers:
        if leading:
            while place < len(spans) - 1 and spans[place][1] <= position:
                place += 1
        else:
            while place < len(spans) - 1 and spans[place + 1][0] < position:
                place += 1
        cited[place] += numbers
        if _END.match(text, position) and _WAITING.search(
            text, max(spans[place][0], position - _LONGEST_WAITING), position
        ):
            empty.add(place)
    return tuple(
        CitedSentence(_SPACED_STOP.sub(r"\1", " ".join(text[start:end].split())), tuple(dict.fromkeys(numbers)))
        for number, ((start, end), numbers) in enumerate(zip(spans, cited, strict=True))
        if number not in empty
    )


def merge_repeated(sentences: Sequence[CitedSentence]) -> tuple[CitedSentence, ...]:
    """Merge repeated sentences into one with all their citations.

    A small model may repeat a sentence until its reply is cut.
    """
    citations: dict[str, list[int]] = {}
    for sentence in sentences:
        citations.setdefault(sentence.text, []).extend(sentence.citations)
    return tuple(CitedSentence(text, tuple(dict.fromkeys(numbers))) for text, numbers in citations.items())


def _remove_markers(answer: str) -> tuple[str, list[tuple[int, list[int]]]]:
    """Remove the markers from a text, and return the position and the numbers of each."""
    pieces: list[str] = []
    markers: list[tuple[int, list[int]]] = []
    length = end = 0
    for match in _MARKER.finditer(answer):
        numbers = _parse_numbers(match.group(1))
        if numbers is None:
            continue
        pieces.append(answer[end : match.start()].rstrip(" \t"))  # in the expression: quadratic on long runs of blanks
        length += len(pieces[-1])
        markers.append((length, numbers))
        end = match.end()
    pieces.append(answer[end:])
    return "".join(pieces), markers


def _parse_numbers(inside: str) -> list[int] | None:
    """Parse the document numbers of a bracket; None if it contains other words."""
    bare = _LABEL.sub(" ", inside.lower())
    if not _NUMBERS.fullmatch(bare):
        return None
    numbers: list[int] = []
    for first, last in _RANGE.findall(bare):
        start, stop = int(first), int(last or first)
        numbers += range(start, min(stop, start + _WIDEST - 1) + 1) if stop >= start else (start, stop)
    return numbers


def _find_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each sentence that contains a word. The end of a line ends a sentence."""
    start_of_line = 0
    for line in text.splitlines(keepends=True):
        position = start_of_line
        for segment in sentencex.segment("en", line):
            sentence = segment.strip()
            start = text.find(sentence, position)
            if start < 0:  # the library changed the white space
                continue
            position = start + len(sentence)
            if _WORD.search(sentence):
                yield start, position
        start_of_line += len(line)


def check_citations(
    sentences: Sequence[CitedSentence], support: Sequence[Mapping[int, float]], *, threshold: float, attribute: bool
) -> tuple[CitedSentence, ...]:
    """Keep the citations whose documents support their sentence.

    Args:
        sentences: The sentences of an answer.
        support: Scores of each sentence by document number. A number without a score belongs to no document.
        threshold: Drop citations that score less.
        attribute: Give a sentence that keeps no citation the document that supports it best.
    """
    checked = []
    for sentence, scores in zip(sentences, support, strict=True):
        citations = tuple(number for number in sentence.citations if scores.get(number, float("-inf")) >= threshold)
        dropped = tuple(
            DroppedCitation(number, "not supported" if number in scores else "no such document")
            for number in sentence.citations
            if number not in citations
        )
        is_attributed = attribute and not citations
        if is_attributed:
            reaching = [number for number, score in scores.items() if score >= threshold]
            citations = tuple(sorted(reaching, key=lambda number: (-scores[number], number))[:1])
        checked.append(CitedSentence(sentence.text, citations, dropped, is_attributed and bool(citations)))
    return tuple(checked)


def extract_figures(text: str) -> frozenset[str]:
    """Extract the figures of a text; 1,250 and 1250 are equal."""
    return frozenset(re.sub(r",(?=\d{3}\b)", "", figure) for figure in FIGURE.findall(text))


def has_supported_figures(sentence: str, texts: Collection[str]) -> bool:
    """Return whether the texts contain every number of a sentence.

    Similarity of embeddings does not detect a wrong number.
    """
    figures = frozenset().union(*(extract_figures(text) for text in texts))
    return extract_figures(sentence) <= figures


def is_verbatim_in(text: str, document: str) -> bool:
    """Return whether a document contains a text word for word, regardless of case and punctuation."""
    plain_text, plain_document = (_plain(item) for item in (text, document))
    return bool(plain_text) and f" {plain_text} " in f" {plain_document} "


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))


def add_markers(sentence: CitedSentence) -> str:
    """Add the citations to a sentence, before its end punctuation: ``It is 330 m tall [1][3]``."""
    if not sentence.citations:
        return sentence.text
    markers = "".join(f"[{number}]" for number in sentence.citations)
    stop = sentence.text[-1:] if sentence.text[-1:] in ".!?" else ""
    return f"{sentence.text.removesuffix(stop)} {markers}{stop}"


def join_sentences(sentences: Sequence[CitedSentence], tokens: int, *, markers: bool) -> str:
    """Join the first whole sentences that fit into about ``tokens`` tokens.

    The first sentence is cut if it is too long by itself. A token counts as ``CHARACTERS_A_TOKEN``, a marker as 3 tokens.
    """
    remaining = CHARACTERS_A_TOKEN * tokens
    parts: list[str] = []
    for sentence in sentences:
        cited = sentence.citations if markers else ()
        room = remaining - _MARKER_CHARACTERS * len(cited) - bool(parts)
        if len(sentence.text) > room:
            if not parts:
                parts.append(add_markers(CitedSentence(cut_words(sentence.text, max(room, 0)), cited)))
            break
        parts.append(add_markers(CitedSentence(sentence.text, cited)))
        remaining = room - len(sentence.text)
    return " ".join(parts)
