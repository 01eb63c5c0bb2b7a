import os
import subprocess
import sys
from pathlib import Path

import pytest

from agents.search.hits import SearchError
from agents.search.hub import (
    current_revision,
    point,
    publish,
    repository_folder,
    serve,
    served_tag,
    snapshot_path,
    use_local_hub,
)

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


def test_hugging_face_finds_what_is_served(tmp_path: Path) -> None:
    from huggingface_hub import snapshot_download

    publish(tmp_path, "org/served", A, work(tmp_path, "one"))
    assert serve(tmp_path, "org/served") == A
    found = Path(snapshot_download("org/served", repo_type="dataset"))
    assert (found / "file").read_text() == "one"
    assert tmp_path not in found.parents
    (found / "file").write_text("changed")
    assert (snapshot_path(tmp_path, "org/served", A) / "file").read_text() == "one"


def test_a_new_revision_is_served_after_the_old_one(tmp_path: Path) -> None:
    publish(tmp_path, "org/renewed", A, work(tmp_path, "one"))
    assert serve(tmp_path, "org/renewed") == A
    publish(tmp_path, "org/renewed", B, work(tmp_path, "two"))
    assert serve(tmp_path, "org/renewed") == B


def test_each_served_revision_is_found_offline_by_its_tag(tmp_path: Path) -> None:
    from huggingface_hub import snapshot_download

    for revision, content in ((A, "one"), (B, "two")):
        publish(tmp_path, "org/both", revision, work(tmp_path, content))
        serve(tmp_path, "org/both")
    found = [Path(snapshot_download("org/both", repo_type="dataset", revision=served_tag(each))) for each in (A, B)]
    assert [(folder / "file").read_text() for folder in found] == ["one", "two"]


def test_a_revision_whose_files_are_gone_is_none(tmp_path: Path) -> None:
    point(tmp_path, "org/name", "main", A)
    assert current_revision(tmp_path, "org/name") is None
    with pytest.raises(SearchError, match="holds no data set org/name"):
        serve(tmp_path, "org/name")


@pytest.mark.parametrize("dataset_id", ["name", "a/b/c", "../../etc", "/tmp/x", "a/..", ""])
def test_only_ids_are_ids(tmp_path: Path, dataset_id: str) -> None:
    with pytest.raises(SearchError, match="ORG/NAME"):
        repository_folder(tmp_path, dataset_id)


def test_only_revisions_are_revisions(tmp_path: Path) -> None:
    with pytest.raises(SearchError, match="40 hexadecimal"):
        snapshot_path(tmp_path, "a/b", "main")


def test_the_hub_of_a_process_stays(tmp_path: Path) -> None:
    assert use_local_hub() == use_local_hub(tmp_path)


def python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "TRANSFORMERS_"))}
    root = Path(__file__).parents[2]
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, env={**clean, **env})


def test_too_late_is_said_clearly() -> None:
    done = python("import huggingface_hub.constants\nfrom agents.search.hub import use_local_hub\nuse_local_hub()")
    assert "came too late" in done.stderr


def test_in_time_it_works_and_the_folder_goes_with_the_process() -> None:
    done = python(
        "from agents.search.hub import use_local_hub\nfolder = use_local_hub()\nassert folder.is_dir()\n"
        "from huggingface_hub import constants\nassert constants.HF_HUB_CACHE == str(folder)\n"
        "assert constants.HF_HUB_OFFLINE\nprint(folder)"
    )
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).exists()


def test_an_environment_set_beforehand_is_as_good(tmp_path: Path) -> None:
    done = python(
        "import huggingface_hub.constants\nfrom agents.search.hub import use_local_hub\nprint(use_local_hub())",
        HF_HUB_CACHE=str(tmp_path),
        HF_HUB_OFFLINE="1",
    )
    assert done.stdout.strip() == str(tmp_path), done.stderr


def test_serving_from_the_published_hub_is_refused(tmp_path: Path) -> None:
    publish(tmp_path, "org/name", A, work(tmp_path, "one"))
    done = python(
        "import huggingface_hub.constants\nfrom pathlib import Path\nfrom agents.search.hub import serve\n"
        f"serve(Path({str(tmp_path)!r}), 'org/name')",
        HF_HUB_CACHE=str(tmp_path),
        HF_HUB_OFFLINE="1",
    )
    assert "where indices are published" in done.stderr
