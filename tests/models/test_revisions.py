"""The commit beside the name of a model is what every loader takes, and no loader forgets it."""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.constants import HF_HUB_CACHE

from agents.base.revisions import MAIN, named_weights, pinned_revision, split_revision, with_revision
from agents.models.base import ModelError
from agents.models.chat.gguf import hub_file
from agents.models.chat.transformers_checkpoint import load_checkpoint
from agents.models.chat.vllm_chat import VllmChat
from agents.models.chat.vllm_compat import VllmEngine
from agents.models.pretrained import Pretrained
from agents.profiles.profile import load_profile
from agents.search.clip import save_tiny_clip
from agents.search.encoders import ImageIndexEncoder, TextIndexEncoder
from agents.search.pipelines import _weights
from apps.preflight.architecture import read_architecture
from evaluation.run.truncation import make_truncator
from tests.models.tiny_checkpoints import save_llama

ROOT = Path(__file__).parents[2]
OLD, NEW, ABSENT = "a" * 40, "b" * 40, "c" * 40


def publish(model: str, folder: Path, old: dict[str, Any], new: dict[str, Any], file: str = "config.json") -> None:
    """Lay a checkpoint into the hub's cache at two commits, ``main`` at the older one, with values changed in a JSON file of each."""
    place = Path(HF_HUB_CACHE) / f"models--{model.replace('/', '--')}"
    for commit, values in ((OLD, old), (NEW, new)):
        copy = place / "snapshots" / commit
        shutil.copytree(folder, copy)
        content = json.loads((folder / file).read_text()) if (folder / file).is_file() else {}
        (copy / file).write_text(json.dumps({**content, **values}))
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(OLD)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("published")
    publish("pins/llama", save_llama(folder / "llama"), {"note": "old"}, {"note": "new", "max_position_embeddings": 99})
    (folder / "clip").mkdir()
    save_tiny_clip(folder / "clip")
    publish("pins/clip", folder / "clip", {"note": "old"}, {"note": "new"})
    (folder / "gguf").mkdir()
    (folder / "gguf" / "small.gguf").write_bytes(b"GGUF")
    publish("pins/gguf", folder / "gguf", {}, {})
    yield
    for model in ("llama", "clip", "gguf"):
        shutil.rmtree(Path(HF_HUB_CACHE) / f"models--pins--{model}")


def pretrained(revision: str) -> str:
    _, model = Pretrained("pins/llama", revision=revision).load("it", "AutoTokenizer", "AutoModelForCausalLM")
    return str(model.config.note)


def figures(revision: str) -> str:
    decoder = read_architecture("pins/llama", revision).decoder
    assert decoder is not None
    return {256: "old", 99: "new"}[decoder.context]


def organisers(revision: str) -> str:
    """The organiser's pipeline and FlagEmbedding take no revision: they get a folder, or the id where no commit is named."""
    return {"pins/clip": "old", NEW: "new"}[_weights(with_revision("pins/clip", revision)).rpartition("snapshots/")[2]]


LOADERS: dict[str, Callable[[str], str]] = {
    "pretrained": pretrained,
    "chat": lambda revision: str(load_checkpoint("pins/llama", revision=revision).model.config.note),
    "chat by one name": lambda revision: str(load_checkpoint(f"pins/llama@{revision}").model.config.note),
    "texts of an index": lambda revision: str(TextIndexEncoder.load(f"pins/llama@{revision}")._model.config.note),
    "pictures of an index": lambda revision: str(ImageIndexEncoder.load(f"pins/clip@{revision}")._model.config.note),
    "figures": figures,
    "organiser's search": organisers,
    "gguf": lambda revision: {OLD: "old", NEW: "new"}[hub_file("pins/gguf/small.gguf", revision).parent.name],
}


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_a_loader_takes_the_commit_that_is_named(load: Callable[[str], str]) -> None:
    assert [load(MAIN), load(NEW)] == ["old", "new"]
    with pytest.raises((RuntimeError, OSError)):
        load(ABSENT)  # though the cache has another one


@pytest.mark.usefixtures("hub")
def test_a_tokenizer_is_that_of_its_commit() -> None:
    assert make_truncator(f"pins/llama@{NEW}", local=True).count("Hello") > 0
    with pytest.raises(Exception, match="no tokenizer at"):
        make_truncator(f"pins/llama@{ABSENT}", local=True)


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(("revision", "expected"), [(NEW, NEW), (MAIN, None)])
def test_vllm_is_told_the_commit_of_weights_and_tokenizer(
    revision: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine_arguments: dict[str, Any] = {}

    async def start(arguments: dict[str, Any], *_: Any) -> None:
        engine_arguments.update(arguments)
        raise ModelError("no engine here")

    monkeypatch.setattr(VllmEngine, "start", start)
    with pytest.raises(ModelError, match="no engine"):
        VllmChat.load("pins/llama", revision=revision)
    assert (
        engine_arguments["model"],
        engine_arguments.get("revision"),
        engine_arguments.get("tokenizer_revision"),
    ) == ("pins/llama", expected, expected)


@pytest.mark.usefixtures("hub")
def test_a_gguf_file_without_a_commit_is_not_fetched() -> None:
    with pytest.raises(
        ModelError, match=r"not fetched without a commit: .*make lock-models.*hf download pins/gguf other\.gguf"
    ):
        hub_file("pins/gguf/other.gguf")


def test_a_folder_has_no_revision(tmp_path: Path) -> None:
    assert split_revision(tmp_path, NEW) == (str(tmp_path), MAIN)
    assert split_revision("a/b@v1", MAIN) == ("a/b", "v1")
    assert split_revision("a/b", "") == ("a/b", MAIN)
    assert load_checkpoint(save_llama(tmp_path / "llama"), revision=NEW).context == 256


def test_weights_of_a_profile_are_found_wherever_they_are_named(tmp_path: Path) -> None:
    tables = {
        "models": {
            "chat": {"kind": "llama-cpp", "path": "${CRAG_GGUF:-org/repo/file.gguf}"},
            "coarse": {"kind": "x", "encoder": {"kind": "y", "path": "org/encoder", "revision": NEW}},
            "own": {"kind": "transformers", "path": str(tmp_path)},
            "served": {"kind": "openai", "model": "org/served"},
        },
        "search": {"image_model": "org/clip", "text_model": "minilm"},
    }
    weights = {(each.repository, each.key, each.pinned) for each in named_weights(tables)}
    assert weights == {
        ("org/repo", "revision", False),
        ("org/encoder", "revision", True),
        ("org/clip", "image_revision", False),
    }
    profile = '[models.a]\npath = "org/m"\nrevision = "{}"\n'
    (tmp_path / "one.toml").write_text(profile.format(NEW))
    assert (pinned_revision("org/m", tmp_path), pinned_revision("org/other", tmp_path)) == (NEW, MAIN)
    (tmp_path / "two.toml").write_text(profile.format(OLD))
    assert pinned_revision("org/m", tmp_path) == MAIN


def unpinned_calls(source: str) -> list[str]:
    """Return the calls that may load weights of a hub and name no revision.

    PEFT is given folders only, ``gguf_file`` is a file in a folder; what a library without revisions loads goes through ``snapshot``.
    """
    calls = []
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        keywords = {keyword.arg for keyword in call.keywords}
        loads = name.endswith((".from_pretrained", "snapshot_download", "hf_hub_download", "cached_file"))
        sums_up = name == "hf_hub_download" and "source.hub_file" in ast.unparse(
            call
        )  # its SHA-256 is the project's own
        if loads and not keywords & {"revision", "gguf_file"} and not sums_up and not name.startswith("PeftModel."):
            calls.append(ast.unparse(call))
        folder = call.args and ast.unparse(call.args[0]).startswith("snapshot(")
        if name.split(".")[-1] in ("FlagReranker", "SentenceTransformer", "CrossEncoder", "LLM") and not folder:
            calls.append(ast.unparse(call))
    return calls


@pytest.mark.parametrize("package", ["agents", "apps", "evaluation", "examples", "lab", "mini_crag_mm", "training"])
def test_no_call_loads_weights_without_a_revision(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    calls_by_file = {
        str(file.relative_to(ROOT)): calls for file in files if (calls := unpinned_calls(file.read_text("utf-8")))
    }
    assert calls_by_file == {}, "pass revision=..., see agents.base.revisions"


def test_the_search_for_such_calls_finds_them() -> None:
    assert len(unpinned_calls("AutoModel.from_pretrained(name)\nsnapshot_download(name)\nFlagReranker(str(path))")) == 3


def test_a_revision_goes_with_the_weights_that_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit of one repository names nothing in another."""
    table = f'kind = "llama-cpp"\npath = "${{CRAG_GGUF:-org/gguf/a.gguf}}"\nrevision = "{NEW}"\n'
    (tmp_path / "p.toml").write_text(
        f'[models.chat]\n{table}[models.small_chat]\nkind = "vllm"\npath = "org/small"\nrevision = "{NEW}"\n'
        '[models.one]\nkind = "x"\n[models.two]\nkind = "x"\n'
        '[beside.one.small_chat]\npath = "org/other"\n[beside.two.small_chat]\nmax_batch = 2\n'
    )
    profile = load_profile(str(tmp_path / "p.toml"))
    assert profile.models["chat"]["revision"] == profile.with_loaded(["two"]).models["small_chat"]["revision"] == NEW
    assert profile.with_loaded(["one"]).models["small_chat"] == {"kind": "vllm", "path": "org/other"}
    assert profile.with_chat_model("org/b").models["chat"] == {"kind": "llama-cpp", "path": "org/b"}
    own = profile.with_chat_model(f"org/b@{OLD}").models["chat"]
    assert (own["path"], own["revision"]) == ("org/b", OLD)
    monkeypatch.setenv("CRAG_GGUF", "/models/own.gguf")
    assert load_profile(str(tmp_path / "p.toml")).models["chat"] == {"kind": "llama-cpp", "path": "/models/own.gguf"}
