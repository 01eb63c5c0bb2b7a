"""What the organiser's search code, written for transformers 4, needs under transformers 5."""

from __future__ import annotations

import functools
from typing import Any


def tensor_image_features(model: Any) -> Any:
    """The same CLIP model, whose ``get_image_features`` returns a tensor of shape (images, dimensions).

    ``cragmm_search`` divides what it gets by its norm. Under transformers 5 that is a ``BaseModelOutputWithPooling``
    whose ``pooler_output`` holds the projected features; 4 returned these alone. Only this one instance changes, and
    a model that returns a tensor stays as it is in effect.

    Call it on a pipeline's ``image_model`` after it was constructed, and on a model that an index is built with.
    """
    whole = model.get_image_features
    if getattr(whole, "returns_tensor", False):
        return model

    @functools.wraps(whole)
    def features(*args: Any, **kwargs: Any) -> Any:
        found = whole(*args, **kwargs)
        return found if hasattr(found, "norm") else found.pooler_output

    features.returns_tensor = True  # type: ignore[attr-defined]
    model.get_image_features = features
    return model
