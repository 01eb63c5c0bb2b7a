"""Traces: the record of each turn as a line of JSON."""

import io
import json
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image

from agents.base.files import append_lines, well_formed, write_whole
from agents.base.secrets import scrubber
from agents.models.pixels import pixels_digest, to_rgb
from agents.record import (
    PICTURE_FIELDS,
    QUOTING_FIELDS,
    REQUEST_IMAGES,
    Exchange,
    SentMessage,
    StageRecord,
    TurnRecord,
)
from agents.settings.presets import TraceSettings
from agents.turn import Turn
from agents.unanswered import why_unanswered

Clean = Callable[[str], str]
"""Takes keys out of a text."""

Listener = Callable[[list[dict[str, Any]]], None]
"""Receives the records of each batch: one JSON object per turn, in order."""

_log = logging.getLogger(__name__)

_MAX_CHARACTERS = 2_000  # characters of one text; a note may quote a page
_OUR_WORDS = frozenset({"finish_reason", "branch", "domain", "route"})
"""Notes whose words are ours, not the user's."""


_BLANK_STAGE, _BLANK_EXCHANGE = StageRecord(""), Exchange("", "", "")
_WITHOUT_PICTURE: dict[str, Any] = {name: getattr(_BLANK_STAGE, name) for name in PICTURE_FIELDS}
_WITHOUT_PROMPT: dict[str, Any] = {name: getattr(_BLANK_EXCHANGE, name) for name in QUOTING_FIELDS}


_COMPRESSION = 1  # of PNG, 0 to 9: a recorded run waits for each picture


class RequestImages:
    """Keeps the pictures of a batch's requests in a folder, each once as a PNG file named by its pixels, and remembers their names.

    Args:
        folder: Where they go; None: they are only named.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._names: dict[int, tuple[Image.Image, str]] = {}  # kept alive: ids of dead objects come again

    def name(self, image: Image.Image) -> str:
        """Keep a picture under the SHA-256 of its pixels (``pixels_digest``), and return that name.

        Without a folder the picture is only named.

        Raises:
            OSError: The picture cannot be written.
        """
        entry = self._names.get(id(image))
        if entry is None:
            entry = self._names[id(image)] = image, pixels_digest(image)
            self._keep(*entry)
        return entry[1]

    def _keep(self, image: Image.Image, name: str) -> None:
        if self._folder is None or (path := self._folder / f"{name}.png").exists():
            return
        png = io.BytesIO()
        to_rgb(image).save(png, format="PNG", compress_level=_COMPRESSION)
        write_whole(path, png.getvalue())


@dataclass(frozen=True)
class _Plain:
    """Converts a record to JSON: texts are cut and pictures described by size, unless requests are kept whole with files of pictures."""

    clean: Clean
    images: RequestImages | None

    def __call__(self, value: Any) -> Any:
        """Whatever is no JSON becomes a text."""
        if isinstance(value, bool | int | float | None):
            return value
        if isinstance(value, Mapping):
            return {self.clean(str(key)): self(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self(inner) for inner in value]
        if isinstance(value, Image.Image):
            return self.images.name(value) if self.images is not None else f"{value.width} x {value.height} pixels"
        text = self.clean(str(value))  # before it is cut: the first half of a key is one too
        whole = self.images is not None or len(text) <= _MAX_CHARACTERS
        return text if whole else text[:_MAX_CHARACTERS] + "…"


@dataclass(frozen=True)
class Reduction:
    """Removes the parts of a record that may not be kept.

    Attributes:
        picture_notes: Notes that may describe the picture (``Stage.picture_notes``).
    """

    settings: TraceSettings
    picture_notes: frozenset[str] = frozenset()

    @property
    def keeps_texts(self) -> bool:
        """True if records keep questions, findings and answers."""
        return self.settings.queries and self.settings.images

    def reduce(self, record: TurnRecord) -> TurnRecord:
        """Return the record without the parts that the settings exclude."""
        has_texts, has_requests = self.settings.queries, self.settings.requests
        return replace(
            record,
            query=record.query if has_texts else "",
            question=record.question if has_texts else "",
            answer=record.answer if has_texts else "",
            stages=tuple(map(self._stage, record.stages)),
            error=self._reason(record.error, 2),  # STAGE: TYPE: TEXT
            photo=record.photo if has_requests else None,
            history=record.history if has_requests else (),
        )

    def _stage(self, record: StageRecord) -> StageRecord:
        """Reduce a record to the parts allowed in traces.

        If questions or pictures are left out, so is every text of a stage: it may reveal both.
        """
        record = replace(record, exchanges=tuple(map(self._exchange, record.exchanges)))
        notes = record.notes
        if not self.settings.images:
            record = replace(record, **_WITHOUT_PICTURE)
            notes = {name: value for name, value in notes.items() if name not in self.picture_notes}
        if self.keeps_texts:
            return record
        decision = record.decision
        return replace(
            record,
            reason=self._reason(record.reason),
            entity=None,
            nearest=None,
            pictures=tuple(replace(each, name="", url="") for each in record.pictures),
            boxes=tuple(replace(each, label="") for each in record.boxes),
            queries=(),
            evidence=tuple(replace(each, text="", title="", url="") for each in record.evidence),
            answers={},
            checks={name: result for name, result in record.checks.items() if not isinstance(result, str)},
            decision=None
            if decision is None
            else replace(
                decision,
                candidate=None,
                reason=self._reason(decision.reason),
                ruled_out=self._reason(decision.ruled_out),
            ),
            notes={name: value if name in _OUR_WORDS else _numbers(value) for name, value in notes.items()},
        )

    def _exchange(self, exchange: Exchange) -> Exchange:
        """Drop the request unless ``trace.requests`` is set; drop the reply as well if the trace keeps no texts."""
        if self.settings.requests:
            return exchange
        exchange = replace(exchange, messages=(), schema=None)
        if self.keeps_texts:
            return exchange
        return replace(exchange, **_WITHOUT_PROMPT, error=self._reason(exchange.error))

    def _reason(self, reason: str | None, parts: int = 1) -> str | None:
        """Return why something went wrong; without texts only up to the colon, because errors quote their input after it."""
        if reason is None or self.keeps_texts:
            return reason
        return ":".join(reason.split(":")[:parts])[:80]


class TraceWriter:
    """Appends traces to a file, whose folder is made; a full disk costs the trace, not the answer.

    Args:
        path: The file; None: no file.
        settings: Parts allowed in the file and for ``listen``.
        listen: Called with the records of each batch, as in the file.
        of_the_picture: Notes that may describe the picture (``Stage.picture_notes``).
        pictures: Folder for the pictures of requests; None: ``REQUEST_IMAGES`` beside the file.
        listen_whole: Called with the default fields of a trace, for those who asked: a reply is no trace.
        name_source: Returns the name for people of a source whose URL is a key; None: URLs are their own names.
        has_changed: Returns whether the file of a source changed after it was indexed, by its URL.
    """

    def __init__(
        self,
        path: Path | None,
        settings: TraceSettings = TraceSettings(),  # noqa: B008 - it is frozen
        listen: Listener | None = None,
        of_the_picture: Collection[str] = (),
        pictures: Path | None = None,
        listen_whole: Listener | None = None,
        name_source: Callable[[str], str] | None = None,
        has_changed: Callable[[str], bool] = lambda _: False,
    ) -> None:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._listen, self._listen_whole = path, listen, listen_whole
        self._reduction = Reduction(settings, frozenset(of_the_picture))
        self._pictures = path.parent / REQUEST_IMAGES if pictures is None and path is not None else pictures
        self._name_source, self._has_changed = name_source, has_changed
        self._batch = 0

    def write(self, turns: Sequence[Turn], seconds: float) -> None:
        """Append the turns of one batch; ``seconds`` is the wall time of the whole batch."""
        batch, began, clean = self._batch, time.time() - seconds, scrubber()
        self._batch += 1

        def build_lines(reduction: Reduction, images: RequestImages | None) -> list[str]:
            plain = _Plain(clean, images)
            return [
                _build_line(
                    turn, tuple(map(self._name_sources, turn.records)), batch, index, began, seconds, plain, reduction
                )
                for index, turn in enumerate(turns)
            ]

        lines: list[str] = []
        if self._path is not None or self._listen is not None:
            with _log_faults(f"the trace of a batch could not be written to {self._path}"):
                has_requests = self._reduction.settings.requests
                lines = build_lines(self._reduction, RequestImages(self._pictures) if has_requests else None)
                if self._path is not None:
                    append_lines(self._path, lines)
        if self._listen is not None:
            self._listen([json.loads(line) for line in lines])
        if self._listen_whole is not None:
            if not lines or self._reduction.settings != _WHOLE.settings:
                # Built apart: whoever asked is told why a turn failed even if the disk takes no pictures of requests.
                lines = []
                with _log_faults("the records of a batch could not be made"):
                    lines = build_lines(_WHOLE, None)
            self._listen_whole([json.loads(line) for line in lines])

    def _name_sources(self, record: StageRecord) -> StageRecord:
        """Return the record with the names of its sources for people; those that changed are marked."""
        if self._name_source is None:
            return record
        evidence = tuple(
            replace(each, url=self._name_source(each.url), changed=self._has_changed(each.url))
            for each in record.evidence
        )
        return replace(record, evidence=evidence)


@contextmanager
def _log_faults(what: str) -> Iterator[None]:
    """Log why a record cannot be made or written instead of raising it: that costs no answer."""
    try:
        yield
    except (OSError, TypeError, ValueError, RecursionError) as error:
        _log.warning("%s: %s", what, error)


def _build_line(
    turn: Turn,
    stages: tuple[StageRecord, ...],
    batch: int,
    index: int,
    began: float,
    seconds: float,
    plain: _Plain,
    reduction: Reduction,
) -> str:
    has_requests = reduction.settings.requests
    record = TurnRecord(
        query=turn.query,
        question=turn.question,
        answer=turn.answer,
        stages=stages,
        error=turn.error,
        unanswered=why_unanswered(TurnRecord(answer=turn.answer, stages=stages, error=turn.error)),
        began=round(began, 4),
        seconds=round(seconds, 4),
        batch=batch,
        turn=index,
        photo=plain(turn.image) if has_requests else None,
        history=tuple(SentMessage(message["role"], message["content"]) for message in turn.history)
        if has_requests
        else (),
    )
    return well_formed(json.dumps(plain(reduction.reduce(record).as_json()), ensure_ascii=False))


_WHOLE = Reduction(TraceSettings())


def _numbers(value: Any) -> Any:
    """Keep the numbers and booleans of a note, and replace everything else by None."""
    if isinstance(value, Mapping):
        return {str(key): _numbers(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_numbers(inner) for inner in value]
    return value if isinstance(value, bool | int | float) else None
