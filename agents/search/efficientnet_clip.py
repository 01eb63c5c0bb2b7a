"""EfficientNet-Lite2 in the shape of CLIP: what the organiser's pipeline expects as image model and processor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image

from agents.models.vision.efficientnet import MEAN, SCALE, SIDE, EfficientNetLite2


class EfficientNetImageModel:
    """Has the parts of a ``CLIPModel`` that the organiser uses.

    Args:
        device: ``cpu``, ``cuda`` ...
    """

    def __init__(self, device: str = "cpu") -> None:
        self.network = EfficientNetLite2(device=device)

    @property
    def device(self) -> torch.device:
        """Where the network runs."""
        return self.network.device

    def get_image_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Pooled features, shape (n, 1280); the organiser brings them to length 1."""
        return self.network.pooled_features(pixel_values)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The weights by name."""
        return self.network.state_dict()


class EfficientNetImageProcessor:
    """Has the parts of a ``CLIPProcessor`` that the organiser uses; takes images of any mode and size.

    Args:
        model: The model that it prepares images for.
    """

    def __init__(self, model: EfficientNetImageModel) -> None:
        self._network = model.network

    def __call__(self, images: Image.Image | Sequence[Image.Image], **options: Any) -> dict[str, torch.Tensor]:
        """``{"pixel_values": tensor of shape (n, 3, 260, 260)}``; the options of CLIP's processor have no meaning here.

        Raises:
            ValueError: An image cannot be decoded.
        """
        del options
        batch = [images] if isinstance(images, Image.Image) else list(images)
        return {"pixel_values": self._network.pixel_values(batch)}

    def to_dict(self) -> dict[str, Any]:
        """How images are prepared; part of an index's identity."""
        return {"side": SIDE, "mean": MEAN, "scale": SCALE, "resize": "whole image, bicubic", "version": 1}
