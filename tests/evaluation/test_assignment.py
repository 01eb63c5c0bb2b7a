"""Which replica is asked what: worked examples, and what holds for any order of answers and deaths."""

from __future__ import annotations

import io
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from evaluation.run.batches import Slot, schedule
from evaluation.run.command import main
from evaluation.run.replicas import Assignment
from tests.evaluation.worlds import picture, row, write_dataset


def test_few_dialogs_are_shared_and_a_freed_place_is_taken() -> None:
    work = Assignment(schedule([2, 1, 3, 1, 1], 16), batch_size=16, replicas=2)
    assert work.next_batch(0) == [Slot(0, 0), Slot(1, 0), Slot(2, 0)]  # half of five, not all that a batch could hold
    assert work.next_batch(1) == [Slot(3, 0), Slot(4, 0)]
    work.mark_answered(1)
    assert work.next_batch(1) == []  # the others' dialogs stay with them
    work.mark_answered(0)
    assert work.next_batch(0) == [Slot(0, 1), Slot(2, 1)]


def test_dialogs_of_a_dead_replica_continue_from_their_last_answer() -> None:
    work = Assignment(schedule([2, 2, 1, 1], 2), batch_size=2, replicas=2)
    assert [work.next_batch(0), work.next_batch(1)] == [[Slot(0, 0), Slot(1, 0)], [Slot(2, 0), Slot(3, 0)]]
    work.mark_answered(0)
    work.mark_lost(0)  # with the second turns of both under way
    work.mark_answered(1)
    assert work.next_batch(1) == [Slot(0, 1)]  # its share of the two dialogs that are left
    assert work.next_batch(0) == [Slot(1, 1)]


@given(
    turns=st.lists(st.integers(0, 4), max_size=12),
    size=st.integers(1, 4),
    replicas=st.integers(1, 4),
    events=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60),
)
def test_every_turn_is_answered_once_in_the_order_of_its_dialog(
    turns: list[int], size: int, replicas: int, events: list[tuple[int, bool]]
) -> None:
    work = Assignment(schedule(turns, size), size, replicas)
    answered: list[tuple[int, Slot]] = []
    deaths: Counter[int] = Counter()
    steps = [(number % replicas, dies) for number, dies in events]
    steps += [(number, False) for _ in range(1 + sum(turns)) for number in range(replicas)]  # enough to end
    for number, dies in steps:
        batch = work.next_batch(number)
        assert len(batch) <= size
        if dies:
            work.mark_lost(number)
            deaths[number] += 1
        elif batch:
            work.mark_answered(number)
            answered += [(number, slot) for slot in batch]
    assert work.is_finished
    slots = [slot for _, slot in answered]
    assert Counter(slots) == Counter(slot for batch in schedule(turns, size) for slot in batch)
    for session in range(len(turns)):
        own = [(number, slot.turn) for number, slot in answered if slot.session == session]
        assert [turn for _, turn in own] == list(range(turns[session]))
        assert all(deaths[before] for (before, _), (after, _) in pairwise(own) if before != after)


def test_without_ray_the_command_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    write_dataset(tmp_path, [row("a", 1, "v0.1.2", picture(), None)], "v0.1.2")
    output = io.StringIO()
    places = ["--dataset", str(tmp_path), "--cache", str(tmp_path), "--output-dir", str(tmp_path / "out")]
    options = ["--replicas", "2", "--dataset-type", "multi-turn", "--preset", "vlm_only", "--eval-model", "rule"]
    assert main([*options, *places], Console(file=output, width=200)) == 2
    assert "--replicas takes Ray: pip install -r requirements/scale.txt" in output.getvalue()


def test_an_address_without_replicas_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--ray-address", "auto"])
    assert "--ray-address goes with --replicas" in capsys.readouterr().err
