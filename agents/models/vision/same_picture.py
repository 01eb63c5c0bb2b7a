"""Whether two pictures show the same thing from about the same side: SIFT features (Lowe, 2004) that a similarity maps onto each other."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from agents.base.result_cache import ResultCache
from agents.models.base import Box
from agents.models.pixels import rgb_within, to_rgb

PHOTO_SIDE = 960  # longer side in pixels at which a question's photo is compared: things in it are small
PICTURE_SIDE = 512  # of a picture of the index, which shows one thing
_PHOTO_FEATURES, _PICTURE_FEATURES = 4000, 1000  # the strongest
_KEPT_PICTURES = 1000  # features of so many are kept, 130 kB each at most
_KEPT_PHOTOS = 64  # likewise, 550 kB each: a dialog asks of one photo again and again
_RATIO = 0.8  # of the distances of nearest and second nearest feature, above which a feature is taken to be like many
_MAX_ERROR = 5.0  # pixels of the picture that a feature may lie off where the similarity maps it to
_MIN_MATCHES = 3  # two of them determine a similarity and agree with it always

Floats = npt.NDArray[np.float32]
_NO_PLACES: Floats = np.zeros((0, 2), np.float32)


@dataclass(frozen=True)
class Features:
    """Places of a picture's features in pixels, shape (n, 2), and their descriptors, shape (n, 128)."""

    places: Floats
    looks: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Matches:
    """Pairs of features that are like each other and like no other; ``here[i]`` and ``there[i]`` belong together."""

    here: Floats  # places in the photo
    there: Floats  # places in the picture that it is compared with

    def inliers(self, box: Box | None = None) -> int:
        """Count the pairs in a box of the photo (None: all of it) that the best similarity explains; 0 for fewer than three."""
        here, there = self.here, self.there
        if box is not None:
            x, y = here[:, 0], here[:, 1]
            inside = (x >= box.left) & (x < box.right) & (y >= box.top) & (y < box.bottom)
            here, there = here[inside], there[inside]
        if len(here) < _MIN_MATCHES:
            return 0
        cv2.setRNGSeed(0)
        _, inlier_mask = cv2.estimateAffinePartial2D(here, there, method=cv2.RANSAC, ransacReprojThreshold=_MAX_ERROR)
        count = 0 if inlier_mask is None else int(np.count_nonzero(inlier_mask))
        return count if count >= _MIN_MATCHES else 0


class PictureFeatures:
    """Features of the pictures of an index by URL, and of photos, kept from call to call; may be used by several threads."""

    def __init__(self) -> None:
        self._pictures: ResultCache[str, Features] = ResultCache(_KEPT_PICTURES)
        self._photos: ResultCache[str, Features] = ResultCache(_KEPT_PHOTOS)

    def get_features(
        self, urls: Iterable[str], read: Callable[[Sequence[str]], Mapping[str, Image.Image]]
    ) -> dict[str, Features]:
        """Return the features of pictures by URL, and compute missing ones.

        ``read`` is asked for the unknown pictures alone. Those that it does not find are left out.
        """
        return self._pictures.get_all(
            urls, lambda unknown: {url: extract_picture_features(picture) for url, picture in read(unknown).items()}
        )

    def get_photo_features(self, photos: Mapping[str, Image.Image]) -> dict[str, Features]:
        """Return the features of photos by their keys; unknown photos are looked at side by side.

        Raises:
            ValueError: A photo cannot be decoded.
        """

        def compute(unknown: Sequence[str]) -> dict[str, Features]:
            side_by_side = min(len(unknown), os.cpu_count() or 1)  # OpenCV works outside of Python's lock
            with ThreadPoolExecutor(side_by_side) as threads:
                return dict(zip(unknown, threads.map(extract_features, (photos[key] for key in unknown)), strict=True))

        return self._photos.get_all(photos, compute)


def extract_picture_features(picture: Image.Image) -> Features:
    """Extract the features of a picture of the index, with places at the size of the comparison.

    Five pixels are as large a part of every picture then; in those of a large picture no feature would be near enough.

    Raises:
        ValueError: The picture cannot be decoded.
    """
    return extract_features(rgb_within(picture, PICTURE_SIDE), _PICTURE_FEATURES)


def extract_features(image: Image.Image, limit: int = _PHOTO_FEATURES) -> Features:
    """Extract the strongest features of an image whose longer side is scaled down to ``PHOTO_SIDE`` pixels.

    Raises:
        ValueError: The image cannot be decoded.
    """
    image = to_rgb(image)  # upright, as the places are
    small = rgb_within(image, PHOTO_SIDE)
    keypoints, looks = cv2.SIFT.create(limit).detectAndCompute(np.asarray(small.convert("L")), None)
    if looks is None or len(keypoints) == 0:
        return Features(_NO_PLACES, np.zeros((0, 128), np.uint8))
    scale = np.asarray([image.width / small.width, image.height / small.height], np.float32)
    return Features(cv2.KeyPoint.convert(keypoints) * scale, looks.astype(np.uint8))


def match(photo: Features, picture: Features) -> Matches:
    """Match the features of a photo and a picture by Lowe's ratio test.

    Each feature of the picture is kept in its best pair alone.
    """
    if len(photo.looks) == 0 or len(picture.looks) < 2:
        return Matches(_NO_PLACES, _NO_PLACES)
    looks = photo.looks.astype(np.float32), picture.looks.astype(np.float32)
    pairs = [pair for pair in cv2.BFMatcher(cv2.NORM_L2).knnMatch(*looks, k=2) if len(pair) == 2]
    clear = [first for first, second in pairs if first.distance < _RATIO * second.distance]
    best = {each.trainIdx: each.queryIdx for each in sorted(clear, key=lambda each: -each.distance)}
    if not best:
        return Matches(_NO_PLACES, _NO_PLACES)
    return Matches(photo.places[list(best.values())], picture.places[list(best)])
