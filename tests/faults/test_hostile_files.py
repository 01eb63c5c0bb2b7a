"""Pages and pictures of strangers that are made to take long: they cost themselves, in bounded time, and nothing else."""

from __future__ import annotations

import io
import os
import struct
import time
import zlib
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agents.models import picture_files
from agents.models.picture_files import (
    FORMATS,
    MAX_SCANS,
    TakesLongError,
    decode_at_once,
    decode_picture,
    read_picture_file,
)
from agents.runner.intake import decode_image
from agents.search.gateway import SearchGateway
from agents.search.hits import PageText
from agents.search.pages import page_reader
from agents.search.pages.page_reader import MAX_CHARACTERS, MAX_TAGS, MAX_TAGS_OUTSIDE, PageReader, beginning
from agents.search.pages.web_cache import (
    KEPT_PICTURE_PIXELS,
    MAX_PICTURE_PIXELS,
    PageCache,
    PictureCache,
    cache_name,
)
from agents.search.retrieved import safe_full_text
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from agents.time_limits.subprocess_worker import SubprocessError, SubprocessWorker
from tests.support.fault_plan import MARK, Plan
from tests.support.fault_trial import questions, spoilt_agent
from tests.support.fault_variants import full_settings
from tests.support.hostile_files import (
    HOSTILE_PAGE,
    Panic,
    bomb,
    chunks_behind_pixels,
    encoded,
    large_png,
    pixels_in_chunks,
    run_lengths,
    scans,
)
from tests.support.process_functions import doubled, dying, endless, environment, failing, greedy, process, ready_worker
from tests.support.scripted_clock import ScriptedClock
from tests.support.scripted_parts import PICTURE, Search


def ask(
    worker: SubprocessWorker, function: Callable[[bytes], bytes], data: bytes = b"x", seconds: float = 20.0
) -> bytes:
    return worker.run(f"{function.__module__}:{function.__name__}", data, seconds)


@pytest.mark.hostile("the process that reads them: killed, out of memory, not to be started")
def test_the_process_lasts_until_it_has_to_be_killed() -> None:
    worker = SubprocessWorker()
    assert ask(worker, doubled, b"ab" * 4_000_000) == b"ab" * 8_000_000
    first = int(ask(worker, process))
    with pytest.raises(SubprocessError, match="SystemExit: out"):
        ask(worker, failing, b"out")
    with pytest.raises(SubprocessError, match="MemoryError"):
        ask(worker, greedy)
    assert int(ask(worker, process)) == first
    began = time.perf_counter()
    with pytest.raises(TimeoutError):
        ask(worker, endless, seconds=0.1)
    assert time.perf_counter() - began < 20.0
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    second = int(ask(worker, process))
    assert second != first
    with pytest.raises(SubprocessError, match="ended"):
        ask(worker, dying)
    third = int(ask(worker, process))
    del worker
    with pytest.raises(ProcessLookupError):
        os.kill(third, 0)


@pytest.mark.parametrize("seconds", [1e9, float("inf")])
def test_any_limit_of_time_may_be_given(seconds: float) -> None:
    assert ask(ready_worker(), doubled, b"ab", seconds) == b"abab"


def test_a_reply_that_was_not_waited_for_is_not_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = SubprocessWorker()
    assert ask(worker, doubled, b"a") == b"aa"
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "poll", raise_overflow)
        with pytest.raises(OverflowError):
            ask(worker, doubled, b"b")
    assert ask(worker, doubled, b"c") == b"cc"


def raise_overflow(*_: object) -> bool:
    raise OverflowError("timeout is too large")


@pytest.mark.hostile("the process that reads them: killed, out of memory, not to be started")
def test_the_process_sees_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")
    assert b"sk-secret" not in ask(SubprocessWorker(), environment)


@pytest.mark.hostile("the process that reads them: killed, out of memory, not to be started")
def test_where_no_process_can_be_started_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(SubprocessError, match="no process can be started"):
        ask(SubprocessWorker(), doubled)
    [text] = PageReader(SubprocessWorker(), safe=True)([LONG], NO_DEADLINE)
    assert text.text is not None and "metres" in text.text
    assert text.note is not None and "its beginning alone was read" in text.note


HONEST = "<html><body><article><h1>Tower</h1><p>The tower is 330 metres high, and it was built in 1889.</p></article></body></html>"
LONG = HONEST.replace(
    "</article>", "<p>It has <b>three</b> floors and many steps.</p>" * (MAX_TAGS // 2) + "</article>"
)


def test_pages_are_read_alike_at_once_and_in_the_process() -> None:
    assert LONG.count("<") > MAX_TAGS
    texts = PageReader(ready_worker(), safe=True)([LONG, HONEST, "no markup", ""], NO_DEADLINE)
    assert texts == [PageText(safe_full_text(page)) for page in (LONG, HONEST, "no markup", "")]


@pytest.mark.hostile("pages made to take long: 7 MB and 50 MB, in a result, in the cache")
@pytest.mark.parametrize(
    "page",
    [
        HOSTILE_PAGE,
        "<dl>" + "<dt>x<dd>y" * 5_000_000,
        "<p>" + "x " * 25_000_000,
        "<ul>" + "<li>a" * (MAX_TAGS_OUTSIDE - 1),
    ],
    ids=["7 MB", "50 MB", "50 MB of text", "many tags, not too many"],
)
def test_a_large_page_costs_itself(page: str) -> None:
    worker = ready_worker()
    began = time.process_time()
    texts = PageReader(worker, safe=True)([page, LONG, HONEST], Deadline(30.0))
    assert time.process_time() - began < 3.0  # of this process; it took 9 s a MB
    assert texts[2] == PageText(safe_full_text(HONEST))
    assert texts[1].text and safe_full_text(LONG).startswith(texts[1].text)  # its beginning on a busy machine
    assert texts[0].text  # the whole of it, or its beginning


@pytest.mark.hostile("pages made to take long: 7 MB and 50 MB, in a result, in the cache")
def test_a_page_that_takes_too_long_is_read_as_far_as_its_first_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_reader, "MAX_SECONDS", 1e-4)
    [text] = PageReader(SubprocessWorker(), safe=True)([LONG], Deadline(10.0))
    assert text.text == safe_full_text(beginning(LONG))
    assert text.note is not None and "it takes more than 0.00 s" in text.note


@pytest.mark.hostile("pages made to take long: 7 MB and 50 MB, in a result, in the cache")
def test_after_the_deadline_no_page_is_read() -> None:
    texts = PageReader(SubprocessWorker(), safe=True)([LONG, HONEST], Deadline(-1.0))
    assert [text.text for text in texts] == [None, None]
    assert "no time" in str(texts[0].note)


@pytest.mark.hostile("pages made to take long: 7 MB and 50 MB, in a result, in the cache")
def test_a_page_that_breaks_the_parser_costs_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(page: str) -> str:
        if page == "bad":
            raise RecursionError("too deep")
        return page

    monkeypatch.setattr("agents.search.retrieved.safe_full_text", read)
    texts = PageReader(SubprocessWorker(), safe=True)(["bad", "good"], NO_DEADLINE)
    assert texts[1] == PageText("good")
    assert texts[0].text is None and "RecursionError" in str(texts[0].note)


def test_the_beginning_of_a_page_has_few_tags_and_characters() -> None:
    assert beginning(HOSTILE_PAGE).count("<") <= MAX_TAGS
    assert len(beginning("x" * 1_000_000)) == MAX_CHARACTERS
    assert beginning(HONEST) == HONEST


class WithPage(Search):
    """The marked turn finds one page more, first."""

    def __init__(self, page: str | None = None, snippet: str = "snippet", folder: Path | None = None) -> None:
        self.page, self.snippet = page, snippet
        if folder is not None:
            self.page_folder = folder

    def pages(self, query: str) -> Any:
        hits = super().pages(query)
        if MARK not in query:
            return hits
        bad = {**hits[0], "page_url": "https://bad.example/", "score": 0.95, "page_snippet": self.snippet}
        return [{**bad, "page_content": self.page} if self.page is not None else bad, *hits]


def trial(search: Search, calls: int = 2, preset: str = "direct_rag", **plan: Any) -> tuple[list[list[str]], list[Any]]:
    """Answers and trace entries of ``web_search`` of some calls with the challenge's limits."""
    parts = Plan(call_seconds=30.0, search=search, clock=ScriptedClock(), **plan)
    agent = spoilt_agent(full_settings(preset), parts)
    records: list[Any] = []
    agent.trace_to(None, records.extend)
    images = [Image.new("RGB", (160 + n, 128), "gray") for n in range(3)]
    answers = []
    for number in range(calls):
        began = time.perf_counter()
        answers.append(agent.batch_generate_response(questions(number), images, [[]] * 3))
        assert time.perf_counter() - began < 30.0
    return answers, records


@pytest.mark.hostile("pages made to take long: 7 MB and 50 MB, in a result, in the cache")
@pytest.mark.parametrize("where", ["page_content", "page cache", "snippet"])
def test_a_large_page_of_one_turn_takes_no_answer_away(tmp_path: Path, where: str) -> None:
    search = WithPage()
    if where == "page_content":
        search = WithPage(page=HOSTILE_PAGE)
    elif where == "snippet":
        search = WithPage(snippet=HOSTILE_PAGE)
    else:
        PageCache(tmp_path).put("https://bad.example/", HOSTILE_PAGE.encode())
        search = WithPage(folder=tmp_path)
    answers, records = trial(search)
    assert answers == trial(Search())[0]
    notes = [entry for record in records for entry in record["stages"] if entry["stage"] == "web_search"]
    assert all(entry["status"] in ("ran", "reduced") for entry in notes)
    if where != "snippet":
        reasons = [str(entry.get("notes", {}).get("left_out", "")) for entry in notes]
        assert ["tags are too many" in each for each in reasons] == [False, True, False] * 2


# Pictures


def read(data: bytes, seconds: float = 20.0, kept_pixels: int = KEPT_PICTURE_PIXELS) -> Image.Image:
    limits = {"max_pixels": MAX_PICTURE_PIXELS, "kept_pixels": kept_pixels}
    return decode_picture(data, worker=ready_worker(), seconds=seconds, **limits)  # type: ignore[arg-type]


@pytest.mark.hostile("pictures made to take long: 177 megapixels, thousands of scans, odd formats")
def test_a_bomb_is_refused_by_its_header() -> None:
    data = bomb()
    assert len(data) < 200_000
    began = time.process_time()
    with pytest.raises(ValueError, match="are more than 64000000"):
        read(data)
    assert time.process_time() - began < 0.2


@pytest.mark.hostile("pictures made to take long: 177 megapixels, thousands of scans, odd formats")
@pytest.mark.parametrize("kind", ["EPS", "PPM", "PCX", "TGA", "ICNS", "JPEG2000"])
def test_other_formats_are_not_opened(kind: str) -> None:
    with pytest.raises(ValueError, match="cannot be decoded"):
        read(encoded((64, 64), kind))


@pytest.mark.parametrize("kind", sorted({*FORMATS} - {"HEIF"}))  # nothing here writes HEIF
@pytest.mark.parametrize("side", [64, 2500])
def test_common_formats_are_read_and_reduced(kind: str, side: int) -> None:
    picture = read(encoded((side, side), kind))
    assert picture.mode == "RGB"
    assert picture.width * picture.height <= KEPT_PICTURE_PIXELS
    assert picture.width == picture.height >= min(side, 1_000)
    assert picture.getpixel((9, 9))[0] > 200  # type: ignore[index]


@pytest.mark.hostile("pictures made to take long: 177 megapixels, thousands of scans, odd formats")
def test_a_picture_of_thousands_of_scans_is_given_up() -> None:
    data = scans(5_000)
    image = Image.open(io.BytesIO(data))
    assert image.width * image.height > KEPT_PICTURE_PIXELS
    limits = {"max_pixels": MAX_PICTURE_PIXELS, "kept_pixels": 10 * KEPT_PICTURE_PIXELS}
    with pytest.raises(TakesLongError):
        decode_at_once(data, **limits)
    assert decode_at_once(scans(1), **limits).size == image.size
    assert scans(1).count(b"\xff\xda") <= MAX_SCANS
    began = time.perf_counter()
    with pytest.raises(ValueError, match=r"more than 0.50 s"):
        read(data, seconds=0.5)
    assert time.perf_counter() - began < 5.0


SLOW_IN_PYTHON = {
    "chunks behind the pixels": chunks_behind_pixels(300_000),
    "chunks of pixels": pixels_in_chunks(300_000),
    "run lengths": run_lengths((4_000, 4_000)),
}


@pytest.mark.hostile("pictures made to take long: 177 megapixels, thousands of scans, odd formats")
@pytest.mark.parametrize("kind", SLOW_IN_PYTHON)
def test_what_python_decodes_is_left_to_the_process(kind: str, tmp_path: Path) -> None:
    began = time.process_time()
    with pytest.raises(TakesLongError):
        decode_at_once(SLOW_IN_PYTHON[kind], max_pixels=MAX_PICTURE_PIXELS, kept_pixels=MAX_PICTURE_PIXELS)
    assert time.process_time() - began < 0.3
    with pytest.raises(ValueError, match=r"more than 0.01 s"):
        read(SLOW_IN_PYTHON[kind], seconds=0.01)
    path = tmp_path / "photo"
    path.write_bytes(SLOW_IN_PYTHON[kind])
    with pytest.raises(ValueError, match=r"more than 0.01 s"):
        read_picture_file(path, seconds=0.01)


@pytest.mark.hostile("pictures made to take long: 177 megapixels, thousands of scans, odd formats")
def test_a_picture_of_run_lengths_is_decoded_in_the_process() -> None:
    data = run_lengths((64, 48))
    with pytest.raises(TakesLongError):
        decode_at_once(data, max_pixels=MAX_PICTURE_PIXELS, kept_pixels=MAX_PICTURE_PIXELS)
    assert read(data).size == (64, 48)


def _interlace(data: bytes) -> bytes:
    """Mark a PNG as interlaced; its pixels are no longer read rightly."""
    header = data[12:28] + b"\x01"
    return data[:12] + header + struct.pack(">I", zlib.crc32(header)) + data[33:]


@pytest.mark.hostile("pictures made to take long: 177 megapixels, thousands of scans, odd formats")
@pytest.mark.parametrize(("size", "interlaced"), [((1, 30_000), False), ((30_000, 1), False), ((64, 48), True)])
def test_a_picture_of_very_many_lines_or_passes_is_left_to_the_process(size: tuple[int, int], interlaced: bool) -> None:
    """48 KB of one column took 2.4 s in the server's own thread, an interlaced PNG of 25 megapixels 1.6 s."""
    file = io.BytesIO()
    Image.new("RGB", size).save(file, "PNG")
    data = _interlace(file.getvalue()) if interlaced else file.getvalue()
    with pytest.raises(TakesLongError):
        decode_at_once(data, max_pixels=MAX_PICTURE_PIXELS, kept_pixels=MAX_PICTURE_PIXELS)


def test_a_large_png_in_small_chunks_is_decoded_at_once() -> None:
    data = large_png(4_000)
    assert len(data) > 15_000_000  # as large as a request may be
    picture = decode_at_once(data, max_pixels=MAX_PICTURE_PIXELS, kept_pixels=MAX_PICTURE_PIXELS)
    assert picture.size == (4_000, 4_000)


@pytest.mark.hostile("files without an end")
@pytest.mark.parametrize("path", ["/dev/zero", "/dev/urandom"])
def test_a_file_without_an_end_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_files, "MAX_FILE_BYTES", 2**20)
    with pytest.raises(ValueError, match="larger than 1 MB"):
        read_picture_file(Path(path))


@pytest.mark.hostile("pictures made to take long: 177 megapixels, thousands of scans, odd formats")
def test_bombs_of_one_turn_leave_the_other_pictures(tmp_path: Path) -> None:
    good = f"{PICTURE}?good"
    bombs = [f"https://i.example/{number}.png" for number in range(5)]
    for url in bombs:
        (tmp_path / cache_name(url)).write_bytes(bomb())
    slow = "https://i.example/slow.jpg"
    (tmp_path / cache_name(slow)).write_bytes(scans(5_000))
    (tmp_path / cache_name(good)).write_bytes(encoded((64, 48), "PNG"))
    began = time.perf_counter()
    pictures = PictureCache(tmp_path).get_all([*bombs, slow, good], Deadline(20.0))
    assert list(pictures) == [good]
    assert time.perf_counter() - began < 5.0
    assert PictureCache(tmp_path).get_all([good], Deadline(-1.0)) == {}


class Hostile(Image.Image):
    """A picture whose decoder raises what is no ``Exception``."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._size = (64, 48)
        self.error = error

    def load(self) -> Any:
        raise self.error


@pytest.mark.hostile("pictures of the evaluator that raise SystemExit or panic")
@pytest.mark.parametrize("error", [SystemExit(3), Panic("index out of bounds"), GeneratorExit()], ids=repr)
def test_a_picture_that_raises_no_exception_costs_itself(error: BaseException) -> None:
    agent = spoilt_agent(full_settings("vlm_only"), Plan(call_seconds=30.0))
    records: list[Any] = []
    agent.trace_to(None, records.extend)
    answers = agent.batch_generate_response(questions(0), [Image.new("RGB", (64, 48)), Hostile(error), None], [[]] * 3)
    assert len(answers) == 3
    assert [type(error).__name__ in str(record["error"]) for record in records] == [False, True, False]


def test_files_that_the_evaluator_opened_have_one_of_our_formats() -> None:
    assert decode_image(Image.open(io.BytesIO(encoded((640, 480), "JPEG")))).size == (640, 480)
    with pytest.raises(ValueError, match="format EPS"):
        decode_image(Image.open(io.BytesIO(encoded((64, 64), "EPS"))))


def test_the_gateway_reads_pages_until_its_deadline() -> None:
    class Pages(Search):
        def pages(self, query: str) -> Any:
            return [{**hit, "page_content": "<p>whole</p>"} for hit in super().pages(query)]

    deadlines: list[Deadline] = []

    def reading(pages: Sequence[str], deadline: Deadline) -> list[PageText]:
        deadlines.append(deadline)
        return [PageText(None, "late") for _ in pages]

    gateway = SearchGateway(Pages(), read_pages=reading)
    [first, again] = gateway.search_web(["a", "b"], 5, deadline=Deadline(100.0))
    assert deadlines[0].left() == pytest.approx(2.0, abs=0.5)  # a second a query
    assert [hit.page_text for hit in first.hits] == [None, None]
    assert all("late" in note for note in (*first.notes, *again.notes))
