"""Turns a GGUF file into a transformers checkpoint, once: for training, and for batches in PyTorch."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from agents.models.base import ModelError

CHATML_END = "<|im_end|>"
"""Ends a message in the ChatML format (Qwen, SmolLM2). Reading a GGUF file can leave another end token, or no padding token."""


def converted(gguf: Path, folder: Path) -> Path:
    """The folder of the converted checkpoint (bfloat16), made if it is not there.

    The checkpoint is written beside its place and renamed, so that a stopped conversion leaves nothing half-done.

    Raises:
        ModelError: The file cannot be read, or a package that reads it is missing.
    """
    if (folder / "config.json").is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        made = Path(scratch) / "checkpoint"
        _convert(gguf, made)
        try:
            made.rename(folder)
        except OSError:
            if not (folder / "config.json").is_file():  # else another process was faster: its copy is as good
                shutil.rmtree(folder, ignore_errors=True)
                made.rename(folder)
    return folder


def _unpacked() -> dict[str, Any]:
    """Options that make transformers unpack the weights of a GGUF file: 4 always does, 5 keeps them packed unless told."""
    try:
        from transformers import GgufConfig
    except ImportError:
        return {}
    return {"quantization_config": GgufConfig(dequantize=True)}


def _convert(gguf: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16, **_unpacked()
        )
    except ImportError as error:
        raise ModelError(f"Reading {gguf.name} takes the packages gguf and accelerate: {error}") from error
    except (OSError, ValueError) as error:
        raise ModelError(f"Cannot read {gguf}: {error}") from error
    if CHATML_END in tokenizer.get_vocab():
        tokenizer.eos_token = tokenizer.pad_token = CHATML_END
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    config_file = target / "tokenizer_config.json"
    config = json.loads(config_file.read_text(encoding="utf-8"))
    # It is a byte-level BPE tokenizer; the class it is read as would be rebuilt wrongly by transformers 5.
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    config_file.write_text(json.dumps(config, indent=2), encoding="utf-8")
