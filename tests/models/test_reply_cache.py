"""The reply cache: what is asked again and what is not, and what a damaged folder costs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import diskcache
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from agents.models import weights
from agents.models.base import ChatMessage, ChatReply, ChatRequest, Label, ModelError, TextLine
from agents.models.chat import gguf, transformers_chat
from agents.models.chat.composed_vision import ComposedVisionChat
from agents.models.chat.int8_linear import weight_levels
from agents.models.registry import KINDS, ModelRegistry
from agents.models.reply_cache import CachedReplies, ReplyCounts, ReplyStore, decode_reply, encode_reply, request_key
from agents.models.weights import locate_weights, sample_digest
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from tests.models.tiny_checkpoints import save_llama


@dataclass
class Counting:
    """Numbers its replies, so that one from the cache is told from a new one; ``asked`` holds the prompts of each call."""

    name: str = "counting"
    finish: Callable[[str], Any] = lambda _: "stop"
    asked: list[list[str]] = field(default_factory=list)

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        before = sum(map(len, self.asked))
        prompts = [request.messages[-1].content for request in requests]
        self.asked.append(prompts)
        return [
            ChatReply(f"{prompt} #{before + number}", self.finish(prompt), logprobs=(-0.25, -1.5), prompt_cut=3)
            for number, prompt in enumerate(prompts)
        ]


def ask(text: str, *images: Image.Image, **settings: Any) -> ChatRequest:
    return ChatRequest((ChatMessage("system", "Be brief."), ChatMessage("user", text, images)), **settings)


@pytest.fixture
def store(tmp_path: Path) -> ReplyStore:
    return ReplyStore(tmp_path / "replies")


def test_a_reply_is_asked_for_once(store: ReplyStore) -> None:
    model = Counting()
    cached = CachedReplies(model, store)
    first = cached.chat([ask("a"), ask("b")])
    assert cached.chat([ask("b"), ask("c"), ask("a")]) == [
        first[1],
        ChatReply("c #2", "stop", (-0.25, -1.5), None, 3),
        first[0],
    ]
    assert model.asked == [["a", "b"], ["c"]]
    assert store.counts == ReplyCounts(hits=2, misses=3)
    assert cached.name == "counting"


def test_a_batch_without_anything_new_makes_no_call(store: ReplyStore) -> None:
    model = Counting()
    cached = CachedReplies(model, store)
    assert cached.chat([]) == []
    cached.chat([ask("a")])
    cached.chat([ask("a")])
    assert model.asked == [["a"]]


def test_the_same_request_twice_in_a_batch_is_asked_once(store: ReplyStore) -> None:
    model = Counting()
    replies = CachedReplies(model, store).chat([ask("a"), ask("b"), ask("a")])
    assert [reply.text for reply in replies] == ["a #0", "b #1", "a #0"]
    assert model.asked == [["a", "b"]]
    assert store.counts == ReplyCounts(hits=1, misses=2)


OTHER: Mapping[str, Any] = {
    "messages": (ChatMessage("user", "Where?"),),
    "max_tokens": 9,
    "temperature": 0.5,
    "seed": 4,
    "schema": {"type": "string"},
    "logprobs": True,
    "stop": ("\n",),
    "exact": {"temperature": 0.0},
}


@pytest.mark.parametrize("name", [each.name for each in fields(ChatRequest)])
def test_every_setting_of_a_request_counts(name: str) -> None:
    """A new field of ChatRequest fails here until it has a value above."""
    plain = ask("Where?", seed=3)
    assert request_key("m", plain) == request_key("m", ask("Where?", seed=3))
    assert request_key("m", replace(plain, **{name: OTHER[name]})) != request_key("m", plain)


def test_model_roles_and_the_order_of_a_schema_count() -> None:
    one, two = ({"properties": {key: {} for key in order}} for order in ("ab", "ba"))
    assert request_key("m", ask("q", schema=one)) != request_key("m", ask("q", schema=two))
    assert request_key("m", ask("q", schema=one)) == request_key("m", ask("q", schema=MappingProxyType(one)))
    assert request_key("m", ask("q")) != request_key("n", ask("q"))
    swapped = ChatRequest((ChatMessage("user", "Be brief."), ChatMessage("system", "q")))
    assert request_key("m", ask("q")) != request_key("m", swapped)


def test_pictures_count_by_their_pixels() -> None:
    red = Image.new("RGB", (8, 4), "red")
    same = red.copy()
    dotted = red.copy()
    dotted.putpixel((7, 3), (254, 0, 0))
    turned = Image.new("RGB", (4, 8), "red")
    grey = Image.new("L", (8, 4), 76)
    palettes = [Image.new("P", (8, 4), 0), Image.new("P", (8, 4), 0)]
    palettes[0].putpalette([0, 0, 255] * 256)
    palettes[1].putpalette([0, 255, 0] * 256)
    key = request_key("m", ask("q", red))
    assert request_key("m", ask("q", same)) == key
    others = [
        request_key("m", ask("q", *pictures))
        for pictures in ([dotted], [turned], [grey], *([p] for p in palettes), [], [red, red])
    ]
    assert len({key, *others}) == len(others) + 1


def test_a_picture_that_cannot_be_read_is_left_to_the_model(store: ReplyStore, tmp_path: Path) -> None:
    whole = tmp_path / "whole.png"
    Image.effect_noise((64, 64), 50).save(whole)
    torn = tmp_path / "torn.png"
    torn.write_bytes(whole.read_bytes()[:700])
    model = Counting()
    cached = CachedReplies(model, store)
    for _ in range(2):
        cached.chat([ask("q", Image.open(torn)), ask("r")])
    assert model.asked == [["q", "r"], ["q"]]


def test_sampling_is_kept_with_a_seed_only(store: ReplyStore) -> None:
    model = Counting()
    cached = CachedReplies(model, store)
    wild, seeded = ask("a", temperature=0.7), ask("a", temperature=0.7, seed=1)
    texts = [cached.chat([wild, wild, seeded])[number].text for number in range(3)]
    assert texts == ["a #0", "a #4", "a #2"]  # each of the unseeded is asked each time, the seeded once
    assert store.counts == ReplyCounts(hits=2, misses=1)
    assert request_key("m", seeded) != request_key("m", replace(seeded, seed=2))


@pytest.mark.parametrize(("finish", "calls"), [("stop", 1), ("length", 1), ("abort", 2), ("error", 2)])
def test_what_the_deadline_or_an_error_ended_is_not_kept(store: ReplyStore, finish: str, calls: int) -> None:
    model = Counting(finish=lambda _: finish)
    cached = CachedReplies(model, store)
    cached.chat([ask("a")])
    assert cached.chat([ask("a")])[0].finish_reason == finish
    assert len(model.asked) == calls


def test_the_deadline_reaches_the_model(store: ReplyStore) -> None:
    deadlines = []

    class Watching(Counting):
        def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
            deadlines.append(deadline)
            return super().chat(requests, deadline)

    deadline = Deadline(1.0)
    CachedReplies(Watching(), store).chat([ask("a")], deadline)
    assert deadlines == [deadline]


def test_too_few_replies_are_an_error(store: ReplyStore) -> None:
    class Short(Counting):
        def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
            return super().chat(requests, deadline)[:-1]

    with pytest.raises(ModelError, match="gave 1 replies to 2 requests"):
        CachedReplies(Short(), store).chat([ask("a"), ask("b")])


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"\x00\xff",
        b'{"text": "a',
        b"[]",
        b'{"text": "a"}',
        "text",
        7,
        encode_reply(ChatReply("a", "stop"))[:-5],
        encode_reply(ChatReply("a", "abort")),
        encode_reply(ChatReply("a", "stop")).replace(b'"prompt_cut"', b'"cut"'),
    ],
    ids=[
        "empty",
        "bytes",
        "cut JSON",
        "a list",
        "a field alone",
        "text",
        "a number",
        "cut reply",
        "aborted",
        "another field",
    ],
)
def test_a_damaged_entry_is_asked_for_again_and_replaced(
    store: ReplyStore, entry: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model = Counting()
    with diskcache.Cache(str(store.folder)) as cache:
        cache.set(request_key("counting ", ask("a")), entry)
    cached = CachedReplies(model, store)
    with caplog.at_level(logging.WARNING):
        assert cached.chat([ask("a")])[0].text == "a #0"
    assert "is asked for again" in caplog.text
    assert cached.chat([ask("a")])[0].text == "a #0"
    assert len(model.asked) == 1


def test_only_replies_worth_keeping_are_kept(store: ReplyStore) -> None:
    model = Counting()
    cached = CachedReplies(model, store, worth_keeping=lambda reply: reply.text != "a #0")
    assert [cached.chat([ask("a")])[0].text for _ in range(3)] == ["a #0", "a #1", "a #1"]


def test_what_a_server_read_and_wrote_is_kept_with_the_reply() -> None:
    assert decode_reply(encode_reply(ChatReply("a", "stop", usage=(9, 2)))).usage == (9, 2)


def test_a_damaged_database_is_told_with_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "replies"
    folder.mkdir()
    (folder / "cache.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(ModelError, match="delete the folder or name another one"):
        ReplyStore(folder)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("file", r"\(unable to open database file\): name a folder that this user may write"),
        ("file/replies", "a file is where a folder is needed; name another place"),
        ("folder", r"\(unable to open database file\): name a folder that this user may write"),
    ],
)
def test_a_folder_that_cannot_be_used_is_not_to_be_deleted(place: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "cache.db").mkdir(parents=True)
    with pytest.raises(ModelError, match=words) as raised:
        ReplyStore(tmp_path / place)
    assert f"The reply cache {tmp_path / place} cannot be opened" in str(raised.value)
    assert "delete" not in str(raised.value)


def test_a_full_disk_costs_the_entry_alone(
    store: ReplyStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store._cache, "set", full)
    with caplog.at_level(logging.WARNING):
        assert CachedReplies(Counting(), store).chat([ask("a")])[0].text == "a #0"
    assert "could not be written" in caplog.text


def test_two_runs_share_a_folder(tmp_path: Path) -> None:
    """Two stores, as two processes would have; each has counts of its own."""
    one, two = Counting(), Counting()
    stores = ReplyStore(tmp_path), ReplyStore(tmp_path)
    first, second = (CachedReplies(model, store) for model, store in zip((one, two), stores, strict=True))
    assert first.chat([ask("a")]) == second.chat([ask("a")])
    second.chat([ask("b")])
    assert first.chat([ask("b")])[0].text == "b #0"
    assert (one.asked, two.asked) == ([["a"]], [["b"]])
    assert [store.counts for store in stores] == [ReplyCounts(1, 1), ReplyCounts(1, 1)]


def test_a_model_with_a_fingerprint_is_identified_by_its_weights(store: ReplyStore) -> None:
    class Weights(Counting):
        fingerprint = "sha256:1"

    class OtherWeights(Counting):
        fingerprint = "sha256:2"

    models = [Weights(), Weights(name="renamed"), OtherWeights()]
    for model in models:
        CachedReplies(model, store, options=model.name).chat([ask("a")])
    assert [len(model.asked) for model in models] == [1, 0, 1]


def test_without_a_fingerprint_name_and_options_count(store: ReplyStore) -> None:
    models = [(Counting(), "x"), (Counting(), "y"), (Counting(name="other"), "x"), (Counting(), "x")]
    for model, options in models:
        CachedReplies(model, store, options).chat([ask("a")])
    assert [len(model.asked) for model, _ in models] == [1, 1, 1, 0]


@given(
    text=st.text(),
    finish=st.sampled_from(["stop", "length"]),
    logprobs=st.none() | st.lists(st.floats(max_value=0, allow_nan=False)).map(tuple),
    cut=st.integers(0, 9999),
)
def test_a_reply_comes_back_as_it_was(text: str, finish: Any, logprobs: Any, cut: int) -> None:
    reply = ChatReply(text, finish, logprobs, prompt_cut=cut)
    assert decode_reply(encode_reply(reply)) == reply


# ------------------------------------------------------------------------------------------------------ in the registry


class Names:
    name = "names"

    def recognise(self, images: Sequence[Image.Image], k: int = 5) -> list[list[Label]]:
        return [[Label(str(image.getpixel((0, 0))), 1.0)] for image in images]


class Blind:
    name = "blind"

    def read(self, images: Sequence[Image.Image]) -> list[list[TextLine]]:
        return [[] for _ in images]


@pytest.fixture
def registry(store: ReplyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelRegistry:
    for model_class in (Counting, Names, Blind):
        monkeypatch.setitem(KINDS, model_class.__name__.lower(), f"{__name__}:{model_class.__name__}")
    return ModelRegistry(tmp_path, lambda labels, _: labels[0].name, replies=store)


def test_the_model_inside_a_composed_one_is_asked_through_the_cache(registry: ModelRegistry, store: ReplyStore) -> None:
    model = registry.load(
        {"kind": "composed", "text": {"kind": "counting"}, "recogniser": {"kind": "names"}, "ocr": {"kind": "blind"}}
    )
    assert isinstance(model, ComposedVisionChat)  # in words by then: nothing of the picture is kept by its pixels
    red, nearly = Image.new("RGB", (4, 4), "red"), Image.new("RGB", (4, 4), "red")
    nearly.putpixel((3, 3), (0, 0, 0))
    assert model.chat([ask("q", red)]) == model.chat([ask("q", nearly)])
    assert store.counts == ReplyCounts(1, 1)
    assert registry.load({"kind": "counting"}).chat([ask("(255, 0, 0)\n\nq")])[0].text.endswith("#0")
    assert store.counts == ReplyCounts(2, 1)


def test_weights_that_are_trained_anew_in_the_same_folder_are_another_model(
    registry: ModelRegistry, store: ReplyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "kept", f"{__name__}:load_kept")
    files = [tmp_path / "model" / "model.safetensors", tmp_path / "model" / "tokenizer.json"]
    spec = {"kind": "kept", "path": str(files[0].parent)}

    def ask_anew() -> ReplyCounts:
        ModelRegistry(registry.cache, replies=store).load(spec).chat([ask("q")])
        return store.counts

    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(bytes(100_000))
    assert [ask_anew(), ask_anew()] == [ReplyCounts(0, 1), ReplyCounts(1, 1)]
    for misses, file in enumerate(files, 2):
        file.write_bytes(bytes(50_000) + b"\1" * 50_000)
        assert ask_anew() == ReplyCounts(1, misses)


@pytest.mark.parametrize("options", [{"int8": True}, {}])
def test_a_gguf_file_of_ones_own_is_another_model_than_the_published_one(
    options: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is loaded: what is read and converted is told by the folders that it would be kept in."""
    folder_names: list[str] = []
    checkpoint = SimpleNamespace(model=SimpleNamespace(config=None))
    monkeypatch.setattr(transformers_chat, "convert", lambda _, folder: folder_names.append(folder.name))
    monkeypatch.setattr(transformers_chat, "load_checkpoint", lambda *_: checkpoint)
    monkeypatch.setattr(transformers_chat, "quantise", lambda _: None)
    monkeypatch.setattr(transformers_chat, "use_grouped_attention", lambda _: None)
    monkeypatch.setattr(transformers_chat, "PrefixStates", lambda _: None)
    published = gguf.locate_cached(tmp_path)
    own = [tmp_path / name / published.name for name in "ab"]
    for number, path in enumerate((published, *own)):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes([number]) * 50_000)
    source = replace(weights.QWEN_CODER, size=50_000, samples=sample_digest(published))
    monkeypatch.setattr(weights, "QWEN_CODER", source)
    monkeypatch.setattr(transformers_chat, "find", lambda cache: gguf.find(cache, source))
    identities = []
    for file_path in ("", *map(str, own)):
        monkeypatch.setenv(weights.GGUF_VARIABLE, file_path)
        spec = {"kind": "transformers", **options}
        identities.append(ModelRegistry(tmp_path, replies=ReplyStore(tmp_path / "replies")).load(spec)._identity)
    name = f"{published.stem} (int8)" if options else published.stem
    rounding = f" {weight_levels()} levels" if options else ""
    assert identities[0] == f"{name} {json.dumps(spec, sort_keys=True)}{rounding}"
    assert len({*identities}) == len({*folder_names}) == 3 and folder_names[0] == published.stem


def test_weights_that_another_processor_rounds_otherwise_are_another_model(
    store: ReplyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"kind": "transformers", "path": str(save_llama(tmp_path / "llama")), "int8": True}
    for vnni, counts in ((True, (0, 1)), (False, (0, 2)), (True, (1, 2))):
        monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda vnni=vnni: vnni)
        ModelRegistry(tmp_path, replies=store).load(spec).chat([ask("fox")])
        assert store.counts == ReplyCounts(*counts)


def test_the_weights_of_a_model_of_the_hub_are_those_of_its_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert locate_weights("us/model") == locate_weights("not a model") == ()
    for commit in ("0" * 40, "1" * 40):
        folder = tmp_path / "models--us--model" / "snapshots" / commit
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(commit)
        assert locate_weights("us/model", commit) == (folder,) == locate_weights(folder)


def load_kept(path: str) -> Counting:
    return Counting()


def test_only_chat_models_are_asked_through_it(registry: ModelRegistry) -> None:
    assert isinstance(registry.load({"kind": "counting"}), CachedReplies)
    assert isinstance(registry.load({"kind": "names"}), Names)
    assert isinstance(ModelRegistry(registry.cache).load({"kind": "counting"}), Counting)
