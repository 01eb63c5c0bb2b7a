"""Finds a LoRA adapter that PEFT saved."""

from dataclasses import dataclass
from pathlib import Path

from agents.base.files import parse_json
from agents.base.revisions import MAIN
from agents.models.base import ModelError

CONFIG = "adapter_config.json"
WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")


@dataclass(frozen=True)
class FoundLora:
    """An adapter that is there: ``rank`` is its r."""

    name: str
    folder: Path
    rank: int


def find_lora(name: str, path: str, revision: str = MAIN) -> FoundLora:
    """Find folder and rank of an adapter that PEFT saved, by folder or cached model id.

    Raises:
        ModelError: It is missing, also at that revision, or is no LoRA adapter.
    """
    folder = _folder(name, path, revision)
    if not any((folder / weights).is_file() for weights in WEIGHTS):
        raise ModelError(f"LoRA adapter {name!r}: {folder} has none of {', '.join(WEIGHTS)}.")
    try:
        config = parse_json((folder / CONFIG).read_bytes())
        return FoundLora(name, folder, int(config["r"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"LoRA adapter {name!r}: {folder / CONFIG} is not PEFT's: {error!r}") from error


def _folder(name: str, path: str, revision: str) -> Path:
    folder = Path(path)
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        return Path(snapshot_download(path, revision=revision, local_files_only=True))
    except (OSError, HFValidationError) as error:
        raise ModelError(
            f"LoRA adapter {name!r} is missing: {path} is neither a folder nor in the local Hugging Face cache."
        ) from error
