"""Extracts the text of untrusted pages in bounded time: a page that takes too long is cut or left out, the others are unaffected.

A parser's time grows with the tags of a page, up to 25 us a tag here (trafilatura 2.0 on ``<li>a``). A page of few tags is read at once.
One of many is read in a process that is killed when the page's time is over. Of one that has too many for that, or took too long, the first
tags are read.
"""

from collections.abc import Sequence

from agents.search import retrieved
from agents.search.hits import PageText
from agents.time_limits.deadline import Deadline
from agents.time_limits.subprocess_worker import SubprocessError, SubprocessWorker

MAX_TAGS = 2_000  # of a page that is read at once: 0.06 s at most
MAX_CHARACTERS = 200_000  # of the same
MAX_TAGS_OUTSIDE = 100_000  # of a page that is given to the process: 2.5 s at most on an idle core
MAX_CHARACTERS_OUTSIDE = 8_000_000  # of the same; what follows is not looked at (as ``web_cache.MAX_PAGE_BYTES``)
MAX_SECONDS = 2.0  # for a page in the process

_MAX_REASON = 300
_CODEC = ("utf-8", "surrogatepass")


class PageReader:
    """Makes texts of pages; ``safe`` removes orders to models (``retrieved.safe_full_text``), else they are only cleaned."""

    def __init__(self, worker: SubprocessWorker, *, safe: bool) -> None:
        self._worker = worker
        self._read = retrieved.safe_full_text if safe else retrieved.cleaned_full_text
        self._outside = f"{__name__}:{'safe' if safe else 'cleaned'}_bytes"

    def __call__(self, pages: Sequence[str], deadline: Deadline) -> list[PageText]:
        """Read the texts of pages, given with those that matter most first.

        Pages of few tags are read first, then the others, shortest first: none waits for one that may take longer than itself.

        Returns:
            A text for each page; pages that the deadline leaves no time for have none.
        """
        texts: dict[int, PageText] = {}
        pages = [page[:MAX_CHARACTERS_OUTSIDE] for page in pages]
        tags = [page.count("<") for page in pages]
        at_once = [tags[place] <= MAX_TAGS and len(page) <= MAX_CHARACTERS for place, page in enumerate(pages)]
        for place, page in enumerate(pages):
            if at_once[place] and not deadline.passed():
                texts[place] = self._at_once(page)
        others = sorted((place for place in range(len(pages)) if not at_once[place]), key=lambda place: tags[place])
        for number, place in enumerate(others):
            if not deadline.passed():
                seconds = min(MAX_SECONDS, deadline.left() / (len(others) - number))
                texts[place] = self._large(pages[place], tags[place], seconds)
        late = PageText(None, "no time was left to read it")
        return [texts.get(place, late) for place in range(len(pages))]

    def _at_once(self, page: str) -> PageText:
        try:
            return PageText(self._read(page))
        except Exception as error:  # noqa: BLE001 - parsers raise anything on strangers' text; the other pages are read
            return PageText(None, f"it cannot be read: {type(error).__name__}: {error}"[:_MAX_REASON])

    def _large(self, page: str, tags: int, seconds: float) -> PageText:
        if tags > MAX_TAGS_OUTSIDE:
            reason = f"{tags} tags are too many"
        else:
            try:
                return PageText(self._worker.run(self._outside, page.encode(*_CODEC), seconds).decode(*_CODEC))
            except TimeoutError:
                reason = f"it takes more than {seconds:.2f} s"
            except SubprocessError as error:
                reason = str(error)
        # An empty text would say that the page shows nothing without its scripts.
        return PageText(self._at_once(beginning(page)).text or None, f"{reason}: its beginning alone was read")


def beginning(page: str) -> str:
    """Cut a page after its first ``MAX_TAGS`` tags or ``MAX_CHARACTERS``, whichever ends sooner."""
    page = page[:MAX_CHARACTERS]
    rest = page.split("<", MAX_TAGS)
    return page if len(rest) <= MAX_TAGS else page[: len(page) - len(rest[-1]) - 1]


def safe_bytes(page: bytes) -> bytes:
    """``retrieved.safe_full_text`` for the process."""
    return retrieved.safe_full_text(page.decode(*_CODEC)).encode(*_CODEC)


def cleaned_bytes(page: bytes) -> bytes:
    """``retrieved.cleaned_full_text`` for the process."""
    return retrieved.cleaned_full_text(page.decode(*_CODEC)).encode(*_CODEC)
