"""Puts LoRA adapters into the weights, for engines that serve none: vLLM has no adapters for Llama-3.2-Vision (vllm issue 10824).

    python -m training.merge --adapter runs/sft/adapter --out models/merged
    python -m training.merge --adapter runs/sft/adapter --out models/merged --gguf models/merged.gguf --gguf-converter PATH
    python -m training.merge --out models/merged --gguf models/merged.gguf    # convert a checkpoint that is there

OUT is a checkpoint like the one that was trained, with its tokenizer and processor, for transformers and vLLM; --gguf writes it for
llama.cpp too, by llama.cpp's own converter.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from agents.models.base import ModelError
from agents.models.chat.lora_adapter import CONFIG
from agents.models.chat.transformers_checkpoint import load_checkpoint
from training.chat_examples import TrainingDataError
from training.command_line import parser_of, run_command
from training.gguf_conversion import PROGRAMS, TYPES, convert, find_converter

DTYPES = ("auto", "bfloat16", "float16", "float32")
PROCESSOR = ("preprocessor_config.json", "processor_config.json")
"""Either stands in the folder of a model that sees."""


def merge(adapter: Path, out: Path, base: str | None = None, dtype: str = "auto") -> Path:
    """Write the checkpoint with the adapter in its weights.

    Args:
        base: The model it was trained on, where that has moved since.
        dtype: Of the merged weights; ``auto`` as the base has it.

    Raises:
        TrainingDataError: The adapter or its base is missing or broken, the two do not fit, or ``out`` is not empty.
    """
    from peft import PeftModel
    from transformers import GenerationConfig

    if out.exists() and any(out.iterdir()):
        raise TrainingDataError(f"{out} is not empty; name another folder")
    try:
        trained_on = str(json.loads((adapter / CONFIG).read_text(encoding="utf-8"))["base_model_name_or_path"])
    except (OSError, ValueError, KeyError) as error:
        raise TrainingDataError(f"{adapter} holds no LoRA adapter: {error!r}") from error
    base = base or trained_on
    try:
        checkpoint = load_checkpoint(base, dtype=dtype)
    except ModelError as error:
        raise TrainingDataError(f"{error} (name the place of the base model with --base)") from error
    try:
        adapted = PeftModel.from_pretrained(checkpoint.model, str(adapter))
        merged = adapted.merge_and_unload(safe_merge=True)  # complains of numbers that are none
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise TrainingDataError(f"adapter {adapter} cannot be merged into {base}: {error}") from error
    with contextlib.suppress(OSError):  # a checkpoint need not say how to generate
        merged.generation_config = GenerationConfig.from_pretrained(base)
    part = out.with_name(f"{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    merged.save_pretrained(part)
    (checkpoint.processor or checkpoint.tokenizer).save_pretrained(part)
    if out.exists():
        out.rmdir()
    part.rename(out)
    return out


def run(arguments: argparse.Namespace) -> None:
    """Merge, convert, and say where the weights are.

    Raises:
        TrainingDataError: There is nothing to do, or see ``merge`` and ``convert``.
    """
    if arguments.adapter is None and arguments.gguf is None:
        raise TrainingDataError("name an adapter to merge (--adapter), or a file to convert --out to (--gguf)")
    converter = find_converter(arguments.gguf_converter) if arguments.gguf is not None else None
    if arguments.adapter is not None:
        merged = merge(arguments.adapter, arguments.out, arguments.base, arguments.dtype)
        size = sum(path.stat().st_size for path in merged.glob("*.safetensors"))
        print(
            f"{merged}: {size / 2**20:.1f} MiB of weights; serve it by its path in a profile ([models.chat] path = ...)"
        )
    if converter is not None:
        sees = any((arguments.out / name).is_file() for name in PROCESSOR)
        for file in convert(arguments.out, arguments.gguf, converter, arguments.gguf_type, sees=sees):
            print(f"{file}: {file.stat().st_size / 2**20:.1f} MiB for llama.cpp")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = parser_of("merge", __doc__)
    parser.add_argument("--adapter", type=Path, help="folder that PEFT saved; without it nothing is merged")
    parser.add_argument("--out", type=Path, required=True, help="folder of the merged checkpoint; must be empty")
    parser.add_argument("--base", help="the model it was trained on (default: as the adapter says)")
    parser.add_argument("--dtype", choices=DTYPES, default="auto", help="of the merged weights (default: auto)")
    parser.add_argument(
        "--gguf", type=Path, metavar="FILE", help="write the checkpoint in --out as GGUF, for llama.cpp"
    )
    parser.add_argument(
        "--gguf-converter",
        type=Path,
        metavar="PATH",
        help=f"llama.cpp's converter (default: {' or '.join(PROGRAMS)} on the path)",
    )
    parser.add_argument(
        "--gguf-type", choices=TYPES, default="auto", help="of the GGUF weights (default: auto, 16 bits)"
    )
    return run_command(run, parser, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
