"""Builds models from plain settings: every kind that a specification may name, and how each is made.

A kind is one of ``KINDS``, or ``package.module:name`` of a class or function outside of this project.

A specification is a table of a settings file, e.g. ``{kind = "composed", text = {kind = "llama-cpp"}, recogniser =
{kind = "efficientnet-lite2"}, ocr = {kind = "rapidocr"}}``. Sub-models of equal specifications are loaded once.
"""

import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agents.base.named import import_object, import_path, look_up
from agents.models.base import ChatModel, Describe, ModelError
from agents.models.reply_cache import CachedReplies, ReplyStore
from agents.models.weights import digest_weights

Spec = Mapping[str, Any]

KINDS: dict[str, str] = {
    "composed": "agents.models.chat.composed_vision:ComposedVisionChat",
    "llama-cpp": "agents.models.chat.llama_cpp:LlamaCppChat",
    "openai": "agents.models.chat.openai_chat:OpenAIChat",
    "smollm2": "agents.models.chat.smollm2:load_smollm2",
    "transformers": "agents.models.chat.transformers_chat:TransformersChat.load",
    "vllm": "agents.models.chat.vllm_chat:VllmChat.load",
    "minilm": "agents.models.encoders.text_encoder:load_minilm",
    "text-encoder": "agents.models.encoders.text_encoder:TransformerTextEncoder",
    "blip2-qformer": "agents.models.encoders.blip2:Blip2QFormer",
    "cosine": "agents.models.rerankers.embedding_similarity:CosineReranker",
    "token-maxsim": "agents.models.rerankers.embedding_similarity:TokenMaxSimReranker",
    "flag-reranker": "agents.models.rerankers.flag_reranker:FlagEmbeddingReranker",
    "qwen3-reranker": "agents.models.rerankers.qwen3_reranker:Qwen3Reranker",
    "blip2-coarse": "agents.models.rerankers.blip2_coarse:Blip2CoarseReranker",
    "efficientnet-lite2": "agents.models.vision.efficientnet:EfficientNetLite2",
    "object-embedding": "agents.models.vision.object_embedding:ObjectEmbedding",
    "rapidocr": "agents.models.vision.ocr:RapidOcrReader",
    "grounding-dino": "agents.models.vision.grounding_dino:GroundingDinoDetector",
    "grab-cut": "agents.models.vision.grab_cut:GrabCutSegmenter",
    "sam": "agents.models.vision.sam:SamSegmenter",
    "salient-objects": "agents.models.vision.salient_objects:SalientObjectDetector",
    "spacy-entities": "agents.models.entities:SpacyEntities",
    "domain-zero-shot": "agents.models.domain_classifiers:ZeroShotDomainClassifier",
    "domain-features": "agents.models.domain_classifiers:EmbeddedFeatures",
    "domain-head": "agents.models.domain_classifiers:load_domain_head",
}
"""Kind to ``module:name`` of a class or function, imported when the first model of the kind is asked for.

Its parameters, except those named in ``DEPENDENCIES``, are the options of the kind. Nested specifications are loaded first, except for
factories that take ``load`` and load them themselves.
"""

PROPERTIES = ("boxes",)
"""Keys of a specification that say what a model can (``agents.base.box_forms``). Stages read them; a kind has no such option."""

DEPENDENCIES = ("cache", "describe", "domains", "load")
"""Parameters that a registry passes itself: its own arguments of these names, and the method that loads a specification."""


class ModelRegistry:
    """Loads models and keeps them, so that a model used in two places is in memory once.

    ``cache`` is for files made from packaged weights; ``describe`` is needed for kind ``composed``, ``domains`` for ``domain-zero-shot``.
    ``replies`` keeps replies of chat models; one made of other models is left as it is: the one inside it is asked through the cache.
    """

    def __init__(
        self,
        cache: Path,
        describe: Describe | None = None,
        domains: Mapping[str, str] | None = None,
        replies: ReplyStore | None = None,
    ) -> None:
        self.cache = cache
        self._dependencies = {"cache": cache, "describe": describe, "domains": domains, "load": self.load}
        self._replies = replies
        self._loaded: dict[str, Any] = {}

    def load(self, spec: Spec) -> Any:
        """Load the model of a specification, which has a ``kind`` and that kind's options.

        Raises:
            ModelError: The kind or an option is unknown, or the model cannot be loaded.
        """
        spec = drop_properties(spec)
        key = json.dumps(spec, sort_keys=True, default=str)
        if key not in self._loaded:
            model = self._build(spec)
            composed = any(_is_spec(value) for value in spec.values())
            if self._replies is not None and isinstance(model, ChatModel) and not composed:
                # Another processor may round the same weights otherwise.
                options = f"{key}{digest_weights(_weights(model, spec))}{getattr(model, 'rounding', '')}"
                model = CachedReplies(model, self._replies, options)
            self._loaded[key] = model
        return self._loaded[key]

    def _build(self, spec: Spec) -> Any:
        options = dict(spec)
        kind = options.pop("kind", None)
        factory, parameters = _factory(kind)
        public = inspect.Signature([each for each in parameters if each.name not in DEPENDENCIES])
        try:
            public.bind(**options)
        except TypeError as error:
            raise ModelError(
                f"Model kind {kind!r}: {error}; its options are: {', '.join(public.parameters) or 'none'}."
            ) from None
        dependencies = {each.name: self._dependencies[each.name] for each in parameters if each.name in DEPENDENCIES}
        missing = [name for name, value in dependencies.items() if value is None]
        if missing:
            raise ModelError(f"Model kind {kind!r} needs {', '.join(missing)}: pass it to ModelRegistry.")
        if "load" not in dependencies:
            options = {name: self.load(value) if _is_spec(value) else value for name, value in options.items()}
        try:
            return factory(**options, **dependencies)
        except (TypeError, ValueError, AttributeError) as error:
            raise ModelError(f"Model kind {kind!r} cannot be built from {dict(spec)}: {error}") from error


def drop_properties(spec: Spec) -> dict[str, Any]:
    """Return a specification without its ``PROPERTIES``: models that differ in nothing else are one."""
    return {name: value for name, value in spec.items() if name not in PROPERTIES}


def list_options(kind: object) -> dict[str, Any]:
    """Return the options of a kind that have a default, by name, with that default.

    Raises:
        ModelError: There is no such kind, or a library that it needs is missing.
    """
    return {
        each.name: each.default
        for each in _factory(kind)[1]
        if each.default is not inspect.Parameter.empty and each.name not in DEPENDENCIES
    }


def _weights(model: Any, spec: Spec) -> list[Path]:
    """Return the files and folders that a model was loaded from: those that it tells, else those that its specification names."""
    weights = getattr(model, "weights", None)
    if weights is not None:
        return list(weights)
    path = Path(str(spec["path"])).expanduser() if "path" in spec else None
    return [path] if path is not None and path.exists() else []


def _is_spec(value: Any) -> bool:
    return isinstance(value, Mapping) and "kind" in value


def _factory(kind: object) -> tuple[Callable[..., Any], list[inspect.Parameter]]:
    """Import the factory of a model kind and inspect its parameters."""
    target = look_up(kind, "model kind", ModelError, choices=KINDS, attribute="ClassName")
    place = import_path(KINDS.get(str(target), str(target)))
    assert place is not None
    factory: Callable[..., Any] = import_object(place, str(kind), "model kind", ModelError)
    try:
        return factory, list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError) as error:  # nothing that can be called, or a class of C without a signature
        raise ModelError(f"model kind {kind!r} is no class or function with named parameters: {error}") from error
