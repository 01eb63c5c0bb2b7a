from collections.abc import Sequence

from agents.asking.ask import Ask
from agents.asking.readers.lines import SENTENCE
from agents.stage import Context, Stage
from agents.texts.text import CHARACTERS_A_TOKEN, cut_words
from agents.turn import Turn, select_with_image

ASK = Ask("image_summary", SENTENCE)


class Summarise(Stage):
    """Summarises the picture in one sentence with the question in mind (CRUISE, section 3.2, eq. 1); one batched call.

    Searches and rerankers may read it (eq. 2).
    """

    min_seconds, wanted_seconds = 2.0, 4.0
    fills = ("summary",)
    doing = "describing the photo"
    asks = (ASK,)
    picture_notes = frozenset({"summary"})

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``summary``."""
        concerned = [turn for turn, _ in select_with_image(turns) if turn.tools.image or turn.tools.text]
        limit = CHARACTERS_A_TOKEN * context.prompts[ASK.prompt].settings.max_tokens
        for turn, answer in context.ask_each(ASK, concerned):
            turn.summary = cut_words(answer.value, limit)
            turn.note(summary=turn.summary)
