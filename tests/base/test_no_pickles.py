"""A pickle in a cache folder is never executed: its entry is a miss, with a note."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import diskcache
import numpy as np
import pytest

from agents.base.no_pickles import PickleError, PlainDisk
from agents.models.base import ChatReply
from agents.models.reply_cache import ReplyStore
from agents.search.embedding_cache import EmbeddingCache


class Attack:
    """Makes a folder when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


@pytest.fixture(params=[0, 32_768], ids=["in a file", "in the row"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Plant a pickle under the same name in the folders of both caches; return the folder that it would make."""
    target = tmp_path / "attacked"
    for folder, key in (("replies", "key"), ("embeddings", b"key")):
        with diskcache.Cache(str(tmp_path / folder), disk_min_file_size=request.param) as cache:
            cache.set(key, Attack(target))
    with diskcache.Cache(str(tmp_path / "replies")) as cache:  # the attack works where pickles are read
        cache.get("key")
        assert target.is_dir()
    target.rmdir()
    return target


def test_a_pickled_reply_is_a_miss(target: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = ReplyStore(tmp_path / "replies")
    with caplog.at_level(logging.WARNING):
        assert store.get("key") is None
    assert not target.exists()
    assert "a pickle, which may run code" in caplog.text
    store.put("key", ChatReply("a", "stop"))
    reply = store.get("key")
    assert reply is not None and reply.text == "a"


def test_a_pickled_vector_is_made_again(target: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddingCache(tmp_path / "embeddings") as cache, caplog.at_level(logging.WARNING):
        assert cache.missing([b"key"]) == {b"key"}
        assert "is computed again" in caplog.text
        cache.store({b"key": np.ones(3, dtype=np.float32)})
        assert cache.missing([b"key", b"other"]) == {b"other"}
        np.testing.assert_array_equal(cache.load([b"key"]), np.ones((1, 3)))
    assert not target.exists()


def test_pickled_keys_are_refused(tmp_path: Path) -> None:
    target = tmp_path / "attacked"
    with diskcache.Cache(str(tmp_path / "cache")) as cache:
        cache.set(Attack(target), "value")
    with diskcache.Cache(str(tmp_path / "cache"), disk=PlainDisk) as cache, pytest.raises(PickleError):
        list(cache)
    assert not target.exists()


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, 2**70])
def test_what_only_a_pickle_can_hold_is_not_stored(value: object, tmp_path: Path) -> None:
    with diskcache.Cache(str(tmp_path), disk=PlainDisk) as cache:
        with pytest.raises(PickleError, match="cannot be stored"):
            cache.set("key", value)
        with pytest.raises(PickleError, match="cannot be stored"):
            cache.set(value, "value")
        assert len(cache) == 0


@pytest.mark.parametrize("value", ["text", b"bytes", 7, 0.5, "long" * 20_000])
def test_plain_values_come_back(value: object, tmp_path: Path) -> None:
    with diskcache.Cache(str(tmp_path), disk=PlainDisk) as cache:
        cache.set("key", value)
        assert cache.get("key") == value
