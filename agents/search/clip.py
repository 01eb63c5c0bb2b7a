"""Image encoders with the interface of CLIP, as the organiser's pipeline calls it: CLIP itself, EfficientNet-Lite2, a stub."""

import functools
import hashlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from PIL import Image

from agents.models.vision.efficientnet import MEAN, SCALE, SIDE, EfficientNetLite2
from agents.models.vision.object_embedding import MEAN_FILE, MIDDLE, ObjectEmbedding


def tensor_image_features(model: Any) -> Any:
    """Make a CLIP model's ``get_image_features`` return a tensor of shape (images, dimensions).

    ``cragmm_search`` divides what it gets by its norm. Under transformers 5 that is a ``BaseModelOutputWithPooling`` whose
    ``pooler_output`` has the projected features; 4 returned these alone. Only this one instance changes. Call it on a pipeline's
    ``image_model`` after it was constructed, and on a model that an index is built with.

    Returns:
        The same model.
    """
    whole = model.get_image_features
    if getattr(whole, "returns_tensor", False):
        return model

    @functools.wraps(whole)
    def features(*args: Any, **kwargs: Any) -> Any:
        output = whole(*args, **kwargs)
        return output if hasattr(output, "norm") else output.pooler_output

    features.returns_tensor = True  # type: ignore[attr-defined]
    model.get_image_features = features
    return model


SHARED_COSINE = 2 / 3
"""The common part of the embeddings of any two pictures: cosines of ``ObjectEmbedding``, c, become s + (1 - s) c.

CLIP's embeddings are in a narrow cone (Liang et al. 2022, "Mind the gap", section 2), so that the cosine of two unrelated pictures is
well above 0, and the cuts of the research release (0.75) and of task 2's winner (0.725, 0.8) are made for such cosines.
``ObjectEmbedding`` takes the common direction away; a component common to all pictures puts one back. The order of the
pictures stays. With 2/3 the first hits above the release's cut are right about as often as wrong on validation (lab/notes/retrieval.md).
"""


class EfficientNetImageModel:
    """Has the parts of a ``CLIPModel`` that the organiser uses."""

    def __init__(self, device: str = "cpu") -> None:
        self.network = EfficientNetLite2(device=device)
        self.device = self.network.device
        self._embedding = ObjectEmbedding(self.network)

    def get_image_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Embeddings, shape (n, 1281), the last component the same for all; the organiser brings them to length 1."""
        shared = (SHARED_COSINE / (1 - SHARED_COSINE)) ** 0.5
        return torch.nn.functional.pad(self._embedding.embed(pixel_values), (0, 1), value=shared)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the weights by name."""
        return self.network.state_dict()


class EfficientNetImageProcessor:
    """Has the parts of a ``CLIPProcessor`` that the organiser uses; takes images of any mode and size."""

    def __init__(self, model: EfficientNetImageModel) -> None:
        self._network = model.network

    def __call__(self, images: Image.Image | Sequence[Image.Image], **options: Any) -> dict[str, torch.Tensor]:
        """``{"pixel_values": tensor of shape (n, 3, 260, 260)}``; CLIP's options have no meaning here; ValueError for a broken image."""
        del options
        batch = [images] if isinstance(images, Image.Image) else list(images)
        return {"pixel_values": self._network.pixel_values(batch)}

    def to_dict(self) -> dict[str, Any]:
        """Return how images are prepared and embedded, as part of an index's identity."""
        mean = hashlib.sha256(MEAN_FILE.read_bytes()).hexdigest()
        prepared = {"side": SIDE, "mean": MEAN, "scale": SCALE, "resize": "whole image, bicubic"}
        return {**prepared, "mirrored": True, "middle": MIDDLE, "mean_embedding": mean, "shared_cosine": SHARED_COSINE}


def stand_in_clip(folder: Path) -> Path:
    """Create the checkpoint in a folder, unless the folder exists already.

    Returns:
        The folder.

    Raises:
        OSError: The file system refuses.
    """
    # An existing folder is whole, since it came by a rename. No lock could be taken in a read-only cache.
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".stand-in-clip-") as work:
                checkpoint = Path(work) / "checkpoint"
                checkpoint.mkdir()
                save_tiny_clip(checkpoint)
                checkpoint.rename(folder)
    return folder


_TINY_SIDE = 32  # pixels a side of the pictures of the tiny CLIP


def save_tiny_clip(folder: Path, seed: int = 0) -> None:
    """Write a random CLIP model with its processor into an existing folder; tests run the CLIP path on it."""
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, CLIPTokenizerFast

    vocabulary = {token: index for index, token in enumerate(("<|startoftext|>", "<|endoftext|>", "a", "a</w>"))}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    layers = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = CLIPConfig(
        text_config={**layers, "vocab_size": len(vocabulary), "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1},
        vision_config={**layers, "image_size": _TINY_SIDE, "patch_size": 8},
        projection_dim=16,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        CLIPModel(config).save_pretrained(folder)
    processor = CLIPProcessor(
        CLIPImageProcessor(size={"shortest_edge": _TINY_SIDE}, crop_size={"height": _TINY_SIDE, "width": _TINY_SIDE}),
        CLIPTokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt")),
    )
    processor.save_pretrained(folder)
