"""Profiles with tiny random weights, which test engines, kernels and memory plan without a hub."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from agents.models.config_files import read_config
from agents.settings.run_config import RunConfig
from tests.models.tiny_checkpoints import save_bert
from tests.models.tiny_rankers import (
    save_blip2,
    save_grounding_dino,
    save_qwen3,
    save_sam,
    save_xlm_roberta_reranker,
)
from tests.support.local_configs import CONFIGS
from tests.vllm.tiny import CONTEXT, save_llama, save_mllama, save_qwen2_vl

ENGINE = "vllm"
_LLAMA = "mllama"

_SAVERS: Mapping[str, Callable[[Path], Path]] = {
    "transformers": save_llama,
    "text-encoder": partial(save_bert, positions=512),
    "flag-reranker": save_xlm_roberta_reranker,
    "blip2-qformer": save_blip2,
    "qwen3-reranker": save_qwen3,
    "grounding-dino": save_grounding_dino,
    "sam": save_sam,
}
"""Kind of model to the function that saves a tiny one."""


def with_tiny_weights(config: RunConfig, folder: Path, *, has_engine: bool, has_gpu: bool) -> RunConfig:
    """Return the configuration with tiny random checkpoints, saved below ``folder``, for all weights of a hub.

    Args:
        config: A preset under a profile.
        folder: Folder of the checkpoints; those that it holds are kept.
        has_engine: Whether vLLM can be imported. Without it transformers answers in its place.
        has_gpu: Whether models may stay where the profile puts them. Else all move to the CPU, in float32.
    """

    def replace(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        spec = {key: replace(inner) for key, inner in value.items()}
        if "path" not in spec or "kind" not in spec:
            return spec
        spec = _shrink(spec, folder)
        if spec["kind"] == ENGINE and not has_engine:
            spec = {"kind": "transformers", "path": spec["path"], "max_batch": spec["max_batch"], "device": "cuda"}
        return spec if has_gpu else _to_cpu(spec)

    profile = config.profile.model_copy(update={"models": replace(config.profile.models)})
    return dataclasses.replace(config, profile=profile)


def _shrink(spec: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Name a tiny checkpoint in place of a model's own, with a context that it holds."""
    save, name = _SAVERS.get(spec["kind"]), spec["kind"]
    if spec["kind"] == ENGINE:
        config_folder = CONFIGS / str(spec["path"]).replace("/", "--")
        name = read_config(str(config_folder)).get("model_type", "") if config_folder.is_dir() else _LLAMA
        save = save_mllama if name == _LLAMA else save_qwen2_vl
        spec = {**spec, "context": min(int(spec.get("context") or CONTEXT), CONTEXT)}
    if save is None:
        return spec
    place = folder / name
    if not (place / "config.json").is_file():
        save(place)
    return {**{key: value for key, value in spec.items() if key != "revision"}, "path": str(place)}


def _to_cpu(spec: dict[str, Any]) -> dict[str, Any]:
    moved = {**spec, "dtype": "float32"}
    if spec["kind"] == ENGINE:
        return {**moved, "enforce_eager": True}
    return {**moved, "device": "cpu"}
