"""Grows the chunks that a prompt shows into passages: to their neighbours on the page, and to the whole page where it fits."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from agents.evidence.passages import count_tokens
from agents.texts.bm25 import score_words
from agents.texts.injection import neutral, without_special_tokens
from agents.texts.page_structure import Piece
from agents.turn import CutPage, Evidence

_BEST_SHARE = 0.5
"""Share of the budget that the best chunks take before the first of them grow: one alone may be half of a fact."""

_GAP = "..."  # between pieces that are apart on their page


def grow(chunks: Sequence[Evidence], tokens: int) -> list[Evidence]:
    """Return passages of the best chunks and of what is around them, within a budget of about ``tokens``.

    The best chunks come first; then the beginning of each page, which often has its date, and the neighbours of these chunks; then further
    chunks; then what is left of the pages, nearest first. All that is shown of a page is one passage, in reading order, at the place of
    its best chunk. Chunks without a page stay as they are.

    Args:
        chunks: Ranked chunks, best first.
        tokens: The budget.
    """
    shown = _Shown(tokens)
    further = [chunk for chunk in chunks if not shown.add(chunk, within=tokens * _BEST_SHARE)]
    shown.add_neighbours((0,), beginning=True)
    shown.add_neighbours((1,))
    for chunk in further:
        shown.add(chunk)
    shown.add_neighbours(count(1))
    return shown.list_passages()


def open_page(chunk: Evidence, tokens: int, questions: Sequence[str]) -> Evidence:
    """Return the page of a chunk as one passage that grows no further, within a budget of about ``tokens``.

    A page that does not fit is opened where it says what the questions say: at the pieces that share most words with them.
    """
    assert chunk.page is not None
    pieces = chunk.page.pieces
    scores = score_words([": ".join((*piece.headings, piece.whole_text)) for piece in pieces], questions)
    places = sorted(range(len(pieces)), key=lambda place: (-scores[place], place not in chunk.places))
    [passage] = grow([replace(chunk, places=(place,)) for place in places], tokens)
    return replace(passage, page=None, places=())


class _Shown:
    """The passages of a prompt while they grow: chunks without a page, and the places shown of each page, by its best chunk."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._passages: dict[CutPage | Evidence, Evidence] = {}  # in order of the best chunk
        self._centres: list[tuple[CutPage, int]] = []

    def add(self, chunk: Evidence, within: float | None = None) -> bool:
        """Add a chunk if it fits, the very first one in any case.

        Returns:
            Whether it was added.
        """
        limit = self._tokens if within is None else within
        if chunk.page is None:
            return self._show(chunk, chunk, limit)
        [place] = chunk.places
        grown = _merge(self._passages.get(chunk.page) or replace(chunk, places=()), place)
        if self._show(chunk.page, grown, limit):
            self._centres.append((chunk.page, place))
            return True
        return False

    def _show(self, key: CutPage | Evidence, grown: Evidence, limit: float) -> bool:
        is_shown = not self._passages or self._fits(key, grown, limit)
        if is_shown:
            self._passages[key] = grown
        return is_shown

    def add_neighbours(self, steps: Iterator[int] | tuple[int, ...], *, beginning: bool = False) -> None:
        """Add what is so many pieces after and before the chunks, in turn, until nothing more fits or all is shown."""
        centres = tuple(dict.fromkeys(self._centres))
        closed: set[tuple[CutPage, int, int]] = set()  # where a page's passage can grow no further
        for step in steps:
            tried = False
            for page, centre in centres:
                for direction in (1, -1):
                    place = 0 if beginning else centre + direction * step
                    if (page, centre, direction) in closed or not 0 <= place < len(page.pieces):
                        continue
                    tried = True
                    if not self._add_place(page, place):
                        closed.add((page, centre, direction))
            if not tried:
                break

    def _add_place(self, page: CutPage, place: int) -> bool:
        return self._show(page, _merge(self._passages[page], place), self._tokens)

    def _fits(self, key: CutPage | Evidence, grown: Evidence, tokens: float) -> bool:
        others = sum(count_tokens(passage) for other, passage in self._passages.items() if other != key)
        return others + count_tokens(grown) <= tokens

    def list_passages(self) -> list[Evidence]:
        """Return the passages in order of their best chunks; the first one may be longer than the budget."""
        return list(self._passages.values())


def _merge(passage: Evidence, place: int) -> Evidence:
    """Add a piece of its page to a passage. ``places`` keeps the order in which pieces were added, the best first."""
    page = passage.page
    assert page is not None
    if place in passage.places:
        return passage
    places = (*passage.places, place)
    in_order = sorted(places)
    common = _find_common([page.pieces[each] for each in in_order])
    text = "\n".join(_iterate_texts(page.pieces, in_order, len(common)))
    title = ": ".join((page.name, *map(neutral, common)))
    # A mark of a message may come about where two texts meet, each harmless by itself.
    return replace(passage, text=without_special_tokens(text), title=title, places=places)


def _find_common(pieces: Sequence[Piece]) -> tuple[str, ...]:
    """Return the path of headings above all pieces."""
    common = pieces[0].headings
    for piece in pieces:
        while piece.headings[: len(common)] != common:
            common = common[:-1]
    return common


def _iterate_texts(pieces: Sequence[Piece], places: Sequence[int], common: int) -> Iterator[str]:
    """Yield the texts of pieces with the headings between them, and a mark where pieces are left out between two."""
    above: tuple[str, ...] | None = None
    last = -1
    for place in places:
        piece, is_next = pieces[place], place == last + 1
        if above is not None and not is_next:
            yield _GAP
        headings = piece.headings[common:]
        if headings and headings != above:
            yield f"# {neutral(': '.join(headings))}"
        yield piece.text if is_next and headings == above else piece.whole_text
        above, last = headings, place
