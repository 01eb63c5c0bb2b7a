"""A config.json never runs code: neither what it names itself nor what a configuration inside it names."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.models.base import ModelError
from agents.models.chat.chat_template import load_chat_template
from agents.models.config_files import ARCHITECTURES, ConfigError, check_config, check_types, read_config
from agents.models.pretrained import Pretrained
from apps.preflight.architecture import ArchitectureError, read_architecture
from tests.support.local_configs import CONFIGS


def embedder(folder: str) -> object:
    return Pretrained(folder).load("text encoder", "AutoTokenizer", "AutoModel")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Write a LightGlue configuration whose detector is a folder with code that makes the folder ``attacked``."""
    other, folder = tmp_path / "other", tmp_path / "model"
    other.mkdir()
    folder.mkdir()
    code = (
        f"import os\nos.mkdir({str(tmp_path / 'attacked')!r})\n"
        "from transformers import PretrainedConfig\nclass Own(PretrainedConfig):\n    model_type = 'own'\n"
    )
    (other / "configuration_own.py").write_text(code)
    detector = {"model_type": "own", "auto_map": {"AutoConfig": "configuration_own.Own"}, "_name_or_path": str(other)}
    (other / "config.json").write_text(json.dumps(detector))
    config = {"model_type": "lightglue", "trust_remote_code": True, "keypoint_detector_config": detector}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("load", [read_architecture, load_chat_template, embedder], ids=lambda each: each.__name__)
def test_a_configuration_inside_a_configuration_runs_nothing(
    load: Callable[[str], Any], hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_MODULES_CACHE", str(hostile.parent / "modules"))
    with pytest.raises((ArchitectureError, ModelError), match=r"config\.json of .* asks to run code from elsewhere"):
        load(str(hostile))
    assert not (hostile.parent / "attacked").exists()


@pytest.mark.parametrize("load", [read_architecture, load_chat_template, embedder], ids=lambda each: each.__name__)
def test_an_auto_map_is_not_followed(load: Callable[[str], Any], hostile: Path) -> None:
    with pytest.raises((ArchitectureError, ModelError)):
        load(str(hostile.parent / "other"))
    assert not (hostile.parent / "attacked").exists()


def test_figures_of_a_type_outside_the_list_are_refused_before_a_library_reads_it(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    def read(*_: Any, **__: Any) -> None:
        raise AssertionError("a library has read it")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", read)
    for config in (
        {"model_type": "lightglue"},
        {"model_type": "llama", "vision_config": {"model_type": "lightglue"}},
        {"architectures": ["LlamaForCausalLM"]},
    ):
        (hostile / "config.json").write_text(json.dumps(config))
        read_architecture.cache_clear()
        with pytest.raises(ArchitectureError, match="of a kind whose figures are not known"):
            read_architecture(str(hostile))


@pytest.mark.parametrize("content", ["", "{", "[]", '"text"', "7"])
def test_a_file_that_is_no_configuration_is_told(content: str, hostile: Path) -> None:
    (hostile / "config.json").write_text(content)
    read_architecture.cache_clear()
    with pytest.raises(ArchitectureError, match="cannot be read"):
        read_architecture(str(hostile))
    shutil.rmtree(hostile)
    read_architecture.cache_clear()
    with pytest.raises(ArchitectureError, match=r"no config\.json"):
        read_architecture(str(hostile))


@pytest.mark.parametrize(
    "entry",
    [
        {"trust_remote_code": True},
        {"text_config": {"trust_remote_code": "yes"}},
        {"_attn_implementation_internal": "stranger/kernel"},
        {"layers": [[{"attn_implementation": "stranger/kernel@main"}]]},
    ],
)
def test_what_names_code_is_refused(entry: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="asks to run code from elsewhere"):
        check_config({"model_type": "llama", **entry}, "a/b")


@pytest.mark.parametrize("folder", sorted(CONFIGS.iterdir()), ids=lambda each: each.name)
def test_every_model_of_the_profiles_is_accepted(folder: Path) -> None:
    content = read_config(folder, local=True)
    check_types(content, folder)
    assert content["model_type"] in ARCHITECTURES


def test_harmless_entries_are_accepted() -> None:
    check_config({"model_type": "llama", "trust_remote_code": False, "_attn_implementation": "sdpa"}, "a/b")
