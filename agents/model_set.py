"""The models of a profile by role, each loaded when it is first asked for and shared where two roles name the same one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agents.models.base import (
    ChatModel,
    Detector,
    DomainClassifier,
    EntityFinder,
    ModelError,
    MultimodalReranker,
    Reranker,
    TextEncoder,
)
from agents.models.chat.composed_vision import Describe
from agents.models.registry import ModelRegistry
from agents.profiles import Profile

RegistryFactory = Callable[[Path, Describe | None, Mapping[str, str] | None], ModelRegistry]


class ModelSet:
    """Roles to loaded models.

    Args:
        profile: Names the model of each role.
        cache: Folder of converted and downloaded weights.
        describe: Words for what a recogniser and an OCR reader saw, for chat models that cannot see.
        ready: Models that are there already, by role; tests pass scripted ones.
        domains: Domain to description, for a domain classifier that was not trained.
        registry: Makes the registry that loads the models, from cache, describe and domains.
    """

    def __init__(
        self,
        profile: Profile,
        cache: Path,
        describe: Describe | None = None,
        ready: Mapping[str, Any] | None = None,
        domains: Mapping[str, str] | None = None,
        registry: RegistryFactory = ModelRegistry,
    ) -> None:
        self._profile = profile
        self._registry = registry(cache, describe, domains)
        self._loaded: dict[str, Any] = dict(ready or {})
        self._lock = threading.RLock()

    @property
    def specifications(self) -> Mapping[str, Mapping[str, Any]]:
        """The profile's specification of each role's model."""
        return self._profile.models

    def get(self, role: str) -> Any:
        """The model of a role.

        Raises:
            ModelError: The profile names no model for the role, or it cannot be loaded.
        """
        if (
            role in self._loaded
        ):  # without the lock: a load that hangs must not keep the models that are there from anyone
            return self._loaded[role]
        with self._lock:
            if role not in self._loaded:
                spec = self._profile.models.get(role)
                if spec is None:
                    known = ", ".join(sorted(self._profile.models))
                    raise ModelError(
                        f"profile {self._profile.name!r} names no model for the role {role!r}; it has: {known}"
                    )
                self._loaded[role] = self._registry.load(spec)
            return self._loaded[role]

    def names(self) -> dict[str, str]:
        """Role to name of the models that are loaded."""
        return {role: str(getattr(model, "name", type(model).__name__)) for role, model in sorted(self._loaded.items())}

    def chat(self, role: str = "chat") -> ChatModel:
        """A chat model; prompts name its role in their front matter."""
        model: ChatModel = self.get(role)
        return model

    @property
    def text_encoder(self) -> TextEncoder:
        """Sentence embeddings."""
        model: TextEncoder = self.get("text_encoder")
        return model

    @property
    def reranker(self) -> Reranker:
        """Scores chunks against a question."""
        model: Reranker = self.get("reranker")
        return model

    @property
    def coarse_reranker(self) -> Reranker | MultimodalReranker:
        """The first, cheap pass over all chunks; it may look at the picture too."""
        model: Reranker | MultimodalReranker = self.get("coarse_reranker")
        return model

    @property
    def fine_reranker(self) -> Reranker:
        """The second, careful pass over the chunks that are left."""
        model: Reranker = self.get("fine_reranker")
        return model

    @property
    def entity_finder(self) -> EntityFinder:
        """Finds the names of things in texts."""
        model: EntityFinder = self.get("entity_finder")
        return model

    @property
    def detector(self) -> Detector:
        """Finds objects in images."""
        model: Detector = self.get("detector")
        return model

    @property
    def domain_classifier(self) -> DomainClassifier:
        """Says which domain a question and its picture belong to."""
        model: DomainClassifier = self.get("domain_classifier")
        return model
