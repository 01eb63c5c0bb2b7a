"""*Answer shown*: whether the answer's prompt shows an accepted answer, and where it was lost if not."""

from __future__ import annotations

import pytest

from agents.evidence import shown
from agents.record import EvidenceFound, Exchange, PictureFound, SentMessage, StageRecord, TurnRecord
from evaluation.scores.answer_shown import CHARACTERS_PER_TOKEN, find_shown_answer, summarise_shown
from evaluation.scores.losses import Loss

PAGE = "pages/tower.md"
WHOLE = "Work on the tower was begun in 1970, and ended in the spring of 1974."
INDEXED = [(PAGE, f"The tower {WHOLE} It has a lift."), ("Old Mill (height)", "31 metres")]


def chunk(text: str, title: str = "", url: str = PAGE) -> EvidenceFound:
    return EvidenceFound(text, "web", title, url)


def make_record(
    shown: tuple[EvidenceFound, ...] = (),
    ranked: tuple[EvidenceFound, ...] = (),
    *others: StageRecord,
    prompt: str = "",
) -> TurnRecord:
    """Make a record whose last stage asked a model about what it shows."""
    messages = (SentMessage("user", prompt),) if prompt else ()
    ask = (Exchange("answer", "text", "model", messages=messages),)
    rerank = StageRecord("two_stage_rerank", evidence=ranked or shown)
    return TurnRecord(stages=(*others, rerank, StageRecord("answer", evidence=shown, exchanges=ask)))


@pytest.mark.parametrize(
    ("record", "answers", "loss"),
    [
        (make_record((chunk(WHOLE),)), ("spring of 1974",), None),
        (make_record((chunk("It has a lift."),), (chunk("It has a lift."), chunk(WHOLE))), ("1974",), Loss.NOT_SHOWN),
        (make_record((chunk(WHOLE[:36]),), (chunk(WHOLE),)), ("1974",), Loss.CUT),
        (make_record((chunk("It has a lift."),)), ("spring of 1974",), Loss.CUT),
        (make_record((chunk("A shop.", url="pages/shop.md"),)), ("spring of 1974",), Loss.NOT_FOUND),
        (make_record((chunk("It has a lift."),)), ("sandstone",), Loss.NOT_INDEXED),
        (make_record(), ("31 metres",), Loss.NOT_SEARCHED),
        (
            make_record((), (), StageRecord("select_entity", nearest=PictureFound("Old Barn", 0.4))),
            ("31 metres",),
            Loss.NOT_RECOGNISED,
        ),
        (
            make_record(
                (chunk("A shop.", url="pages/shop.md"),),
                (),
                StageRecord("select_entity", nearest=PictureFound("Old Barn", 0.4)),
            ),
            ("31 metres",),
            Loss.NOT_RECOGNISED,
        ),
    ],
)  # fmt: skip
def test_an_answer_is_followed_to_the_prompt(record: TurnRecord, answers: tuple[str, ...], loss: Loss | None) -> None:
    found = find_shown_answer(record, answers, INDEXED)
    assert found is not None and found.loss == loss and found.is_shown == (loss is None)


def test_titles_and_recognised_names_count_as_prompts_show_them() -> None:
    titled = find_shown_answer(make_record((chunk("It is 31 m high.", "Old Mill"),)), ("Old Mill",))
    assert titled is not None and titled.is_shown
    pictures = (PictureFound("Old Barn", 0.9), PictureFound("Old Mill", 0.6))
    search = StageRecord("image_search", pictures=pictures, entity="Old Barn")

    def is_shown(name: str, prompt: str = "") -> bool:
        found = find_shown_answer(make_record((chunk("A shop."),), (), search, prompt=prompt), (name,))
        return found is not None and found.is_shown

    assert is_shown("Old Barn") and not is_shown("Old Mill")  # an unrecorded prompt shows the recognised thing
    assert is_shown("Old Mill", 'Less alike, "Old Mill"') and not is_shown("Old Barn", 'Less alike, "Old Mill"')


def test_turns_that_tell_nothing_are_left_out_of_the_summary() -> None:
    shown_turn = find_shown_answer(make_record((chunk(WHOLE, "Tower"),)), ("1974",))
    lost_turn = find_shown_answer(make_record((chunk("A lift."),)), ("1974",))
    told_nothing = [
        find_shown_answer(None, ("1974",)),
        find_shown_answer(make_record((chunk(WHOLE),)), ()),
        find_shown_answer(make_record((chunk(WHOLE),)), ("yes",)),
    ]
    assert told_nothing == [None, None, None] and summarise_shown(told_nothing) is None
    summary = summarise_shown([shown_turn, lost_turn, *told_nothing])
    assert summary is not None and (summary.shown, summary.total, summary.share) == (1, 2, 0.5)
    assert summary.losses == {Loss.NOT_FOUND: 1}
    assert str(summary) == "answer shown: 1 of 2 (50%), evidence of 10 tokens; lost: 1 not found"
    assert summary.as_json()["lost"] == {"not found": 1}


def test_tokens_are_counted_as_the_budget_is() -> None:
    assert CHARACTERS_PER_TOKEN == shown.CHARACTERS_PER_TOKEN
