"""The object a question is about, and where it is."""

import pytest

from agents.english.object_phrases import (
    measure_offset,
)
from agents.models.base import Box
from agents.settings.presets import settings_from
from agents.stages.objects import Objects
from agents.stages.understand import Understand
from agents.turn import Target
from tests.agent.scripted import context, run, turn


def test_offsets_are_fractions_of_the_image() -> None:
    box = Box(10, 20, 30, 40)  # its centre lies at 20 %, 30 %
    assert [
        round(measure_offset(box, position, 100, 100), 3) for position in ("left", "right", "top", "bottom", "middle")
    ] == [
        0.2,
        0.8,
        0.3,
        0.7,
        0.5,
    ]


@pytest.mark.parametrize(
    ("keep", "has_photo", "needs_image"), [(True, True, True), (False, True, False), (True, False, False)]
)
def test_a_follow_up_about_a_name_may_keep_the_photo(keep: bool, has_photo: bool, needs_image: bool) -> None:
    history = ({"role": "user", "content": "Who made it?"}, {"role": "assistant", "content": "Isak Dunn"})
    dialog_turn = turn("And what did he lose in a gale?", size=(64, 48) if has_photo else None, history=history)
    run(Understand, [dialog_turn], context(settings_from({"stages": ["finalise"], "understand": {"keep_photo": keep}})))
    assert (dialog_turn.question, dialog_turn.needs_image) == ("And what did Isak Dunn lose in a gale?", needs_image)


@pytest.mark.parametrize(
    ("keep", "target"), [(True, Target(("coin",), "coin", "left", "money")), (False, Target((), None, None, None))]
)
def test_it_is_looked_for_where_the_dialog_pointed(keep: bool, target: Target) -> None:
    history = (
        {"role": "user", "content": "What does the coin on the left show?"},
        {"role": "assistant", "content": "I don't know"},
    )
    dialog_turn = turn("How heavy is it?", history=history)
    stage_context = context(settings_from({"stages": ["finalise"], "understand": {"keep_pointing": keep}}))
    run(Understand, [dialog_turn], stage_context)
    run(Objects, [dialog_turn], stage_context)
    assert dialog_turn.target == target and dialog_turn.question == "How heavy is it?"
