"""Surroundings of a composed scene: a table, a lawn, a street and so on, seen as a person sees them.

A background is drawn on a canvas larger than the frame, so that the camera can tilt without showing an edge. All
measures are canvas pixels. `Stage.horizon` says where a ground begins on which things stand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from mini_crag_mm.content_models import SceneryName
from mini_crag_mm.generator.noise import Array, fractal, grain, smooth, tint, to_image, vertical


@dataclass(frozen=True)
class Stage:
    """Facts that a background must suit: its size, and the lower edges of the things on it, in pixels."""

    width: int
    height: int
    feet: tuple[float, ...]
    textures: Path
    rng: np.random.Generator

    def horizon(self, usual: float) -> int:
        """Return the row where the ground begins, above the highest foot.

        It is at the `usual` fraction of the height unless a foot is higher.
        """
        lowest = min(self.feet, default=float(self.height)) - 0.07 * self.height
        return int(max(0.12 * self.height, min(usual * self.height, lowest)))

    def texture(self, name: str) -> Array:
        """Read a grey texture photograph, in 0..1."""
        with Image.open(self.textures / f"{name}.webp") as image:
            return np.asarray(image.convert("L"), dtype=np.float32) / 255.0


def _to_colour(values: Array) -> tuple[int, int, int]:
    """Convert three numbers to a colour of PIL."""
    red, green, blue = (int(min(255.0, max(0.0, float(value)))) for value in values)
    return red, green, blue


def _mirror(texture: Array) -> Array:
    """Join a texture with its mirror images, so that it tiles without seams."""
    wide = np.concatenate([texture, texture[:, ::-1]], axis=1)
    return np.concatenate([wide, wide[::-1]], axis=0)


def _ground_plane(texture: Array, width: int, height: int, depth: float, scale: float) -> Array:
    """Lay `texture` on the ground, seen towards a horizon at the upper edge.

    `depth` is how many times nearer the lower edge is than the upper; `scale` is texture pixels per canvas pixel at
    the lower edge. Far rows are taken from blurred copies, or they would flicker with moire.
    """
    tile = _mirror(texture)
    rows = np.linspace(0, 1, height, dtype=np.float32)
    distance = depth / (1 + (depth - 1) * rows)
    across = (np.arange(width, dtype=np.float32) - width / 2)[None, :] * distance[:, None] * scale
    away = np.repeat((-height * scale * (distance - 1) * 1.3)[:, None], width, axis=1)
    columns = np.mod(across, tile.shape[1]).astype(np.int32)
    lines = np.mod(away, tile.shape[0]).astype(np.int32)
    plane = np.zeros((height, width), dtype=np.float32)
    weight_left = np.ones(height, dtype=np.float32)
    for level in range(5):
        blurred = _blur(Image.fromarray((tile * 255).astype(np.uint8)), 0.6 * 2**level)
        sampled = (blurred / 255)[lines, columns]
        near = np.clip(2 - distance * scale / 2**level, 0, 1) if level < 4 else np.ones_like(distance)
        weight = weight_left * near
        plane += sampled * weight[:, None]
        weight_left = weight_left - weight
    return plane


def _stack(upper: Array, lower: Array) -> Image.Image:
    """Stack the upper part on the lower part."""
    return to_image(np.concatenate([upper, lower], axis=0))


def _soft_edge(image: Image.Image, row: int, radius: float) -> Image.Image:
    """Blur a band around `row`, where two surfaces meet."""
    band = 3 * int(radius) + 2
    box = (0, max(0, row - band), image.width, min(image.height, row + band))
    image.paste(image.crop(box).filter(ImageFilter.GaussianBlur(radius)), box[:2])
    return image


def _blur(image: Image.Image, radius: float) -> Array:
    """Return the colours of a blurred image, H x W x 3 or, for a grey one, H x W."""
    return np.asarray(image.filter(ImageFilter.GaussianBlur(radius)), dtype=np.float32)


def cast_shadow(
    canvas: Image.Image,
    outline: Image.Image,
    at: tuple[int, int],
    depth: int,
    colour: tuple[int, int, int],
    blur: float,
) -> None:
    """Draw the soft shadow of an outline on the canvas.

    Args:
        canvas: The picture to draw on.
        outline: A mask in mode L.
        at: Upper left corner of the shadow.
        depth: Darkness, 0 to 255.
        colour: Colour of the shadow.
        blur: Radius in pixels.
    """
    shadow = Image.new("L", canvas.size)
    shadow.paste(outline.point(lambda value: value * depth // 255), at)
    canvas.paste(colour, mask=shadow.filter(ImageFilter.GaussianBlur(blur)))


def _wood(rng: np.random.Generator, width: int, height: int, planks: int, tone: float) -> Array:
    """Draw planks that run from left to right; `tone` 0 is dark walnut, 1 is pale birch."""
    fibre = fractal(rng, width, height, cell=26, octaves=4, stretch=18)
    rings = 0.5 + 0.5 * np.sin(fibre * 26 + 3 * smooth(rng, width, height, 400, 90))
    values = 0.55 * fibre + 0.25 * rings + 0.2 * fractal(rng, width, height, cell=3, octaves=2, stretch=30)
    dark = _to_colour(np.array([62, 36, 20]) * (1 - tone) + np.array([166, 128, 88]) * tone)
    light = _to_colour(np.array([130, 84, 50]) * (1 - tone) + np.array([222, 188, 146]) * tone)
    colours = tint(values, dark, light)
    edges = np.linspace(0, height, planks + 1)
    for upper, lower in pairwise(edges):
        colours[int(upper) : int(lower)] *= rng.uniform(0.88, 1.08)
        colours[int(upper) : int(upper) + 2] *= 0.55
    return colours


def _room_wall(stage: Stage, height: int) -> Array:
    """Draw an out-of-focus room behind a table.

    It is a wall in a calm colour, with vague shapes and a light from one side.
    """
    rng, width = stage.rng, stage.width
    calm = np.array([(196, 190, 178), (170, 184, 190), (206, 196, 176), (150, 160, 150), (188, 170, 160)])
    base = calm[rng.integers(5)]
    wall = np.ones((height, width, 3), dtype=np.float32) * base.astype(np.float32)
    room = to_image(wall)
    draw = ImageDraw.Draw(room)
    for _ in range(rng.integers(2, 5)):
        left, wide = rng.uniform(-0.1, 0.95) * width, rng.uniform(0.08, 0.28) * width
        top = rng.uniform(-0.2, 0.6) * height
        shade = base * rng.uniform(0.55, 1.12)
        draw.rectangle((left, top, left + wide, height), fill=_to_colour(shade))
    light = smooth(rng, width, height, width, height)
    return _blur(room, width / 45) * (0.78 + 0.35 * light)[..., None]


def _table(stage: Stage) -> Image.Image:
    horizon = stage.horizon(0.42)
    depth_px = stage.height - horizon
    boards = _wood(stage.rng, 900, 700, planks=6, tone=float(stage.rng.uniform(0.1, 0.95)))
    channels = [_ground_plane(boards[..., c] / 255, stage.width, depth_px, 2.4, 0.55) for c in range(3)]
    top = np.stack(channels, axis=-1) * 255 * (0.82 + 0.26 * vertical(depth_px, stage.width, 0, 1))[..., None]
    return _soft_edge(_stack(_room_wall(stage, horizon), top), horizon, 3)


def _sky_colours(stage: Stage, height: int, cloudiness: float) -> Array:
    """Draw a clear to cloudy sky, paler towards the horizon."""
    rng, width = stage.rng, stage.width
    blue = tint(vertical(height, width, 0, 1), (72, 128, 196), (190, 214, 232))
    clouds = fractal(rng, width, height, cell=height / 2.2, octaves=6, stretch=1.9)
    cover = np.clip((clouds - (0.62 - 0.22 * cloudiness)) * 4.5, 0, 1)[..., None]
    white = tint(clouds, (176, 184, 194), (252, 252, 252))
    sky: Array = blue * (1 - cover) + white * cover
    return sky


def _hedge(stage: Stage, height: int) -> Array:
    """Draw the sky over an out-of-focus line of trees."""
    rng, width = stage.rng, stage.width
    sky = _sky_colours(stage, height, float(rng.uniform(0.1, 0.9)))
    seasons = [((22, 40, 18), (104, 138, 66)), ((44, 60, 22), (150, 164, 84)), ((58, 42, 20), (176, 132, 66)),
               ((34, 46, 40), (112, 132, 116))]  # fmt: skip
    leaves = tint(fractal(rng, width, height, cell=30, octaves=5), *seasons[int(rng.integers(len(seasons)))])
    crowns = height * (
        0.25 + 0.5 * smooth(rng, width, 2, width / 7, 2)[0] + 0.1 * smooth(rng, width, 2, width / 40, 2)[0]
    )
    mask = (np.arange(height)[:, None] > crowns[None, :] * 0.95).astype(np.float32)
    weight = _blur(Image.fromarray((mask * 255).astype(np.uint8)), 5)[..., None] / 255
    return _blur(to_image(sky * (1 - weight) + leaves * weight), 4)


def _grass(stage: Stage) -> Image.Image:
    horizon = stage.horizon(0.36)
    depth_px = stage.height - horizon
    plane = _ground_plane(stage.texture("grass"), stage.width, depth_px, 6.0, 0.75)
    lawns = [((26, 48, 16), (150, 184, 88)), ((40, 52, 18), (178, 186, 104)), ((62, 58, 30), (200, 188, 130))]
    lawn = tint((plane - 0.12) * 1.35, *lawns[int(stage.rng.integers(len(lawns)))])
    patches = fractal(stage.rng, stage.width, depth_px, cell=140, octaves=3, stretch=2.5)
    lawn *= (0.8 + 0.4 * patches)[..., None]
    lawn[..., 0] *= 0.95 + 0.25 * patches
    return _soft_edge(_stack(_hedge(stage, horizon), lawn), horizon, 5)


def _bricks(stage: Stage, width: int, height: int) -> Array:
    """Draw a brick wall in running bond, seen straight on."""
    rng = stage.rng
    palettes = [((122, 56, 42), (186, 176, 162)), ((168, 128, 92), (206, 196, 178)), ((104, 98, 94), (164, 160, 154)),
                ((204, 198, 188), (176, 170, 162))]  # fmt: skip
    brick, mortar = (np.array(colour, dtype=np.float32) for colour in palettes[int(rng.integers(len(palettes)))])
    brick_h = int(stage.height * rng.uniform(0.045, 0.065))
    brick_w, joint = int(brick_h * 3.1), max(2, brick_h // 8)
    rows, columns = height // brick_h + 2, width // brick_w + 3
    y, x = np.mgrid[0:height, 0:width]
    # Joints are not quite straight: shift every pixel a little before asking which brick it belongs to.
    y = (y + 1.5 * (fractal(rng, width, height, cell=24, octaves=3) - 0.5) * joint / 2).astype(np.int32)
    x = (x + 1.5 * (fractal(rng, width, height, cell=24, octaves=3) - 0.5) * joint / 2).astype(np.int32)
    row = np.clip(y // brick_h, 0, rows - 1)
    along = x + (row % 2) * (brick_w // 2)
    column = np.clip(along // brick_w, 0, columns - 1)
    from_edge = np.minimum.reduce(
        [np.mod(y, brick_h), brick_h - np.mod(y, brick_h), np.mod(along, brick_w), brick_w - np.mod(along, brick_w)]
    )
    in_brick = np.clip((from_edge - joint / 2) / 2 + 0.5, 0, 1).astype(np.float32)[..., None]
    tone = rng.normal(1.0, 0.11, size=(rows, columns, 1)) * (1 + rng.normal(0, 0.012, size=(rows, columns, 3)))
    rough = 0.86 + 0.28 * fractal(rng, width, height, cell=10, octaves=4) + 0.05 * grain(rng, width, height)
    faces = brick * tone[row, column].astype(np.float32)
    colours = (faces * in_brick + mortar * (1 - in_brick)) * rough[..., None]
    # The lower edge of a brick lies in its own shade.
    shade = np.clip(1 - np.abs(np.mod(y, brick_h) - (brick_h - joint)) / joint, 0, 1)[..., None] * 0.22
    light = smooth(rng, width, height, width * 0.8, height * 0.8)
    lit: Array = (colours * (1 - shade) * (0.76 + 0.4 * light)[..., None]).astype(np.float32)
    return lit


def _pavement(stage: Stage, height: int, grey: int) -> Array:
    """Draw asphalt or gravel underfoot."""
    plane = _ground_plane(stage.texture("gravel"), stage.width, height, 4.0, 0.9)
    ground = tint(0.25 + 0.6 * plane, (grey - 60, grey - 60, grey - 58), (grey + 46, grey + 44, grey + 40))
    return ground * (0.85 + 0.25 * fractal(stage.rng, stage.width, height, cell=200, octaves=3, stretch=3))[..., None]


def _wall(stage: Stage) -> Image.Image:
    if not stage.feet:
        return to_image(_bricks(stage, stage.width, stage.height))
    # Something stands in front of the wall, so it needs a floor.
    floor = stage.horizon(0.7)
    image = _stack(_bricks(stage, stage.width, floor), _pavement(stage, stage.height - floor, 132))
    shade = ImageDraw.Draw(image, "RGBA")
    shade.rectangle((0, floor - 4, stage.width, floor + 5), fill=(30, 26, 24, 150))
    return _soft_edge(image, floor, 3)


def _facades(stage: Stage, height: int) -> Array:
    """Draw out-of-focus houses along a street."""
    rng, width = stage.rng, stage.width
    image = to_image(_sky_colours(stage, height, 0.6))
    draw = ImageDraw.Draw(image)
    left = -40.0
    while left < width:
        wide = float(rng.uniform(0.12, 0.26)) * width
        top = float(rng.uniform(-0.15, 0.35)) * height
        plasters = np.array([(172, 150, 128), (150, 100, 82), (190, 184, 172), (122, 128, 134), (206, 190, 150)])
        base = plasters[rng.integers(5)]
        draw.rectangle((left, top, left + wide, height), fill=_to_colour(base))
        storeys, bays = int(rng.integers(3, 6)), int(rng.integers(2, 5))
        for storey in range(storeys):
            for bay in range(bays):
                x = left + wide * (bay + 0.28) / bays
                y = top + (height - top) * (storey + 0.25) / storeys
                pane = base * rng.uniform(0.25, 0.55)
                draw.rectangle(
                    (x, y, x + wide * 0.45 / bays, y + (height - top) * 0.5 / storeys), fill=_to_colour(pane)
                )
        left += wide + 2
    return _blur(image, width / 170)


def _street(stage: Stage) -> Image.Image:
    horizon = stage.horizon(0.46)
    kerb = horizon + int(0.07 * (stage.height - horizon))
    road = _pavement(stage, stage.height - horizon, 104)
    image = _stack(_facades(stage, horizon), road)
    draw = ImageDraw.Draw(image, "RGBA")
    draw.rectangle((0, horizon, stage.width, kerb), fill=(168, 164, 156, 210))
    draw.rectangle((0, kerb, stage.width, kerb + 4), fill=(60, 58, 56, 160))
    return _soft_edge(image, horizon, 3)


def _carpet(stage: Stage) -> Image.Image:
    rng, width, height = stage.rng, stage.width, stage.height
    pairs = [((92, 30, 34), (168, 74, 66)), ((44, 58, 82), (104, 122, 150)), ((104, 92, 74), (186, 174, 152)),
             ((58, 74, 56), (126, 142, 110)), ((88, 84, 88), (158, 152, 154))]  # fmt: skip
    dark, light = pairs[int(rng.integers(len(pairs)))]
    pile = 0.5 + 0.16 * grain(rng, width, height)
    soft = _blur(Image.fromarray((np.clip(pile, 0, 1) * 255).astype(np.uint8)), 1.1)
    values = 0.2 + 0.75 * soft / 255 + 0.3 * (fractal(rng, width, height, cell=120, octaves=3) - 0.5)
    colours = tint(values, dark, light)
    if rng.random() < 0.6:
        period = width / rng.uniform(3.5, 6)
        rows, columns = np.mgrid[0:height, 0:width].astype(np.float32)
        diamond = np.abs(np.mod(columns / period, 1) - 0.5) + np.abs(np.mod(rows / period, 1) - 0.5)
        line = np.clip(1 - np.abs(diamond - 0.5) * 18, 0, 1) * 0.32
        colours = (
            colours * (1 - line[..., None])
            + np.array([226, 208, 170], dtype=np.float32) * line[..., None] * soft[..., None] / 255
        )
    return to_image(colours)


def _sky(stage: Stage) -> Image.Image:
    return to_image(_sky_colours(stage, stage.height, float(stage.rng.uniform(0.2, 1.0))))


def _sand(stage: Stage) -> Image.Image:
    rng, width = stage.rng, stage.width
    horizon = stage.horizon(0.34)
    sea_px = max(6, int(float(rng.uniform(0.15, 0.45)) * horizon))
    depth_px = stage.height - horizon
    ripples = fractal(rng, 700, 700, cell=44, octaves=5, stretch=2.2) * 0.75
    ripples = ripples + 0.25 * rng.random((700, 700), dtype=np.float32)
    plane = _ground_plane(ripples, width, depth_px, 5.0, 0.8)
    beaches = [((150, 122, 84), (240, 218, 178)), ((140, 128, 112), (226, 218, 204)), ((136, 92, 58), (226, 176, 128))]
    beach = tint(plane, *beaches[int(rng.integers(len(beaches)))])
    waves = fractal(rng, width, sea_px, cell=8, octaves=3, stretch=9)
    seas = [((34, 92, 124), (132, 184, 200)), ((30, 116, 120), (150, 206, 198)), ((62, 80, 92), (150, 164, 170))]
    sea = tint(waves, *seas[int(rng.integers(len(seas)))])
    sky = _sky_colours(stage, horizon - sea_px, float(rng.uniform(0.0, 0.7)))
    image = _stack(np.concatenate([sky, sea], axis=0), beach)
    return _soft_edge(image, horizon, 2)


def _paper(stage: Stage) -> Image.Image:
    """Draw a white sheet on a desk, seen from above."""
    rng, width, height = stage.rng, stage.width, stage.height
    desk = to_image(_wood(rng, width, height, planks=1, tone=float(rng.uniform(0, 0.8))))
    # The frame is about 0.71 of the canvas; the sheet leaves a little of the desk in sight.
    sheet_size = (int(width * 0.68), int(height * 0.67))
    fibres = 0.9 + 0.02 * grain(rng, *sheet_size) + 0.08 * (fractal(rng, *sheet_size, cell=250, octaves=2) - 0.5)
    sheet = to_image(tint(fibres, (120, 116, 108), (250, 248, 242))).convert("RGBA")
    turned = sheet.rotate(float(rng.uniform(-2.5, 2.5)), Image.Resampling.BICUBIC, expand=True)
    at = ((width - turned.width) // 2, (height - turned.height) // 2)
    cast_shadow(desk, turned.getchannel("A"), (at[0] + 8, at[1] + 10), 140, (20, 14, 10), 9)
    desk.paste(turned, at, turned)
    return desk


def find_shelf_levels(feet: tuple[float, ...], height: int) -> list[float]:
    """Return the rows of the boards below these feet; feet at about the same height share a board."""
    levels: list[float] = []
    for foot in sorted(feet):
        if levels and foot - levels[-1] <= 0.1 * height:
            levels[-1] = foot
        else:
            levels.append(foot)
    return levels


def _shelf(stage: Stage) -> Image.Image:
    """Draw boards under the things that stand on them, before the back of the cupboard."""
    rng, width, height = stage.rng, stage.width, stage.height
    tone = float(rng.uniform(0.2, 0.95))
    image = to_image(_wood(rng, width, height, planks=1, tone=tone) * np.float32(0.6))
    levels = find_shelf_levels(stage.feet, height) or [0.5 * height, 0.88 * height]
    thickness = int(0.035 * height)
    board = to_image(_wood(rng, width, thickness, planks=1, tone=tone) * np.float32(1.12))
    shade = Image.new("L", (width, height))
    under = ImageDraw.Draw(shade)
    for level in levels:
        under.rectangle((0, level + thickness, width, level + thickness * 2.4), fill=150)
        under.rectangle((0, level - thickness * 0.8, width, level), fill=60)
    image.paste((12, 8, 6), mask=shade.filter(ImageFilter.GaussianBlur(thickness * 0.6)))
    for level in levels:
        # Feet stand a little behind the front edge of the board.
        image.paste(board, (0, int(level) - thickness // 4))
    return image


_PAINTERS: dict[SceneryName, Callable[[Stage], Image.Image]] = {
    "table": _table,
    "grass": _grass,
    "wall": _wall,
    "street": _street,
    "carpet": _carpet,
    "sky": _sky,
    "sand": _sand,
    "paper": _paper,
    "shelf": _shelf,
}

# On these, things lie or hang flat; on the others they stand, except in the sky.
FLAT: frozenset[SceneryName] = frozenset({"carpet", "paper"})


def paint(name: SceneryName, stage: Stage) -> Image.Image:
    """Paint the named background in RGB, of the stage's size."""
    return _PAINTERS[name](stage)


def fill_with_photo(photo: Image.Image, frame: tuple[int, int], margin: tuple[int, int]) -> Image.Image:
    """Cover a frame (width, height) with a photo, and its margins (x, y) with the mirror image."""
    width, height = frame
    scale = max(width / photo.width, height / photo.height)
    covered = photo.resize(
        (max(width, round(photo.width * scale)), max(height, round(photo.height * scale))), Image.Resampling.LANCZOS
    )
    left, top = (covered.width - width) // 2, (covered.height - height) // 2
    framed = np.asarray(covered.crop((left, top, left + width, top + height)))
    around = (margin[1], margin[1]), (margin[0], margin[0]), (0, 0)
    return Image.fromarray(np.pad(framed, around, mode="reflect"))
