"""Figures of a model's architecture, read from its configuration alone: nothing of its weights is loaded.

Parameters are counted on the model class itself, made on torch's ``meta`` device, which allocates nothing.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agents.base.revisions import MAIN, split_revision
from agents.models.config_files import ConfigError, check_types, read_config

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}  # bytes of a number

_VISION_PARTS = tuple(
    f"{outer}{part}."
    for outer in ("", "model.")
    for part in ("vision_model", "vision_tower", "visual", "vision_encoder")
)
_DETECTOR_PATCH = 8  # Grounding DINO's finest feature map is 1/8 of the picture (arXiv 2303.05499, section 3.1)
_DETECTOR_SAMPLES = 3
"""Tensors of its deformable attention that are alive at once in plain PyTorch (modeling_grounding_dino.py): the sampled values of each
level, the same stacked, and their product with the weights."""
_DETECTOR_PIXELS = 800 * 1333  # its processor's size
_SAM_BIASES = 2  # tensors of attention's bias that are alive at once, heads x positions each (modeling_sam.py): one made, one laid out


class ArchitectureError(RuntimeError):
    """The configuration of a model is missing or of no known kind; the message says what to do."""


@dataclass(frozen=True)
class Decoder:
    """What the key-value cache of a language model depends on."""

    layers: int
    kv_heads: int
    head_dim: int
    hidden: int
    intermediate: int
    vocabulary: int
    context: int

    def kv_bytes(self, dtype: str) -> int:
        """Bytes of keys and values of one token in all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * BYTES[dtype]


@dataclass(frozen=True)
class Vision:
    """What a picture costs."""

    cached: int  # tokens by which one picture lengthens the key-value cache
    positions: int  # positions in the picture encoder, padding included
    hidden: int  # width of the encoder
    intermediate: int  # width inside its MLPs
    layers: int = 0  # layers of the encoder
    readers: float = 1.0  # share of the language model's layers that read the picture's keys and values
    # Width of all that is kept of a position until the encoder is done: intermediate outputs and their concatenation
    kept: int = 0
    masked: bool = False  # whether attention takes a full mask, positions x positions, of each picture


@dataclass(frozen=True)
class Architecture:
    """A model as its configuration describes it."""

    model: str
    model_type: str
    dtype: str  # the type its weights were saved in
    parameters: int  # all parameters, shared ones once
    vision_parameters: int  # those of the picture encoder among them
    lookup_parameters: int  # those of a table of embeddings that is only looked up, not multiplied with
    decoder: Decoder | None
    vision: Vision | None
    positions: int = 0  # positions of one input of an encoder; for models without a decoder
    hidden: int = 0  # width of an encoder; 0 for a model with a decoder
    intermediate: int = 0  # width inside its MLPs
    eight_bit: int = 0  # those of linear layers that the checkpoint holds in 8 bits
    scales: int = 0  # numbers that those are scaled by
    kept: int = 0  # numbers kept for each position beside those of its widest layer; for models without a decoder

    def weight_bytes(self, dtype: str) -> int:
        """Bytes of all weights where those that are not held in 8 bits are loaded as ``dtype``; scales are float32 (vLLM)."""
        return (self.parameters - self.eight_bit) * BYTES[dtype] + self.eight_bit + self.scales * BYTES["float32"]


@lru_cache(maxsize=64)
def read_architecture(model: str, revision: str = MAIN) -> Architecture:
    """Read the figures of a model off its config.json in a folder or the local cache.

    Raises:
        ArchitectureError: There is no config.json of that revision, or it is of an unknown class.
    """
    model, revision = split_revision(model, revision)
    config = _config(model, revision)
    network = _on_meta(config, model)
    parameters, vision_parameters, lookup_parameters = _count(network)
    eight_bit, scales = _in_eight_bits(network, getattr(config, "quantization_config", None) or {})
    dtype = str(getattr(config, "dtype", None) or getattr(config, "torch_dtype", None) or "float32").removeprefix(
        "torch."
    )
    text = getattr(config, "text_config", config)
    generates = any("Causal" in name or "ConditionalGeneration" in name for name in config.architectures or ())
    decoder = _decoder(text) if generates else None
    wide = config if config.model_type == "grounding-dino" else text  # its text encoder reads a few words alone
    return Architecture(
        model=model,
        model_type=config.model_type,
        dtype=dtype if dtype in BYTES else "float32",
        parameters=parameters,
        vision_parameters=vision_parameters,
        lookup_parameters=lookup_parameters,
        decoder=decoder,
        vision=_vision(config),
        positions=0 if decoder else _positions(config, text),
        hidden=0 if decoder else _first(wide, "hidden_size", "d_model"),
        intermediate=0 if decoder else _first(wide, "intermediate_size", "encoder_ffn_dim"),
        eight_bit=eight_bit,
        scales=scales,
        kept=_count_samples(config),
    )


def _config(model: str, revision: str) -> Any:
    try:
        check_types(read_config(model, revision, local=True), model)  # before any library sees the file
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(model, revision=revision, local_files_only=True, trust_remote_code=False)
    except ConfigError as error:
        raise ArchitectureError(str(error)) from error
    except OSError as error:
        raise ArchitectureError(
            f"there is no config.json of {model}, neither in a folder of that name nor in the local Hugging Face cache; where a hub can "
            f"be reached: hf download {model} config.json"
        ) from error
    except (ValueError, KeyError) as error:
        raise ArchitectureError(f"the config.json of {model} cannot be read: {error}") from error


def _on_meta(config: Any, model: str) -> Any:
    import torch
    import transformers

    name = next(iter(config.architectures or ()), None)
    kind = getattr(transformers, name, None) if name else None
    if kind is None:
        raise ArchitectureError(f"transformers {transformers.__version__} has no class {name} for {model}")
    with torch.device("meta"):
        return kind(config)


def _count(network: Any) -> tuple[int, int, int]:
    """Parameters of a network, of its picture encoder, and of embeddings that are no output layer too."""
    sizes: dict[int, int] = {}
    in_vision: set[int] = set()
    for path, parameter in network.named_parameters(remove_duplicate=False):
        sizes[id(parameter)] = parameter.numel()
        if path.startswith(_VISION_PARTS):
            in_vision.add(id(parameter))
    return sum(sizes.values()), sum(sizes[key] for key in in_vision), _looked_up(network)


def _in_eight_bits(network: Any, quantization: Mapping[str, Any]) -> tuple[int, int]:
    """Count the parameters of the linear layers that a checkpoint holds in 8 bits, and the scales of these.

    Two ways are known: compressed-tensors, with a scale for each output and layers left out by ``ignore`` (a path, or ``re:`` and a
    pattern at a path's beginning); and ``fp8``, with a scale for each block and layers left out by the beginnings of their paths. A
    checkpoint that is quantised in another way counts as if it were not.
    """
    import torch

    groups = quantization.get("config_groups", {}).values()
    block = quantization.get("weight_block_size")
    if any("Linear" in group["targets"] and group["weights"]["num_bits"] == 8 for group in groups):
        ignored, is_left_out = quantization.get("ignore", ()), _names
    elif quantization.get("quant_method") == "fp8" and block:
        ignored, is_left_out = quantization.get("modules_to_not_convert") or (), _begins
    else:
        return 0, 0
    layers = [
        layer
        for path, layer in network.named_modules()
        if isinstance(layer, torch.nn.Linear) and not any(is_left_out(entry, path) for entry in ignored)
    ]
    rows, columns = block or (1, 0)
    scales = sum(
        math.ceil(layer.out_features / rows) * (math.ceil(layer.in_features / columns) if columns else 1)
        for layer in layers
    )
    return sum(layer.weight.numel() for layer in layers), scales


def _begins(entry: str, path: str) -> bool:
    return path == entry or path.startswith(f"{entry}.")


def _names(entry: str, path: str) -> bool:
    """Return whether an entry of ``ignore`` names a module.

    transformers puts ``model.`` before the paths of older checkpoints.
    """
    inner = path.removeprefix("model.")
    paths = {path, inner, f"language_model.{inner}"}
    pattern = entry.removeprefix("re:")
    return any(re.match(pattern, each) for each in paths) if pattern != entry else entry in paths


def _looked_up(network: Any) -> int:
    try:
        table, output = network.get_input_embeddings(), network.get_output_embeddings()
    except (NotImplementedError, AttributeError):  # models without text, or with several parts of their own
        return 0
    weight = getattr(table, "weight", None)
    if weight is None or weight.dim() != 2 or getattr(output, "weight", None) is weight:  # patches have 4
        return 0
    return int(weight.numel())


def _decoder(text: Any) -> Decoder:
    heads = text.num_attention_heads
    return Decoder(
        layers=text.num_hidden_layers,
        kv_heads=getattr(text, "num_key_value_heads", None) or heads,
        head_dim=getattr(text, "head_dim", None) or text.hidden_size // heads,
        hidden=text.hidden_size,
        intermediate=_first(text, "intermediate_size", "ffn_dim"),
        vocabulary=text.vocab_size,
        context=text.max_position_embeddings,
    )


def _vision(config: Any) -> Vision | None:
    vision = getattr(config, "vision_config", None)
    if vision is None:
        return None
    if config.model_type == "mllama":
        # modeling_mllama.py: each tile has (image_size / patch_size)^2 patches and a class token; the encoder pads them to a
        # multiple of 8, keeps some layers' outputs, stacks them and concatenates them with the last (vision_output_dim).
        tile = (vision.image_size // vision.patch_size) ** 2 + 1
        collected = len(vision.intermediate_layers_indices) * vision.hidden_size
        return Vision(
            cached=vision.max_num_tiles * tile,
            positions=vision.max_num_tiles * (-(-tile // 8) * 8),
            hidden=vision.hidden_size,
            intermediate=vision.intermediate_size,
            layers=vision.num_hidden_layers + vision.num_global_layers,
            readers=len(config.text_config.cross_attention_layers) / config.text_config.num_hidden_layers,
            kept=2 * collected + vision.vision_output_dim + config.text_config.hidden_size,
            masked=True,
        )
    hidden = _first(vision, "hidden_size", "embed_dim")
    intermediate = _first(vision, "intermediate_size", default=4 * hidden)
    side = getattr(vision, "image_size", None) or 1120  # models of any picture size get at most this (kind "vllm")
    positions = (side // vision.patch_size) ** 2
    layers = _first(vision, "num_hidden_layers", "depth")
    biases = _SAM_BIASES * vision.num_attention_heads * positions if config.model_type == "sam" else 0
    return Vision(
        positions // getattr(vision, "spatial_merge_size", 1) ** 2, positions, hidden, intermediate, layers, kept=biases
    )


def _positions(config: Any, text: Any) -> int:
    if config.model_type == "grounding-dino":  # each feature map has half the side of the one before
        return sum(_DETECTOR_PIXELS // (_DETECTOR_PATCH * 2**level) ** 2 for level in range(config.num_feature_levels))
    vision = getattr(config, "vision_config", None)
    if vision is not None:
        return int((vision.image_size // vision.patch_size) ** 2 + 1)
    return int(getattr(text, "max_position_embeddings", 512))


def _count_samples(config: Any) -> int:
    """Count the numbers that deformable attention keeps for each position: of all heads, levels and points."""
    if config.model_type != "grounding-dino":
        return 0
    points = config.num_feature_levels * config.encoder_n_points
    return int(_DETECTOR_SAMPLES * config.d_model * points)


def _first(config: Any, *names: str, default: int = 0) -> int:
    return next((int(getattr(config, name)) for name in names if getattr(config, name, None)), default)
