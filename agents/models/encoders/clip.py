"""Image embeddings by CLIP (Radford et al., "Learning Transferable Visual Models From Natural Language Supervision", ICML 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from PIL import Image

from agents.models.base import FloatArray
from agents.models.pixels import to_rgb
from agents.models.pretrained import Pretrained


@dataclass(kw_only=True, eq=False)
class ClipImageEncoder(Pretrained):
    """An ``ImageEncoder`` over a CLIP checkpoint, such as openai/clip-vit-large-patch14-336, which the image index is built with."""

    def encode(self, images: Sequence[Image.Image]) -> FloatArray:
        """Projected embeddings, float32, shape (len(images), projection size), each of length 1.

        Raises:
            ValueError: An image cannot be decoded.
            ModelError: The checkpoint cannot be loaded.
        """
        processor, model = self._loaded
        found = np.zeros((len(images), int(model.config.projection_dim)), dtype=np.float32)
        for start in range(0, len(images), self.batch_size):
            batch = [to_rgb(image) for image in images[start : start + self.batch_size]]
            pixels = processor(batch, return_tensors="pt")["pixel_values"].to(self.device, self.torch_dtype)
            with torch.inference_mode():
                vectors = model.visual_projection(model.vision_model(pixel_values=pixels).pooler_output).float()
            found[start : start + len(batch)] = torch.nn.functional.normalize(vectors, dim=-1).cpu().numpy()
        return found

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        return self.load("image encoder", "AutoImageProcessor", "CLIPModel")
