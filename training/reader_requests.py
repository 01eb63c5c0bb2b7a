"""What the extractive reader is given of a question: the stages of the preset between the picture and the reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tqdm import tqdm

from agents.models.reader import ExtractiveReader, Reading, ReadRequest
from agents.pipeline import STAGES
from agents.search.types import ImageHit
from agents.settings import Settings
from agents.stage import Context
from agents.stages.extract import Extract, request
from agents.turn import Turn
from evaluation.judge import Judge, JudgeItem
from training.logistic import TrainingError
from training.reader_questions import Asked

_BATCH = 16
_OF_THE_PICTURE = frozenset({"domain", "objects", "ground", "image_search", "select_entity", "image_text"})
_FOUND = ImageHit(0, 1.0, "", ())


@dataclass(frozen=True)
class Example:
    """A question as the reader saw it.

    Attributes:
        asked: The question.
        requests: What the reader was asked: the hops of a multi-hop question, else the question alone.
        readings: The same, taken apart by the reader.
        right: Whether each candidate of each reading is right.
        ablated: Whether the passages with a right answer have been taken away.
    """

    asked: Asked
    requests: tuple[ReadRequest, ...]
    readings: tuple[Reading, ...]
    right: tuple[tuple[bool, ...], ...]
    ablated: bool = False

    @property
    def answerable(self) -> bool:
        """Whether a right answer is among the candidates."""
        return any(any(row) for row in self.right)


def stages_to_the_reader(settings: Settings) -> tuple[str, ...]:
    """The stages before ``extract`` that work on words alone; the entity of the picture is given instead.

    Raises:
        TrainingError: The preset has no stage ``extract``.
    """
    if Extract.name not in settings.stages:
        raise TrainingError(f"the preset has no stage {Extract.name!r} under this profile: no reader is asked")
    before = settings.stages[: settings.stages.index(Extract.name)]
    return tuple(name for name in before if name not in _OF_THE_PICTURE)


def requests_of(questions: Sequence[Asked], context: Context, progress: bool = False) -> list[tuple[ReadRequest, ...]]:
    """What the reader is asked of each question, none where nothing was found.

    Raises:
        TrainingError: A stage failed.
    """
    stages = [STAGES[name]() for name in stages_to_the_reader(context.settings)]
    most = context.settings.extract.evidence
    found: list[tuple[ReadRequest, ...]] = []
    bar = tqdm(total=len(questions), desc="evidence", unit="question", disable=not progress)
    for batch in _batches(questions):
        turns = [Turn(asked.query, None, asked.history) for asked in batch]
        for turn, asked in zip(turns, batch, strict=True):
            if asked.entity is not None:
                turn.entity, turn.entity_score = asked.entity, 1.0
                turn.image_hits = (replace(_FOUND, entities=(asked.entity,)),)
        for stage in stages:
            stage.run(turns, context)
            if stage.name == "web_search":
                for turn, asked in zip(turns, batch, strict=True):
                    _with_page(turn, asked)
        for turn in turns:
            given = turn.best_evidence(most)
            found.append(tuple(request(turn, question, most) for question in turn.asked) if given else ())
        bar.update(len(batch))
    bar.close()
    return found


def _with_page(turn: Turn, asked: Asked) -> None:
    """A page that is not in the index of the split is laid beside what the search found."""
    page = asked.page
    if page is not None and all(hit.page_url != page.page_url for hit in turn.web_hits):
        turn.web_hits = (page, *turn.web_hits)


def _batches(questions: Sequence[Asked]) -> Iterator[Sequence[Asked]]:
    for start in range(0, len(questions), _BATCH):
        yield questions[start : start + _BATCH]


def examples_of(
    questions: Sequence[Asked],
    requests: Sequence[tuple[ReadRequest, ...]],
    reader: ExtractiveReader,
    judge: Judge,
    *,
    ablate: bool = True,
    progress: bool = False,
) -> list[Example]:
    """Every question with its judged candidates; then, once more, those with a right one, without the passages that have it.

    The second kind teaches what a question looks like whose answer has not been found.
    """
    found: list[Example] = []
    pairs = list(zip(questions, requests, strict=True))
    for asked, items in tqdm(pairs, desc=f"candidates judged by {judge.name}", unit="question", disable=not progress):
        example = _judged(asked, items, reader, judge)
        found.append(example)
        if ablate and example.answerable:
            found.append(replace(_judged(asked, _without_answer(example), reader, judge), ablated=True))
    return found


def _judged(asked: Asked, items: tuple[ReadRequest, ...], reader: ExtractiveReader, judge: Judge) -> Example:
    readings = tuple(reader.readings(items))
    verdicts: dict[str, bool] = {}
    for reading in readings:
        for candidate in reading.candidates:
            if candidate.answer not in verdicts:
                item = JudgeItem(asked.query, asked.truth, candidate.answer, asked.accept)
                verdicts[candidate.answer] = judge.judge(item).correct
    right = tuple(tuple(verdicts[candidate.answer] for candidate in reading.candidates) for reading in readings)
    return Example(asked, items, readings, right)


def _without_answer(example: Example) -> tuple[ReadRequest, ...]:
    kept = []
    for item, reading, right in zip(example.requests, example.readings, example.right, strict=True):
        answering = {candidate.sentence.passage for candidate, ok in zip(reading.candidates, right, strict=True) if ok}
        passages = tuple(passage for at, passage in enumerate(item.passages) if at not in answering)
        kept.append(ReadRequest(item.question, passages))
    return tuple(kept)
