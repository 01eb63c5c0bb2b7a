from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.run.batches import MAX_BATCH_SIZE, Slot, schedule, schedule_by_queue

COUNTS = st.lists(st.integers(0, 6), max_size=40)
SIZES = st.integers(1, 16)


@given(COUNTS, SIZES)
def test_every_turn_is_asked_once(counts: list[int], size: int) -> None:
    slots = [slot for batch in schedule(counts, size) for slot in batch]
    expected = [Slot(session, turn) for session, count in enumerate(counts) for turn in range(count)]
    assert sorted(slots, key=lambda slot: (slot.session, slot.turn)) == expected


@given(COUNTS, SIZES)
def test_a_turn_comes_in_a_later_batch_than_the_one_before(counts: list[int], size: int) -> None:
    batch_of = {slot: number for number, batch in enumerate(schedule(counts, size)) for slot in batch}
    for slot, number in batch_of.items():
        if slot.turn > 0:
            assert number > batch_of[Slot(slot.session, slot.turn - 1)]


@given(COUNTS, SIZES)
def test_batches_are_as_full_as_open_dialogs_allow(counts: list[int], size: int) -> None:
    batches = schedule(counts, size)
    remaining = dict(enumerate(counts))
    for batch in batches:
        assert 1 <= len(batch) <= size
        assert len(batch) == min(size, sum(count > 0 for count in remaining.values()))
        for slot in batch:
            remaining[slot.session] -= 1


def test_dialogs_are_interleaved() -> None:
    assert schedule([2, 1, 2], 2) == [[Slot(0, 0), Slot(1, 0)], [Slot(0, 1), Slot(2, 0)], [Slot(2, 1)]]


@pytest.mark.parametrize("size", [0, -1, 17])
def test_the_batch_size_is_bounded(size: int) -> None:
    with pytest.raises(ValueError, match="1 to 16"):
        schedule([1], size)


def test_only_the_first_conversations_are_asked() -> None:
    assert schedule([2, 1, 2], 2, 1) == [[Slot(0, 0)], [Slot(0, 1)]]


def _names(batches: list[list[Slot]]) -> list[str]:
    return [" ".join(f"{'abcdefgh'[slot.session]}{slot.turn}" for slot in batch) for batch in batches]


@pytest.mark.parametrize(
    ("counts", "size", "conversations", "batches"),
    [
        # what goes on goes back to the head of the queue, one after the other: each batch turns the order round
        ([3, 3, 3], 2, None, ["a0 b0", "b1 a1", "a2 b2", "c0", "c1", "c2"]),
        ([2, 1, 2], 2, None, ["a0 b0", "a1 c0", "c1"]),
        ([1, 2, 3, 1], 3, None, ["a0 b0 c0", "c1 b1 d0", "c2"]),
        # a skipped session (no turns) takes a place, and a batch of such sessions alone is not asked
        ([2, 0, 1], 2, None, ["a0", "a1 c0"]),
        ([0, 0, 1], 2, None, ["c0"]),
        # --num-conversations: until more than so many are begun, whatever is left of them
        ([2, 2, 2, 2], 3, 2, ["a0 b0 c0"]),
        ([2, 2, 2, 2], 2, 2, ["a0 b0", "b1 a1", "c0 d0"]),
        ([1, 1, 1], 1, 1, ["a0", "b0"]),
        ([2, 2], 2, 5, ["a0 b0", "b1 a1"]),
        # get_batch_size() is brought into 1 to 16
        ([1, 1], 0, None, ["a0", "b0"]),
        ([], 4, None, []),
    ],
)
def test_the_organisers_queue_by_hand(
    counts: list[int], size: int, conversations: int | None, batches: list[str]
) -> None:
    assert _names(schedule_by_queue(counts, size, conversations)) == batches


@given(COUNTS, st.integers(-1, 20))
def test_the_organisers_queue_asks_every_turn_once_and_in_order(counts: list[int], size: int) -> None:
    batches = schedule_by_queue(counts, size)
    batch_of = {slot: number for number, batch in enumerate(batches) for slot in batch}
    assert sum(map(len, batches)) == sum(counts) == len(batch_of)
    assert all(1 <= len(batch) <= min(max(size, 1), MAX_BATCH_SIZE) for batch in batches)
    assert all(
        slot.turn == 0 or number > batch_of[Slot(slot.session, slot.turn - 1)] for slot, number in batch_of.items()
    )
