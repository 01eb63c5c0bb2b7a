import re
from collections.abc import Sequence
from dataclasses import replace

from agents.english.object_phrases import extract_object_phrases
from agents.english.question_kinds import classify_question
from agents.models.base import TextLine
from agents.stage import Context, Stage, StageOptions
from agents.texts.injection import neutral
from agents.turn import Look, Needs, Thing, Turn, select_with_image

_SURELY_READ = 0.9  # confidence of the OCR: less certain text is mostly a pattern taken for letters
_WORD = re.compile(r"\b[^\W\d_]{3,}(?:['’&-][^\W\d_]+)*\b")  # neither numbers, such as prices, nor single letters
_MAX_WORDS = 8  # a title and its author


class LookByWords(Stage):
    """Takes a first look for a chat model that does not see: needs and object from the words of the question.

    The question with the words that the OCR reads in the photo is one more query. There is neither name nor draft.
    """

    options: StageOptions
    fills = ("look",)
    doing = "reading the photo"
    when_short = "the OCR does not read"
    model_roles = ("text_reader",)
    picture_notes = frozenset({"object", "queries"})

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``look``."""
        for turn in turns:
            turn.look = judge_by_rules(turn)
        if not context.short:
            self._read([turn for turn, _ in select_with_image(turns)], context)
        for turn in turns:
            look = turn.look or Look(None)
            turn.note(needs=look.needs, object=look.object, queries=list(look.queries))

    @staticmethod
    def _read(turns: Sequence[Turn], context: Context) -> None:
        pictures = [turn.image for turn in turns if turn.image is not None]
        for turn, lines in zip(turns, context.models.text_reader.read(pictures) if pictures else (), strict=True):
            query = turn.naming([words]) if (words := written_words(lines, guarded=context.guarded)) else turn.question
            if turn.look is not None and query != turn.question:
                turn.look = replace(turn.look, queries=(query,))


def written_words(lines: Sequence[TextLine], *, guarded: bool) -> str:
    """Join the surely read words of a photo, in reading order.

    Args:
        lines: The lines of text, each with its score.
        guarded: Whether orders to a model are removed.
    """
    text = "\n".join(line.text for line in lines if line.score >= _SURELY_READ)
    return " ".join(_WORD.findall(neutral(text, citations=False) if guarded else text)[:_MAX_WORDS])


def judge_by_rules(turn: Turn) -> Look:
    """Judge by the words of the question what it needs and which object it is about."""
    kind = classify_question(turn.question)
    phrase = next(iter(extract_object_phrases(turn.question, 1)), None)
    needs: Needs = "entity" if kind.self_contained else "both"
    if not turn.needs_image:
        needs = "web"
    elif (kind.text or kind.calculation) and not kind.open_world:
        needs = "picture"
    return Look(needs, (Thing(phrase),) if phrase is not None else ())
