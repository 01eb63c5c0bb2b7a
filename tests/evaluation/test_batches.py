from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.run.batches import Slot, schedule

COUNTS = st.lists(st.integers(0, 6), max_size=40)
SIZES = st.integers(1, 16)


@given(COUNTS, SIZES)
def test_every_turn_is_asked_once(counts: list[int], size: int) -> None:
    asked = [slot for batch in schedule(counts, size) for slot in batch]
    wanted = [Slot(session, turn) for session, count in enumerate(counts) for turn in range(count)]
    assert sorted(asked, key=lambda slot: (slot.session, slot.turn)) == wanted


@given(COUNTS, SIZES)
def test_a_turn_comes_in_a_later_batch_than_the_one_before(counts: list[int], size: int) -> None:
    batch_of = {slot: number for number, batch in enumerate(schedule(counts, size)) for slot in batch}
    for slot, number in batch_of.items():
        if slot.turn > 0:
            assert number > batch_of[Slot(slot.session, slot.turn - 1)]


@given(COUNTS, SIZES)
def test_batches_are_as_full_as_open_dialogs_allow(counts: list[int], size: int) -> None:
    batches = schedule(counts, size)
    left = dict(enumerate(counts))
    for batch in batches:
        assert 1 <= len(batch) <= size
        assert len(batch) == min(size, sum(count > 0 for count in left.values()))
        for slot in batch:
            left[slot.session] -= 1


def test_dialogs_are_interleaved() -> None:
    assert schedule([2, 1, 2], 2) == [[Slot(0, 0), Slot(1, 0)], [Slot(0, 1), Slot(2, 0)], [Slot(2, 1)]]


@pytest.mark.parametrize("size", [0, -1, 17])
def test_the_batch_size_is_bounded(size: int) -> None:
    with pytest.raises(ValueError, match="1 to 16"):
        schedule([1], size)
