"""The second call is answered from memory, so that its time is the agent's own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from PIL import Image

from agents.models.vision import same_picture
from agents.texts.wikitext import plain
from lab.benchmarks import overhead
from lab.benchmarks.overhead import PAGES, PICTURES, Replay, forget_texts, time_work
from tests.agent.scripted import ScriptedChat


def test_the_same_calls_are_answered_without_the_model() -> None:
    chat = ScriptedChat(lambda _: str(len(chat.batches)))
    remembered = Replay(chat)
    replies = [remembered.chat([]), remembered.chat([])]
    remembered.rewind()
    assert [remembered.chat([]), remembered.chat([])] == replies
    assert len(chat.batches) == 2
    remembered.chat([])  # a call that was not made the first time
    assert len(chat.batches) == 3


def test_a_search_is_remembered_too() -> None:
    queries: list[str] = []
    search = Replay(lambda query, k: queries.append(query) or [k])
    for _ in range(2):
        search.rewind()
        assert search("tower", k=3) == [3]
    assert queries == ["tower"]


def test_cleaned_texts_are_forgotten() -> None:
    plain("[[Paris]]")
    assert plain.cache_info().currsize
    forget_texts()
    assert not plain.cache_info().currsize


def test_work_is_timed_by_its_kind_and_everything_is_put_back() -> None:
    picture = Image.effect_noise((64, 64), 80)
    before = same_picture.match
    with time_work() as seconds:
        features = same_picture.PictureFeatures().get_photo_features({"photo": picture})["photo"]
        assert seconds[PICTURES] > 0
        after_features = seconds[PICTURES]
        same_picture.match(features, features).inliers()
        assert seconds[PICTURES] > after_features
        assert seconds[PAGES] == 0
    assert same_picture.match is before


def test_the_seconds_of_each_piece_of_work_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    features = same_picture.extract_features(Image.effect_noise((64, 64), 80))
    ticks = iter((10.0, 10.5, 20.0, 22.0))
    monkeypatch.setattr(overhead, "time", SimpleNamespace(perf_counter=ticks.__next__))
    with time_work() as seconds:
        for _ in range(2):
            same_picture.match(features, features)
    assert seconds == {PAGES: 0.0, PICTURES: 2.5}
