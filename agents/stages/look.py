from collections.abc import Sequence

from agents.asking.ask import Ask
from agents.asking.readers.looks import LOOK, FirstLook
from agents.record import DRAFT
from agents.stage import Context, Stage, StageOptions
from agents.texts.refusals import refuses
from agents.texts.text import clean, one_line
from agents.turn import Look, Target, Tools, Turn

ASK = Ask("look", LOOK)


class LookFirst(Stage):
    """Takes a first look at photo, question and dialog, in one batched call of a model that sees.

    The look says the question as it stands alone, the things asked about, what is needed, queries and a draft of the answer; no rule
    over words decides any of it. A draft before any evidence is QA-Dragon's (section 3.1.2), queries with the picture are of task 2's
    winner. Without a look, photo and bare question are searched for.
    """

    options: StageOptions
    fills = ("question", "needs_image", "look", "draft", "tools", "target", "real_time")
    doing = "looking at the photo"
    asks = (ASK,)
    # The draft comes last, so that it leads neither what is searched for nor what is found.
    when_short = "half the tokens of its reply, which lack the draft and perhaps a query; no look below 2 s"
    min_seconds, wanted_seconds = 2.0, 4.0  # with less, even half a reply would take the time of the searches
    picture_notes = frozenset({"things", "queries"})

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill all fields of ``fills``; a turn whose look fails keeps its question and is searched for."""
        for turn in turns:
            turn.question = one_line(clean(turn.query))
            turn.needs_image = turn.image is not None
            turn.look = None
        for turn, answer in context.ask_each(ASK, turns):
            if answer.value.look.needs is not None:
                _take(turn, answer.value, in_collection=bool(context.collection))
        for turn in turns:
            look = turn.look or Look(None)
            turn.note(
                question=turn.question,
                things=[" | ".join(filter(None, (it.phrase, it.position, it.name))) for it in look.things],
                needs=look.needs,
                queries=list(look.queries),
            )


def _take(turn: Turn, first_look: FirstLook, *, in_collection: bool) -> None:
    """Fill the fields of a turn from its look.

    Every photo is searched for, because a thing that looks familiar may be another one of the index. Pages are left out only for a question
    that the look answers from the photo and names no fact to look up for, and never in a collection: its things have facts of their own.
    """
    look, draft = first_look.look, first_look.draft
    drafted = draft is not None and not refuses(draft.answer)
    sees_all = look.needs == "picture" and drafted and not look.queries
    if turn.history and look.question:
        turn.question = look.question
    turn.look, turn.draft, turn.real_time = look, draft, look.needs == "now"
    turn.tools = Tools(image=turn.needs_image, text=in_collection or not sees_all)
    turn.target = Target(
        tuple(dict.fromkeys(thing.phrase.lower() for thing in look.things)),
        look.things[0].phrase.lower() if len(look.things) == 1 else None,
        look.things[0].position if len(look.things) == 1 else None,
    )
    turn.record(answers={DRAFT: draft.answer if draft is not None else None})
