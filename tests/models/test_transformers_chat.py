"""Batched generation on tiny random checkpoints of real classes."""

from __future__ import annotations

import itertools
import json
import math
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from agents.models.base import FIRST_TOKEN_ALTERNATIVES, ChatMessage, ChatRequest, ModelError
from agents.models.chat import int8_kernels
from agents.models.chat.chat_template import ChatTemplate
from agents.models.chat.grouped_attention import use_grouped_attention
from agents.models.chat.int8_kernels import Kernel, choose_kernel, compare_speed, fbgemm, onednn, plain
from agents.models.chat.int8_linear import Int8Linear, round_weights, weight_levels
from agents.models.chat.prefix_states import PrefixStates
from agents.models.chat.prompt_fitting import cut_longest_user_message
from agents.models.chat.transformers_chat import TransformersChat
from agents.models.chat.transformers_checkpoint import load_checkpoint
from agents.time_limits.deadline import Deadline
from tests.models.tiny_checkpoints import NO_SYSTEM, TEMPLATE, save_llama, save_mllama, tokenizer


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_llama(tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(scope="module")
def chat(llama: Path) -> TransformersChat:
    return TransformersChat.load(llama, max_batch=4)


@pytest.fixture(scope="module")
def vlm(tmp_path_factory: pytest.TempPathFactory) -> TransformersChat:
    return TransformersChat.load(save_mllama(tmp_path_factory.mktemp("models") / "mllama"), max_batch=4)


def ask(text: str, *images: Image.Image, **settings: object) -> ChatRequest:
    return ChatRequest((ChatMessage("user", text, tuple(images)),), **{"max_tokens": 8, **settings})  # type: ignore[arg-type]


def picture(seed: int, size: tuple[int, int] = (60, 40)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def test_a_batch_says_what_each_request_alone_would_get(chat: TransformersChat) -> None:
    requests = [
        ask("fox"),
        ask("How tall is the Eiffel Tower? " * 3),
        ask("dog " * 10, max_tokens=3),
        ask("The"),
        ask("a b"),
    ]
    together = chat.chat(requests)
    alone = [chat.chat([request])[0] for request in requests]
    assert [reply.text for reply in together] == [reply.text for reply in alone]
    assert len({reply.text for reply in together}) > 1


def test_logprobs_are_those_of_the_model(llama: Path, chat: TransformersChat) -> None:
    request = ask("The quick brown", max_tokens=4, logprobs=True)
    short = ask("fox", max_tokens=2)
    reply = chat.chat([short, request])[1]
    checkpoint = load_checkpoint(llama)
    ids = checkpoint.inputs([checkpoint.render(request.messages)], [()])["input_ids"]
    expected = []
    for _ in range(4):
        with torch.inference_mode():
            logprobs = checkpoint.model(input_ids=ids).logits[0, -1].log_softmax(-1)
        best = int(logprobs.argmax())
        expected.append(float(logprobs[best]))
        ids = torch.cat([ids, torch.tensor([[best]])], dim=1)
    assert reply.logprobs is not None
    np.testing.assert_allclose(reply.logprobs, expected, atol=1e-4)
    assert reply.finish_reason == "length"


def test_each_request_has_its_own_length(chat: TransformersChat) -> None:
    replies = chat.chat([ask("fox", max_tokens=1, logprobs=True), ask("fox", max_tokens=12, logprobs=True)])
    assert [len(reply.logprobs or ()) for reply in replies] == [1, 12]


def test_a_seed_repeats_whatever_stands_beside_it(chat: TransformersChat) -> None:
    sampled = ask("fox", temperature=5.0, seed=7)
    alone = chat.chat([sampled])[0].text
    beside = chat.chat([ask("The lazy dog"), sampled, ask("x", temperature=5.0, seed=8)])
    assert beside[1].text == alone
    assert chat.chat([ask("fox", temperature=5.0, seed=8)])[0].text != alone
    assert chat.chat([ask("fox")])[0].text == chat.chat([ask("fox", seed=3)])[0].text


def test_sampling_follows_the_softmax(llama: Path) -> None:
    from agents.models.chat.generation_control import RowSampler, RowState

    scores = torch.log(torch.tensor([[0.7, 0.2, 0.1]]))
    sampler = RowSampler([RowState(ask("x", temperature=1.0, seed=1))])
    tokens = []
    for _ in range(4000):
        sampler(torch.zeros(1, 1), scores)
        tokens.append(sampler.chosen[0])
    shares = np.bincount(tokens, minlength=3) / len(tokens)
    np.testing.assert_allclose(shares, [0.7, 0.2, 0.1], atol=0.03)
    assert math.isclose(sampler.logprobs[0], float(scores[0, tokens[-1]]), abs_tol=1e-5)


def test_a_stop_string_ends_its_request_only(chat: TransformersChat) -> None:
    full = chat.chat([ask("fox", max_tokens=12)])[0].text
    stop = full[3:5]
    stopped, other = chat.chat([ask("fox", max_tokens=12, stop=(stop,)), ask("fox", max_tokens=12)])
    assert stopped.text == full[: full.index(stop)].strip()
    assert stopped.finish_reason == "stop"
    assert other.text == full


def test_the_deadline_keeps_what_was_said(chat: TransformersChat) -> None:
    ticks = iter(range(10_000))
    deadline = Deadline(12.5, clock=lambda: float(next(ticks)))
    reply = chat.chat([ask("fox", max_tokens=200, logprobs=True)], deadline)[0]
    assert reply.finish_reason == "abort"
    assert 0 < len(reply.logprobs or ()) < 200


def test_a_request_that_is_done_before_the_deadline_is_no_abort(chat: TransformersChat) -> None:
    ticks = iter(range(10_000))
    deadline = Deadline(12.5, clock=lambda: float(next(ticks)))
    short, long = chat.chat([ask("fox", max_tokens=2), ask("fox", max_tokens=200)], deadline)
    assert (short.finish_reason, long.finish_reason) == ("length", "abort")


def test_after_the_deadline_nothing_is_started(chat: TransformersChat) -> None:
    reply = chat.chat([ask("fox")], Deadline(-1.0))[0]
    assert (reply.text, reply.finish_reason) == ("", "abort")


def test_an_overlong_prompt_loses_its_middle(chat: TransformersChat) -> None:
    text = "FIRST words " + "lazy dog " * 400 + "LAST words"
    long, short = chat.chat([ask(text), ask("fox")])
    assert long.finish_reason in ("stop", "length")
    assert long.prompt_cut > 100
    assert short.prompt_cut == 0


def test_what_is_cut_is_left_as_it_was_on_both_sides() -> None:
    words = tokenizer()
    words.clean_up_tokenization_spaces = True
    template = ChatTemplate(words, None)
    for excess in range(20, 60):
        (cut,), _ = cut_longest_user_message([ChatMessage("user", "Is n't it 3 . 5 ? 鯨鯨 " * 8)], excess, template)
        head, tail = cut.content.split(" ... ")
        assert ("Is n't it 3 . 5 ? 鯨鯨 " * 8).startswith(head) and ("Is n't it 3 . 5 ? 鯨鯨 " * 8).endswith(tail)


def test_what_is_cut_keeps_both_ends() -> None:
    from agents.models.chat.prompt_fitting import cut_longest_user_message

    messages = (ChatMessage("system", "s " * 500), ChatMessage("user", " ".join(str(i) for i in range(300))))
    words = SimpleNamespace(encode=str.split, decode=" ".join)
    (system, user), removed = cut_longest_user_message(messages, 200, words)  # type: ignore[arg-type]
    assert system == messages[0]
    assert user.content.startswith("0 1 2 ")
    assert user.content.endswith(" 298 299")
    assert removed >= 200
    assert len(user.content.split()) <= 100


def test_a_prompt_that_cannot_be_cut_is_an_error_of_its_own(chat: TransformersChat) -> None:
    system = ChatRequest((ChatMessage("system", "lazy dog " * 400), ChatMessage("user", "hi")), max_tokens=4)
    hopeless, fine = chat.chat([system, ask("fox")])
    assert hopeless.finish_reason == "error"
    assert "too long" in (hopeless.error or "")
    assert fine.finish_reason == "length"


@pytest.mark.parametrize("request_", [ChatRequest(()), ask("x", max_tokens=0), ask("x", Image.new("RGB", (9, 9)))])
def test_a_bad_request_costs_itself_alone(chat: TransformersChat, request_: ChatRequest) -> None:
    bad, good = chat.chat([request_, ask("fox")])
    assert bad.finish_reason == "error"
    assert bad.error
    assert good.text


def test_a_template_without_system_message_gets_it_in_the_first_user_message(tmp_path: Path) -> None:
    checkpoint = load_checkpoint(save_llama(tmp_path / "m", template=NO_SYSTEM + TEMPLATE))
    text = checkpoint.render((ChatMessage("system", "Be brief."), ChatMessage("user", "Hi")))
    assert "Be brief.\n\nHi" in text


def test_a_template_that_refuses_says_so(tmp_path: Path) -> None:
    checkpoint = load_checkpoint(save_llama(tmp_path / "m", template="{{ raise_exception('never') }}"))
    with pytest.raises(ModelError, match="never"):
        checkpoint.render((ChatMessage("user", "Hi"),))


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nothing-here"):
        TransformersChat.load(tmp_path / "nothing-here")


def _halve(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")


def _drop_layer(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    remaining_weights = {name: value for name, value in weights.items() if ".layers.1." not in name}
    save_file(remaining_weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_halve, "incomplete or damaged"),
        (_empty, "incomplete or damaged"),
        (_drop_layer, "lacks the weights model.layers"),
    ],
)
def test_a_checkpoint_that_is_not_whole_is_refused(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    folder = save_llama(tmp_path / "m")
    damage(folder)
    with pytest.raises(ModelError, match=message):
        TransformersChat.load(folder)


def test_tied_embeddings_are_not_missing(tmp_path: Path) -> None:
    model = load_checkpoint(save_llama(tmp_path / "m")).model
    model.config.tie_word_embeddings = True
    model.tie_weights()
    words = load_checkpoint(tmp_path / "m").tokenizer
    model.save_pretrained(tmp_path / "tied")
    words.save_pretrained(tmp_path / "tied")
    assert TransformersChat.load(tmp_path / "tied").chat([ask("Hi", max_tokens=1)])[0].error is None


def test_the_picture_changes_the_reply(vlm: TransformersChat) -> None:
    replies = vlm.chat([ask("fox", picture(seed), logprobs=True) for seed in (1, 2)] + [ask("fox", logprobs=True)])
    assert all(reply.finish_reason in ("stop", "length") for reply in replies), replies
    assert len({reply.logprobs for reply in replies}) == 3


def test_a_vision_batch_says_what_each_request_alone_would_get(vlm: TransformersChat) -> None:
    requests = [
        ask("fox", picture(1)),
        ask("lazy dog " * 5, picture(2), picture(3)),
        ask("The"),
        ask("fox", picture(4)),
    ]
    together = vlm.chat(requests)
    assert [reply.text for reply in together] == [vlm.chat([request])[0].text for request in requests]


@pytest.mark.parametrize("mode", ["RGBA", "I;16"])
def test_any_image_mode(vlm: TransformersChat, mode: str) -> None:
    reply = vlm.chat([ask("fox", Image.new(mode, (30, 20)))])[0]
    assert reply.finish_reason in ("stop", "length"), reply


def test_a_picture_of_one_pixel_or_extreme_shape_costs_no_neighbour(vlm: TransformersChat) -> None:
    replies = vlm.chat([ask("fox", Image.new("RGB", (1, 1))), ask("fox", picture(1)), ask("a", picture(2, (900, 3)))])
    assert replies[1].finish_reason in ("stop", "length")
    assert all(reply.text or reply.error for reply in replies)


def test_the_opening_holds_the_likeliest_first_tokens(llama: Path, chat: TransformersChat) -> None:
    request = ask("The quick brown", max_tokens=3, logprobs=True)
    replies = chat.chat([ask("fox", max_tokens=2), request])
    checkpoint = load_checkpoint(llama)
    ids = checkpoint.inputs([checkpoint.render(request.messages)], [()])["input_ids"]
    with torch.inference_mode():
        probabilities = checkpoint.model(input_ids=ids).logits[0, -1].softmax(-1)
    expected: dict[str, float] = {}
    for token in probabilities.argsort(descending=True)[:FIRST_TOKEN_ALTERNATIVES].tolist():
        text = checkpoint.tokenizer.decode([token])
        expected[text] = expected.get(text, 0.0) + float(probabilities[token])
    assert replies[0].first_token_probs is None  # not asked for
    assert replies[1].first_token_probs == pytest.approx(expected, abs=1e-5)


# ---------------------------------------------------------------------------------------------- schemas and 8 bits

COLOURS = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}, "sure": {"type": "boolean"}},
    "required": ["colour", "sure"],
    "additionalProperties": False,
}


def test_a_reply_with_a_schema_keeps_to_it_and_its_neighbour_is_not_held_to_it(chat: TransformersChat) -> None:
    free = ask("Which colour?", max_tokens=40)
    constrained = ask("Which colour?", max_tokens=40, schema=COLOURS)
    replies = chat.chat(
        [free, constrained, ask("Which colour?", max_tokens=40, schema=COLOURS, temperature=1.0, seed=3)]
    )
    for reply in replies[1:]:
        fields = json.loads(reply.text)
        assert fields["colour"] in ("red", "blue")
        assert isinstance(fields["sure"], bool)
        assert reply.finish_reason == "stop"
    assert replies[0].text == chat.chat([free])[0].text


def test_a_schema_that_has_no_grammar_costs_its_own_request_alone(chat: TransformersChat) -> None:
    replies = chat.chat([ask("fox"), ask("fox", schema={"type": "no such type"})])
    assert replies[0].error is None
    assert "grammar" in (replies[1].error or "")


@pytest.mark.parametrize("kernel", [fbgemm, onednn, plain])
def test_the_8_bit_layer_multiplies_what_it_rounded(kernel: Kernel) -> None:
    torch.manual_seed(0)
    linear = torch.nn.Linear(64, 48).requires_grad_(False)
    inputs = torch.randn(3, 5, 64) * torch.tensor([0.01, 1.0, 100.0]).reshape(3, 1, 1)
    inputs[0, 0], linear.weight[0] = (
        1.0,
        1.0,
    )  # the largest products, where a processor that adds in 16 bits would overflow
    scale_w = linear.weight.abs().amax(1) / weight_levels()
    scale_x = inputs.abs().amax(-1, keepdim=True) / 127
    expected = (
        (inputs / scale_x).round() @ (linear.weight / scale_w[:, None]).round().T
    ) * scale_w * scale_x + linear.bias
    with torch.inference_mode():
        got = Int8Linear(linear, kernel)(inputs)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    exact = linear(inputs) - linear.bias
    error = (got - linear.bias - exact).norm(dim=-1) / exact.norm(dim=-1)
    assert float(error.max()) < 0.04  # each token has a scale of its own: small ones are not lost beside large ones


@pytest.mark.parametrize(
    ("engines", "amx", "share", "expected"),
    [
        # Without AMX oneDNN is not even timed: a row may take it seconds.
        (["fbgemm", "onednn"], False, 0.5, fbgemm),
        (["fbgemm", "onednn"], True, 0.5, onednn),
        (["fbgemm", "onednn"], True, 1.1, fbgemm),
        (["qnnpack"], False, 0.5, plain),
    ],
)
def test_the_kernel_is_what_the_processor_is_fast_with(
    engines: list[str], amx: bool, share: float, expected: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(torch.backends.quantized), "supported_engines", engines)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(int8_kernels, "compare_speed", lambda *_: share)
    assert choose_kernel() is expected


def test_a_kernel_that_takes_twice_the_time_has_twice_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0

    def taking(seconds: float) -> Kernel:
        def multiply(rows: torch.Tensor) -> torch.Tensor:
            nonlocal clock
            clock += seconds * len(rows)
            return rows

        return lambda _weight, _scale: multiply

    monkeypatch.setattr(int8_kernels.time, "perf_counter", lambda: clock)
    assert compare_speed(taking(0.2), taking(0.1)) == pytest.approx(2)


def test_a_matrix_of_many_rows_is_rounded_row_by_row() -> None:
    weight = torch.randn(2 * 64 + 3, 16, dtype=torch.bfloat16) * torch.logspace(-3, 3, 2 * 64 + 3).unsqueeze(1)
    weight[5] = 0
    rounded, scale = round_weights(weight)
    error = (rounded.float() - weight.float() / scale.unsqueeze(1)).abs()
    assert float(error.max()) <= 0.5001
    assert rounded[5].eq(0).all()
    assert rounded.abs().amax(dim=1)[torch.arange(len(scale)) != 5].eq(weight_levels()).all()


def test_grouped_attention_says_what_the_model_says_with_its_own(llama: Path, chat: TransformersChat) -> None:
    checkpoint = load_checkpoint(llama)
    config = checkpoint.model.config
    assert config.num_attention_heads > config.num_key_value_heads
    use_grouped_attention(checkpoint.model)
    grouped = TransformersChat(checkpoint, "grouped", max_batch=4)
    requests = [ask("fox", logprobs=True), ask("How tall is the Eiffel Tower? " * 3, logprobs=True, max_tokens=5)]
    for own, other in zip(chat.chat(requests), grouped.chat(requests), strict=True):
        assert own.text == other.text
        np.testing.assert_allclose(own.logprobs, other.logprobs, atol=1e-4)


def test_a_checkpoint_in_8_bits_stays_close_to_itself(llama: Path, chat: TransformersChat) -> None:
    requests = [ask("The quick brown fox", max_tokens=1, logprobs=True), ask("dog " * 10, max_tokens=1, logprobs=True)]
    small = TransformersChat.load(llama, int8=True, max_batch=4)
    assert small.name.endswith("(int8)")
    for whole, rounded in zip(chat.chat(requests), small.chat(requests), strict=True):
        assert whole.logprobs is not None and rounded.logprobs is not None
        assert rounded.logprobs[0] == pytest.approx(whole.logprobs[0], abs=0.1)


def test_prompts_that_begin_alike_are_read_once_and_answered_as_before(llama: Path, chat: TransformersChat) -> None:
    checkpoint = load_checkpoint(llama)
    read: list[int] = []
    checkpoint.model.get_input_embeddings().register_forward_hook(lambda _, inputs, __: read.append(inputs[0].shape[1]))
    reusing = TransformersChat(checkpoint, "reusing", max_batch=4, prefixes=PrefixStates(checkpoint.model.config))
    shared = "How tall is the Eiffel Tower? " * 10
    batches = (
        [ask(shared + "fox", logprobs=True, max_tokens=5), ask("dog", logprobs=True, max_tokens=3)],
        [ask(shared + "fox jumps", logprobs=True, max_tokens=5), ask("quick brown", logprobs=True, max_tokens=2)],
        [ask(shared + "fox", logprobs=True, max_tokens=5), ask(shared + "dog " * 7, logprobs=True, max_tokens=2)],
    )
    longest = []
    for batch in batches:
        read.clear()
        for own, other in zip(chat.chat(batch), reusing.chat(batch), strict=True):
            assert own.text == other.text
            np.testing.assert_allclose(own.logprobs, other.logprobs, atol=1e-4)
        longest.append(max(read))
    whole = len(checkpoint.tokenizer(shared)["input_ids"])
    assert longest[0] >= whole  # nothing was known
    assert max(longest[1:]) < whole / 2


def test_states_are_bounded_where_time_ends_before_a_batch_is_read(llama: Path) -> None:
    model = load_checkpoint(llama).model
    states = PrefixStates(model.config, max_tokens=50)
    with torch.inference_mode():
        for seed in range(6):
            rows = torch.randint(5, 100, (8, 21), generator=torch.Generator().manual_seed(seed))
            inputs = {"input_ids": rows, "attention_mask": torch.ones_like(rows)}
            reads = iter(range(100))
            deadline = Deadline(10.0, lambda reads=reads: 0.0 if next(reads) < 8 else 20.0)
            assert states.begin(model, inputs, 1, deadline) is None
            assert len(states) == 2


def test_a_second_caller_waits_for_the_first_and_no_longer_than_its_deadline(llama: Path) -> None:
    checkpoint = load_checkpoint(llama)
    chat = TransformersChat(checkpoint, "one at a time")
    inside, release = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        inside.set()
        release.wait(20.0)

    hook = checkpoint.model.register_forward_pre_hook(hang)
    first = threading.Thread(target=chat.chat, args=([ask("fox", max_tokens=1)],))
    first.start()
    assert inside.wait(20.0)
    hook.remove()
    try:
        assert chat.chat([ask("dog", max_tokens=1)], Deadline(0.05))[0].finish_reason == "abort"
    finally:
        release.set()
        first.join(20.0)
    assert chat.chat([ask("dog", max_tokens=1)])[0].finish_reason in ("stop", "length")


@pytest.mark.parametrize("piece", [16, 1])
def test_prompts_that_begin_alike_share_it_within_a_batch_and_are_read_in_pieces(
    llama: Path, chat: TransformersChat, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr("agents.models.chat.prefix_states.PIECE_TOKENS", piece)
    checkpoint = load_checkpoint(llama)
    read: list[int] = []
    checkpoint.model.get_input_embeddings().register_forward_hook(lambda _, inputs, __: read.append(inputs[0].shape[1]))
    reusing = TransformersChat(checkpoint, "reusing", max_batch=4, prefixes=PrefixStates(checkpoint.model.config))
    shared = "How tall is the Eiffel Tower? " * 10
    batch = [ask(shared + last, logprobs=True, max_tokens=2) for last in ("fox", "dog")]
    for own, other in zip(chat.chat(batch), reusing.chat(batch), strict=True):
        assert own.text == other.text
        np.testing.assert_allclose(own.logprobs, other.logprobs, atol=1e-4)
    whole = len(checkpoint.tokenizer(shared)["input_ids"])
    assert max(read) <= max(piece, 2)  # of the last tokens one for each prompt is read in `generate`
    assert whole < sum(read) < 1.5 * whole


@pytest.mark.filterwarnings("error::FutureWarning")
def test_a_prompt_alone_is_answered_as_before(llama: Path, chat: TransformersChat) -> None:
    checkpoint = load_checkpoint(llama)
    reusing = TransformersChat(checkpoint, "reusing", max_batch=4, prefixes=PrefixStates(checkpoint.model.config))
    requests = [ask("How tall is the Eiffel Tower?", logprobs=True, max_tokens=6)]
    (own,), (other,) = chat.chat(requests), reusing.chat(requests)
    assert own.text == other.text
    np.testing.assert_allclose(
        own.logprobs, other.logprobs, atol=1e-4
    )  # no row is padded, no place behind the reply is seen


def test_places_before_a_short_prompt_are_not_seen_whatever_memory_held(
    llama: Path, chat: TransformersChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocate = PrefixStates._empty
    monkeypatch.setattr(PrefixStates, "_empty", lambda *sizes: allocate(*sizes).fill_(math.nan))
    checkpoint = load_checkpoint(llama)
    reusing = TransformersChat(checkpoint, "reusing", max_batch=4, prefixes=PrefixStates(checkpoint.model.config))
    requests = [ask("fox", logprobs=True), ask("How tall is the Eiffel Tower? " * 3, logprobs=True, max_tokens=5)]
    for own, other in zip(chat.chat(requests), reusing.chat(requests), strict=True):
        np.testing.assert_allclose(own.logprobs, other.logprobs, atol=1e-4)


def test_replies_that_have_ended_are_computed_no_longer_and_the_others_go_on_as_before(
    llama: Path, chat: TransformersChat
) -> None:
    checkpoint = load_checkpoint(llama)
    reusing = TransformersChat(checkpoint, "reusing", max_batch=8, prefixes=PrefixStates(checkpoint.model.config))
    requests = [
        ask("How tall is the Eiffel Tower? " * 5, max_tokens=2, logprobs=True),
        ask("fox", max_tokens=3, logprobs=True),
        ask("dog " * 9, max_tokens=12, logprobs=True, temperature=2.0, seed=5),
        ask("The lazy dog", max_tokens=9, logprobs=True),
        ask("Which colour?", max_tokens=40, schema=COLOURS, logprobs=True),
    ]
    alone = [reply for request in requests for reply in chat.chat([request])]
    computed: list[torch.Size] = []
    checkpoint.model.get_input_embeddings().register_forward_hook(
        lambda _, inputs, __: computed.append(inputs[0].shape)
    )
    together = reusing.chat(requests)
    for own, other in zip(alone, together, strict=True):
        assert (own.text, own.finish_reason) == (other.text, other.finish_reason)
        np.testing.assert_allclose(own.logprobs or (), other.logprobs or (), atol=1e-4)
        assert own.first_token_probs == pytest.approx(other.first_token_probs, abs=1e-4)
    steps = [rows for rows, tokens in computed[len(requests) :] if tokens == 1]
    lengths = [len(reply.logprobs or ()) for reply in together]
    assert steps[0] == len(requests) and steps[-1] == 1
    assert steps == sorted(steps, reverse=True)
    # At most half of the rows of a step have ended; each may have had an end token, which is no part of the reply.
    assert sum(steps) <= 2 * sum(lengths) + len(requests)


def test_the_deadline_ends_reading_between_two_pieces(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.models.chat.prefix_states.PIECE_TOKENS", 16)
    checkpoint = load_checkpoint(llama)
    read: list[int] = []
    checkpoint.model.get_input_embeddings().register_forward_hook(lambda _, inputs, __: read.append(inputs[0].shape[1]))
    reusing = TransformersChat(checkpoint, "reusing", max_batch=4, prefixes=PrefixStates(checkpoint.model.config))
    ticks = itertools.count()
    deadline = Deadline(3.5, clock=lambda: float(next(ticks)))
    replies = reusing.chat([ask("How tall is the Eiffel Tower? " * 10), ask("fox")], deadline)
    assert [(reply.text, reply.finish_reason) for reply in replies] == [("", "abort"), ("", "abort")]
    assert 0 < len(read) < 4


def test_thoughts_in_the_text_are_no_part_of_the_reply(chat: TransformersChat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "_decode", lambda _: "<think>300 or 330?</think>\n\n330 m")
    assert chat.chat([ask("fox", max_tokens=3)])[0].text == "330 m"
