from collections.abc import Sequence

from agents.stage import Context, Stage
from agents.texts.text import clean, cut_words, one_line
from agents.turn import Turn, with_image


class Summarise(Stage):
    """One sentence on the picture with the question in mind (CRUISE, section 3.2, eq. 1); one batched call.

    Searches and rerankers may read it (eq. 2).
    """

    min_seconds, wanted_seconds = 2.0, 4.0
    fills = ("summary",)
    templates = ("image_summary",)
    picture_notes = frozenset({"summary"})

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``summary``."""
        concerned = [turn for turn, _ in with_image(turns) if turn.tools.image or turn.tools.text]
        limit = context.prompts["image_summary"].settings.max_tokens
        for turn, reply in context.ask_each("image_summary", concerned, lambda turn: turn.values):
            turn.summary = cut_words(one_line(clean(reply.text)), limit)
            turn.note(summary=turn.summary, error=reply.error)
