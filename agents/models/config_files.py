"""Read a checkpoint's config.json as JSON, before a library makes objects of it: some of them run code that a configuration names."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agents.base.files import parse_json
from agents.base.revisions import MAIN
from agents.models.base import ModelError

ARCHITECTURES = frozenset(
    "bert blip-2 blip_2_qformer blip_2_vision_model clip clip_text_model clip_vision_model gemma gemma2 gemma3 gemma3_text grounding-dino "
    "idefics3 idefics3_vision llama mistral mllama mllama_text_model mllama_vision_model mpnet phi3 qwen2 qwen2_5_vl qwen2_5_vl_text "
    "qwen2_5_vl_vision qwen2_vl qwen2_vl_text qwen2_vl_vision qwen3 qwen3_vl qwen3_vl_text qwen3_vl_vision roberta sam sam_mask_decoder "
    "sam_prompt_encoder sam_vision_model siglip siglip_text_model siglip_vision_model smolvlm smolvlm_vision swin xlm-roberta".split()
)
"""Values of ``model_type`` whose figures are counted. A class of transformers may import what a file of any other type names."""


class ConfigError(ModelError):
    """A config.json names code of its own, or an unknown kind of model."""


def read_config(source: str | Path, revision: str = MAIN, *, local: bool = False) -> dict[str, Any]:
    """Return the content of a checkpoint's config.json after checking that it names no code.

    Args:
        source: A folder, or a model id.
        revision: Commit or branch of the model; folders have none.
        local: Look in folders and the local cache alone, never on a hub.

    Raises:
        OSError: There is no config.json.
        ValueError: It is no JSON object.
        ConfigError: It names code; see ``check_config``.
    """
    from huggingface_hub.errors import HFValidationError
    from transformers.utils import cached_file  # finds the file and reads nothing of it

    try:
        path = cached_file(str(source), "config.json", revision=revision, local_files_only=local)
    except HFValidationError as error:  # a path of no folder
        raise OSError(f"{source} is no folder, and no model id") from error
    if path is None:  # a folder without one
        raise OSError(f"{source} has no config.json")
    content = parse_json(Path(path).read_bytes())
    if not isinstance(content, dict):
        raise ValueError("it contains no JSON object")
    check_config(content, source)
    return content


def check_config(content: Mapping[str, Any], source: str | Path) -> None:
    """Raise ConfigError for a configuration that allows foreign code or names a kernel to be fetched (CVE-2026-5241, CVE-2026-4372)."""
    for key, value in _items(content):
        kernel = "attn_implementation" in key and isinstance(value, str) and "/" in value
        if kernel or (key == "trust_remote_code" and value):
            raise ConfigError(
                f"The config.json of {source} asks to run code from elsewhere ({key}: {str(value)[:80]!r}), so nothing of it is loaded. "
                "Take another checkpoint, or remove that entry if you trust its source."
            )


def check_types(content: Mapping[str, Any], source: str | Path) -> None:
    """Raise ConfigError if a configuration, or one inside it, has a type outside ``ARCHITECTURES``."""
    types = {str(value) for key, value in _items(content) if key == "model_type"}
    if "model_type" not in content or types - ARCHITECTURES:
        unknown = ", ".join(sorted(types - ARCHITECTURES))[:200] or "no model_type"
        raise ConfigError(
            f"The config.json of {source} is of a kind whose figures are not known ({unknown}), so no library reads it; known: "
            f"{', '.join(sorted(ARCHITECTURES))}"
        )


def _items(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key of a JSON value with its value, at any depth."""
    waiting = [content]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            yield from each.items()
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
