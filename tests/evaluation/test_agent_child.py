"""What two processes say to each other: frames, pictures, and the modules that the agent's one finds."""

from __future__ import annotations

import ast
import io
import socket
import struct
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from evaluation.run import agent_child
from evaluation.run.agent_child import Channel, FrameError, pack_picture, unpack_picture

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MODES = ["1", "L", "LA", "P", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LAB", "I", "F", "I;16"]


class Bytes:
    """A socket that has received some bytes, in pieces."""

    def __init__(self, data: bytes, piece: int = 1 << 20) -> None:
        self._file, self._piece = io.BytesIO(data), piece

    def recv(self, size: int) -> bytes:
        return self._file.read(min(size, self._piece))

    def send(self, block: memoryview) -> int:
        return self._file.write(block[: self._piece])

    @property
    def content(self) -> bytes:
        return self._file.getvalue()


def frame(header: Any, *blobs: bytes) -> bytes:
    out = Bytes(b"", 7)
    Channel(out).send(header, blobs)  # type: ignore[arg-type]  # what a channel uses of a socket
    return out.content


def read(data: bytes, piece: int = 1 << 20) -> tuple[dict[str, Any], list[bytes]]:
    return Channel(Bytes(data, piece)).receive()  # type: ignore[arg-type]  # as above


@given(st.dictionaries(st.text(), JSON, max_size=4), st.lists(st.binary(max_size=40), max_size=4), st.integers(1, 9))
def test_frames_arrive_as_they_were_sent_in_whatever_pieces(
    header: dict[str, Any], blobs: list[bytes], piece: int
) -> None:
    header.pop("blobs", None)
    assert read(frame(header, *blobs), piece) == (header, blobs)


@given(st.dictionaries(st.text(), JSON, max_size=3), st.binary(max_size=20), st.data())
def test_a_frame_that_is_cut_is_no_frame(header: dict[str, Any], blob: bytes, data: st.DataObject) -> None:
    whole = frame(header, blob)
    with pytest.raises(EOFError):
        read(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(
    st.binary(max_size=60)
    | st.builds(lambda payload: struct.pack(">I", len(payload)) + payload, st.binary(max_size=60))
)
def test_anything_else_is_refused(data: bytes) -> None:
    try:
        header, blobs = read(data)
    except (EOFError, FrameError):
        return
    assert isinstance(header, dict) and all(isinstance(blob, bytes) for blob in blobs)


@pytest.mark.parametrize(
    "header",
    [b"[]", b"{}", b'{"blobs": 1}', b'{"blobs": [-1]}', b'{"blobs": [true]}', b'{"blobs": [99999999999]}', b"[" * 99_999, b"\xff"],
)  # fmt: skip
def test_malformed_headers_are_refused(header: bytes) -> None:
    with pytest.raises(FrameError):
        read(struct.pack(">I", len(header)) + header)


def test_a_length_that_lies_takes_no_memory() -> None:
    with pytest.raises(FrameError, match="4294967295 bytes"):
        read(b"\xff\xff\xff\xff")
    with pytest.raises(EOFError):
        read(struct.pack(">I", 23) + b'{"blobs": [4000000000]}')


def test_values_of_numpy_become_plain_ones() -> None:
    header = {"score": np.float32(0.5), "many": np.arange(3), "path": Path("a")}
    assert read(frame(header))[0] == {"score": 0.5, "many": [0, 1, 2], "path": "a"}


@given(st.sampled_from(MODES), st.integers(1, 9), st.integers(1, 9), st.randoms(use_true_random=False))
def test_pictures_of_every_mode_arrive_to_the_last_bit(mode: str, width: int, height: int, chance: Any) -> None:
    size = len(Image.new(mode, (width, height)).tobytes())
    noise = chance.randbytes(size) if mode != "F" else np.arange(width * height, dtype=np.float32).tobytes()
    picture = Image.frombytes(mode, (width, height), noise)
    if mode == "P":
        picture.putpalette(chance.randbytes(768))
    blobs: list[bytes] = []
    header, parts = read(frame(pack_picture(picture, blobs), *blobs))
    again = unpack_picture(header, parts)
    assert (again.mode, again.size, again.tobytes()) == (picture.mode, picture.size, picture.tobytes())
    if mode in ("P", "RGB"):
        assert again.convert("RGBA").tobytes() == picture.convert("RGBA").tobytes()


def test_a_picture_keeps_its_orientation_and_transparency() -> None:
    photo = Image.new("RGB", (4, 2), "red")
    photo.getexif()[0x0112] = 6
    file = io.BytesIO()
    photo.save(file, format="JPEG", exif=photo.getexif())
    image = Image.open(file)
    image.load()
    for picture in (image.copy(), image):
        blobs: list[bytes] = []
        described = pack_picture(picture, blobs)
        assert ImageOps.exif_transpose(unpack_picture(described, blobs)).size == (2, 4)
    for transparency in (3, (1, 2, 3), b"\x00\x10"):
        picture = Image.new("L", (2, 2))
        picture.info["transparency"] = transparency
        header, _ = read(frame(pack_picture(picture, [])))
        assert unpack_picture(header, [picture.tobytes()]).info["transparency"] == transparency


@pytest.mark.parametrize(
    "described",
    [
        {},
        {"mode": "RGB", "size": [2, 2], "pixels": 1},
        {"mode": "RGB", "size": [2, 2], "pixels": -2},
        {"mode": "RGB", "size": [9, 9], "pixels": 0},
        {"mode": "RGB", "size": [99_999, 99_999], "pixels": 0},
        {"mode": "none", "size": [2, 2], "pixels": 0},
        {"mode": "RGB", "size": "22", "pixels": 0},
        {"mode": "L", "size": [-2, -6], "pixels": 0},
        {"mode": "L", "size": [4, 3], "pixels": 0, "exif": {"hex": "no"}},
        {"mode": "P", "size": [4, 3], "pixels": 0, "palette": ["RGB"]},
    ],
)
def test_what_is_no_picture_is_refused(described: dict[str, Any]) -> None:
    with pytest.raises(FrameError):
        unpack_picture(described, [bytes(12)])


def test_a_channel_gives_up_when_its_check_does() -> None:
    ours, theirs = socket.socketpair()
    calls: list[bool] = []

    def check(idle: bool) -> None:
        calls.append(idle)
        if idle:
            raise TimeoutError

    with ours, theirs:
        ours.settimeout(0.01)
        channel = Channel(ours, check)
        with pytest.raises(TimeoutError):
            channel.receive()
        with pytest.raises(TimeoutError):  # nobody reads it
            channel.send({}, [bytes(10_000_000)])
    assert calls[:2] == [False, True]


def test_it_is_written_for_other_pythons_and_without_our_libraries() -> None:
    source = Path(agent_child.__file__).read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 9))
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert {name.partition(".")[0] for name in imported} - {"PIL"} <= set(sys.stdlib_module_names)


def test_it_hides_all_that_this_project_installs() -> None:
    text = (Path(agent_child.__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    installed = tomllib.loads(text)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {*installed, "lab"} <= agent_child.OURS
