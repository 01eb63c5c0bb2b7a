"""Examples with and without pictures for the trainings' tests, and the checkpoints they run on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PIL import Image
from transformers import Qwen2VLProcessor
from transformers.utils import is_torchvision_available

from agents.asking.readers.answers import ANSWERS
from tests.models.tiny_checkpoints import save_llama, save_mllama
from tests.vllm.tiny import save_qwen2_vl
from training.chat_examples import HELD_OUT, IMAGES, TRAIN, Example, Message, Verdict, read_examples, write_examples

if not is_torchvision_available():
    WITHOUT_VIDEOS = ["image_processor", "tokenizer"]
    Qwen2VLProcessor.attributes = WITHOUT_VIDEOS  # where transformers 4 looks
    Qwen2VLProcessor.get_attributes = classmethod(lambda cls: WITHOUT_VIDEOS)  # where transformers 5 looks

SAVE: dict[str, Callable[[Path], Path]] = {
    "llama": lambda folder: save_llama(folder, context=512),
    "mllama": save_mllama,
    "qwen2_vl": partial(save_qwen2_vl, videos=False),
}


def example(
    number: int,
    verdict: Verdict = "correct",
    *,
    form: str = "answer",
    prompt: str = "answer_with_evidence",
    reply: str | None = None,
    images: tuple[str, ...] = (),
    query: str | None = None,
    truth: str = "It is 330 metres tall.",
) -> Example:
    question = query or f"How tall is number {number}?"
    text = reply if reply is not None else ("I don't know" if verdict == "miss" else "It is 330 metres tall.")
    return Example(
        session_id=f"s{number}",
        interaction_id=f"s{number}-0",
        prompt=prompt,
        form=form,
        messages=(Message("system", "Be brief."), Message("user", question, images)),
        reply=text,
        verdict=verdict,
        query=question,
        ground_truth=truth,
        reply_verdict=verdict if form in ANSWERS else None,
        max_tokens=8,
    )


def save_examples(folder: Path, train: list[Example], held_out: list[Example]) -> Path:
    (folder / IMAGES).mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(sorted({name for row in train + held_out for name in row.images})):
        Image.new("RGB", (56, 28 + 28 * (number % 2)), (60 * number % 255, 90, 200)).save(
            folder / IMAGES / f"{name}.png"
        )
    write_examples(folder / TRAIN, train)
    write_examples(folder / HELD_OUT, held_out)
    return folder


def save_and_load(folder: Path, *examples: Example) -> list[Example]:
    """The examples as they come back from disk, with their pictures' folder."""
    save_examples(folder, list(examples), [])
    return read_examples(folder / TRAIN)
