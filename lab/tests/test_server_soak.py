"""The soak of the server in its short form: nothing is lost. Memory takes minutes to tell."""

from __future__ import annotations

from lab.benchmarks.server_soak import Soak, run_soak


def test_all_who_stay_are_answered_and_no_place_is_lost() -> None:
    result = run_soak(clients=20, seconds=2)
    assert result.counts["answered"] >= 16 and result.counts["left"] >= 4  # each client asks at least once
    assert set(result.counts) == {"answered", "left"} and result.inside == 0
    assert result.samples


def test_what_goes_wrong_is_told() -> None:
    result = Soak(samples=[(float(second), (100 + 2 * second) * 2**20, 5, 9) for second in range(13)], inside=2)
    result.counts.update({"answered": 5, "left": 3, "status 429": 1, "wrong": 1})
    assert result.list_faults() == [
        "1 requests: status 429", "1 requests: wrong", "2 places are lost", "memory grew from 106.0 to 122.0 MiB",
    ]  # fmt: skip
    assert Soak(samples=[(float(second), 2**20, 5, 9) for second in range(13)], inside=0).list_faults() == []
