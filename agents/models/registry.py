"""Builds models from plain settings; the kinds are in ``factories.py``.

A specification is a table of a settings file, e.g. ``{kind = "composed", text = {kind = "smollm2"}, recogniser =
{kind = "efficientnet-lite2"}, ocr = {kind = "rapidocr"}}``. Sub-models that are specified alike are loaded once.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agents.models.base import ChatModel, ModelError
from agents.models.chat.composed_vision import Describe
from agents.models.chat.reply_cache import CachedReplies, ReplyStore
from agents.models.factories import FACTORIES

Spec = Mapping[str, Any]


class ModelRegistry:
    """Loads models and keeps them, so that a model used in two places is in memory once.

    Args:
        cache: Folder for what is made from packaged weights.
        describe: Wording of what the composed chat model sees; needed for kind ``composed`` only.
        domains: Domain to description; needed for kind ``domain-zero-shot`` only.
        replies: Where replies of chat models are kept; None: every request is asked. A chat model made of other models is left as
            it is: the one inside it is asked through the cache.
    """

    def __init__(
        self,
        cache: Path,
        describe: Describe | None = None,
        domains: Mapping[str, str] | None = None,
        replies: ReplyStore | None = None,
    ) -> None:
        self.cache = cache
        self.describe = describe
        self.domains = domains
        self._replies = replies
        self._loaded: dict[str, Any] = {}

    def load(self, spec: Spec) -> Any:
        """The model of a specification: its ``kind``, the rest are options of that kind.

        Raises:
            ModelError: The kind or an option is unknown, or the model cannot be loaded.
        """
        key = json.dumps(spec, sort_keys=True, default=str)
        if key not in self._loaded:
            model = self._build(spec)
            composed = any(isinstance(value, Mapping) and "kind" in value for value in spec.values())
            if self._replies is not None and isinstance(model, ChatModel) and not composed:
                model = CachedReplies(model, self._replies, options=key)
            self._loaded[key] = model
        return self._loaded[key]

    def _build(self, spec: Spec) -> Any:
        options = dict(spec)
        kind = options.pop("kind", None)
        factory, signature = _factory(kind)
        try:
            signature.bind(**options)
        except TypeError as error:
            raise ModelError(
                f"Model kind {kind!r}: {error}; its options are: {', '.join(signature.parameters) or 'none'}."
            ) from None
        try:
            if isinstance(FACTORIES[str(kind)], str):
                return factory(**{name: self._part(value) for name, value in options.items()})
            return factory(self, **options)
        except (TypeError, ValueError, AttributeError) as error:
            raise ModelError(f"Model kind {kind!r} cannot be built from {options}: {error}") from error

    def _part(self, value: Any) -> Any:
        """An option; where it is a specification, its model."""
        return self.load(value) if isinstance(value, Mapping) and "kind" in value else value


def options_of(kind: object) -> dict[str, Any]:
    """The options of a kind that have a default, with it.

    Raises:
        ModelError: There is no such kind, or a library that it needs is missing.
    """
    parameters = _factory(kind)[1].parameters.values()
    return {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty}


def _factory(kind: object) -> tuple[Callable[..., Any], inspect.Signature]:
    """What makes a model of a kind, and the options it takes."""
    made_by = FACTORIES.get(kind) if isinstance(kind, str) else None
    if made_by is None:
        raise ModelError(f"Unknown model kind {kind!r}; known kinds: {', '.join(sorted(FACTORIES))}.")
    if isinstance(made_by, str):
        module, _, name = made_by.partition(":")
        try:
            factory: Callable[..., Any] = getattr(importlib.import_module(module), name)
        except ImportError as error:
            raise ModelError(f"Model kind {kind!r} needs a library that is not installed: {error}") from error
        return factory, inspect.signature(factory)
    signature = inspect.signature(made_by)
    return made_by, signature.replace(parameters=list(signature.parameters.values())[1:])


def load(kind: str, options: Mapping[str, Any], cache: Path, describe: Describe | None = None) -> Any:
    """One model by itself; use a ``ModelRegistry`` for several that share parts.

    Raises:
        ModelError: See ``ModelRegistry.load``.
    """
    return ModelRegistry(cache, describe).load({**options, "kind": kind})
