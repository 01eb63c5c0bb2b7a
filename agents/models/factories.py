"""The kinds of models that a specification may name, and how each is made.

Most kinds are a class: its own parameters are the options, and an option that is a specification itself is loaded first. Kinds that
need something of the registry, or a way of loading of their own, have a function. Each imports what it needs only when it is
called: no preset pays for a model that it does not use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.models.base import ModelError

if TYPE_CHECKING:
    from agents.models.registry import ModelRegistry, Spec

_REPOSITORY = Path(__file__).resolve().parents[2]
_log = logging.getLogger(__name__)


def _smollm2(registry: ModelRegistry, dtype: str = "bfloat16", max_batch: int = 8) -> Any:
    from agents.models.chat.smollm2 import load_smollm2

    return load_smollm2(registry.cache, dtype, max_batch)


def _llama_cpp(
    registry: ModelRegistry,
    path: str | None = None,
    mmproj: str | None = None,
    context: int = 4096,
    threads: int | None = None,
    max_image_side: int = 896,
) -> Any:
    """``path`` and ``mmproj`` are files, or ``ORG/NAME/FILE`` of the local hub cache; no path: the file of ``agents.models.chat.gguf``."""
    from agents.models.chat.gguf import find, hub_file
    from agents.models.chat.llama_cpp import LlamaCppChat

    file = find(registry.cache) if path is None else hub_file(path)
    return LlamaCppChat(file, hub_file(mmproj) if mmproj else None, context, threads, max_image_side)


def _transformers(
    registry: ModelRegistry,
    path: str | None = None,
    device: str = "cpu",
    dtype: str = "auto",
    int8: bool = False,
    max_batch: int = 8,
    max_image_side: int = 1120,
) -> Any:
    """``path`` is a checkpoint or a GGUF file; no path: the file of ``agents.models.chat.gguf``. A GGUF file is converted once."""
    from agents.models.chat.gguf import find
    from agents.models.chat.gguf_checkpoint import converted
    from agents.models.chat.transformers_chat import TransformersChat

    source = str(find(registry.cache)) if path is None else path
    if source.endswith(".gguf"):
        source = str(converted(Path(source), registry.cache / "models" / Path(source).stem))
    return TransformersChat.load(source, device, dtype, int8, max_batch=max_batch, max_image_side=max_image_side)


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
    from agents.models.chat.lora_adapter import Lora
    from agents.models.chat.vllm_chat import VllmChat

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


def _composed(registry: ModelRegistry, text: Spec, recogniser: Spec, ocr: Spec, labels: int = 5) -> Any:
    from agents.models.chat.composed_vision import ComposedVisionChat

    if registry.describe is None:
        raise ModelError("Kind 'composed' needs a describe callable: pass it to ModelRegistry.")
    parts = (registry.load(text), registry.load(recogniser), registry.load(ocr))
    return ComposedVisionChat(*parts, registry.describe, labels)


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


def _domain_head(registry: ModelRegistry, head: str, features: Spec, fallback: Spec | None = None) -> Any:
    """``head`` is a path without extension, relative to the repository root; without such files the fallback classifies."""
    from agents.models.domain_head import DomainHead, HeadDomainClassifier, head_files

    path = _REPOSITORY / head
    if fallback is not None and not any(file.exists() for file in head_files(path)):
        _log.warning("there is no domain head %s; domains are classified by %s", path, fallback.get("kind"))
        return registry.load(fallback)
    return HeadDomainClassifier(registry.load(features), DomainHead.load(path))


def _cam_detector(
    registry: ModelRegistry,
    encoder: Spec | None = None,
    most: int = 6,
    most_overlap: float = 0.5,
    long_side: int = 512,
    bonus: float = 0.5,
) -> Any:
    from agents.models.vision.salient_objects import SalientObjectDetector

    network = registry.load({"kind": "efficientnet-lite2"})
    words = None if encoder is None else registry.load(encoder)
    return SalientObjectDetector(network, words, most, most_overlap, long_side, bonus=bonus)


FACTORIES: dict[str, str | Callable[..., Any]] = {
    "smollm2": _smollm2,
    "llama-cpp": _llama_cpp,
    "transformers": _transformers,
    "vllm": _vllm,
    "openai": "agents.models.chat.openai_chat:OpenAIChat",
    "composed": _composed,
    "minilm": "agents.models.encoders.minilm:load_minilm",
    "text-encoder": "agents.models.encoders.text_encoder:TransformerTextEncoder",
    "clip": "agents.models.encoders.clip:ClipImageEncoder",
    "efficientnet-lite2": "agents.models.vision.efficientnet:EfficientNetLite2",
    "rapidocr": "agents.models.vision.ocr:RapidOcrReader",
    "spacy-entities": "agents.models.entities:SpacyEntities",
    "bm25": "agents.models.rerankers.lexical_reranker:LexicalReranker",
    "cosine": "agents.models.rerankers.embedding_similarity:CosineReranker",
    "maxsim": "agents.models.rerankers.embedding_similarity:MaxSimReranker",
    "token-maxsim": "agents.models.rerankers.max_sim:TokenMaxSimReranker",
    "cross-encoder": "agents.models.rerankers.cross_encoder:CrossEncoderReranker",
    "flag-reranker": "agents.models.rerankers.flag_reranker:FlagEmbeddingReranker",
    "qwen3-reranker": "agents.models.rerankers.qwen3_reranker:Qwen3Reranker",
    "blip2-qformer": "agents.models.encoders.blip2:Blip2QFormer",
    "blip2-coarse": "agents.models.encoders.blip2:Blip2CoarseReranker",
    "domain-zero-shot": _domain_zero_shot,
    "domain-features": "agents.models.domain_features:EmbeddedFeatures",
    "domain-head": _domain_head,
    "grounding-dino": "agents.models.vision.grounding_dino:GroundingDinoDetector",
    "cam-detector": _cam_detector,
}
"""Kind to ``module:name``, or to a function that takes the registry first."""
