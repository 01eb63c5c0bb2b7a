"""The models of a profile by role, each loaded when it is first asked for and shared where two roles name the same one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from agents.base.box_forms import BoxForm
from agents.models.base import (
    ChatModel,
    Describe,
    Detector,
    DomainClassifier,
    EntityFinder,
    ModelError,
    MultimodalReranker,
    OcrReader,
    PictureTextMatcher,
    Reranker,
    Segmenter,
    TextEncoder,
)
from agents.models.registry import ModelRegistry
from agents.models.vision.model_boxes import measure_sent
from agents.profiles.profile import Profile

Model = TypeVar("Model")
RegistryFactory = Callable[[Path, Describe | None, Mapping[str, str] | None], ModelRegistry]


class _Role(Generic[Model]):
    """A role as an attribute of ``ModelSet``: its model, loaded when it is first asked for."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, models: ModelSet, _: type) -> Model:
        model: Model = models.get(self._name)
        return model


class ModelSet:
    """Roles to loaded models."""

    def __init__(
        self,
        profile: Profile,
        cache: Path,
        describe: Describe | None = None,  # findings of a recogniser and an OCR reader, for chat models that cannot see
        ready: Mapping[str, Any] | None = None,  # ready models by role; tests pass scripted ones
        domains: Mapping[str, str] | None = None,  # descriptions, for an untrained domain classifier
        registry: RegistryFactory = ModelRegistry,
    ) -> None:
        self._profile = profile
        self._registry = registry(cache, describe, domains)
        self._loaded: dict[str, Any] = dict(ready or {})
        self._lock = threading.RLock()

    @property
    def specifications(self) -> Mapping[str, Mapping[str, Any]]:
        """Specification of each role's model, from the profile."""
        return self._profile.models

    @property
    def sees(self) -> bool:
        """Return whether the profile's chat model is shown pictures."""
        return self._profile.sees

    @property
    def boxes(self) -> BoxForm:
        """Return the form of the chat model's boxes; ``none`` also if a probe found them wrong."""
        form = self._profile.boxes
        return "none" if form == "none" or bool(getattr(self.get("chat"), "box_fault", "")) else form

    def measure_sent(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return width and height of a picture of that size as the chat model is sent it."""
        return measure_sent(size, getattr(self.get("chat"), "max_image_side", None))

    def get(self, role: str) -> Any:
        """Return the model of a role, and load it at the first call.

        Raises:
            ModelError: The profile names no model for the role, or the model cannot be loaded.
        """
        if role in self._loaded:  # without the lock: a load that hangs must not keep other models from anyone
            return self._loaded[role]
        with self._lock:
            if role not in self._loaded:
                profile = self._profile
                if role not in profile.models:
                    choices = ", ".join(sorted(profile.models))
                    raise ModelError(
                        f"profile {profile.name!r} names no model for the role {role!r}; it has: {choices}"
                    )
                self._loaded[role] = self._registry.load(profile.models[role])
            return self._loaded[role]

    def names(self) -> dict[str, str]:
        """Names of the loaded models by role."""
        return {role: str(getattr(model, "name", type(model).__name__)) for role, model in sorted(self._loaded.items())}

    def chat(self, role: str = "chat") -> ChatModel:
        """Return the chat model of a role, which prompts name in their front matter."""
        model: ChatModel = self.get(role)
        return model

    text_encoder = _Role[TextEncoder]()
    reranker = _Role[Reranker]()
    coarse_reranker = _Role[Reranker | MultimodalReranker]()  # the first, cheap pass; it may look at the picture too
    fine_reranker = _Role[Reranker]()  # the second, careful pass over the remaining chunks
    entity_finder = _Role[EntityFinder]()
    detector = _Role[Detector]()
    segmenter = _Role[Segmenter]()
    text_reader = _Role[OcrReader]()  # the text in the photo
    matcher = _Role[PictureTextMatcher]()  # whether a crop belongs to the question
    domain_classifier = _Role[DomainClassifier]()
