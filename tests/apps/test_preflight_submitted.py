"""The preflight looks at what is submitted, a commit's image, and at the very class that the evaluator builds."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from apps.preflight import rehearsal, repository, submission
from apps.preflight.check import Check
from apps.preflight.image import Dockerfile, build_image, read_dockerfile, read_ignored
from apps.preflight.rehearsal import Submitted, check_submitted
from evaluation.run import foreign_agent
from tests.apps.clones import commit, git, write_clone

AGENT = """
from agents.base_agent import BaseAgent

class UserAgent(BaseAgent):
    def __init__(self, search_pipeline=None):
        super().__init__(search_pipeline)
        START
    def get_batch_size(self):
        return 2
    def batch_generate_response(self, queries, images, message_histories=None, **more):
        ANSWER
"""
START, ANSWER = "pass", "return ['330 m' for _ in queries]"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clone(tmp_path_factory.mktemp("clones") / "original")


@pytest.fixture
def clone(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone in which a participant works; its searches find nothing."""
    monkeypatch.setattr(rehearsal, "open_search", lambda *_, **__: lambda query, k: [])
    for name in ("CRAG_PRESET", "CRAG_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return Path(shutil.copytree(original, tmp_path / "clone", symlinks=True))


def look(clone: Path, *, quick: bool = True) -> list[Check]:
    return check_submitted(Submitted(clone, Path(sys.executable), clone.parent / "cache"), quick=quick)


def write_agent(clone: Path, start: str = START, answer: str = ANSWER) -> None:
    (clone / "agents" / "user_config.py").write_text(AGENT.replace("START", start).replace("ANSWER", answer))
    commit(clone)


def failures(checks: list[Check]) -> dict[str, str]:
    assert all(each.fix for each in checks if each.state == "failed")
    return {each.name: each.found for each in checks if each.state == "failed"}


def test_a_clone_as_it_comes_has_no_fault(clone: Path) -> None:
    checks = look(clone)
    assert failures(checks) == {}
    assert [each.name for each in checks if each.state == "ok"] == [
        "committed",
        "import of agents.user_config",
        "UserAgent",
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from agents.crag_agent import CragAgent as MyAgent\n", "defines no UserAgent"),
        ("class UserAgent:\n    def answer(self): ...\n", "has no get_batch_size, batch_generate_response"),
        (
            AGENT.replace("search_pipeline=None", "").replace("search_pipeline", "").replace("START", START),
            "search_pipeline",
        ),
        (AGENT.replace(", message_histories=None, **more", ""), "called with queries, images, message_histories"),
        ("def UserAgent(**_): ...\n", "is no class but function"),
    ],
)
def test_a_class_that_the_evaluator_cannot_build_or_call_is_found_at_a_quick_look(
    text: str, found: str, clone: Path
) -> None:
    (clone / "agents" / "user_config.py").write_text(text.replace("START", START).replace("ANSWER", ANSWER))
    commit(clone)
    assert found in failures(look(clone))["UserAgent"]


def test_an_agent_of_ones_own_is_rehearsed_by_the_kits_calls(clone: Path) -> None:
    write_agent(clone)
    checks = look(clone, quick=False)
    assert failures(checks) == {}
    assert "2 turns in" in next(each.found for each in checks if each.name == "time")


@pytest.mark.parametrize(
    ("start", "answer", "check", "found"),
    [
        ("raise RuntimeError('no weights')", ANSWER, "rehearsal", "RuntimeError: no weights"),
        ("import time; time.sleep(30)", ANSWER, "rehearsal", "it took more than 3 s"),
        (START, "return ['word ' * 90 for _ in queries]", "answers", "the longest of"),
        (START, "return queries[1:]", "answers", "not one for each turn"),
        (START, "return [None for _ in queries]", "answers", "not one text"),
        ("import socket; socket.create_connection(('127.0.0.1', 9))", ANSWER, "rehearsal", "the network is blocked"),
        (
            START,
            "import urllib.request\n        try: urllib.request.urlopen('http://example.org')\n        except OSError: pass\n        "
            + ANSWER,
            "offline",
            "tried to reach getaddrinfo example.org",
        ),
    ],
)
def test_what_would_cost_the_submission_is_found_by_calling_it(
    start: str, answer: str, check: str, found: str, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in start:
        monkeypatch.setattr(foreign_agent, "START_SECONDS", 3.0)
    write_agent(clone, start, answer)
    bad = failures(look(clone, quick=False))
    assert [*bad] == [check] and found in bad[check]


def test_what_has_no_commit_is_named(clone: Path) -> None:
    (clone / "presets" / "mine.toml").write_text('extends = "best"\n')
    (clone / "agents" / "user_config.py").write_text("UserAgent = None\n")
    bad = failures(look(clone))
    assert [*bad] == ["committed"]  # the commit's agent is imported, not the edited one
    assert bad["committed"].startswith("edited: agents/user_config.py; not in git: presets/mine.toml (against commit ")
    commit(clone)
    git(clone, "tag", "submission-1")
    assert "tag submission-1" in look(clone)[0].found


def test_a_preset_that_git_does_not_have_is_missed_in_the_image(clone: Path) -> None:
    with (clone / "Dockerfile").open("a") as file:
        file.write("ENV CRAG_PRESET=mine\n")
    commit(clone)
    (clone / "presets" / "mine.toml").write_text('extends = "best"\n')
    bad = failures(look(clone))
    assert {*bad} == {"committed", "UserAgent"} and "mine" in bad["UserAgent"]


def test_prompts_that_dockerignore_leaves_out_are_missed(clone: Path) -> None:
    with (clone / ".dockerignore").open("a") as file:
        file.write("prompts\n")
    commit(clone)
    assert "preset, profile or prompts cannot be read" in failures(look(clone))["UserAgent"]


def test_an_image_without_the_agent_is_found(clone: Path) -> None:
    text = (clone / "Dockerfile").read_text()
    (clone / "Dockerfile").write_text(text.replace("COPY . /home/aicrowd", ""))
    commit(clone)
    assert "it has no agent: agents/user_config.py is not copied" in failures(look(clone))["image"]


def test_a_folder_without_git_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert {each.state for each in look(tmp_path / "folder")} == {"skipped"}


def test_a_large_file_in_lfs_is_no_large_file_in_git(clone: Path) -> None:
    """A filter as git-lfs installs it keeps a pointer in git and the file in the folder."""
    (clone / ".gitattributes").write_text("*.bin filter=lfs\n")
    (clone / "big.bin").write_bytes(b"0" * 12_000_000)
    git(clone, "config", "filter.lfs.clean", "head -c 100")
    commit(clone)
    assert [each.state for each in repository.check_files(clone)] == ["ok", "ok"]
    (clone / ".gitattributes").unlink()
    commit(clone)
    git(clone, "add", "--renormalize", "big.bin")
    assert repository.check_files(clone)[0].found == "big.bin"


def test_the_images_profile_is_checked_unless_another_is_named(clone: Path) -> None:
    assert submission.read_image_choices(clone / "Dockerfile") == ("best", "gpu")
    with (clone / "Dockerfile").open("a") as file:
        file.write("ENV CRAG_PRESET=cruise CRAG_PROFILE=gpu_fp8\n")
    choices = submission.read_image_choices(clone / "Dockerfile")
    assert choices == ("cruise", "gpu_fp8")
    assert {each.state for each in submission.check_image_choices(*choices, clone / "Dockerfile")} == {"ok"}


def test_a_broken_aicrowd_json_is_to_be_removed_first(tmp_path: Path) -> None:
    (tmp_path / "aicrowd.json").write_text("{")
    found = submission.read_submission(tmp_path / "aicrowd.json", "write it")
    assert isinstance(found, Check) and found.fix == "remove aicrowd.json, then write it"


DOCKERFILE = r"""
# syntax=docker/dockerfile:1
ARG HOME_DIR=/home/aicrowd
FROM python:3.11 AS build
COPY . /build
FROM python:3.11
ENV HOME_DIR=/home/aicrowd \
    # a comment between
    NAME="two words"
ENV OLD form
RUN <<EOF
COPY nothing /
EOF
WORKDIR ${HOME_DIR}
COPY --from=build /build/x /x
COPY --chown=1001:1001 ["agents", "my_agents/"]
ADD a.txt b.txt texts/
COPY *.toml ./
COPY run.sh .
"""


def test_a_dockerfile_is_read_as_docker_reads_it(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    assert read_dockerfile(tmp_path / "Dockerfile") == Dockerfile(
        {"HOME_DIR": "/home/aicrowd", "NAME": "two words", "OLD": "form"},
        "root",
        "/home/aicrowd",
        (
            (("agents",), "/home/aicrowd/my_agents/"),
            (("a.txt", "b.txt"), "/home/aicrowd/texts/"),
            (("*.toml",), "/home/aicrowd/./"),
            (("run.sh",), "/home/aicrowd/."),
        ),
    )
    for name in ("agents/a/b.py", "agents/secret.py", "a.txt", "b.txt", "x.toml", "run.sh", "left.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / ".dockerignore").write_text("**/secret.py\n")
    home = build_image(tmp_path, tmp_path.parent / f"{tmp_path.name}-image")
    files = sorted(path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file())
    assert files == ["my_agents/a/b.py", "run.sh", "texts/a.txt", "texts/b.txt", "x.toml"]


@pytest.mark.parametrize(
    ("text", "left_out", "kept"),
    [
        ("docs", ["docs/a.md", "docs"], ["agents/docs/a.md", "docs.md"]),
        ("/docs/\n", ["docs/a.md"], ["a/docs"]),
        ("**/__pycache__", ["__pycache__/a", "a/b/__pycache__/c"], ["a/pycache"]),
        ("*.md\n!README.md", ["a.md"], ["README.md", "docs/a.md"]),
        ("*\n!agents", ["a.md", "docs/x"], ["agents/a.py"]),
        ("a?.[tm]xt", ["ab.txt", "ab.mxt"], ["abc.txt", "ab.xxt"]),
        ("# docs\n\n", [], ["docs/a"]),
    ],
)
def test_dockerignore_is_read_as_docker_reads_it(text: str, left_out: list[str], kept: list[str]) -> None:
    ignores = read_ignored(text)
    assert [each for each in left_out if not ignores(each)] == [] and [each for each in kept if ignores(each)] == []
