"""Conversion of PIL images for models: upright RGB within a size, a digest of the pixels, a JPEG data URL."""

import base64
import hashlib
import io
import logging
import secrets

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageCms, ImageOps

_log = logging.getLogger(__name__)

GROUND = (128, 128, 128)
"""Transparent images are composited on mid grey: both black and white drawings stay visible on it."""

JPEG_QUALITY = 90

_EXIF_ORIENTATION = 0x0112
_DEEP_MODES = ("I", "F")


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert an image to upright, opaque 8-bit RGB.

    EXIF rotation is applied (a broken EXIF block is ignored), transparency is composited on mid grey, 16-bit, 32-bit and
    floating-point grey values are scaled to 0..255, and palette, CMYK, LAB and the other modes are converted.

    Returns:
        The converted image, or the same object if it is upright, opaque RGB already.

    Raises:
        ValueError: The image has no pixels, or its data cannot be decoded (truncated or broken file).
    """
    if not isinstance(image, Image.Image):
        raise ValueError(f"not a PIL image: {type(image).__name__}")
    if 0 in image.size:
        raise ValueError(f"image has no pixels: {image.width} x {image.height}")
    try:
        image.load()
        return _opaque(_upright(image))
    except (OSError, SyntaxError, EOFError, MemoryError, ImageCms.PyCMSError) as error:
        raise ValueError(f"image cannot be decoded: {type(error).__name__}: {error}") from error


def rgb_within(image: Image.Image, max_side: int) -> Image.Image:
    """Convert an image as ``to_rgb`` does, and scale its longer side down to ``max_side`` pixels.

    An image within ``max_side`` keeps its size.

    Raises:
        ValueError: As for ``to_rgb``.
    """
    rgb = to_rgb(image)
    if max(rgb.size) > max_side:
        rgb = rgb.copy()
        rgb.thumbnail((max_side, max_side))
    return rgb


def pad_sides(rgb: Image.Image, min_side: int) -> Image.Image:
    """Center an RGB image on mid grey whose sides have at least ``min_side`` pixels; a larger image is returned as it is."""
    size = (max(rgb.width, min_side), max(rgb.height, min_side))
    if size == rgb.size:
        return rgb
    padded = Image.new("RGB", size, GROUND)
    padded.paste(rgb, ((size[0] - rgb.width) // 2, (size[1] - rgb.height) // 2))
    return padded


def _upright(image: Image.Image) -> Image.Image:
    try:
        # exif_transpose copies even where there is nothing to turn; tens of megapixels make that worth a look first.
        if image.getexif().get(_EXIF_ORIENTATION, 1) == 1:
            return image
        return ImageOps.exif_transpose(image)
    except Exception as error:  # noqa: BLE001 - Pillow raises a dozen kinds on broken EXIF; the picture itself is fine
        _log.warning("EXIF orientation ignored: %s: %s", type(error).__name__, error)
        return image


def _opaque(image: Image.Image) -> Image.Image:
    if image.mode.startswith(_DEEP_MODES):
        return _eight_bit(image).convert("RGB")
    if image.has_transparency_data:
        straight = (
            image.convert("LA") if image.mode == "La" else image
        )  # the one mode Pillow takes to RGBA in two steps
        layer = straight.convert("RGBA")
        ground = Image.new("RGBA", layer.size, (*GROUND, 255))
        return Image.alpha_composite(ground, layer).convert("RGB")
    if image.mode == "LAB":
        lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB")
        assert converted is not None  # only inPlace=True gives None
        return converted
    return image if image.mode == "RGB" else image.convert("RGB")


def _eight_bit(image: Image.Image) -> Image.Image:
    """Grey values of modes I;16*, I and F, scaled by the range that they are most likely to have."""
    values: npt.NDArray[np.float32] = np.nan_to_num(np.asarray(image).astype(np.float32), posinf=0.0, neginf=0.0)
    peak = float(values.max())
    if image.mode.startswith("I;16"):
        full = 65535.0
    elif image.mode == "F" and peak <= 1.0:
        full = 1.0
    else:
        # Modes I and F do not say their range: 8-bit and 16-bit values are the usual ones.
        full = next((limit for limit in (255.0, 65535.0) if peak <= limit), peak)
    scaled = np.clip(values * (255.0 / full), 0, 255)
    return Image.fromarray(scaled.round().astype(np.uint8), mode="L")


def pixels_digest(image: Image.Image) -> str:
    """SHA-256 of size and pixels of a picture as 8-bit RGB, in hexadecimal; ValueError: see ``to_rgb``."""
    rgb = to_rgb(image)
    digest = hashlib.sha256(f"{rgb.width}x{rgb.height}:".encode())
    digest.update(rgb.tobytes())
    return digest.hexdigest()


def picture_key(image: Image.Image) -> str:
    """Return ``pixels_digest`` of a picture; of one that cannot be decoded a key that no other picture has."""
    try:
        return pixels_digest(image)
    except ValueError:
        return f"unreadable {secrets.token_hex(16)}"


def jpeg_data_url(rgb: Image.Image, quality: int = JPEG_QUALITY) -> str:
    """Encode an RGB image as a JPEG data URL, which servers of the OpenAI protocol take."""
    buffer = io.BytesIO()
    rgb.save(buffer, format="JPEG", quality=quality)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
