import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image
from pydantic import Field

from agents.asking.ask import Ask, Question
from agents.asking.readers.agent_steps import AGENT_STEP, AgentStep, Fractions
from agents.evidence.passages import convert_to_record
from agents.evidence.tool_results import list_pages, list_pictured, select_newest
from agents.models.base import Box, Detection
from agents.models.vision.boxes import crop
from agents.record import BoxFound, PictureFound, SignalKind, Unanswered
from agents.search.gateway import READING_SECONDS
from agents.stage import Context, Stage, StageOptions
from agents.texts.text import clean, one_line
from agents.turn import IDK, Candidate, Evidence, Turn, View

ASK = Ask("search_agent", AGENT_STEP)
STEPS = SignalKind("search_agent.steps", "searches that the model made before its answer")

_STEP_SECONDS = 2.5  # for a call and a search, until the first of them has been measured
_PICTURES, _PAGES = 5, 6  # results of a search


@dataclass(frozen=True)
class _Result:
    """A call of a tool as the model wrote it, with the chunks that were found, or the reason why there are none."""

    call: str
    chunks: tuple[Evidence, ...] = ()
    empty: str = "nothing found"


@dataclass
class _Talk:
    """A turn whose model still searches."""

    turn: Turn
    results: list[_Result] = field(default_factory=list)
    steps: list[AgentStep] = field(default_factory=list)
    failed: int = 0  # searches that failed


class SearchAgent(Stage):
    """Lets a vision model search by itself: at each step it searches with the photo, a part of it or a query, or answers.

    One batched call a step for all turns that still search, and one search of each kind. The model reads what its searches found: names
    with likeness and facts, pages with their best paragraphs. If time or steps run out, it is asked for its answer.
    """

    class Options(StageOptions):
        steps: int = Field(5, ge=1, le=10, description="searches that the model may make for a turn")

    options: Options
    fills = ("question", "needs_image", "queries", "views", "shown", "candidate")
    searches = "both"
    doing = "searching and answering"
    kind = "answers"
    asks = (ASK,)
    signals = (STEPS,)
    when_short = "one search with the whole photo, or the question where there is none, then the answer"
    min_seconds, wanted_seconds = 1.0, 5.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``, and what was searched for and found."""
        searching = [_Talk(turn) for turn in turns if turn.candidate is None]
        for talk in searching:
            talk.turn.question = one_line(clean(talk.turn.query))
            talk.turn.needs_image = talk.turn.image is not None
        steps = self.options.steps
        if context.short:
            steps = 0
            self._search(
                [(talk, first) for talk in searching if (first := _choose_search(talk.turn, context))], context
            )
        seconds = _STEP_SECONDS
        for number in range(steps + 1):
            # The step, and the call for the answer after it
            is_last = number == steps or not context.deadline.allows(2 * seconds)
            began = context.deadline.elapsed()
            calls = self._ask(searching, 0 if is_last else steps - number, context)
            if not calls:
                break
            self._search(calls, context)
            searching = [talk for talk, _ in calls]
            seconds = context.deadline.elapsed() - began

    def _ask(self, talks: Sequence[_Talk], left: int, context: Context) -> list[tuple[_Talk, AgentStep]]:
        """Ask for the next step of each turn, and return those that call a tool; the others are answered."""
        questions = [Question(ASK, _show(talk, left, context), (talk.turn,)) for talk in talks]
        calls = []
        for talk, answer in zip(talks, context.put(questions) if questions else (), strict=True):
            turn, step = talk.turn, answer.value
            turn.record(signals=STEPS.entry(len(talk.steps)))
            if answer.failed:
                turn.error = f"search_agent: {answer.error}"
            elif left and (step.tool is not None or step.candidate is None):
                calls.append((talk, step))
            else:
                turn.candidate = step.candidate or Candidate(IDK, None)
        return calls

    def _search(self, calls: Sequence[tuple[_Talk, AgentStep]], context: Context) -> None:
        """Make the searches of a step, and add what they find to what each turn shows."""
        self._search_images([(talk, step) for talk, step in calls if step.tool == "image_search"], context)
        self._search_web([(talk, step) for talk, step in calls if step.tool == "web_search"], context)
        for talk, step in calls:
            if step.tool is None:
                talk.results.append(_Result("no tool", empty="error: call a tool that is listed, or answer"))
            talk.steps.append(step)
            _record(talk, context)

    def _search_images(self, calls: Sequence[tuple[_Talk, AgentStep]], context: Context) -> None:
        new = []
        for talk, step in calls:
            call = json.dumps({"tool": step.tool, "box": step.box})
            if talk.turn.image is None or not context.search.can_search_images(talk.turn.provided):
                talk.results.append(_Result(call, empty="error: there is no photo to search with"))
            elif step in talk.steps:
                talk.results.append(_Result(call, empty=_REPEATED))
            else:
                new.append((talk, call, *_cut(talk.turn.image, step.box)))
        pictures, provided = [picture for *_, picture in new], [talk.turn.provided for talk, *_ in new]
        found = context.search.search_images(pictures, _PICTURES, provided, context.deadline) if new else []
        for (talk, call, region, _), result in zip(new, found, strict=True):
            talk.turn.count_search("image")
            talk.turn.views = (*talk.turn.views, View(region, result.hits))
            _add(talk, call, tuple(list_pictured(result.hits)), result.error)

    def _search_web(self, calls: Sequence[tuple[_Talk, AgentStep]], context: Context) -> None:
        new = []
        for talk, step in calls:
            call = json.dumps({"tool": step.tool, "query": step.query}, ensure_ascii=False)
            if not context.search.can_search_web(talk.turn.provided):
                talk.results.append(_Result(call, empty="error: there is no web search"))
            elif step in talk.steps:
                talk.results.append(_Result(call, empty=_REPEATED))
            else:
                new.append((talk, call, step.query))
        queries, provided = [query for *_, query in new], [talk.turn.provided for talk, *_ in new]
        found = context.search.search_web(queries, _PAGES, provided, context.deadline) if new else []
        urls = [hit.page_url for result in found for hit in result.hits if hit.page_url and hit.page_text is None]
        reading = context.deadline.within(READING_SECONDS * len(new))
        texts = context.search.page_texts(dict.fromkeys(urls), context.fetch, reading) if urls else {}
        for (talk, call, query), result in zip(new, found, strict=True):
            talk.turn.count_search("web")
            talk.turn.queries = (*talk.turn.queries, query)
            _add(talk, call, tuple(list_pages(query, result.hits, texts)), result.error)


_ELSEWHERE = "(shown with a later result, or left out for lack of room)"
_REPEATED = "error: you called this already; call something else, or answer"


def _choose_search(turn: Turn, context: Context) -> AgentStep | None:
    """Choose the search of a turn whose model has no time to choose one: the whole photo, else the question."""
    if turn.image is not None and context.search.can_search_images(turn.provided):
        return AgentStep("image_search")
    return AgentStep("web_search", query=turn.question) if context.search.can_search_web(turn.provided) else None


def _cut(photo: Image.Image, fractions: Fractions | None) -> tuple[Detection | None, Image.Image]:
    """Cut a part out of the photo; the whole photo has no region."""
    if fractions is None:
        return None, photo
    left, top, right, bottom = fractions
    box = Box(left * photo.width, top * photo.height, right * photo.width, bottom * photo.height)
    return Detection(box, "", 1.0), crop(photo, box)


def _add(talk: _Talk, call: str, chunks: tuple[Evidence, ...], error: str | None) -> None:
    """Add the result of a search that was made."""
    talk.failed += error is not None
    talk.results.append(_Result(call, chunks, f"error: {error}" if error else "nothing found"))
    if error:
        talk.turn.note(search_error=error)


def _show(talk: _Talk, left: int, context: Context) -> dict[str, Any]:
    """Return the values of the prompt for the next step, of which ``left`` may still call a tool."""
    turn = talk.turn
    shown = _select(talk, context)
    return {
        "image": turn.image,
        "photo": turn.image is not None,
        "question": turn.question,
        "history": turn.history,
        "pictures": left and turn.image is not None and context.search.can_search_images(turn.provided),
        "pages": left and context.search.can_search_web(turn.provided),
        "left": left,
        "steps": [
            {"call": result.call, "chunks": chunks, "empty": _ELSEWHERE if result.chunks else result.empty}
            for result, chunks in zip(talk.results, shown, strict=True)
        ],
    }


def _select(talk: _Talk, context: Context) -> list[tuple[Evidence, ...]]:
    return select_newest([result.chunks for result in talk.results], context.limits.evidence_tokens)


def _record(talk: _Talk, context: Context) -> None:
    """Record what a turn has searched for and found; what its prompt shows is its evidence."""
    turn = talk.turn
    turn.shown = tuple(chunk for chunks in _select(talk, context) for chunk in chunks)
    hits = sorted((hit for view in turn.views for hit in view.hits), key=lambda hit: -hit.score)
    best = {entity.name: hit for hit in reversed(hits) for entity in hit.entities}
    pictures = (PictureFound(name, round(hit.score, 4), hit.url) for name, hit in best.items())
    regions = [view.region for view in turn.views if view.region is not None]
    turn.record(
        pictures=tuple(sorted(pictures, key=lambda each: -each.score)),
        boxes=tuple(BoxFound(it.box.left, it.box.top, it.box.right, it.box.bottom) for it in regions),
        queries=turn.queries,
        evidence=convert_to_record(turn.shown),
    )
    turn.note(calls=[result.call for result in talk.results])
    if talk.failed and talk.failed == len(talk.steps):
        turn.mark_fault(Unanswered.SEARCH)
