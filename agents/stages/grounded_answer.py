from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import cast

from PIL import Image
from pydantic import Field

from agents.asking.ask import Answer, Ask, Question
from agents.asking.readers.grounded import GROUNDED, GroundedReply
from agents.asking.readers.looks import MAX_THINGS
from agents.evidence.chunks import find_windows
from agents.evidence.growth import open_page
from agents.evidence.passages import CHARACTERS_PER_TOKEN, convert_to_record
from agents.evidence.shown import FACT_CHUNKS
from agents.methods.candidates import convert_source
from agents.models.vision.boxes import crop
from agents.record import PictureFound, SignalKind
from agents.stage import Context, Stage, StageOptions, crop_close_ups
from agents.turn import IDK, Candidate, Evidence, Origin, Turn, View

ASK = Ask("grounded_answer", GROUNDED)
ROUNDS = SignalKind("grounded_answer.rounds", "rounds of requests for more that the answer took")

_ROUND_SECONDS = 2.5  # for a search and a call
_ALIKE = 4  # pictures most like a part of the photo
_PAGE_SHARE = 0.7  # of the budget of tokens, for a page that is opened: the rest keeps the best of the other evidence
_Request = tuple[Turn, GroundedReply]


class GroundedAnswer(Stage):
    """Answers from photo and evidence with a vision model, which may ask for more before it answers.

    One batched call a round. The model may search for missing facts, read more of the page of a chunk, or look at another part of the
    photo, which is enlarged and searched for. It names what its answer rests on, and code computes what it calculates. The photo comes with
    enlarged parts where the things asked about are small in it.
    """

    class Options(StageOptions):
        k: int = Field(5, ge=0, description="chunks shown, as far as the profile's budget of tokens allows")
        rounds: int = Field(
            1, ge=0, le=3, description="rounds of requests for more: searches, pages, parts of the photo"
        )
        enlarge: float = Field(
            0.2, ge=0, le=1, description="share of the photo below which a thing is shown enlarged beside it; 0: never"
        )
        entity_picture: bool = Field(
            False, description="show the knowledge graph's picture of the entity too, if the picture cache has it"
        )
        own_knowledge: bool = Field(
            False,
            description="whether the answer may be a well-known fact, marked as the model's own knowledge; cross_check decides on it",
        )

    options: Options
    fills = ("candidate", "evidence", "shown", "close_ups", "entity_picture", "queries", "views", "alike")
    doing = "writing an answer"
    kind = "answers"
    asks = (ASK,)
    signals = (ROUNDS,)
    when_short = "no request for more"
    min_seconds, wanted_seconds = 1.0, 2.0

    def roles(self) -> tuple[str, ...]:
        """Return the detector, which finds the part of the photo that the model wants to see, if it may ask for one."""
        return ("detector",) if self.options.rounds else ()

    def pictures(self) -> int:
        """Return the maximum number of pictures beside the photo: its enlarged parts, and the entity's."""
        return MAX_THINGS * bool(self.options.enlarge) + self.options.entity_picture

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate`` and ``shown``; a request adds to ``evidence``, ``queries``, ``close_ups``, ``views`` and ``alike``."""
        remaining = [turn for turn in turns if turn.candidate is None]
        rounds = 0 if context.short else self.options.rounds
        for turn in remaining:
            turn.shown = context.evidence(turn, self.options.k)
            turn.close_ups = crop_close_ups(turn, self.options.enlarge)
            turn.entity_picture = context.find_entity_picture(turn) if self.options.entity_picture else None
        for number in range(rounds + 1):
            is_last = number == rounds or not context.deadline.allows(_ROUND_SECONDS)
            own = {"own": self.options.own_knowledge, "last": is_last}
            questions = [Question(ASK, {**context.show_turn(turn), **own}, (turn,)) for turn in remaining]
            answers = list(zip(remaining, context.put(questions) if questions else (), strict=True))
            requests = [(turn, answer.value) for turn, answer in answers if answer.value.asks_for_more]
            for turn, answer in answers:
                _take(turn, answer, number)
            if is_last or not requests or not context.deadline.allows(_ROUND_SECONDS):
                break
            self._fetch(requests, context)
            remaining = [turn for turn, _ in requests]

    def _fetch(self, requests: Sequence[_Request], context: Context) -> None:
        """Fetch what the model asks for, with one search of each kind for all turns.

        It shares the prompt with what was shown, in turn, because an answer may need both.
        """
        named = self._look(requests, context)
        queries = [(*said.queries, *named.get(id(turn), ())) for turn, said in requests]
        pages = _open_pages(requests, context)
        parts = iter(
            context.search_facts(
                [(turn, query) for (turn, _), own in zip(requests, queries, strict=True) for query in own]
            )
        )
        for (turn, _), own in zip(requests, queries, strict=True):
            opened = pages.get(id(turn), ())
            found = _alternate(*(_select_new(next(parts).evidence, (*turn.shown, *opened)) for _ in own))
            others = [chunk for chunk in turn.evidence if all(chunk.url != page.url for page in opened)]
            turn.evidence = tuple(dict.fromkeys((*opened, *_alternate(found, others))))
            turn.shown = context.evidence(turn, self.options.k)
            turn.queries = tuple(dict.fromkeys((*turn.queries, *own)))

    def _look(self, requests: Sequence[_Request], context: Context) -> dict[int, tuple[str]]:
        """Enlarge parts of photos and search for pictures like them.

        Returns:
            A query for the facts of what a part is most like, by the id of its turn.
        """
        asked = [(turn, said.part) for turn, said in requests if said.part and turn.image is not None]
        if not asked:
            return {}
        photos = [cast(Image.Image, turn.image) for turn, _ in asked]
        found = context.models.detector.detect(photos, [(phrase,) for _, phrase in asked])
        seen = [
            (turn, phrase, own[0], crop(photo, own[0].box))
            for (turn, phrase), photo, own in zip(asked, photos, found, strict=True)
            if own
        ]
        results = (
            context.search.search_images(
                [picture for *_, picture in seen], _ALIKE, [turn.provided for turn, *_ in seen], context.deadline
            )
            if seen
            else []
        )
        queries: dict[int, tuple[str]] = {}
        for (turn, phrase, region, picture), result in zip(seen, results, strict=True):
            turn.count_search("image")
            turn.views = (*turn.views, View(region, result.hits))
            turn.close_ups = (*turn.close_ups, (phrase, picture))[-MAX_THINGS:]
            hits = [(hit.entities[0].name, hit) for hit in result.hits if hit.entities]
            best = {name: PictureFound(name, round(hit.score, 4), hit.url) for name, hit in reversed(hits)}
            others = (other for other in turn.alike if other.name not in best)
            turn.alike = (*sorted(best.values(), key=lambda each: -each.score), *others)
            if hits:
                queries[id(turn)] = (f"{hits[0][0]} {turn.question}",)
        return queries


def _open_pages(requests: Sequence[_Request], context: Context) -> dict[int, list[Evidence]]:
    """Read the whole pages of chunks that turns ask for, as far as their share of the budget goes.

    Returns:
        A passage for each page whose text is known, by the id of its turn.
    """
    asked = [
        (turn, turn.shown[number - 1], (*turn.evidence_questions, *said.queries))
        for turn, said in requests
        for number in said.pages
        if 1 <= number <= len(turn.shown) and turn.shown[number - 1].source == "web"
    ]
    known: dict[str, str | None] = {hit.page_url: hit.page_text for turn, *_ in asked for hit in turn.web_hits}
    urls = [chunk.url for _, chunk, _ in asked if chunk.url and not known.get(chunk.url)]
    known |= {url: page.text for url, page in context.search.page_texts(urls, context.fetch, context.deadline).items()}
    opened: dict[int, list[Evidence]] = {}
    for turn, chunk, questions in asked:
        own = opened.setdefault(id(turn), [])
        characters = context.measure_budget(_PAGE_SHARE) // (1 + len(own))
        if any(chunk.url == other.url for other in own):
            continue
        if chunk.page is not None:
            own.append(open_page(chunk, characters // CHARACTERS_PER_TOKEN, questions))
        elif text := known.get(chunk.url):
            own.append(replace(chunk, text=find_windows(text, chunk.text, characters)[0].text))
    return opened


def _alternate(*rankings: Sequence[Evidence]) -> list[Evidence]:
    """Return the best chunk of each ranking, then the second best of each ..."""
    return [chunk for row in zip_longest(*rankings) for chunk in row if chunk is not None]


def _select_new(found: Sequence[Evidence], shown: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Return the best ``FACT_CHUNKS`` chunks for a fact whose text the prompt did not show yet."""
    return tuple(chunk for chunk in found if not any(chunk.text in other.text for other in shown))[:FACT_CHUNKS]


def _take(turn: Turn, answer: Answer[GroundedReply], number: int) -> None:
    """Take the answer of a round. Another request for more in the last round is a refusal."""
    said = answer.value
    turn.record(evidence=convert_to_record(turn.shown), signals=ROUNDS.entry(number))
    if answer.failed:
        turn.error = f"grounded_answer: {answer.error}"
        return
    turn.note(
        missing=list(said.queries) or None,
        opened=list(said.pages) or None,
        part=said.part or None,
        calculation=said.fault or None,
    )
    if said.asks_for_more or said.fault:
        turn.candidate = Candidate(IDK, None)
    elif said.candidate is not None:
        turn.candidate = replace(said.candidate, origin=said.candidate.origin or _find_origin(said, turn.shown))


def _find_origin(said: GroundedReply, shown: Sequence[Evidence]) -> Origin | None:
    """Return the source that the model names: a page or the graph before the photo, in which the thing asked about is seen anyway."""
    named = [convert_source(shown[number - 1].source) for number in said.chunks if 1 <= number <= len(shown)]
    unsourced: Origin | None = "photo" if said.from_photo else "own" if said.is_own else None
    return next(filter(None, named), unsourced)
