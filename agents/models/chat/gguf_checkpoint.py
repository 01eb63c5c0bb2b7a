"""Converts a GGUF file into a transformers checkpoint, once: for training, and for batches in PyTorch."""

import contextlib
import functools
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from agents.models.base import ModelError
from agents.models.pretrained import load_model, save_model

CHATML_END = "<|im_end|>"
"""Ends a message in the ChatML format (Qwen, SmolLM2). Reading a GGUF file can leave another end token, or no padding token."""


def convert(gguf: Path, folder: Path) -> Path:
    """Convert a GGUF file to a checkpoint, unless the folder has it already.

    The checkpoint is written beside its place and renamed, so that a stopped conversion leaves nothing half-done.

    Args:
        gguf: Of a text model.
        folder: Of the checkpoint.

    Returns:
        The folder of the checkpoint.

    Raises:
        ModelError: The file cannot be read, a package that reads it is missing, or there is no room for the checkpoint.
    """
    if (folder / "config.json").is_file():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
            checkpoint = Path(scratch) / "checkpoint"
            checkpoint.mkdir()
            with _parsing_once():
                save_model(read_model(gguf), checkpoint)
                convert_tokenizer(gguf, checkpoint)
            _rename(checkpoint, folder)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"Cannot convert {gguf.name} into {folder}: {error}") from error
    return folder


def _rename(checkpoint: Path, folder: Path) -> None:
    try:
        checkpoint.rename(folder)
    except OSError:
        if not (folder / "config.json").is_file():  # else another process was faster: its copy is as good
            shutil.rmtree(folder, ignore_errors=True)
            checkpoint.rename(folder)


def _build_options() -> dict[str, Any]:
    """Options that make transformers unpack the weights of a GGUF file: 4 always does, 5 keeps them packed unless told."""
    try:
        from transformers import GgufConfig
    except ImportError:
        return {}
    return {"quantization_config": GgufConfig(dequantize=True)}


@contextlib.contextmanager
def _parsing_once() -> Iterator[None]:
    """Keep parsed files: transformers parses a file for configuration, weights and tokenizer, 11 s each for Qwen's vocabulary."""
    try:
        import gguf
    except ImportError:  # told where the file is read
        yield
        return
    parse = gguf.GGUFReader
    gguf.GGUFReader = functools.cache(parse)  # type: ignore[misc,assignment]
    try:
        yield
    finally:
        gguf.GGUFReader = parse  # type: ignore[misc]


@contextlib.contextmanager
def _reading(gguf: Path) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ModelError(f"Reading {gguf.name} takes the packages gguf and accelerate: {error}") from error
    except (OSError, ValueError) as error:
        raise ModelError(f"Cannot read {gguf}: {error}") from error


def read_model(gguf: Path) -> Any:
    """Return the model of a GGUF file with its weights unpacked to bfloat16.

    Raises:
        ModelError: The file cannot be read, or a package that reads it is missing.
    """
    import torch
    from transformers import AutoModelForCausalLM

    with _reading(gguf):
        return load_model(
            AutoModelForCausalLM, gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16, **_build_options()
        )


def convert_tokenizer(gguf: Path, target: Path) -> Any:
    """Write the tokenizer of a GGUF file into a checkpoint's folder, and return it.

    Raises:
        ModelError: The tokenizer cannot be read.
    """
    from transformers import AutoTokenizer

    with _reading(gguf):
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    chatml = CHATML_END in tokenizer.get_vocab()
    if chatml:
        tokenizer.eos_token = tokenizer.pad_token = CHATML_END
    tokenizer.save_pretrained(target)
    # transformers takes the GGUF file for a SentencePiece model and copies it; llama.cpp's converter would read that first.
    (target / "tokenizer.model").unlink(missing_ok=True)
    # It is a byte-level BPE tokenizer; the class it is read as would be rebuilt wrongly by transformers 5.
    _change(target / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    if chatml:  # that class puts a token before each text, and falls back to byte tokens, of which there are none
        _change(target / "tokenizer_config.json", add_bos_token=False)
        model = json.loads((target / "tokenizer.json").read_text(encoding="utf-8"))["model"]
        _change(target / "tokenizer.json", post_processor=None, model={**model, "byte_fallback": False})
    return tokenizer


def _change(file: Path, **values: Any) -> None:
    table = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**table, **values}, ensure_ascii=False, indent=2), encoding="utf-8")
