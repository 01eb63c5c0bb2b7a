import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from agents.asking.ask import Ask
from agents.asking.readers.looks import LOOK
from agents.methods.object_phrases import extract_object_phrases
from agents.methods.question_kinds import classify_question
from agents.models.base import TextLine
from agents.record import DRAFT
from agents.stage import Context, Stage, StageOptions
from agents.texts.injection import neutral
from agents.turn import Look, Turn, select_with_image

ASK = Ask("look", LOOK)

_SURELY_READ = 0.9  # confidence of the OCR: what it is less sure of is mostly a pattern taken for letters
_WORD = re.compile(r"\b[^\W\d_]{3,}(?:['’&-][^\W\d_]+)*\b")  # neither numbers, such as prices, nor single letters
_MAX_WORDS = 8  # a title and its author


class LookFirst(Stage):
    """Takes a first look at picture and question: needs, the object, its name, two queries for the web and a draft of the answer.

    A model that sees answers in one batched call before any search. Without one, the look is made from the words of the question and
    those in the photo. Routing, tools, detector and queries read it. A draft before any evidence is QA-Dragon's (section 3.1.2),
    queries with the picture are of task 2's winner.
    """

    class Options(StageOptions):
        by: Literal["model", "rules"] = Field(
            "model",
            description="who looks; rules for a chat model that does not see: they say neither name nor draft nor queries",
        )
        read: bool = Field(
            False,
            description="rules: the question with the words that are written in the photo, by OCR, is one more query",
        )

    options: Options
    fills = ("look", "summary", "draft")
    doing = "looking at the photo"
    # The draft comes after the queries, though half a reply then lacks it. Before them it would lead what is searched for, and evidence
    # that was searched for by a guess cannot confirm it.
    when_short = "half the tokens of its reply: object, name, needs and a query come first; rules alone below 4 s"
    seconds_to_ask = 4.0  # with less, even half a reply would take the time of the searches
    picture_notes = frozenset({"text", "object", "name", "queries"})

    def list_asks(self) -> tuple[Ask[Any], ...]:
        """Return the prompt of the model that looks."""
        return (ASK,) if self.options.by == "model" else ()

    def roles(self) -> tuple[str, ...]:
        """Name the reader of the text in the photo, if the rules use it."""
        return ("text_reader",) if self.options.by == "rules" and self.options.read else ()

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``look``, and ``summary`` and ``draft`` if the model gives them."""
        for turn in turns:
            turn.look = judge_by_rules(turn)
        if self.roles() and not context.short:
            self._read([turn for turn, _ in select_with_image(turns)], context)
        if self.list_asks() and (not context.short or context.deadline.allows(self.seconds_to_ask)):
            self._ask([turn for turn, _ in select_with_image(turns)], context)
        for turn in turns:
            look = turn.look or Look(None)
            turn.note(needs=look.needs, object=look.object, name=look.name, queries=list(look.queries))

    @staticmethod
    def _read(turns: Sequence[Turn], context: Context) -> None:
        pictures = [turn.image for turn in turns if turn.image is not None]
        for turn, lines in zip(turns, context.models.text_reader.read(pictures) if pictures else (), strict=True):
            query = turn.naming([words]) if (words := written_words(lines, guarded=context.guarded)) else turn.question
            if turn.look is not None and query != turn.question:
                turn.look = replace(turn.look, queries=(query,))

    @staticmethod
    def _ask(turns: Sequence[Turn], context: Context) -> None:
        for turn, answer in context.ask_each(ASK, turns):
            first_look, rules = answer.value, turn.look or Look(None)
            turn.look = replace(
                first_look.look,
                needs=first_look.look.needs or rules.needs,
                object=first_look.look.object or rules.object,
            )
            turn.summary, turn.draft = first_look.text, first_look.draft
            turn.record(answers={DRAFT: first_look.draft.answer if first_look.draft else None})
            turn.note(text=first_look.text or None)


def written_words(lines: Sequence[TextLine], *, guarded: bool) -> str:
    """Join the words of a photo that were read with certainty, in reading order.

    Args:
        lines: The lines that were read, each with its score.
        guarded: Whether orders to a model are removed.
    """
    text = "\n".join(line.text for line in lines if line.score >= _SURELY_READ)
    return " ".join(_WORD.findall(neutral(text, citations=False) if guarded else text)[:_MAX_WORDS])


def judge_by_rules(turn: Turn) -> Look:
    """Judge by the words of the question what it needs and which object it is about."""
    kind = classify_question(turn.question)
    phrase = next(iter(extract_object_phrases(turn.question, 1)), None)
    if not turn.needs_image:
        return Look("web", phrase)
    if (kind.text or kind.calculation) and not kind.open_world:
        return Look("picture", phrase)
    return Look("entity" if kind.self_contained else "both", phrase)
