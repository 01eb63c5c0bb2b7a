from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from pydantic import Field

from agents.asking.ask import Answer, Ask, Question
from agents.asking.readers.grounded import GROUNDED, GroundedReply
from agents.asking.readers.looks import MAX_THINGS
from agents.evidence.passages import convert_to_record
from agents.evidence.shown import FACT_CHUNKS
from agents.methods.candidates import convert_source
from agents.record import SignalKind
from agents.stage import Context, Stage, StageOptions, crop_close_ups
from agents.turn import IDK, Candidate, Evidence, Origin, Turn

ASK = Ask("grounded_answer", GROUNDED)
ROUNDS = SignalKind("grounded_answer.rounds", "searches for missing facts that the answer took")

_ROUND_SECONDS = 2.5  # for a search and a call


class GroundedAnswer(Stage):
    """Answers from photo and evidence with a model that sees; what is missing is searched for, and the model is asked again.

    One batched call a round. The model names what its answer rests on, and code computes what it calculates. The photo comes with
    enlarged parts where the things asked about are small in it.
    """

    class Options(StageOptions):
        k: int = Field(5, ge=0, description="chunks shown, as far as the profile's budget of tokens allows")
        rounds: int = Field(1, ge=0, le=3, description="rounds of searches for facts that the model calls missing")
        enlarge: float = Field(
            0.2, ge=0, le=1, description="share of the photo below which a thing is shown enlarged beside it; 0: never"
        )
        entity_picture: bool = Field(
            False, description="show the knowledge graph's picture of the entity too, if the picture cache has it"
        )

    options: Options
    fills = ("candidate", "shown", "close_ups", "entity_picture")
    doing = "writing an answer"
    kind = "answers"
    asks = (ASK,)
    signals = (ROUNDS,)
    when_short = "no search for what is missing"
    min_seconds, wanted_seconds = 1.0, 2.0

    def pictures(self) -> int:
        """Return the maximum number of pictures beside the photo: its enlarged parts, and the entity's."""
        return MAX_THINGS * bool(self.options.enlarge) + self.options.entity_picture

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate`` and ``shown``."""
        remaining = [turn for turn in turns if turn.candidate is None]
        rounds = 0 if context.short else self.options.rounds
        for turn in remaining:
            turn.shown = context.evidence(turn, self.options.k)
            turn.close_ups = crop_close_ups(turn, self.options.enlarge)
            turn.entity_picture = context.find_entity_picture(turn) if self.options.entity_picture else None
        for number in range(rounds + 1):
            is_last = number == rounds or not context.deadline.allows(_ROUND_SECONDS)
            questions = [Question(ASK, {**context.show_turn(turn), "last": is_last}, (turn,)) for turn in remaining]
            answers = list(zip(remaining, context.put(questions) if questions else (), strict=True))
            missing = [(turn, answer.value.queries) for turn, answer in answers if answer.value.queries]
            for turn, answer in answers:
                _take(turn, answer, number)
            if is_last or not missing or not context.deadline.allows(_ROUND_SECONDS):
                break
            self._search(missing, context)
            remaining = [turn for turn, _ in missing]

    def _search(self, missing: Sequence[tuple[Turn, tuple[str, ...]]], context: Context) -> None:
        """Search for missing facts, and show what is found before what was shown."""
        parts = iter(context.search_facts([(turn, query) for turn, queries in missing for query in queries]))
        for turn, queries in missing:
            ranked = [next(parts).evidence[:FACT_CHUNKS] for _ in queries]
            interleaved = [chunk for row in zip_longest(*ranked) for chunk in row if chunk is not None]
            turn.shown = context.put_first(interleaved, turn.shown)


def _take(turn: Turn, answer: Answer[GroundedReply], number: int) -> None:
    """Take the answer of a round. Another request for a search in the last round is a refusal."""
    said = answer.value
    turn.record(evidence=convert_to_record(turn.shown), signals=ROUNDS.entry(number))
    if answer.failed:
        turn.error = f"grounded_answer: {answer.error}"
        return
    turn.note(missing=list(said.queries) or None, calculation=said.fault or None)
    if said.queries or said.fault:
        turn.candidate = Candidate(IDK, None)
    elif said.candidate is not None:
        turn.candidate = replace(said.candidate, origin=said.candidate.origin or _find_origin(said, turn.shown))


def _find_origin(said: GroundedReply, shown: Sequence[Evidence]) -> Origin | None:
    """Return the source that the model names; a page or the graph before the photo, in which the thing asked about is seen anyway."""
    named = [convert_source(shown[number - 1].source) for number in said.chunks if 1 <= number <= len(shown)]
    return next(filter(None, named), "photo" if said.from_photo else None)
