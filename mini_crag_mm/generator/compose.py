"""Composition of the question photos: objects and texts on a background, seen through a camera.

Needs mini_crag_mm/photos, mini_crag_mm/other_photos and mini_crag_mm/textures, and the image encoder of the embedded profile (likeness.py);
writes mini_crag_mm/scenes/SCENE.webp and mini_crag_mm/scenes/layout.json. A scene depends on its entry in
scenes.yaml and on its photos alone, its random choices on its id; unchanged scenes are left as they are.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from PIL import Image, ImageDraw, ImageOps
from tqdm import tqdm

from agents.base.files import write_whole
from mini_crag_mm.content_models import FrameStyle, PhotoBackground, PlacedObject, Scene
from mini_crag_mm.generator.altered import alter
from mini_crag_mm.generator.backgrounds import FLAT, Stage, cast_shadow, fill_with_photo, find_shelf_levels, paint
from mini_crag_mm.generator.camera import aim, expose
from mini_crag_mm.generator.lettering import print_text
from mini_crag_mm.generator.noise import make_generator
from mini_crag_mm.loader import SetPaths, flatten_photo, read_layout

# Raise this when the composer itself changes, so that all scenes are composed again.
COMPOSER_VERSION = 5
# The canvas reaches beyond the frame by this fraction, enough for 15 degrees of tilt.
MARGIN = 0.2
SCENE_QUALITIES = (78, 70, 62, 54, 46)
LARGEST_SCENE_BYTES = 60_000
# Pixels of a mask at least this bright (of 255) belong to the object's box.
IN_BOX = 64
# Groups whose things look as natural the other way round: no lettering, no building that everybody knows.
MIRRORED_GROUPS = ("ani", "nat")
# Where a cut-out stands that takes the place of a photograph filling the frame.
CUT_OUT_BOX = (0.14, 0.1, 0.72, 0.8)

Shadow = Literal["contact", "drop", "none"]


class ComposeError(ValueError):
    """A scene cannot be composed, for instance because a photo is missing."""


@dataclass(frozen=True)
class Layer:
    """An RGBA image pasted on the canvas, its upper left corner in canvas pixels, and its shadow."""

    name: str
    kind: Literal["entity", "text"]
    image: Image.Image
    at: tuple[int, int]
    shadow: Shadow

    @property
    def foot(self) -> float:
        """Row of the lower edge."""
        return float(self.at[1] + self.image.height)

    def mask(self, size: tuple[int, int]) -> Image.Image:
        """Return the mask of what the layer covers on a canvas of `size`."""
        mask = Image.new("L", size)
        mask.paste(self.image.getchannel("A"), self.at)
        return mask


@dataclass
class Layout:
    """Positions of everything in the finished picture; boxes are [left, top, width, height] in pixels.

    `shown` is the share of an object inside the frame, `covered` the share of that hidden by later objects.
    """

    size: tuple[int, int]
    objects: list[dict[str, Any]] = field(default_factory=list)
    texts: list[dict[str, Any]] = field(default_factory=list)


def _frame(photo: Image.Image, frame: FrameStyle, width: int, height: int) -> Image.Image:
    """Fit a photo into width x height pixels, in RGBA, with a postcard's border or a poster's frame."""
    if frame == "none":
        return ImageOps.contain(photo.convert("RGBA"), (width, height), Image.Resampling.LANCZOS)
    if photo.mode == "RGBA":
        # A cut-out printed on card: it gets the pale ground that it would have in print.
        ground = Image.new("RGBA", (int(photo.width * 1.16), int(photo.height * 1.16)), (236, 232, 222, 255))
        ground.alpha_composite(photo, ((ground.width - photo.width) // 2, (ground.height - photo.height) // 2))
        photo = ground
    edge = max(4, round(min(width, height) * (0.035 if frame == "postcard" else 0.028)))
    space = (max(8, width - 2 * edge), max(8, height - 2 * edge))
    inner = ImageOps.contain(photo.convert("RGB"), space, Image.Resampling.LANCZOS)
    if frame == "postcard":
        return ImageOps.expand(inner, edge, (247, 245, 238)).convert("RGBA")
    framed = ImageOps.expand(inner, edge, (38, 32, 28)).convert("RGBA")
    draw = ImageDraw.Draw(framed, "RGBA")
    draw.rectangle((0, 0, framed.width - 1, framed.height - 1), outline=(92, 80, 68, 255), width=max(1, edge // 4))
    bevel = (edge - 2, edge - 2, framed.width - edge + 1, framed.height - edge + 1)
    draw.rectangle(bevel, outline=(12, 10, 8, 255), width=2)
    return framed


def _is_standing(scene: Scene, placed: PlacedObject, photo: Image.Image) -> bool:
    """Return whether the object rests on a ground by its lower edge."""
    if isinstance(scene.background, PhotoBackground) or scene.background == "wall":
        return photo.mode == "RGBA" and placed.frame == "none"
    return scene.background not in FLAT and scene.background != "sky"


def _place(scene: Scene, placed: PlacedObject, photo: Image.Image, margin: tuple[int, int]) -> Layer:
    """Size, turn and position one object."""
    left, top, wide, high = (fraction * side for fraction, side in zip(placed.box, scene.size * 2, strict=True))
    image = ImageOps.mirror(photo) if placed.flip else photo
    image = _frame(image, placed.frame, max(8, round(wide)), max(8, round(high)))
    if placed.rotate:
        # The clear rim lets the edges be smoothed; without it they would turn out as stairs.
        image = ImageOps.expand(image, 2, (0, 0, 0, 0)).rotate(placed.rotate, Image.Resampling.BICUBIC, expand=True)
    x = margin[0] + left + (wide - image.width) / 2
    # Standing things keep their feet on the lower edge of the box; the others float in its middle.
    stands, slack = _is_standing(scene, placed, photo), high - image.height
    y = margin[1] + top + (slack if stands else slack / 2)
    floating: Shadow = "none" if scene.background == "sky" and photo.mode == "RGBA" else "drop"
    return Layer(placed.entity, "entity", image, (round(x), round(y)), "contact" if stands else floating)


def _lower_to_boards(objects: list[Layer], levels: list[float]) -> list[Layer]:
    """Lower standing objects to the board below their feet."""
    lowered = []
    for layer in objects:
        below = [level for level in levels if level >= layer.foot]
        drop = round(min(below) - layer.foot) if below and layer.shadow == "contact" else 0
        lowered.append(replace(layer, at=(layer.at[0], layer.at[1] + drop)))
    return lowered


def _print(scene: Scene, number: int, margin: tuple[int, int]) -> Layer:
    """Print and position the `number`-th text."""
    text = scene.texts[number]
    left, top, wide, high = (fraction * side for fraction, side in zip(text.box, scene.size * 2, strict=True))
    rng = make_generator(f"{scene.id}/text/{number}")
    image = print_text(text.text, text.style, max(16, round(wide)), max(12, round(high)), rng)
    shadow: Shadow = "none" if scene.background == "sky" else "drop"
    return Layer(text.text, "text", image, (round(margin[0] + left), round(margin[1] + top)), shadow)


def _cast(canvas: Image.Image, layer: Layer, light: float) -> None:
    """Draw the layer's shadow; `light` from -1 to 1 says from which side the light comes."""
    if layer.shadow == "none":
        return
    alpha = layer.image.getchannel("A")
    width, height = alpha.size
    left, top = layer.at
    if layer.shadow == "drop":
        reach = max(3, round(0.018 * min(canvas.size)))
        cast_shadow(canvas, alpha, (left - round(light * reach), top + reach), 120, (10, 8, 8), reach * 0.8)
        return
    # On the ground: the outline, pressed flat and lying at the feet, and a narrow dark line right under them.
    flat = alpha.resize((width, max(3, round(height * 0.16))), Image.Resampling.BILINEAR)
    at = left - round(light * width * 0.08), top + height - round(flat.height * 0.72)
    cast_shadow(canvas, flat, at, 110, (8, 8, 6), max(2.0, width * 0.018))
    feet = alpha.crop((0, round(height * 0.94), width, height)).resize((width, max(2, round(height * 0.03))))
    at = left, top + height - round(feet.height * 0.6)
    cast_shadow(canvas, feet, at, 150, (6, 6, 4), max(1.0, height * 0.006))


def _draw_posts(canvas: Image.Image, scene: Scene, layers: list[Layer]) -> None:
    """Draw posts under signs that would otherwise hang in the air."""
    if scene.background not in ("street", "grass", "sand"):
        return
    draw = ImageDraw.Draw(canvas)
    for layer, text in zip(layers, scene.texts, strict=True):
        if text.style != "sign":
            continue
        thick = max(4, canvas.width // 130)
        middle = layer.at[0] + layer.image.width // 2
        draw.rectangle((middle - thick, layer.at[1] + 4, middle + thick, canvas.height), fill=(112, 114, 116))
        draw.rectangle((middle + thick // 3, layer.at[1] + 4, middle + thick, canvas.height), fill=(78, 80, 82))


def _compute_share(part: float, whole: float) -> float:
    return round(min(1.0, part / whole), 3) if whole > 0 else 0.0


@dataclass(frozen=True)
class Subject:
    """A thing of a scene; `same_photo`: its photograph is the graph's and has to be altered."""

    entity: str
    photo: Image.Image
    same_photo: bool
    mirror: bool
    seed: str

    def render(self, strength: float) -> Image.Image:
        """Return the photograph as the scene shows it; one by another camera stays as it is."""
        return alter(self.photo, strength, self.seed, self.mirror) if self.same_photo else self.photo


@dataclass(frozen=True)
class Studio:
    """Parts of a scene that are loaded once and rendered repeatedly.

    They are the subjects in drawing order, the printed texts and the ground. `ground` is None if a photograph fills the frame.
    """

    scene: Scene
    subjects: tuple[Subject, ...]
    texts: tuple[Layer, ...]
    ground: Image.Image | None
    margin: tuple[int, int]
    light: float


def _open_photo(path: Path, where: str) -> Image.Image:
    try:
        with Image.open(path) as photo:
            return photo.copy()
    except OSError as error:
        raise ComposeError(f"{where}: photo of {path.stem}: {error}") from error


def _arrange_other_photos(scene: Scene, modes: Mapping[str, tuple[str, str]]) -> Scene:
    """Rearrange a scene for second photographs of another kind.

    A whole photograph that replaces a cut-out fills the frame if nothing else is visible, and is a print otherwise.
    A cut-out that replaces a whole photograph stands on grass.

    Args:
        scene: The scene as written.
        modes: Entity -> image mode of the graph's photograph, and of the shown one.
    """
    objects = tuple(
        placed.model_copy(update={"frame": "postcard"})
        if placed.frame == "none" and modes[placed.entity] == ("RGBA", "RGB")
        else placed
        for placed in scene.objects
    )
    if isinstance(scene.background, PhotoBackground):
        if modes[scene.background.photo] != ("RGB", "RGBA"):
            return scene.model_copy(update={"objects": objects})
        standing = PlacedObject(entity=scene.background.photo, box=CUT_OUT_BOX)
        return scene.model_copy(update={"background": "grass", "objects": (standing, *objects)})
    if len(objects) == 1 and not scene.texts and objects[0].frame != scene.objects[0].frame:
        return scene.model_copy(update={"background": PhotoBackground(photo=objects[0].entity), "objects": ()})
    return scene.model_copy(update={"objects": objects})


def set_up(scene: Scene, paths: SetPaths) -> Studio:
    """Load everything of a scene, with photographs not yet altered.

    Raises:
        ComposeError: A photo is missing.
    """
    photos: dict[str, Image.Image] = {}
    modes: dict[str, tuple[str, str]] = {}
    other = {entity for entity in scene.entity_ids() if (paths.other_photos / f"{entity}.webp").exists()}
    for entity in set(scene.entity_ids()):
        graph_photo = _open_photo(paths.photos / f"{entity}.webp", scene.where)
        scene_photo = (
            _open_photo(paths.other_photos / f"{entity}.webp", scene.where) if entity in other else graph_photo
        )
        photos[entity], modes[entity] = scene_photo, (graph_photo.mode, scene_photo.mode)
    scene = _arrange_other_photos(scene, modes)
    mirror = scene.origin.split("/")[0] in MIRRORED_GROUPS
    subjects = tuple(
        Subject(entity, photos[entity], entity not in other, mirror, f"{scene.id}/{number}/{entity}")
        for number, entity in enumerate(scene.entity_ids())
    )
    margin = (round(scene.size[0] * MARGIN), round(scene.size[1] * MARGIN))
    rng = make_generator(f"{scene.id}/scene")
    ground = None
    if not isinstance(scene.background, PhotoBackground):
        size = (scene.size[0] + 2 * margin[0], scene.size[1] + 2 * margin[1])
        placed = [_place(scene, each, photos[each.entity], margin) for each in scene.objects]
        feet = tuple(layer.foot for layer in placed if layer.shadow == "contact")
        ground = paint(scene.background, Stage(*size, feet, paths.textures, rng))
    texts = tuple(_print(scene, number, margin) for number in range(len(scene.texts)))
    return Studio(scene, subjects, texts, ground, margin, float(rng.uniform(-1, 1)))


def take(studio: Studio, strengths: Sequence[float]) -> tuple[Image.Image, Layout]:
    """Render the finished picture and its layout.

    Args:
        studio: The loaded scene.
        strengths: Strength of alteration for each subject, 0 for none.

    Raises:
        ComposeError: A thing lies outside the frame.
    """
    scene, margin, texts = studio.scene, studio.margin, list(studio.texts)
    photos = [subject.render(strength) for subject, strength in zip(studio.subjects, strengths, strict=True)]
    background: list[Layer] = []
    if studio.ground is None:
        canvas = fill_with_photo(flatten_photo(photos.pop(0)), scene.size, margin)
        whole = Image.new("RGBA", scene.size, (0, 0, 0, 255))
        background = [Layer(studio.subjects[0].entity, "entity", whole, margin, "none")]
    else:
        canvas = studio.ground.copy()
    objects = [_place(scene, placed, photo, margin) for placed, photo in zip(scene.objects, photos, strict=True)]
    if scene.background == "shelf":
        feet = tuple(layer.foot for layer in objects if layer.shadow == "contact")
        objects = _lower_to_boards(objects, find_shelf_levels(feet, canvas.height))

    # Later ones cover earlier ones; printed things lie on top.
    layers = objects + texts
    all_layers = background + layers
    _draw_posts(canvas, scene, texts)
    for layer in layers:
        _cast(canvas, layer, studio.light)
        canvas.paste(layer.image, layer.at, layer.image)

    view = aim(scene.size, margin, scene.effects, make_generator(f"{scene.id}/hand") if scene.egocentric else None)
    picture = expose(
        view.see(canvas), scene.effects, view.enlargement, make_generator(f"{scene.id}/film"), scene.egocentric
    )

    layout = Layout(view.size)
    masks = [layer.mask(canvas.size) for layer in all_layers]
    views = [np.asarray(view.see(mask)) >= IN_BOX for mask in masks]
    for number, (layer, inside) in enumerate(zip(all_layers, views, strict=True)):
        rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
        if not len(rows):
            raise ComposeError(f"{scene.where}: {layer.name!r} lies outside the frame")
        hidden = np.zeros_like(inside)
        for later in views[number + 1 :]:
            hidden |= later
        whole_px = int((np.asarray(masks[number]) >= IN_BOX).sum()) * view.enlargement**2
        entry: dict[str, Any] = {
            layer.kind: layer.name,
            "box": [int(columns[0]), int(rows[0]), int(columns[-1] - columns[0] + 1), int(rows[-1] - rows[0] + 1)],
            "shown": _compute_share(int(inside.sum()), whole_px),
            "covered": _compute_share(int((inside & hidden).sum()), int(inside.sum())),
        }
        if layer.kind == "entity":
            entry |= {"same_photo": studio.subjects[number].same_photo, "strength": round(strengths[number], 3)}
        (layout.objects if layer.kind == "entity" else layout.texts).append(entry)
    return picture, layout


def encode_scene(picture: Image.Image) -> bytes:
    """Encode as WebP, in the best quality that keeps to the size limit, or in the lowest."""
    for quality in SCENE_QUALITIES:
        buffer = io.BytesIO()
        picture.save(buffer, format="WEBP", quality=quality, method=5)
        if buffer.tell() <= LARGEST_SCENE_BYTES:
            break
    return buffer.getvalue()


def compute_fingerprint(scene: Scene, paths: SetPaths) -> str:
    """Compute the hash of all that a scene is made of."""
    digest = hashlib.sha256(f"{COMPOSER_VERSION}\n{scene.model_dump_json()}\n".encode())
    for entity in sorted(set(scene.entity_ids())):
        for folder in (paths.photos, paths.other_photos):
            photo = folder / f"{entity}.webp"
            digest.update(photo.read_bytes() if photo.exists() else b"missing")
    return digest.hexdigest()[:16]


def _write_layout(path: Path, layouts: dict[str, dict[str, Any]]) -> None:
    """Write one line a scene, so that a change of one scene is a change of one line."""
    lines = [f"{json.dumps(scene)}: {json.dumps(layouts[scene], ensure_ascii=False)}" for scene in sorted(layouts)]
    write_whole(path, "{\n" + ",\n".join(lines) + "\n}\n")


Composer = Callable[[Scene, SetPaths], tuple[Image.Image, Layout]]


def _compose_encoded(composed: Composer, scene: Scene, paths: SetPaths) -> tuple[bytes, Layout] | str:
    """Compose a scene; return the encoded picture and its layout, or the problem with the scene."""
    try:
        picture, layout = composed(scene, paths)
    except ComposeError as error:
        return str(error)
    return encode_scene(picture), layout


def build_scenes(scenes: list[Scene], paths: SetPaths, force: bool, composed: Composer, workers: int = 1) -> list[str]:
    """Compose what has changed, remove scenes that are gone, and return the problems, one line each.

    Args:
        scenes: All scenes of the content.
        paths: Files of the set.
        force: Whether to compose unchanged scenes too.
        composed: Composes a scene; with several workers it must be a plain function.
        workers: Number of processes.
    """
    problems = []
    fingerprints = {scene.id: compute_fingerprint(scene, paths) for scene in scenes}
    layouts = {scene: entry for scene, entry in read_layout(paths.layout).items() if scene in fingerprints}
    current_scenes = set()
    for picture in paths.scenes.glob("*.webp"):
        if picture.stem not in fingerprints:
            picture.unlink()
        elif not force and layouts.get(picture.stem, {}).get("made_from") == fingerprints[picture.stem]:
            current_scenes.add(picture.stem)
    changed = [scene for scene in scenes if scene.id not in current_scenes]
    parallel = Parallel(n_jobs=min(workers, max(1, len(changed))), return_as="generator")
    pictures = parallel(delayed(_compose_encoded)(composed, scene, paths) for scene in changed)
    results = zip(changed, pictures, strict=True)
    for scene, result in tqdm(results, total=len(changed), desc="scenes", unit="scene", disable=None):
        if isinstance(result, str):
            problems.append(result)
            continue
        encoded, layout = result
        write_whole(paths.scenes / f"{scene.id}.webp", encoded)
        layouts[scene.id] = {"made_from": fingerprints[scene.id], **asdict(layout)}
        _write_layout(paths.layout, layouts)  # each time, so that a killed run is resumed
    _write_layout(paths.layout, layouts)
    return problems
