"""The organiser's own code opens what the builder wrote."""

import json
from pathlib import Path
from typing import Any

import pytest

from agents.search.build_index import main
from agents.search.clip import stand_in_clip
from agents.search.hits import SearchError
from agents.search.hub import current_revision, local_indices, publish, snapshot_path, working_copy
from agents.search.index_builder import IMAGE_COLLECTION, chroma
from agents.search.pipelines import open_pipeline
from tests.search.conftest import ENTITIES, IMAGE_ID, PAGES, WEB_ID, World


def test_every_image_finds_itself_with_its_entities(pipeline: Any, world: World) -> None:
    for number, photo in enumerate(world.photos()):
        best = pipeline(photo, k=1)[0]
        assert best["index"] == number
        assert best["score"] == pytest.approx(1.0, abs=1e-5)
        assert best["url"] == f"https://x.example/{number}.jpg"
        assert best["entities"] == ENTITIES[number]


def test_text_finds_its_page_and_chunks_are_merged(pipeline: Any) -> None:
    hits = pipeline("How tall is the Red Tower?", k=8)
    assert hits[0]["page_url"] == "https://x.example/tower"
    assert hits[0]["page_snippet"] == PAGES[0][2]  # as it came, HTML entities included
    urls = [hit["page_url"] for hit in hits]
    assert len(urls) == len(set(urls)) == len(PAGES)
    assert {hit["index"] for hit in pipeline("The Blue Lake", k=1)} <= {
        f"https://x.example/lake_chunk_{n}" for n in range(8)
    }


def test_the_cosine_is_the_score(pipeline: Any) -> None:
    """With L2 distances the scores of identical texts would still be 1, those of others below -1."""
    assert all(-1.0 <= hit["score"] <= 1.0 for hit in pipeline("sheep", k=8))
    assert pipeline("Green Hill Sheep graze on the Green Hill in summer.", k=1)[0]["score"] == pytest.approx(
        1, abs=1e-5
    )


def test_opening_leaves_the_published_index_alone(pipeline: Any, world: World) -> None:
    revision = current_revision(world.hub, WEB_ID)
    assert revision is not None
    # The organiser's modify(metadata={"hnsw:num_threads": ..}) replaces the metadata of what it opens.
    copy = world.folder / "look"
    if not copy.exists():
        import shutil

        shutil.copytree(snapshot_path(world.hub, WEB_ID, revision), copy)
    with chroma(copy) as client:
        assert client.get_collection("web_search_embeddings").metadata == {"hnsw:space": "cosine"}
    assert pipeline.text_web.vector_db.metadata != {"hnsw:space": "cosine"}


def publish_pictures(hub: Path, folder: Path, count: int) -> Path:
    """Publish an index of made-up pictures and return its snapshot."""
    batch = 4_096
    with chroma(folder) as client:
        collection = client.create_collection(IMAGE_COLLECTION, metadata={"hnsw:space": "cosine"})
        for start in range(0, count, batch):
            numbers = range(start, min(start + batch, count))
            collection.add(
                ids=[str(number) for number in numbers],
                embeddings=[[1.0, number / count] for number in numbers],
                metadatas=[
                    {"image_url": f"{number}.jpg", "entities": json.dumps([f"e{number}"]), "info": "{}"}
                    for number in numbers
                ],
            )
    return publish(hub, "made-up/pictures", f"{count:040}", folder)


def open_pictures(hub: Path) -> Any:
    from cragmm_search.image_search_mock_api.image_kg import CragImageKG

    with local_indices({"made-up/pictures": working_copy(hub, "made-up/pictures")}):
        return CragImageKG(None, None, "made-up/pictures")


def test_an_index_of_more_pictures_than_sqlite_has_variables_is_opened(tmp_path: Path) -> None:
    """The challenge's has 68,000. The organiser's class reads all of them in one call, which Chroma 1.5.0 to 1.5.9 refuse above 32,766."""
    count = 32_767
    publish_pictures(tmp_path / "hub", tmp_path / "made", count)
    image_search = open_pictures(tmp_path / "hub")
    assert len(image_search.id2_data) == count
    assert image_search.get_entity_name(count - 1) == [f"e{count - 1}"]


# Chroma writes 1,000 vectors at once; fewer wait in its queue.
@pytest.mark.parametrize(("count", "links"), [(3, False), (1_200, True)])
def test_opening_and_searching_write_into_no_published_file(tmp_path: Path, count: int, links: bool) -> None:
    """Some files of the copy are links to those published, which Chroma must not write."""
    snapshot = publish_pictures(tmp_path / "hub", tmp_path / "made", count)

    def states() -> dict[Path, tuple[bytes, int]]:
        return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in snapshot.rglob("*") if file.is_file()}

    before = states()
    image_search = open_pictures(tmp_path / "hub")
    assert len(image_search.vector_db.query(query_embeddings=[[1.0, 0.0]], n_results=3)["ids"][0]) == 3
    assert states() == before
    vectors = {file.stat().st_nlink > 1 for file in before if file.name in ("data_level0.bin", "link_lists.bin")}
    assert vectors == {links}


def test_a_missing_index_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(SearchError, match=r"python -m agents\.search\.build_index --images .* --image-id a/b"):
        open_pipeline(image_index="a/b", cache=tmp_path)


def test_a_missing_web_index_names_the_command(world: World) -> None:
    with pytest.raises(SearchError, match=r"--pages .* --web-id a/b"):
        open_pipeline(image_index=IMAGE_ID, web_index="a/b", cache=world.cache)


def test_an_index_of_another_model_is_refused(world: World, tiny_bert: Path, tmp_path: Path) -> None:
    hub = str(tmp_path / "hub")
    common = ["--cache", str(tmp_path), "--out", hub, "--no-progress"]
    assert main([*common, "--images", str(world.images), "--kg", str(world.kg), "--image-id", IMAGE_ID]) == 0
    assert main([*common, "--pages", str(world.pages), "--web-id", WEB_ID, "--text-model", str(tiny_bert)]) == 0
    with pytest.raises(SearchError, match="built with another model"):
        open_pipeline(image_index=IMAGE_ID, web_index=WEB_ID, cache=tmp_path)


def test_nothing_is_said_on_the_console(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    open_pipeline(image_index=IMAGE_ID, cache=world.cache)
    assert capsys.readouterr().out == ""


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SearchError, match="unknown kind"):
        open_pipeline(kind="other", image_index=IMAGE_ID, cache=tmp_path)  # type: ignore[arg-type]


def test_a_checkpoint_that_is_there_takes_no_lock(tmp_path: Path) -> None:
    """A prepared cache may lie on a file system that is read-only."""
    folder = stand_in_clip(tmp_path / "stand-in-clip")
    lock = folder.with_suffix(".lock")
    lock.unlink(missing_ok=True)
    lock.mkdir()  # so that it cannot be taken
    assert stand_in_clip(folder) == folder
