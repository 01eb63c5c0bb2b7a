"""The benchmark of other photographs, on ranks computed by hand and on a small index of real photographs."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from agents.models.vision.efficientnet import EfficientNetLite2
from lab.benchmarks.other_photos import (
    PhotoResult,
    PhotosError,
    Query,
    build_cosine_table,
    main,
    map_names,
    normalise_name,
    read_photos,
    search,
)
from mini_crag_mm.loader import SetPaths, read_index_image, read_kg
from tests.support.mean_colour import MeanColour

NAMES = {"eiffel tower": "eiffel_tower", "giraffe": "ani_giraffe"}


def _plain(colour: tuple[int, int, int]) -> Image.Image:
    return Image.new("RGB", (6, 6), colour)


def test_ranks_and_leads_are_those_of_the_cosines() -> None:
    index = np.eye(3, dtype=np.float32)  # red, green, blue
    queries = [Query(_plain((4, 3, 0)), "green", "a"), Query(_plain((0, 0, 9)), None, "b")]
    near, absent = search(queries, ["red", "green", "blue"], index, MeanColour())
    # (4, 3, 0) / 5: cosines 0.8, 0.6, 0
    assert (near.group, near.rank) == ("a", 1)
    assert near.cosine == pytest.approx(0.8) and near.lead == pytest.approx(0.2)
    assert absent.rank is None and absent.cosine == pytest.approx(1.0) and absent.lead == pytest.approx(1.0)


@pytest.mark.parametrize(
    "name", ["Eiffel Tower", "eiffel_tower", "eiffel-tower 12", "Eiffel  tower_3", "EIFFEL TOWER (Paris)"]
)
def test_names_are_compared_without_their_spelling(name: str) -> None:
    assert normalise_name(name) == "eiffel tower"


def test_photographs_are_named_by_file_or_folder(tmp_path: Path) -> None:
    (tmp_path / "Giraffe").mkdir()
    for name in ("Eiffel Tower 2.png", "Giraffe/IMG_1.png", "Nobody.png"):
        _plain((1, 2, 3)).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no photograph")
    queries, unknown = read_photos(tmp_path, NAMES)
    assert sorted(str(query.entity) for query in queries) == ["ani_giraffe", "eiffel_tower"]
    assert unknown == ["Nobody.png"]


def test_a_folder_that_cannot_be_used_is_an_error_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PhotosError, match="no folder"):
        read_photos(tmp_path / "none", NAMES)
    with pytest.raises(PhotosError, match="no photographs"):
        read_photos(tmp_path, NAMES)
    _plain((1, 2, 3)).save(tmp_path / "Nobody.png")
    with pytest.raises(PhotosError, match="named after an entity of the index, such as eiffel tower, giraffe"):
        read_photos(tmp_path, NAMES)
    (tmp_path / "Giraffe.jpg").write_bytes(b"no picture")
    with pytest.raises(PhotosError, match=r"Giraffe.jpg cannot be decoded"):
        read_photos(tmp_path, NAMES)
    assert main(["--photos", str(tmp_path)]) == 2
    assert "Giraffe.jpg cannot be decoded" in capsys.readouterr().err


def test_right_and_wrong_hits_stand_apart() -> None:
    table = build_cosine_table(
        [PhotoResult("a", 0, 0.6, 0.2), PhotoResult("a", 0, 0.8, 0.4), PhotoResult("a", 3, 0.5, 0.1)]
    )
    cells = [list(column.cells) for column in table.columns]
    assert cells[1] == ["right", "wrong"] and cells[2] == ["2", "1"]
    assert cells[3][0].startswith("0.70 (0.62, 0.70, 0.78") and cells[4][1].startswith("0.10")


def test_other_photographs_in_a_small_real_index() -> None:
    paths = SetPaths()
    images = [image for image in read_kg("validation") if (paths.other_photos / Path(image["image"]).name).exists()][:6]
    assert len(images) == 6
    encoder = EfficientNetLite2()
    entities = [Path(image["image"]).stem for image in images]
    index = encoder.encode([read_index_image(image) for image in images])
    own = [Query(read_index_image(image), entity, "own") for image, entity in zip(images, entities, strict=True)]
    other = []
    for entity in entities:
        with Image.open(paths.other_photos / f"{entity}.webp") as photo:
            other.append(Query(photo.convert("RGB"), entity, "other"))
    results = search([*own, *other], entities, index, encoder)
    assert all(one.rank == 0 and one.cosine > 0.99 for one in results[:6])
    assert all(one.cosine < 0.95 for one in results[6:])
    assert sum(one.rank == 0 for one in results[6:]) >= 4
    assert set(entities) <= set(map_names("validation").values())
