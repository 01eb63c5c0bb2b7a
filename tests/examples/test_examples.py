"""The examples run: the zoo's notebook cell by cell in a kernel of its own; what its files and the image that serves it have to be."""

from __future__ import annotations

import csv
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from PIL import Image

from agents.models.chat.gguf import GgufOptions
from agents.profiles.profile import ROOT
from agents.search.build_index import IndexOptions
from agents.search.own_sources import read_table
from agents.texts.refusals import refuses
from apps.preflight.repository import _lint_dockerfile
from apps.serve import ServeOptions
from evaluation.data.question_files import read_questions

EXAMPLES = ROOT / "examples"
ZOO = EXAMPLES / "zoo"
MUSEUM = EXAMPLES / "museum"
NOTEBOOK = EXAMPLES / "zoo.ipynb"
PROFILE = """extends = "embedded"

[limits]
seconds_per_turn = 3600.0 # a busy machine leaves no stage out

[models.chat]
kind = "composed"
text = { kind = "tests.support.quoting_chat:QuotingChat" }
recogniser = { kind = "efficientnet-lite2" }
ocr = { kind = "rapidocr" }

[models.small_chat]
kind = "tests.support.quoting_chat:QuotingChat"
"""
"""The embedded profile, but for the language model: what finds, ranks and decides is what it is for a user."""

PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
    "packages"
]
_MAX_BYTES = 61_000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the profile, and room for a cache."""
    folder = tmp_path_factory.mktemp("zoo")
    (folder / "quoting.toml").write_text(PROFILE)
    return folder


@pytest.fixture(scope="module")
def notebook_run(place: Path) -> Any:
    """The outcomes of the notebook's questions, by photo, and the executed notebook."""
    folder = place
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    source = "import json\nprint(json.dumps({name: outcome.as_json() for name, outcome in outcomes.items()}))"
    notebook.cells.append(nbformat.v4.new_code_cell(source))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CRAG_CACHE", str(folder / "cache"))
        patched.setenv("CRAG_PROFILE", str(folder / "quoting.toml"))
        patched.setenv("PYTHONPATH", str(ROOT))
        patched.setenv("IPYTHONDIR", str(folder / "ipython"))
        resources = {"metadata": {"path": str(EXAMPLES)}}
        NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    return json.loads(notebook.cells[-1].outputs[0].text), notebook


@pytest.mark.parametrize(
    ("photo", "animal", "fact"),
    [
        ("koala.webp", "Bindi the koala", "14 March 2019"),
        ("cheetah.webp", "Zola the cheetah", "6.4 seconds"),
        ("giraffe.webp", "Mosi the giraffe", "1120 kg"),
    ],
)
def test_an_animal_is_recognised_and_its_evidence_holds_the_answer(
    notebook_run: Any, photo: str, animal: str, fact: str
) -> None:
    outcome = notebook_run[0][photo]
    assert outcome["entity"] == animal
    assert any(fact in source["text"] for source in outcome["sources"])


def test_facts_are_answered_and_the_difference_is_computed(notebook_run: Any) -> None:
    answers = {photo: outcome["answer"] for photo, outcome in notebook_run[0].items()}
    assert "14 March 2019" in answers["koala.webp"] and "6.4 seconds" in answers["cheetah.webp"]
    assert "480" in answers["giraffe.webp"]


def test_an_animal_of_no_zoo_is_not_recognised_and_not_answered(notebook_run: Any) -> None:
    outcome = notebook_run[0]["cat.webp"]
    assert outcome["entity"] is None and outcome["nearest"] is not None
    assert outcome["abstained"] and refuses(outcome["answer"])


def test_the_demos_zoo_asks_a_fact_of_the_table_one_of_a_page_and_one_that_has_no_answer(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = str(EXAMPLES / "ask_zoo.py")
    options = ["--few", "--profile", str(place / "quoting.toml"), "--cache", str(place / "cache")]
    monkeypatch.setattr(sys, "argv", [script, *options])
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(script, run_name="__main__")
    stdout = capsys.readouterr().out
    assert ended.value.code == 0
    koala, cheetah, cat = re.split(r"─ \w+\.webp: .*", stdout)[1:]
    assert "14 March 2019" in koala and "Bindi the koala" in koala and "6.4 seconds" in cheetah
    assert "I don't know" in cat and "Not recognised; nearest:" in cat
    assert "min_probability" not in stdout and "crop 1" not in stdout


def test_the_notebook_shows_the_photo_with_its_crops(notebook_run: Any) -> None:
    images = [
        output
        for cell in notebook_run[1].cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    assert len(images) == 1 and notebook_run[0]["koala.webp"]["crops"]


def test_the_notebook_is_committed_without_outputs_and_paths() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells and all(not cell.outputs and cell.execution_count is None for cell in cells)
    assert not re.search(r"/home/|/root|/tmp|/work/|C:\\\\", NOTEBOOK.read_text(encoding="utf-8"))


@pytest.mark.parametrize("place", [ZOO, MUSEUM], ids=lambda place: place.name)
def test_every_photo_is_small_listed_and_a_copy_with_a_known_licence(place: Path) -> None:
    listed = dict(
        re.findall(r"^\| (\S+\.webp) \| (\S+\.webp) \|", (place / "ATTRIBUTION.md").read_text(), re.MULTILINE)
    )
    photos = [*place.rglob("*.webp")]
    assert {path.relative_to(place).as_posix() for path in photos} == {*listed}
    licences = (ROOT / "mini_crag_mm" / "ATTRIBUTION.md").read_text(encoding="utf-8")
    for path in photos:
        original = listed[path.relative_to(place).as_posix()]
        assert path.read_bytes() == (ROOT / "mini_crag_mm" / original).read_bytes()
        assert f"| {original} |" in licences and path.stat().st_size <= _MAX_BYTES
        with Image.open(path) as photo:
            photo.load()


def test_no_visitors_photo_is_one_of_the_table() -> None:
    with (ZOO / "animals.csv").open(encoding="utf-8") as file:
        own = {(ZOO / "photos" / row["file"]).read_bytes() for row in csv.DictReader(file)}
    assert not own & {path.read_bytes() for path in (ZOO / "visitors").iterdir()}


def test_the_museums_questions_are_as_the_readme_counts_them() -> None:
    dialogs = read_questions(MUSEUM / "questions.csv")
    turns = [(dialog, turn) for dialog in dialogs for turn in dialog.turns]
    assert len(turns) == 40 and len(read_table(MUSEUM / "photos.csv", MUSEUM / "photos")[0]) == 8
    counts = (
        sum(dialog.photo is None for dialog in dialogs),
        sum(len(dialog.turns) for dialog in dialogs if len(dialog.turns) > 1),
        sum(not turn.answers for _, turn in turns),
    )
    assert counts == (6, 5, 5)


@pytest.mark.parametrize("image", ["Dockerfile.cpu", "Dockerfile.current"])
def test_the_image_copies_and_starts_what_there_is(image: str) -> None:
    """What can be checked without a container engine: linted, every file is there and not left out, and the server takes its options."""
    lines = (ROOT / image).read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    instructions = [line.split(None, 1) for line in lines if line and line[0] not in "# "]
    steps = [(word, " ".join(rest.split())) for word, rest in instructions]
    assert _lint_dockerfile(ROOT / image).state != "failed"
    assert next(rest for word, rest in steps if word == "USER") not in ("root", "0")
    copied = [rest.split()[0] for word, rest in steps if word == "COPY"]
    (started,) = (json.loads(rest)[0] for word, rest in steps if word == "ENTRYPOINT")
    assert all((ROOT / path).exists() for path in copied) and os.access(ROOT / started, os.X_OK)
    ignored = (ROOT / f"{image}.dockerignore").read_text(encoding="utf-8").split()
    needed_folders = {"examples", "tools", "presets", "profiles", "prompts", *PACKAGES}
    assert not needed_folders & {*ignored} and all((ROOT / name).is_dir() for name in needed_folders)
    script = (ROOT / started).read_text(encoding="utf-8").replace("\\\n", " ")
    subprocess.run(["sh", "-n", str(ROOT / started)], check=True)
    commands = [shlex.split(line.removeprefix("exec "), comments=True) for line in script.splitlines()]
    named = {words[1]: words[2:] for words in commands if words and words[0] == "crag"}
    assert IndexOptions.parse(named["index"]).split and ServeOptions.parse(named["serve"][:-1]).host == "0.0.0.0"
    assert GgufOptions.parse(next(words[3:] for words in commands if words[:1] == ["python"]))
    (health,) = (rest for word, rest in steps if word == "HEALTHCHECK")
    assert "http://127.0.0.1:8000/health" in health and ServeOptions.parse(named["serve"][:-1]).port == 8000


def serve_image(folder: Path, has_vnni: bool, **environment: str) -> list[str]:
    """Run the script with programs that write down their arguments, on a processor that has AVX-512 VNNI or not."""
    programs = {
        "python": 'echo "${0##*/} $*"',
        "crag": 'echo "${0##*/} $*"',
        "grep": f'[ "$*" = "-qs avx512_vnni /proc/cpuinfo" ] && exit {int(not has_vnni)}',
    }
    for name, script in programs.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    environment |= {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "CRAG_CACHE": "/cache"}
    command = [str(ROOT / "tools" / "serve_image.sh"), "--no-key"]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()


@pytest.mark.parametrize(
    ("profile", "fetches"), [("embedded", True), ("embedded_batch", True), ("gpu_current", False), ("laptop", False)]
)
def test_the_image_fetches_the_model_of_the_profiles_that_have_it(profile: str, fetches: bool, tmp_path: Path) -> None:
    *fetching, indexing, serving = serve_image(tmp_path, True, PROFILE=profile)
    assert fetching == (["python -m agents.models.chat.gguf --cache /cache"] if fetches else [])
    assert indexing.startswith("crag index --images examples/zoo/photos ")
    assert serving.startswith("crag serve ") and serving.endswith(f" --profile {profile} --split zoo --no-key")


@pytest.mark.parametrize(("has_vnni", "profile"), [(True, "embedded_batch"), (False, "embedded")])
def test_the_image_takes_the_profile_that_its_processor_is_fast_with(
    has_vnni: bool, profile: str, tmp_path: Path
) -> None:
    fetching, _, serving = serve_image(tmp_path, has_vnni)
    assert fetching == "python -m agents.models.chat.gguf --cache /cache"
    assert f" --profile {profile} " in serving
