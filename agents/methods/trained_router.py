"""The trained search router: a linear head over the features of a draft (``python -m training.search_router`` fits it)."""

from __future__ import annotations

from typing import ClassVar, Self, cast, get_args

import numpy as np
from pydantic import model_validator

from agents.linear_head import LinearHead, known_names
from agents.methods.routing import FEATURE_NAMES, TraceFeatures
from agents.turn import Route


class TrainedRouter(LinearHead):
    """A ``Router``: ``features`` are names of ``TraceFeatures``, ``classes`` the branches."""

    what: ClassVar[str] = "router"
    how: ClassVar[str] = "fit it again with python -m training.search_router"

    features: tuple[str, ...]

    @model_validator(mode="after")
    def _known(self) -> Self:
        known_names(self.features, FEATURE_NAMES, "features")
        known_names(self.classes, get_args(Route), "branches")
        return self

    def route(self, features: TraceFeatures) -> Route:
        """The likeliest branch; a turn without draft is always ``rag``."""
        if not features.has_draft:
            return "rag"
        values = features.as_dict()
        return cast(Route, self.predict(np.array([[values[name] for name in self.features]]))[0])
