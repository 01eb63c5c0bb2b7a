import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError
from pytest_httpserver import HTTPServer

from agents.base.files import format_os_error, is_file_error
from agents.search.hits import SearchError
from agents.search.hub import (
    current_revision,
    local_indices,
    point,
    publish,
    remove_snapshot,
    repository_folder,
    snapshot_path,
    working_copy,
)
from tests.search.conftest import IMAGE_ID, WEB_ID, World

ROOT = Path(__file__).parents[2]
A, B = "a" * 40, "b" * 40


def work(tmp_path: Path, content: str) -> Path:
    folder = tmp_path / f"work-{content}"
    folder.mkdir()
    (folder / "file").write_text(content)
    return folder


def test_layout_is_hugging_faces(tmp_path: Path) -> None:
    snapshot = publish(tmp_path, "org/name", A, work(tmp_path, "one"))
    assert snapshot == tmp_path / "datasets--org--name" / "snapshots" / A
    assert (tmp_path / "datasets--org--name" / "refs" / "main").read_bytes() == A.encode()


def locate_snapshots(dataset_id: str) -> tuple[Path, Path]:
    """The folders that the organiser's two classes would open: both names under which they call for a download."""
    import huggingface_hub
    from cragmm_search.image_search_mock_api import image_kg

    graph: str = image_kg.snapshot_download(repo_id=dataset_id, repo_type="dataset", revision=None)
    web: str = huggingface_hub.snapshot_download(repo_id=dataset_id, repo_type="dataset", revision=None)
    return Path(graph), Path(web)


def test_the_organisers_classes_get_a_copy_of_their_own(tmp_path: Path) -> None:
    publish(tmp_path, "org/copied", A, work(tmp_path, "one"))
    copy = working_copy(tmp_path, "org/copied")
    assert working_copy(tmp_path, "org/copied") == copy  # made once
    with local_indices({"org/copied": copy}):
        assert locate_snapshots("org/copied") == (copy, copy)
    assert tmp_path not in copy.parents
    (copy / "file").write_text("changed")
    assert (snapshot_path(tmp_path, "org/copied", A) / "file").read_text() == "one"


def test_vectors_are_copied_where_they_cannot_be_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = work(tmp_path, "whole")
    (folder / "data_level0.bin").write_bytes(b"vectors")
    (folder / "index_metadata.pickle").write_bytes(b"ids")
    snapshot = publish(tmp_path, "org/elsewhere", A, folder)

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    copy = working_copy(tmp_path, "org/elsewhere")
    assert (copy / "data_level0.bin").read_bytes() == b"vectors"
    assert (snapshot / "data_level0.bin").stat().st_nlink == 1


def test_a_new_revision_is_opened_after_the_old_one(tmp_path: Path) -> None:
    publish(tmp_path, "org/renewed", A, work(tmp_path, "one"))
    old = working_copy(tmp_path, "org/renewed")
    publish(tmp_path, "org/renewed", B, work(tmp_path, "two"))
    new = working_copy(tmp_path, "org/renewed")
    assert [(folder / "file").read_text() for folder in (old, new)] == ["one", "two"]


@pytest.mark.parametrize("stays", [False, True])
def test_a_snapshot_that_is_replaced_while_it_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    """A build publishes and cleans up between a reader's look at the revision and its copy; or the copy fails for another reason."""
    old = publish(tmp_path, f"org/raced-{stays}", A, work(tmp_path, "one"))
    copy_file = shutil.copyfile

    def race(source: Path, target: Path) -> Any:
        if source.parent == old and not stays:
            publish(tmp_path, f"org/raced-{stays}", B, work(tmp_path, "two"))
            remove_snapshot(old)
        if source.parent == old and stays:
            raise OSError(errno.ENOSPC, "No space left on device", str(source), None, str(target))
        return copy_file(source, target)

    monkeypatch.setattr(shutil, "copyfile", race)
    if stays:
        with pytest.raises(OSError, match="No space left") as raised:
            working_copy(tmp_path, f"org/raced-{stays}")
        message = format_os_error(raised.value)
        assert is_file_error(raised.value) and str(old) not in message
        assert message.startswith("copying the index org/raced-True into the folder of temporary files (TMPDIR names ")
        assert message.endswith("; make room there, or name another folder")
    else:
        assert (working_copy(tmp_path, f"org/raced-{stays}") / "file").read_text() == "two"
    assert not old.exists() or stays


def test_everything_else_is_asked_of_hugging_face_as_ever(tmp_path: Path) -> None:
    import huggingface_hub
    from cragmm_search.image_search_mock_api import image_kg

    before = huggingface_hub.snapshot_download, image_kg.snapshot_download
    with local_indices({"org/name": tmp_path}):
        for call in ({"repo_id": "org/other", "repo_type": "dataset"}, {"repo_id": "org/name"}):  # the second: a model
            with pytest.raises(LocalEntryNotFoundError):  # as it is offline, in an empty cache
                huggingface_hub.snapshot_download(**call)
    with pytest.raises(KeyError), local_indices({"org/name": tmp_path}):
        raise KeyError("a failure inside")
    assert (huggingface_hub.snapshot_download, image_kg.snapshot_download) == before


def test_a_revision_whose_files_are_gone_is_none(tmp_path: Path) -> None:
    point(tmp_path, "org/name", A)
    assert current_revision(tmp_path, "org/name") is None
    with pytest.raises(SearchError, match="has no data set org/name"):
        working_copy(tmp_path, "org/name")


@pytest.mark.parametrize("dataset_id", ["name", "a/b/c", "../../etc", "/tmp/x", "a/..", ""])
def test_only_ids_are_ids(tmp_path: Path, dataset_id: str) -> None:
    with pytest.raises(SearchError, match="ORG/NAME"):
        repository_folder(tmp_path, dataset_id)


def test_only_revisions_are_revisions(tmp_path: Path) -> None:
    with pytest.raises(SearchError, match="40 hexadecimal"):
        snapshot_path(tmp_path, "a/b", "main")


def test_folders_in_an_index_are_copied_too(tmp_path: Path) -> None:
    folder = work(tmp_path, "nested")
    (folder / "vectors" / "deep").mkdir(parents=True)
    (folder / "vectors" / "deep" / "file").write_text("below")
    publish(tmp_path, "org/nested", A, folder)
    assert (working_copy(tmp_path, "org/nested") / "vectors" / "deep" / "file").read_text() == "below"


_KEEP_A_COPY = """
import sys
from pathlib import Path
from agents.search.hub import working_copy
print(working_copy(Path(sys.argv[1]), "org/name"), flush=True)
sys.stdin.read()
"""


@contextmanager
def keeping_a_copy(hub: Path, temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has a copy until its input is closed, and that copy's folder."""
    environment = {**os.environ, "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", _KEEP_A_COPY, str(hub)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        copy = Path(process.stdout.readline().strip())
        yield process, temporary / copy.relative_to(temporary).parts[0]


def test_copies_of_killed_processes_are_removed_by_the_next_and_no_others(tmp_path: Path) -> None:
    publish(tmp_path / "hub", "org/name", A, work(tmp_path, "one"))
    temporary = tmp_path / "temporary"
    unmarked = temporary / "crag-hub-of-an-older-version"
    unmarked.mkdir(parents=True)
    with keeping_a_copy(tmp_path / "hub", temporary) as (_, living):
        with keeping_a_copy(tmp_path / "hub", temporary) as (process, killed):
            process.kill()
        assert killed.is_dir()
        with keeping_a_copy(tmp_path / "hub", temporary) as (_, own):
            assert {*temporary.iterdir()} == {unmarked, living, own}
            assert len([*living.rglob("file")]) == 1
    assert {*temporary.iterdir()} == {unmarked}


_SEARCH_ONLINE = """
import os, sys
from pathlib import Path
import datasets, transformers  # before the search is opened: the order makes no difference
from agents.search.pipelines import open_pipeline
before = dict(os.environ)
pipeline = open_pipeline(image_index=sys.argv[2], web_index=sys.argv[3], cache=Path(sys.argv[1]))
print(pipeline("How tall is the Red Tower?", k=1)[0]["page_name"])
print(pipeline(pipeline.crag_image_kg.vector_db.get(ids=["0"], include=["embeddings"])["embeddings"][0], k=1)[0]["index"])
from huggingface_hub import constants, snapshot_download
changed = {name for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)}
print(sorted(name for name in changed if name.startswith("HF_")), constants.HF_HUB_OFFLINE, constants.HF_HUB_CACHE)
from urllib.request import urlopen
urlopen(constants.ENDPOINT + "/the-search-is-open")
try:
    snapshot_download("org/elsewhere", repo_type="dataset")
except OSError:
    pass
"""


def test_an_embedded_search_asks_no_hub_and_leaves_the_users_settings_alone(
    world: World, httpserver: HTTPServer, tmp_path: Path
) -> None:
    """With a hub in reach, and a cache of the user's: neither is touched for the search, and both hold for everything else."""
    httpserver.expect_request("/the-search-is-open").respond_with_data("noted")
    httpserver.expect_request(re.compile("/.*")).respond_with_data("Not found", status=404)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    env = {**clean, "HF_ENDPOINT": httpserver.url_for("").rstrip("/"), "HF_HUB_CACHE": str(tmp_path / "users")}
    process = subprocess.run(
        [sys.executable, "-c", _SEARCH_ONLINE, str(world.cache), IMAGE_ID, WEB_ID],
        capture_output=True, text=True, cwd=ROOT, env=env,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == ["Red Tower", "0", f"[] False {tmp_path / 'users'}"]
    first, *others = [request.path for request, _ in httpserver.log]
    assert first == "/the-search-is-open"
    assert any("org/elsewhere" in path for path in others)
