"""Builds models from plain settings: one table from kind to factory.

A specification is a table of a settings file, e.g. ``{kind = "composed", text = {kind = "smollm2"}, recogniser =
{kind = "efficientnet-lite2"}, ocr = {kind = "rapidocr"}}``. Sub-models that are specified alike are loaded once.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agents.models.base import ModelError
from agents.models.composed_vision import Describe

Spec = Mapping[str, Any]

_REPOSITORY = Path(__file__).resolve().parents[2]
_log = logging.getLogger(__name__)


class ModelRegistry:
    """Loads models and keeps them, so that a model used in two places is in memory once.

    Args:
        cache: Folder for what is made from packaged weights.
        describe: Wording of what the composed chat model sees; needed for kind ``composed`` only.
        domains: Domain to description; needed for kind ``domain-zero-shot`` only.
    """

    def __init__(self, cache: Path, describe: Describe | None = None, domains: Mapping[str, str] | None = None) -> None:
        self.cache = cache
        self.describe = describe
        self.domains = domains
        self._loaded: dict[str, Any] = {}

    def load(self, spec: Spec) -> Any:
        """The model of a specification: its ``kind``, the rest are options of that kind.

        Raises:
            ModelError: The kind or an option is unknown, or the model cannot be loaded.
        """
        key = json.dumps(spec, sort_keys=True, default=str)
        if key not in self._loaded:
            self._loaded[key] = self._build(spec)
        return self._loaded[key]

    def _build(self, spec: Spec) -> Any:
        options = dict(spec)
        kind = options.pop("kind", None)
        factory = FACTORIES.get(kind) if isinstance(kind, str) else None
        if factory is None:
            raise ModelError(f"Unknown model kind {kind!r}; known kinds: {', '.join(sorted(FACTORIES))}.")
        try:
            inspect.signature(factory).bind(self, **options)
        except TypeError as error:
            known = ", ".join(list(inspect.signature(factory).parameters)[1:])
            raise ModelError(f"Model kind {kind!r}: {error}; its options are: {known or 'none'}.") from None
        try:
            return factory(self, **options)
        except (TypeError, ValueError) as error:
            raise ModelError(f"Model kind {kind!r} cannot be built from {options}: {error}") from error


def load(kind: str, options: Mapping[str, Any], cache: Path, describe: Describe | None = None) -> Any:
    """One model by itself; use a ``ModelRegistry`` for several that share parts.

    Raises:
        ModelError: See ``ModelRegistry.load``.
    """
    return ModelRegistry(cache, describe).load({**options, "kind": kind})


# Each factory imports what it needs only when it is called: no preset pays for a model that it does not use.
# The signatures are spelled out for the sake of the message that lists a kind's options.


def _smollm2(registry: ModelRegistry, dtype: str = "bfloat16", max_batch: int = 8) -> Any:
    from agents.models.smollm2 import load_smollm2

    return load_smollm2(registry.cache, dtype, max_batch)


def _transformers(
    registry: ModelRegistry,
    path: str,
    device: str = "cpu",
    dtype: str = "auto",
    max_batch: int = 8,
    max_image_side: int = 1120,
) -> Any:
    del registry
    from agents.models.transformers_chat import TransformersChat

    return TransformersChat.load(path, device, dtype, max_batch=max_batch, max_image_side=max_image_side)


def _vllm(
    registry: ModelRegistry,
    path: str,
    dtype: str = "auto",
    context: int | None = None,
    max_batch: int = 16,
    gpu_memory_utilization: float = 0.9,
    images: int = 1,
    max_image_side: int = 1120,
    prefix_caching: bool = True,
    enforce_eager: bool = False,
    lora: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Any:
    del registry
    from agents.models.lora import Lora
    from agents.models.vllm_chat import VllmChat

    return VllmChat.load(
        path,
        lora=Lora(**lora) if lora is not None else None,
        max_image_side=max_image_side,
        dtype=dtype,
        context=context,
        max_batch=max_batch,
        gpu_memory_utilization=gpu_memory_utilization,
        images=images,
        prefix_caching=prefix_caching,
        enforce_eager=enforce_eager,
        extra=extra or {},
    )


def _openai(
    registry: ModelRegistry,
    model: str,
    base_url: str | None = None,
    api_key_env: str = "OPENAI_API_KEY",
    concurrency: int = 8,
    attempts: int = 4,
    max_image_side: int = 1024,
) -> Any:
    del registry
    from agents.models.openai_chat import OpenAIChat

    return OpenAIChat(model, base_url, api_key_env, concurrency, attempts, max_image_side)


def _composed(registry: ModelRegistry, text: Spec, recogniser: Spec, ocr: Spec, labels: int = 5) -> Any:
    from agents.models.composed_vision import ComposedVisionChat

    if registry.describe is None:
        raise ModelError("Kind 'composed' needs a describe callable: pass it to ModelRegistry.")
    parts = (registry.load(text), registry.load(recogniser), registry.load(ocr))
    return ComposedVisionChat(*parts, registry.describe, labels)


def _minilm(
    registry: ModelRegistry,
    max_tokens: int = 256,
    batch_size: int = 64,
    device: str = "cpu",
    dtype: str = "float32",
) -> Any:
    del registry
    from agents.models.minilm import load_minilm

    return load_minilm(max_tokens, batch_size, device, dtype)


def _text_encoder(
    registry: ModelRegistry,
    path: str,
    pooling: str = "mean",
    max_tokens: int = 512,
    batch_size: int = 64,
    device: str = "cpu",
    dtype: str = "float32",
) -> Any:
    del registry
    from agents.models.text_encoder import TransformerTextEncoder

    if pooling not in ("mean", "cls"):
        raise ModelError(f"Unknown pooling {pooling!r}; known: mean, cls.")
    return TransformerTextEncoder(path, "mean" if pooling == "mean" else "cls", max_tokens, batch_size, device, dtype)


def _spacy_entities(registry: ModelRegistry, pipeline: str | None = None, batch_size: int = 64) -> Any:
    del registry
    from agents.models.entities import SpacyEntities

    return SpacyEntities(pipeline, batch_size)


def _efficientnet_lite2(registry: ModelRegistry) -> Any:
    del registry
    from agents.models.efficientnet import EfficientNetLite2

    return EfficientNetLite2()


def _rapidocr(registry: ModelRegistry, max_side: int = 1280, min_score: float = 0.5, threads: int = 1) -> Any:
    del registry
    from agents.models.ocr import RapidOcrReader

    return RapidOcrReader(max_side, min_score, threads)


def _cosine(registry: ModelRegistry, encoder: Spec) -> Any:
    from agents.models.rerankers import CosineReranker

    return CosineReranker(registry.load(encoder))


def _maxsim(registry: ModelRegistry, encoder: Spec) -> Any:
    from agents.models.rerankers import MaxSimReranker

    return MaxSimReranker(registry.load(encoder))


def _bm25(registry: ModelRegistry, k1: float = 1.5, b: float = 0.75) -> Any:
    del registry
    from agents.models.lexical_reranker import LexicalReranker

    return LexicalReranker(k1, b)


def _cross_encoder(
    registry: ModelRegistry,
    path: str,
    max_tokens: int = 512,
    batch_size: int = 32,
    device: str = "cpu",
    dtype: str = "float32",
) -> Any:
    del registry
    from agents.models.cross_encoder import CrossEncoderReranker

    return CrossEncoderReranker(path, max_tokens, batch_size, device, dtype)


def _extractive_reader(registry: ModelRegistry, encoder: Spec, max_sentences: int = 24) -> Any:
    from agents.models.reader import ExtractiveReader

    return ExtractiveReader(registry.load(encoder), max_sentences)


def _domain_zero_shot(
    registry: ModelRegistry,
    encoder: Spec,
    recogniser: Spec | None = None,
    question_weight: float = 1.0,
    picture_weight: float = 0.75,
    temperature: float = 0.07,
) -> Any:
    from agents.models.domain_classifier import ZeroShotDomainClassifier

    if registry.domains is None:
        raise ModelError("Kind 'domain-zero-shot' needs descriptions of the domains: pass them to ModelRegistry.")
    return ZeroShotDomainClassifier(
        registry.load(encoder),
        registry.load(recogniser) if recogniser is not None else None,
        registry.domains,
        question_weight=question_weight,
        picture_weight=picture_weight,
        temperature=temperature,
    )


def _domain_features(registry: ModelRegistry, text: Spec, images: Spec) -> Any:
    from agents.models.domain_features import EmbeddedFeatures

    return EmbeddedFeatures(registry.load(text), registry.load(images))


def _domain_head(registry: ModelRegistry, head: str, features: Spec, fallback: Spec | None = None) -> Any:
    """``head`` is a path without extension, relative to the repository root; without such files the fallback classifies."""
    from agents.models.domain_head import DomainHead, HeadDomainClassifier, head_files

    path = _REPOSITORY / head
    if fallback is not None and not any(file.exists() for file in head_files(path)):
        _log.warning("there is no domain head %s; domains are classified by %s", path, fallback.get("kind"))
        return registry.load(fallback)
    return HeadDomainClassifier(registry.load(features), DomainHead.load(path))


def _token_maxsim(registry: ModelRegistry, encoder: Spec) -> Any:
    from agents.models.max_sim import TokenMaxSimReranker

    return TokenMaxSimReranker(registry.load(encoder))


def _blip2_coarse(registry: ModelRegistry, encoder: Spec) -> Any:
    from agents.models.blip2 import Blip2CoarseReranker

    return Blip2CoarseReranker(registry.load(encoder))


def _blip2_qformer(
    registry: ModelRegistry,
    path: str,
    max_tokens: int = 256,
    batch_size: int = 32,
    device: str = "cpu",
    dtype: str = "float32",
) -> Any:
    del registry
    from agents.models.blip2 import Blip2QFormer

    return Blip2QFormer(path, max_tokens, batch_size, device, dtype)


def _qwen3_reranker(
    registry: ModelRegistry,
    path: str,
    instruction: str,
    max_tokens: int = 1024,
    batch_size: int = 16,
    device: str = "cpu",
    dtype: str = "float32",
) -> Any:
    del registry
    from agents.models.qwen3_reranker import Qwen3Reranker

    return Qwen3Reranker(path, instruction, max_tokens, batch_size, device, dtype)


def _flag_reranker(
    registry: ModelRegistry,
    path: str,
    max_tokens: int = 512,
    batch_size: int = 32,
    device: str = "cpu",
    half: bool = False,
) -> Any:
    del registry
    from agents.models.flag_reranker import FlagEmbeddingReranker

    return FlagEmbeddingReranker(path, max_tokens, batch_size, device, half)


def _grounding_dino(
    registry: ModelRegistry,
    path: str,
    box_threshold: float = 0.35,
    text_threshold: float = 0.25,
    batch_size: int = 8,
    device: str = "cpu",
    dtype: str = "float32",
) -> Any:
    del registry
    from agents.models.grounding_dino import GroundingDinoDetector

    return GroundingDinoDetector(path, box_threshold, text_threshold, batch_size, device, dtype)


def _cam_detector(
    registry: ModelRegistry,
    encoder: Spec | None = None,
    most: int = 6,
    most_overlap: float = 0.5,
    long_side: int = 512,
    bonus: float = 0.5,
) -> Any:
    from agents.models.cam_detector import SalientObjectDetector

    network = registry.load({"kind": "efficientnet-lite2"})
    words = None if encoder is None else registry.load(encoder)
    return SalientObjectDetector(network, words, most, most_overlap, long_side, bonus=bonus)


FACTORIES: dict[str, Callable[..., Any]] = {
    "smollm2": _smollm2,
    "transformers": _transformers,
    "vllm": _vllm,
    "openai": _openai,
    "composed": _composed,
    "minilm": _minilm,
    "text-encoder": _text_encoder,
    "spacy-entities": _spacy_entities,
    "efficientnet-lite2": _efficientnet_lite2,
    "rapidocr": _rapidocr,
    "cosine": _cosine,
    "maxsim": _maxsim,
    "bm25": _bm25,
    "cross-encoder": _cross_encoder,
    "extractive-reader": _extractive_reader,
    "domain-zero-shot": _domain_zero_shot,
    "domain-features": _domain_features,
    "domain-head": _domain_head,
    "token-maxsim": _token_maxsim,
    "blip2-qformer": _blip2_qformer,
    "blip2-coarse": _blip2_coarse,
    "qwen3-reranker": _qwen3_reranker,
    "flag-reranker": _flag_reranker,
    "grounding-dino": _grounding_dino,
    "cam-detector": _cam_detector,
}
