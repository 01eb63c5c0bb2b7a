from collections.abc import Sequence
from dataclasses import replace

from agents.asking.ask import Ask, Question
from agents.asking.readers.looks import LOOK, FirstLook
from agents.english.object_phrases import is_at
from agents.models.vision.model_boxes import convert_corners, describe_form
from agents.profiles.model_set import ModelSet
from agents.record import DRAFT
from agents.stage import Context, Stage, StageOptions
from agents.texts.refusals import refuses
from agents.texts.text import clean, one_line
from agents.turn import Look, Target, Tools, Turn

ASK = Ask("look", LOOK)
ASK_WITH_BOXES = Ask("look_with_boxes", LOOK)  # of a model that gives boxes, about a photo


class LookFirst(Stage):
    """Takes a first look at photo, question and dialog, in one batched call of a model that sees.

    The look says the question as it stands alone, the things asked about, what is needed, queries and a draft of the answer; no rule
    over words decides any of it. A draft before any evidence is QA-Dragon's (section 3.1.2), queries with the picture are of task 2's
    winner. Without a look, photo and bare question are searched for.
    """

    options: StageOptions
    fills = ("question", "needs_image", "look", "draft", "tools", "target", "real_time")
    doing = "looking at the photo"
    asks = (ASK, ASK_WITH_BOXES)
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
        for turn, answer in zip(turns, context.put([_ask(turn, context) for turn in turns]), strict=True):
            if answer.value.look.needs is not None:
                look = _draw_boxes(turn, answer.value, context.models)
                _take(turn, replace(answer.value, look=look), in_collection=bool(context.collection))
        for turn in turns:
            look = turn.look or Look(None)
            turn.note(
                question=turn.question,
                things=[" | ".join(filter(None, (it.phrase, it.position, it.name))) for it in look.things],
                drawn=[it.box is not None for it in look.things] if context.models.boxes != "none" else None,
                needs=look.needs,
                queries=list(look.queries),
            )


def _ask(turn: Turn, context: Context) -> Question[FirstLook]:
    """Ask for the look of a turn, with boxes if its model draws them."""
    image, form = turn.image, context.models.boxes
    if image is None or form == "none":
        return Question(ASK, {**turn.values, "boxes": ""}, (turn,))
    words = describe_form(form, context.models.measure_sent(image.size))
    return Question(ASK_WITH_BOXES, {**turn.values, "boxes": words}, (turn,))


def _draw_boxes(turn: Turn, first_look: FirstLook, models: ModelSet) -> Look:
    """Return a look whose things have the boxes that the model gives them.

    A box that contradicts the thing's place is dropped, because one of the two is wrong; the thing is then found by a detector.
    """
    look, image, form = first_look.look, turn.image, models.boxes
    if image is None or form == "none":
        return look
    sent = models.measure_sent(image.size)
    things = []
    for thing, corners in zip(look.things, first_look.corners, strict=True):
        box = None if corners is None else convert_corners(corners, form, sent, image.size)
        is_wrong = box is not None and thing.position is not None and not is_at(box, thing.position, *image.size)
        things.append(replace(thing, box=None if is_wrong else box))
    return replace(look, things=tuple(things))


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
