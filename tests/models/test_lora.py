import json
from pathlib import Path

import pytest

from agents.models.base import ModelError
from agents.models.chat.lora_adapter import find_lora


def save(folder: Path, config: str = json.dumps({"r": 8, "peft_type": "LORA"})) -> Path:
    folder.mkdir()
    (folder / "adapter_config.json").write_text(config)
    (folder / "adapter_model.safetensors").write_bytes(b"")
    return folder


def test_an_adapter_is_found_with_its_rank(tmp_path: Path) -> None:
    lora = find_lora("tuned", str(save(tmp_path / "adapter")))
    assert (lora.name, lora.folder, lora.rank) == ("tuned", tmp_path / "adapter", 8)


@pytest.mark.parametrize("path", ["/nowhere/at all", "someone/something", "not a name: at all"])
def test_a_missing_adapter_is_named(path: str) -> None:
    with pytest.raises(ModelError, match=f"'tuned' is missing: {path}"):
        find_lora("tuned", path)


def test_an_adapter_without_weights_is_named(tmp_path: Path) -> None:
    (save(tmp_path / "adapter") / "adapter_model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has none of adapter_model\.safetensors"):
        find_lora("tuned", str(tmp_path / "adapter"))


@pytest.mark.parametrize("config", ["", "{}", "[]", '{"r": null}'])
def test_an_adapter_of_another_make_is_refused(tmp_path: Path, config: str) -> None:
    with pytest.raises(ModelError, match="is not PEFT's"):
        find_lora("tuned", str(save(tmp_path / "adapter", config)))
