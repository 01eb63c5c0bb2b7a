"""The second call is answered from memory, so that its time is the agent's own."""

from __future__ import annotations

from agents.texts.wikitext import plain
from lab.benchmarks.overhead import Replay, forget_texts
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
